//! Space in the file systems below members that are files.
//!
//! **Owns** the ranges of a file whose space is reserved, and the number of writes that wait because a file system is full.
//! **Called by** creation, opening and changes of vdevs, by mirrors, and by `file_space`. **Invariants**: a disk joins a pool only after the
//! space of its label areas and of its part of the journal is reserved, if its file system supports this; no write waits for
//! space before the pool allows it. `docs/decisions/0123`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::disk::Disk;

use super::error::SetupError;
use super::geometry::{AREA_SIZE, DATA_START, areas};

#[derive(Default)]
struct Inner {
    /// Whether a write that finds no space waits for it instead of failing.
    may_wait: AtomicBool,
    /// Number of waiting writes.
    waiting: AtomicU64,
}

/// Number of the pool's writes that wait for space in a file system. Clones share it.
#[derive(Clone, Default)]
pub(super) struct SpaceBelow(Arc<Inner>);

impl SpaceBelow {
    /// Whether a write that finds no space may wait.
    pub(super) fn may_wait(&self) -> bool {
        self.0.may_wait.load(Ordering::Acquire)
    }

    /// Sets whether a write that finds no space may wait.
    pub(super) fn allow(&self, may_wait: bool) {
        self.0.may_wait.store(may_wait, Ordering::Release);
    }

    /// Whether writes wait.
    pub(super) fn is_waited_for(&self) -> bool {
        self.0.waiting.load(Ordering::Acquire) > 0
    }

    /// Counts a waiting write until the returned value is dropped.
    pub(super) fn wait(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        Waiting(self.clone())
    }
}

/// A write that waits for space.
pub(super) struct Waiting(SpaceBelow);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Writes to one disk that found no space in the file system below: offset and length.
#[derive(Default)]
pub(super) struct Lacking {
    /// Whether there are any. Checked for every write.
    is_any: AtomicBool,
    writes: Mutex<BTreeMap<u64, u64>>,
}

impl Lacking {
    /// Most writes that are remembered.
    const WRITES_MAX: usize = 1024;

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are any.
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// All of them, as offset and length in bytes.
    pub(super) fn all(&self) -> Vec<(u64, u64)> {
        self.lock().iter().map(|(at, len)| (*at, *len)).collect()
    }

    /// Records that a write of `len` bytes at `at` found no space.
    pub(super) fn add(&self, at: u64, len: u64) {
        let mut writes = self.lock();
        if writes.len() < Self::WRITES_MAX {
            writes.insert(at, len);
        }
        self.is_any.store(true, Ordering::Release);
    }

    /// Removes the write at `at`: it found space, or failed for another reason.
    pub(super) fn remove(&self, at: u64) {
        let mut writes = self.lock();
        writes.remove(&at);
        self.is_any.store(!writes.is_empty(), Ordering::Release);
    }
}

/// Ranges of a disk of `size` bytes that the opening of a pool writes to: the label areas, and `journal` bytes of journal.
fn ranges(size: u64, journal: u64) -> [Range<u64>; 2] {
    let [_, _, end, _] = areas(size);
    [0..DATA_START + journal, end..end + 2 * AREA_SIZE]
}

/// Reserves the space of a disk's label areas and of `journal` bytes of journal. Durable after the next flush. Does nothing
/// if the file system cannot reserve space.
///
/// # Errors
/// [`SetupError::FileSystemFull`], [`SetupError::Io`].
pub(super) async fn reserve(disk: &Disk, size: u64, journal: u64) -> Result<(), SetupError> {
    let path = || disk.info().path.clone();
    for range in ranges(size, journal) {
        match disk.reserve(range.start, range.end - range.start).await {
            Ok(()) => {}
            Err(io::Error::NoSpace) => return Err(SetupError::FileSystemFull { path: path() }),
            Err(io::Error::Unsupported(_)) => {
                tracing::warn!(
                    disk = %path().display(),
                    "its file system reserves no space: the pool may not open while that file system is full"
                );
                return Ok(());
            }
            Err(error) => {
                return Err(SetupError::Io {
                    path: path(),
                    error,
                });
            }
        }
    }
    Ok(())
}
