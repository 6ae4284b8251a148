//! Points in time, and the timers of a runtime.
//!
//! **Owns** [`Instant`] and the table of timers. **Called by** the executor, the drivers and [`crate::time`]. **Invariants**:
//! nothing here reads a clock; a timer is returned once, at its time or later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Add;
use std::task::Waker;
use std::time::Duration;

/// A point on the driver's monotonic clock, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub(crate) u64);

impl Instant {
    /// Time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds since an arbitrary start.
    #[must_use]
    pub fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, d: Duration) -> Instant {
        Instant(
            self.0
                .saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// The timers of one runtime. Cancelled timers are removed from the heap lazily.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    wakers: HashMap<u64, Waker>,
    next_id: u64,
}

impl Timers {
    /// Sets the waker of timer `id`, or starts a timer that fires at `at`. Returns the timer.
    pub(crate) fn set(&mut self, id: Option<u64>, at: Instant, waker: &Waker) -> u64 {
        if let Some(id) = id {
            self.wakers.insert(id, waker.clone());
            return id;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.heap.push(Reverse((at, id)));
        self.wakers.insert(id, waker.clone());
        id
    }

    /// Whether timer `id` has neither fired nor been cancelled.
    pub(crate) fn contains(&self, id: u64) -> bool {
        self.wakers.contains_key(&id)
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        self.wakers.remove(&id);
        // Sleeps that end early (timeouts) must not stay in the heap until their deadlines.
        if self.heap.len() > 64 && self.heap.len() > 4 * self.wakers.len() {
            let wakers = &self.wakers;
            self.heap.retain(|Reverse((_, id))| wakers.contains_key(id));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// The time at which the next timer fires.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, id))) = self.heap.peek() {
            if self.wakers.contains_key(id) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Removes all timers due at `now`. Returns their wakers.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while self.next().is_some_and(|at| at <= now) {
            if let Some(Reverse((_, id))) = self.heap.pop()
                && let Some(w) = self.wakers.remove(&id)
            {
                due.push(w);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_timers_leave_the_heap() {
        let mut t = Timers::default();
        for i in 0..10_000 {
            let id = t.set(None, Instant(1_000_000 + i), Waker::noop());
            t.cancel(id);
        }
        assert!(t.heap.len() <= 65);
        let keep = t.set(None, Instant(5), Waker::noop());
        assert_eq!(t.next(), Some(Instant(5)));
        assert_eq!(t.expire(Instant(4)).len(), 0);
        assert_eq!(t.expire(Instant(5)).len(), 1);
        assert!(!t.contains(keep));
    }
}
