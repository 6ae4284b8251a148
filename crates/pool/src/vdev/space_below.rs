//! Space in the file systems below members that are files.
//!
//! **Owns** the ranges of a file whose space is reserved, and the number of writes that wait because a file system is full.
//! **Called by** creation, opening and changes of vdevs, and by mirrors. **Invariants**: a disk joins a pool only after the
//! space of its label areas and of its part of the journal is reserved, if its file system supports this; no write waits for
//! space before [`Vdevs::wait_for_space`] allows it. `docs/decisions/0123`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::disk::Disk;

use super::area::{AREA_SIZE, DATA_START, areas};
use super::error::SetupError;
use super::mirror::Mirror;
use super::{Leaf, Vdevs};
use crate::error::Error;

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

    /// Whether writes wait.
    fn is_waited_for(&self) -> bool {
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

impl Vdevs {
    /// Bytes of journal on each disk of a vdev.
    pub(super) fn journal_of(&self, mirror: &Mirror) -> u64 {
        self.info(mirror).first_free.0
    }

    /// Reserves the space that an opening needs on the present members, whose files may be sparse. Failures are ignored: the
    /// space may be there already.
    pub(super) async fn reserve_members(&self) {
        for mirror in self.mirrors.iter() {
            for leaf in mirror.targets() {
                self.reserve_member(mirror, &leaf).await;
            }
        }
    }

    /// As [`Vdevs::reserve_members`], for one member.
    pub(super) async fn reserve_member(&self, mirror: &Mirror, leaf: &Leaf) {
        let Some(disk) = leaf.disk() else { return };
        let reserved = reserve(disk, leaf.size(), self.journal_of(mirror)).await;
        if let Err(error) = reserved {
            tracing::warn!(%error, "space that the next opening needs is not reserved");
        }
    }

    /// Sets whether writes that find no space in a file system wait for it or fail. They fail until the first call.
    pub(crate) fn wait_for_space(&self, may_wait: bool) {
        self.below.0.may_wait.store(may_wait, Ordering::Release);
    }

    /// While writes wait for space: [`Error::FileSystemFull`] with the file that needs it.
    pub(crate) fn full(&self) -> Option<Error> {
        if !self.below.is_waited_for() {
            return None;
        }
        let leaves = self.mirrors.iter().flat_map(Mirror::targets);
        let path = leaves
            .filter(|leaf| leaf.is_full())
            .map(|l| l.path().clone())
            .next();
        Some(Error::FileSystemFull {
            path: path.unwrap_or_default(),
        })
    }

    /// Checks whether file systems that were full have space again, for members for which no write waits.
    pub async fn look_for_space(&self) {
        if self.below.is_waited_for() {
            return;
        }
        for leaf in self.mirrors.iter().flat_map(Mirror::targets) {
            leaf.look_for_space().await;
        }
    }
}
