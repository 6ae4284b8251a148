//! Rehearsal of failures: slow disks, in a server that was started for a drill.
//!
//! **Owns** the delay of each disk. **Called by** [`crate::disk::Disk`], and by a program that was started for a drill.
//! **Invariants**: nothing is delayed unless [`slow`] was called; until then an operation pays one relaxed load.

use crate::sync::lock;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static IS_ON: AtomicBool = AtomicBool::new(false);
static DELAYS: Mutex<Vec<(PathBuf, Duration)>> = Mutex::new(Vec::new());

/// Delays every read, write and flush of the disk with this path from now on. Zero ends the delay.
pub fn slow(path: &Path, delay: Duration) {
    let mut delays = lock(&DELAYS);
    delays.retain(|(other, _)| other != path);
    if !delay.is_zero() {
        delays.push((path.to_owned(), delay));
    }
    IS_ON.store(!delays.is_empty(), Ordering::Relaxed);
}

fn delay_of(path: &Path) -> Option<Duration> {
    let delays = lock(&DELAYS);
    let found = delays.iter().find(|(other, _)| other == path);
    found.map(|(_, delay)| *delay)
}

/// Waits for the delay of a disk.
pub(crate) async fn wait(path: &Path) {
    if !IS_ON.load(Ordering::Relaxed) {
        return;
    }
    if let Some(delay) = delay_of(path) {
        crate::time::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_disks_are_slow_until_the_delay_ends() {
        let (slow_disk, other) = (Path::new("/slow"), Path::new("/other"));
        slow(slow_disk, Duration::from_secs(1));
        slow(slow_disk, Duration::from_secs(2));
        assert_eq!(delay_of(slow_disk), Some(Duration::from_secs(2)));
        assert_eq!(delay_of(other), None);
        slow(slow_disk, Duration::ZERO);
        assert_eq!(delay_of(slow_disk), None);
        assert!(!IS_ON.load(Ordering::Relaxed));
    }
}
