//! The state of the journal's moves, since the pool was opened.
//!
//! **Owns** their order, and the list of lost logs. **Called by** the moves. **Invariant**: one move at a time.

use std::cell::{Cell, RefCell};

use backend::RangeLock;
use io::time::Instant;

use crate::format::VdevId;

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
}
