//! Paths of this repository.

use std::path::{Path, PathBuf};

/// The workspace's root directory.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask/ lies in the workspace's root")
        .to_path_buf()
}

/// Cargo's target directory: `CARGO_TARGET_DIR` or `target/`.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The guest's image and the logs: `VMLAB_CACHE` or `target/vmlab`.
pub fn vm_cache() -> PathBuf {
    match std::env::var_os("VMLAB_CACHE").filter(|d| !d.is_empty()) {
        Some(dir) => root().join(dir),
        None => target().join("vmlab"),
    }
}
