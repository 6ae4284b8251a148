//! The state of expansions, and what people see of it.
//!
//! **Owns** the course of each expansion since the pool was opened. **Called by** the expander. **Invariant**: one expander works at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::format::VdevId;
use crate::vdev::ExpansionStatus;

/// The reason why an expansion does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpansionWait {
    /// A member is not in.
    Member,
    /// A resilver, or a repair of rows, is in progress.
    Repair,
    /// There is too little free space to take some out of use.
    Space,
    /// A step failed: it is repeated.
    Failed,
}

/// An expansion, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expanding {
    /// The vdev.
    pub vdev: VdevId,
    /// Its progress.
    pub status: ExpansionStatus,
    /// The reason why it does not go on; `None` while it does.
    pub waits_for: Option<ExpansionWait>,
    /// Its position when the expander began with it since the pool was opened, in the unit of [`ExpansionStatus::done`].
    pub began_at: u64,
    /// Time that the expander took since then.
    pub active: Duration,
}

/// The state of the expander.
#[derive(Default)]
pub(in crate::owner) struct Expander {
    pub(super) is_ended: Cell<bool>,
    pub(super) is_running: Cell<bool>,
    /// Whether the checkpoints were written whose blocks the allocator must know.
    pub(super) has_checkpoints: Cell<bool>,
    pub(super) courses: RefCell<BTreeMap<VdevId, Course>>,
}

/// The course of an expansion since the pool was opened.
#[derive(Clone, Copy, Default)]
pub(super) struct Course {
    pub(super) waits_for: Option<ExpansionWait>,
    pub(super) began_at: u64,
    pub(super) active: Duration,
}
