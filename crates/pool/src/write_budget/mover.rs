//! The write budget and the row mover: space that moves may take, and writes that wait for rows.
//!
//! **Owns** these requests. **Called by** the row mover and write-back. **Invariants**: moved records count as changes of nodes, and not
//! as bytes of their dataset, which they leave as they are; moves leave alone what is promised, reserved, or kept for nodes.
//! `docs/decisions/0165`.

use super::{Sums, WriteBudget};
use crate::format::TreeId;
use io::sync::lock;

impl Sums {
    /// Free bytes that moves may take, of `movable` bytes that are free for them.
    fn left_for_moves(&self, movable: u64) -> u64 {
        movable.saturating_sub(self.wanted())
    }
}

impl WriteBudget {
    /// Rows have `dead` bytes of dead sectors now, of which `least` make it worth to move records.
    pub(crate) fn set_dead(&self, dead: u64, least: u64) {
        let mut sums = lock(&self.0);
        sums.prospect.dead = dead;
        sums.prospect.least = least;
    }

    /// Whether a write waits for the row mover.
    pub(crate) fn is_mover_awaited(&self) -> bool {
        lock(&self.0).prospect.is_awaited
    }

    /// The dead bytes with which the mover may gain something.
    pub(crate) fn least_dead(&self) -> u64 {
        lock(&self.0).prospect.least
    }

    /// The row mover ended a walk: waiting writes look again whether they fit, or whether another walk may help.
    pub(crate) fn walked(&self) {
        let mut sums = lock(&self.0);
        sums.prospect.is_awaited = false;
        sums.waiting.clear();
    }

    /// Free bytes that clients may still take.
    pub(crate) fn left(&self) -> u64 {
        lock(&self.0).left()
    }

    /// Bytes of extents that records of clients got since the pool was opened.
    pub(crate) fn all_put(&self) -> u64 {
        lock(&self.0).prospect.put
    }

    /// Free bytes that moves may take, of `movable` bytes that are free for them.
    pub(crate) fn left_for_moves(&self, movable: u64) -> u64 {
        lock(&self.0).left_for_moves(movable)
    }

    /// Whether a number of records of a dataset, with this number of bytes, may be moved, if `movable` bytes are free for moves.
    pub(crate) fn may_move(&self, id: TreeId, (bytes, records): (u64, u64), movable: u64) -> bool {
        let sums = lock(&self.0);
        let account = sums.accounts.get(&id).copied().unwrap_or_default();
        let space = sums.extents.space.most(bytes);
        sums.wanted_after(account, space, |after| after.layered.moved += records) <= movable
    }

    /// The row mover gave a number of records of a dataset new extents. `allocatable` bytes are free now.
    pub(crate) fn moved(&self, id: TreeId, records: u64, allocatable: u64) {
        let mut sums = lock(&self.0);
        sums.allocatable = allocatable;
        sums.is_all_freed = false;
        sums.update(id, |account| account.layered.moved += records);
    }
}
