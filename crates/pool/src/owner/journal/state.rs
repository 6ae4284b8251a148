//! The state of the journal's moves, since the pool was opened.
//!
//! **Owns** their order, the list of lost logs, and the report of changes that were lost with the journal. **Called by** the moves. **Invariant**: one move at a time.

use std::cell::{Cell, RefCell};

use backend::RangeLock;
use io::time::Instant;

use crate::format::VdevId;

/// A dataset that changed shortly before the checkpoint at which a pool was opened without its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastChange {
    /// Its name.
    pub dataset: String,
    /// When the checkpoint with its last change was written, milliseconds since 1970.
    pub time_ms: u64,
}

/// Changes that were lost with the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostChanges {
    /// All changes after this time are lost, durable ones too, with datasets that were created since: when the newest checkpoint was written, milliseconds since 1970.
    pub since_ms: u64,
    /// Datasets did not change since this time until then, unless they are named: when the oldest checkpoint on the disks was written.
    pub known_ms: u64,
    /// The datasets that changed between the two times, the last one first. Later changes of them are likely.
    pub changed: Vec<LastChange>,
}

/// The moves of a pool's journal.
#[derive(Default)]
pub(in crate::owner) struct JournalMoves {
    /// Orders them.
    pub(super) turn: RangeLock,
    /// Whether the pool closes.
    pub(super) is_ended: Cell<bool>,
    /// Whether a move to the vdevs for the journal is in progress.
    pub(super) is_running: Cell<bool>,
    /// No such move begins before this time.
    pub(super) rests_until: Cell<Option<Instant>>,
    /// The logs that were lost and left the pool.
    pub(super) lost: RefCell<Vec<VdevId>>,
    /// The changes that were lost with the journal when the pool was opened.
    pub(in crate::owner) lost_changes: RefCell<Option<LostChanges>>,
}
