//! Commits of data that the kernel wrote back.
//!
//! **Owns** the state of the one commit that follows write-back. **Called by** writes, and by the task that commits. **Invariants**:
//! at most one task runs; every write is followed by the begin of a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// No task, and nothing to commit.
const IDLE: u8 = 0;
/// A task runs, and its commit covers all writes.
const COVERED: u8 = 1;
/// A task runs, and must commit again.
const MORE: u8 = 2;

/// See the module header. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct WriteBacks(Arc<AtomicU8>);

impl WriteBacks {
    /// Notes a write. Whether the caller must start the task.
    pub(crate) fn is_first(&self) -> bool {
        self.0.swap(MORE, Ordering::AcqRel) == IDLE
    }

    /// The commit that begins now covers all writes before.
    pub(crate) fn begin(&self) {
        self.0.store(COVERED, Ordering::Release);
    }

    /// Whether there were writes since [`WriteBacks::begin`]. If not, the task has ended.
    pub(crate) fn is_more(&self) -> bool {
        let ends = self
            .0
            .compare_exchange(COVERED, IDLE, Ordering::AcqRel, Ordering::Acquire);
        ends.is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_is_followed_by_a_commit() {
        let state = WriteBacks::default();
        assert!(state.is_first() && !state.is_first());
        state.begin();
        assert!(!state.is_first(), "the task runs");
        assert!(state.is_more());
        state.begin();
        assert!(!state.is_more());
        assert!(state.is_first(), "the task has ended");
    }
}
