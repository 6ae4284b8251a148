//! btrfs for comparison: copy-on-write and checksums, in a loop file on the same disk.

use super::place::{DISK_PER_VOLUME, file};
use crate::peers::directory;
use lab::Result;
use lab::child::output;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Minimum size for mkfs.btrfs with some reserve, bytes.
const LOOP_SIZE_MIN: u64 = 256 << 20;

/// A mount that is unmounted on drop.
pub(super) struct LoopMount(PathBuf);

impl LoopMount {
    /// A file in it.
    pub(super) fn file(&self) -> PathBuf {
        self.0.join("file")
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        // lazily, because the kernel's flush thread may hold the file a little after its completion
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Mounts btrfs with space for a file of `size` bytes. Errors: btrfs, its tools or the permission to mount are missing.
pub(super) async fn mount(place: &Path, size: u64) -> Result<LoopMount> {
    let (image, dir) = (place.join("btrfs.img"), directory(place, "btrfs")?);
    let size = (DISK_PER_VOLUME * size).max(LOOP_SIZE_MIN);
    drop(file(&image, size).await?);
    output(Command::new("mkfs.btrfs").arg("-q").arg("-f").arg(&image))?;
    let mut mount = Command::new("mount");
    output(
        mount
            .args(["-t", "btrfs", "-o", "loop"])
            .args([&image, &dir]),
    )?;
    Ok(LoopMount(dir))
}
