//! Rehearsal: slow and lost disks, in a server that was started for a drill and in measurements.
//!
//! **Owns** the slowness of each disk. **Called by** [`crate::disk::Disk`], and by a program that was started for a drill or a measurement.
//! **Invariants**: no disk is slow or lost unless [`slow`], [`hard_disk`] or [`lose`] was called; until then an operation pays one relaxed load.

use crate::clock::Instant;
use crate::error::{Error, Result};
use crate::sync::lock;
use crate::time;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static IS_ON: AtomicBool = AtomicBool::new(false);
static SLOW: Mutex<Vec<(PathBuf, Slowness)>> = Mutex::new(Vec::new());

enum Slowness {
    /// Each operation takes this much longer, beside others.
    Each(Duration),
    HardDisk(HardDisk, Head),
    /// Each operation fails, as if the disk was pulled out.
    Lost,
}

/// A hard disk without a write cache: one operation at a time, in the order of arrival. A flush takes no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardDisk {
    /// Time for an operation that does not begin where the one before it ended.
    pub seek: Duration,
    /// Bytes a second, once the head is there.
    pub bytes_per_s: u64,
}

/// The head of a hard disk.
struct Head {
    /// The byte behind the last operation.
    at: u64,
    /// The end of the last operation.
    free_from: Instant,
}

impl Head {
    /// The end of an operation of `len` bytes at `offset` that arrives `now`.
    fn serve(&mut self, disk: HardDisk, now: Instant, offset: u64, len: u64) -> Instant {
        let seek = if self.at == offset {
            Duration::ZERO
        } else {
            disk.seek
        };
        let transfer = Duration::from_secs_f64(len as f64 / disk.bytes_per_s as f64);
        self.at = offset + len;
        self.free_from = self.free_from.max(now) + seek + transfer;
        self.free_from
    }
}

/// Every read, write and flush of the disk with this path fails from now on, as if it was pulled out. [`slow`] with zero ends that.
pub fn lose(path: &Path) {
    set(path, Some(Slowness::Lost));
}

/// Delays every read, write and flush of the disk with this path from now on. Zero ends the delay.
pub fn slow(path: &Path, delay: Duration) {
    set(path, (!delay.is_zero()).then_some(Slowness::Each(delay)));
}

/// The disk with this path takes as long as this hard disk from now on.
pub fn hard_disk(path: &Path, disk: HardDisk) {
    let head = Head {
        at: 0,
        free_from: time::now(),
    };
    set(path, Some(Slowness::HardDisk(disk, head)));
}

fn set(path: &Path, slowness: Option<Slowness>) {
    let mut slow = lock(&SLOW);
    slow.retain(|(other, _)| other != path);
    slow.extend(slowness.map(|slowness| (path.to_owned(), slowness)));
    IS_ON.store(!slow.is_empty(), Ordering::Relaxed);
}

/// The end of an operation that arrives `now`; `None` for a disk that is not slow. Errors: `Gone` for a lost disk.
fn end_of(path: &Path, now: Instant, transfer: Option<(u64, usize)>) -> Result<Option<Instant>> {
    let mut slow = lock(&SLOW);
    let Some((_, slowness)) = slow.iter_mut().find(|(other, _)| other == path) else {
        return Ok(None);
    };
    Ok(match (slowness, transfer) {
        (Slowness::Lost, _) => return Err(Error::Gone(libc::ENXIO)),
        (Slowness::Each(delay), _) => Some(now + *delay),
        (Slowness::HardDisk(disk, head), Some((offset, len))) => {
            Some(head.serve(*disk, now, offset, len as u64))
        }
        (Slowness::HardDisk(..), None) => None,
    })
}

/// Waits as long as a slow disk does: for a transfer of bytes (offset, length), or for a flush. Errors: `Gone` for a lost disk.
pub(crate) async fn wait(path: &Path, transfer: Option<(u64, usize)>) -> Result<()> {
    if !IS_ON.load(Ordering::Relaxed) {
        return Ok(());
    }
    if let Some(end) = end_of(path, time::now(), transfer)? {
        time::sleep_until(end).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_named_disks_are_slow_until_the_delay_ends() {
        let (slow_disk, other) = (Path::new("/slow"), Path::new("/other"));
        slow(slow_disk, MS);
        slow(slow_disk, 2 * MS);
        let now = time::now();
        assert_eq!(end_of(slow_disk, now, None), Ok(Some(now + 2 * MS)));
        assert_eq!(end_of(other, now, None), Ok(None));
        lose(slow_disk);
        let is_lost = |path| matches!(end_of(path, now, None), Err(Error::Gone(_)));
        assert!(is_lost(slow_disk) && !is_lost(other));
        slow(slow_disk, Duration::ZERO);
        assert_eq!(end_of(slow_disk, now, None), Ok(None));
    }

    #[test]
    fn a_hard_disk_seeks_unless_it_goes_on_and_serves_one_request_at_a_time() {
        let disk = HardDisk {
            seek: 10 * MS,
            bytes_per_s: 1_000_000,
        };
        let now = time::now();
        let mut head = Head {
            at: 0,
            free_from: now,
        };
        assert_eq!(head.serve(disk, now, 4000, 1000), now + 11 * MS);
        // goes on, and waits for the one before
        assert_eq!(head.serve(disk, now, 5000, 2000), now + 13 * MS);
        // somewhere else, after a pause
        let later = now + 100 * MS;
        assert_eq!(head.serve(disk, later, 5000, 2000), later + 12 * MS);
    }
}
