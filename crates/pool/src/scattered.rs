//! Scattered windows: parts of volumes and files that clients read in order, and whose blocks lie apart.
//!
//! **Owns** the list of these windows, and the count of reads. **Called by** reads, on all shards, and by the order mover.
//! **Invariants**: a window is in a list at most once; a list has at most [`WINDOWS_MAX`] windows, and further ones are forgotten
//! until they are read again. Nothing but speed depends on the lists. `docs/decisions/0176`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::format::{Address, Key, ObjectId, TreeId};
use io::sync::lock;
use io::time::Instant;

/// Bytes of a window.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;
/// Most windows in the list.
const WINDOWS_MAX: usize = 1 << 16;
/// How long windows are left alone that cannot be moved.
const REST: Duration = Duration::from_secs(600);
/// Shorter requests, in bytes, do not show that data is read in order.
const READ_MIN: u64 = 64 << 10;
/// Blocks lie apart if a read from a device gets fewer bytes than this on average.
const APART: u64 = 32 << 10;

/// A window: records of one object, aligned to [`WINDOW_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Window {
    pub(crate) tree: TreeId,
    pub(crate) object: ObjectId,
    number: u64,
}

impl Window {
    /// Number of records of `record_size` bytes in a window.
    fn records(record_size: u32) -> u64 {
        (WINDOW_BYTES / u64::from(record_size)).max(1)
    }

    /// The window of a record.
    pub(crate) fn of(tree: TreeId, record: Key, record_size: u32) -> Self {
        Self {
            tree,
            object: record.object(),
            number: record.offset() / Self::records(record_size),
        }
    }

    /// Numbers of its records.
    pub(crate) fn numbers(&self, record_size: u32) -> std::ops::Range<u64> {
        let records = Self::records(record_size);
        let start = self.number.saturating_mul(records);
        start..start.saturating_add(records)
    }
}

/// Number of places where blocks lie, given by address and bytes in the order of their keys: adjacent ones are one place.
pub(crate) fn places(blocks: impl IntoIterator<Item = (Address, u64)>) -> u64 {
    let (mut places, mut end) = (0, None);
    for (at, bytes) in blocks {
        places += u64::from(end != Some(at));
        end = Some(at.behind(bytes as usize));
    }
    places
}

/// Whether `bytes` that are read from `runs` places lie apart.
pub(crate) fn is_apart(bytes: u64, runs: u64) -> bool {
    bytes >= READ_MIN && bytes / APART < runs
}

#[derive(Default)]
struct Lists {
    waiting: BTreeSet<Window>,
    /// Windows that cannot be moved now, with the bytes of them that snapshots hold.
    resting: BTreeMap<Window, u64>,
    /// When the first of them was put there.
    resting_since: Option<Instant>,
}

impl Lists {
    /// Forgets the windows that rest, if they have rested long enough.
    fn wake(&mut self) {
        let is_over = |since: Instant| io::time::now().since(since) >= REST;
        if self.resting_since.is_some_and(is_over) {
            self.resting.clear();
            self.resting_since = None;
        }
    }
}

/// See the module header.
#[derive(Default)]
pub(crate) struct Scattered {
    lists: Mutex<Lists>,
    reads: AtomicU64,
}

impl Scattered {
    /// Notes windows. Returns whether one waits now and none did before.
    pub(crate) fn note(&self, found: impl IntoIterator<Item = Window>) -> bool {
        let mut lists = lock(&self.lists);
        lists.wake();
        let was_empty = lists.waiting.is_empty();
        for window in found {
            if lists.waiting.len() < WINDOWS_MAX && !lists.resting.contains_key(&window) {
                lists.waiting.insert(window);
            }
        }
        was_empty && !lists.waiting.is_empty()
    }

    /// Takes the first window.
    pub(crate) fn take(&self) -> Option<Window> {
        lock(&self.lists).waiting.pop_first()
    }

    /// Leaves a window alone for [`REST`]: it cannot be moved, because snapshots hold `held` bytes of it, or because there is no
    /// place where it would be better.
    pub(crate) fn let_rest(&self, window: Window, held: u64) {
        let mut lists = lock(&self.lists);
        lists.wake();
        if lists.resting.len() < WINDOWS_MAX {
            lists.resting.insert(window, held);
            lists.resting_since.get_or_insert_with(io::time::now);
        }
    }

    /// Forgets all windows that wait.
    pub(crate) fn clear(&self) {
        lock(&self.lists).waiting.clear();
    }

    /// Number of windows that wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.lists).waiting.len()
    }

    /// Bytes of resting windows that snapshots hold.
    pub(crate) fn held(&self) -> u64 {
        lock(&self.lists).resting.values().sum()
    }

    /// A client reads.
    pub(crate) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads of clients since the pool was opened.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Kind;

    fn window(record: u64, record_size: u32) -> Window {
        let key = Key::new(ObjectId(7), Kind(1), record);
        Window::of(TreeId(9), key, record_size)
    }

    #[test]
    fn a_window_has_the_records_of_a_mebibyte() {
        assert_eq!(window(255, 4096), window(0, 4096));
        assert_eq!(window(256, 4096).numbers(4096), 256..512);
        assert_eq!(window(3, 1 << 20).numbers(1 << 20), 3..4);
        assert_eq!(window(5, 16 << 20).numbers(16 << 20), 5..6);
    }

    #[test]
    fn blocks_lie_apart_below_32_kib_for_each_read() {
        assert!(is_apart(128 << 10, 5) && !is_apart(128 << 10, 4));
        assert!(!is_apart(32 << 10, 8), "short requests show no order");
    }

    #[test]
    fn the_list_is_limited_and_has_a_window_once() {
        let list = Scattered::default();
        assert!(list.note([window(0, 4096)]));
        assert!(!list.note([window(1, 4096)]));
        assert_eq!(list.waiting(), 1);
        list.note((0..2 * WINDOWS_MAX as u64).map(|n| window(n, 1 << 20)));
        assert_eq!(list.waiting(), WINDOWS_MAX);
        assert_eq!(list.take(), Some(window(0, 4096)));
        list.clear();
        assert_eq!(list.take(), None);
    }

    #[test]
    fn a_window_that_cannot_be_moved_rests_for_ten_minutes() {
        let sim = io::sim::Sim::new(1, io::sim::SimConfig::default());
        sim.block_on(async {
            let list = Scattered::default();
            list.let_rest(window(0, 4096), 4096);
            assert!(!list.note([window(0, 4096)]));
            assert!(list.note([window(256, 4096)]));
            assert_eq!((list.waiting(), list.held()), (1, 4096));
            io::time::sleep(REST).await;
            list.note([window(0, 4096)]);
            assert_eq!((list.waiting(), list.held()), (2, 0));
        });
    }
}
