//! Timers of a ring.
//!
//! **Owns** the times at which the ring's timers fire. **Called by** [`super::driver`]. **Invariants**: a timer stays until
//! it fires, even if its time no longer matters; a new one is set only for a time before all others, so that a runtime with
//! an unchanged next deadline sets none. Reason: with a timeout for each wait, the kernel would set and cancel a timer per
//! wait, which is per I/O at a queue depth of one.

use crate::clock::Instant;
use io_uring::{opcode, squeue, types};
use std::time::Duration;

/// Most timers in the ring. With more, each wait has its own timeout.
const TIMERS_MAX: usize = 8;

/// The timers of one ring.
#[derive(Default)]
pub(super) struct RingTimers {
    /// Times at which they fire.
    moments: Vec<Instant>,
    /// The time of the newest timer, which its entry refers to until it is submitted.
    timespec: Box<types::Timespec>,
}

impl RingTimers {
    /// Whether a timer fires at `at` or before.
    pub(super) fn covers(&self, at: Instant) -> bool {
        self.moments.iter().any(|t| *t <= at)
    }

    /// Returns the entry of a timer for `at`, to be submitted before the next one is set; `None` if there are too many.
    pub(super) fn set(&mut self, at: Instant) -> Option<squeue::Entry> {
        if self.moments.len() >= TIMERS_MAX {
            return None;
        }
        self.moments.push(at);
        *self.timespec = types::Timespec::from(Duration::from_nanos(at.as_nanos()));
        let timer = opcode::Timeout::new(&raw const *self.timespec);
        Some(timer.flags(types::TimeoutFlags::ABS).build())
    }

    /// Removes the `count` earliest timers, which have fired.
    pub(super) fn fired(&mut self, count: usize) {
        for _ in 0..count {
            let earliest = (0..self.moments.len()).min_by_key(|i| self.moments[*i]);
            if let Some(earliest) = earliest {
                self.moments.swap_remove(earliest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_moment_needs_another_timer() {
        let mut timers = RingTimers::default();
        assert!(!timers.covers(Instant(500)));
        assert!(timers.set(Instant(500)).is_some());
        assert!(timers.covers(Instant(500)) && timers.covers(Instant(900)));
        assert!(!timers.covers(Instant(499)));
        assert!(timers.set(Instant(100)).is_some());
        timers.fired(1);
        assert!(timers.covers(Instant(500)) && !timers.covers(Instant(499)));
        timers.fired(2);
        assert!(!timers.covers(Instant(u64::MAX)));
    }

    #[test]
    fn the_number_of_timers_is_bounded() {
        let mut timers = RingTimers::default();
        let set = (0..100).rev().filter(|n| timers.set(Instant(*n)).is_some());
        assert_eq!(set.count(), TIMERS_MAX);
    }
}
