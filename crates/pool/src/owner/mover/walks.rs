//! Walks of the balance mover, the class mover and the region mover, between two parts.
//!
//! **Owns** the position of a walk, and the choice of its records. **Called by** the movers, which keep a walk in their state. **Invariant**:
//! the records of a window that lie on one vdev are chosen together. Pure.

use std::collections::BTreeSet;

use super::choice::{SHARES, part_of};
use crate::format::{BlockPtr, Key, TreeId, VdevId};
use crate::owner::sweep::position::Sweep;
use crate::scattered::WINDOW_BYTES;
use crate::space::{SparseRegion, Surplus};

/// The position of a walk.
pub(super) struct Position {
    /// The datasets that are left, the next one last.
    left: Vec<TreeId>,
    /// Where the next part begins.
    at: Key,
}

impl Position {
    /// The begin of a walk over these datasets, the last one first.
    pub(super) fn of(left: Vec<TreeId>) -> Self {
        Self {
            left,
            at: Key::START,
        }
    }

    /// The dataset and the key of the next part. `None` at the end.
    pub(super) fn next(&self) -> Option<(TreeId, Key)> {
        Some((*self.left.last()?, self.at))
    }

    /// The next part begins here; without a key, with the next dataset.
    pub(super) fn go_on(&mut self, next: Option<Key>) {
        self.at = next.unwrap_or(Key::START);
        if next.is_none() {
            self.left.pop();
        }
    }
}

/// The share of windows that leave each vdev, of [`SHARES`].
pub(super) struct Shares {
    vdevs: Vec<(VdevId, u64)>,
    /// Chooses other windows from walk to walk.
    salt: u64,
}

impl Shares {
    pub(super) fn of(surpluses: &[Surplus], salt: u64) -> Self {
        let share = |of: &Surplus| {
            let share = u128::from(of.bytes) * u128::from(SHARES);
            (of.vdev, share.div_ceil(of.filled.max(1).into()) as u64)
        };
        Self {
            vdevs: surpluses.iter().map(share).collect(),
            salt,
        }
    }

    /// Whether a record on this vdev leaves it. The records of a window that lie on one vdev decide in the same way.
    pub(super) fn takes(&self, key: Key, ptr: &BlockPtr, on: VdevId) -> bool {
        let vdev = self.vdevs.iter().find(|(vdev, _)| *vdev == on);
        let window = key.offset().wrapping_mul(ptr.logical_size.into()) / WINDOW_BYTES;
        let number = window ^ key.object().0.rotate_left(40) ^ self.salt;
        vdev.is_some_and(|(_, share)| part_of(number) < *share)
    }
}

/// A walk of the balance mover.
pub(super) struct BalanceWalk {
    pub(super) shares: Shares,
    pub(super) position: Position,
}

/// Why blocks move between the special class and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassReason {
    /// The pool was opened, and many blocks are in the other class, by the sizes in roots.
    Opened,
    /// A special vdev was added.
    Added,
    /// `special_small_blocks` changed for a dataset.
    Threshold,
    /// The class had no room for some nodes or records, and has room again.
    Room,
}

impl ClassReason {
    /// Whether large records may be on special vdevs.
    pub(super) fn has_leavers(self) -> bool {
        matches!(self, Self::Opened | Self::Threshold)
    }
}

/// A walk of the class mover.
pub(super) struct ClassWalk {
    pub(super) reason: ClassReason,
    pub(super) position: Position,
    /// Whether small records go to the special class.
    pub(super) fills: bool,
    /// Whether the class had no room for some blocks.
    pub(super) lacks_room: bool,
    /// The position among all blocks of the pool, once the records were moved.
    pub(super) sweep: Option<Sweep>,
    /// Whether that sweep relocates large records on special vdevs; otherwise it does so with nodes and small records on normal ones.
    pub(super) leaves: bool,
    /// Bytes that were moved for this reason when the walk began.
    pub(super) moved_before: u64,
}

/// A walk of the region mover.
pub(super) struct RegionWalk {
    /// The regions that it empties, and their number of used bytes at its begin.
    pub(super) regions: Vec<SparseRegion>,
    /// The same.
    pub(super) chosen: BTreeSet<(VdevId, u32)>,
    pub(super) position: Position,
    /// The position among all blocks of the pool, once the records were moved.
    pub(super) sweep: Option<Sweep>,
}
