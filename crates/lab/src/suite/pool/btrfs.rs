//! btrfs for comparison: a file with copy-on-write and checksums, in a loop file on the same disk.
//!
//! **Owns** the loop file and its mount, which end with the measurement. **Called by** the rows beside the raw file.
//! **Invariants**: a missing requirement (btrfs, its tools, the permission to mount) is reported and never guessed.

use super::bench::{DISK_PER_VOLUME, file};
use super::load::{Plan, Score, Target};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Minimum size for mkfs.btrfs with some reserve, bytes.
const LOOP_SIZE_MIN: u64 = 256 << 20;

/// A mount that is unmounted on drop.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        // lazily, because the kernel's flush thread may hold the file a little after its completion
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.map_err(|e| format!("no {program}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("failed").to_owned();
            Err(format!("{program}: {said}"))
        }
    }
}

/// Measures `plan` on such a file, after it was written completely. Errors: why that is not possible here.
pub(super) async fn measure(place: &Path, plan: Plan, time: Duration) -> Result<Score, String> {
    let (image, dir) = (place.join("btrfs.img"), place.join("btrfs"));
    let size = (DISK_PER_VOLUME * plan.region).max(LOOP_SIZE_MIN);
    let said = |e: crate::Error| e.to_string();
    drop(file(&image, size).await.map_err(said)?);
    std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    run(Command::new("mkfs.btrfs").arg("-q").arg("-f").arg(&image))?;
    run(Command::new("mount")
        .args(["-t", "btrfs", "-o", "loop"])
        .args([&image, &dir]))?;
    let _mount = Mount(dir.clone());
    let target = Target::Raw(file(&dir.join("file"), plan.region).await.map_err(said)?);
    target.fill(plan.region).await.map_err(said)?;
    target.measure(plan, time, 1).await.map_err(said)
}
