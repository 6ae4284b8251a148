//! The state of a removal, and what people see of it.
//!
//! **Owns** its course since the pool was opened. **Called by** the remover. **Invariant**: one vdev is removed at a time; the pool's own
//! tree has the part of the state that survives a restart.

use std::cell::Cell;
use std::time::Duration;

use io::time::Instant;

use crate::format::VdevId;

/// The reason why a removal does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalWait {
    /// No right copy of a block on the vdev was found, or of a node above such blocks: `pool status -v` names the data.
    Damaged,
    /// The other vdevs have too little free space.
    Space,
    /// A step failed: it is repeated.
    Failed,
}

/// A removal, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removing {
    /// The vdev.
    pub vdev: VdevId,
    /// Bytes that were copied to other vdevs.
    pub copied: u64,
    /// Bytes that are still to be copied, about.
    pub left: u64,
    /// Whether it was given up, and the copies are being freed.
    pub is_stopping: bool,
    /// The reason why it does not go on; `None` while it does.
    pub waits_for: Option<RemovalWait>,
    /// Bytes that were copied since the pool was opened.
    pub copied_now: u64,
    /// Time that the remover took for them.
    pub active: Duration,
}

/// The state of the remover.
#[derive(Default)]
pub(in crate::owner) struct Remover {
    /// Whether the pool closes.
    pub(super) is_ended: Cell<bool>,
    pub(super) is_running: Cell<bool>,
    /// The vdev, while the labels are being written that say that it is removed.
    pub(super) finishes: Cell<Option<VdevId>>,
    /// Whether all blocks that were placed on the vdev before it gave out no space are in trees.
    pub(super) is_settled: Cell<bool>,
    pub(super) waits_for: Cell<Option<RemovalWait>>,
    /// No step begins before this time.
    pub(super) rests_until: Cell<Option<Instant>>,
    pub(super) copied: Cell<u64>,
    pub(super) active: Cell<Duration>,
}
