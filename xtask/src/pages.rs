//! Manual pages and shell completions of a package.
//!
//! **Called by** `cargo xtask pages`, which `make deb` runs. **Invariants**: the program writes them from the definitions that parse its
//! command line; pages of an earlier version do not stay; nothing outside the directory of the program is written.

use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the files to `package` beside the program; returns that directory. Errors: the program is not built, or fails.
pub fn write(program: &Path) -> Result<PathBuf> {
    let program = std::path::absolute(program)?;
    let dir = program.with_file_name("package");
    match std::fs::remove_dir_all(&dir) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let status = Command::new(&program).arg("generate").arg(&dir).status();
    let status = status
        .with_context(|| format!("{}: build it with --release -p wirepool", program.display()))?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok(dir)
}
