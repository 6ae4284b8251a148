//! Slots of all sessions together: sessions shrink while few are left, and grow again later (§2.10.6.1).
//!
//! **Owns** [`SlotBudget`]. **Called by** client records, when sessions come and go, and by each session. **Invariants**: `used` is the
//! sum of the sizes of all sessions and at most `max`. Between the two marks sessions neither shrink nor grow, so that they do
//! not swing.

use crate::limits::SESSION_SLOTS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The slots of all sessions.
#[derive(Debug)]
pub struct SlotBudget {
    max: usize,
    used: AtomicUsize,
    sessions: AtomicUsize,
}

impl SlotBudget {
    /// At most `max` slots, none of which is used.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            used: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
        }
    }

    /// Slots that sessions have.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Slots that are left.
    pub fn free(&self) -> usize {
        self.max.saturating_sub(self.used())
    }

    /// Takes slots. Returns whether enough were left.
    pub fn take(&self, slots: usize) -> bool {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(slots).filter(|sum| *sum <= self.max)
            });
        taken.is_ok()
    }

    /// Gives slots back.
    pub fn give(&self, slots: usize) {
        self.used.fetch_sub(slots, Ordering::Relaxed);
    }

    /// A session was made.
    pub(super) fn session_made(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// A session ended.
    pub(super) fn session_ended(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// The size to which sessions above it should shrink; `None` while enough slots are left.
    pub fn shrink_to(&self) -> Option<u32> {
        let high = self.max - self.max / 8;
        let sessions = self.sessions.load(Ordering::Relaxed).max(1);
        let share = (high / sessions).clamp(1, SESSION_SLOTS_MAX as usize);
        (self.used() > high).then_some(share as u32)
    }

    /// Whether enough slots are left for sessions to grow.
    pub fn may_grow(&self) -> bool {
        self.used() < self.max / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_shrink_near_the_limit_and_grow_far_from_it() {
        let budget = SlotBudget::new(64);
        assert!(budget.take(40) && budget.may_grow() && budget.shrink_to().is_none());
        (0..10).for_each(|_| budget.session_made());
        assert!(budget.take(12) && !budget.may_grow() && budget.shrink_to().is_none());
        assert!(budget.take(10));
        assert_eq!(budget.shrink_to(), Some(5));
        assert!(!budget.take(3), "the limit holds");
        budget.give(50);
        assert!(budget.may_grow() && budget.free() == 52);
    }
}
