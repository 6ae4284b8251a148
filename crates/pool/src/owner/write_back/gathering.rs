//! Gathering: after a flush, the next one waits a moment for the requests that clients send at once.
//!
//! Clients whose requests a flush answered send the next ones within a network's round trip. A flush that begins before these arrive
//! splits the clients into two halves, each of which waits for the flush of the other: half of the rate that one flush for all has.
//!
//! **Owns** the number of demands that are expected, and the end of the wait. **Called by** write-back, with the number of outstanding
//! demands. **Invariants**: a flush waits at most a quarter of the time of the one before; a client whose requests come one after the
//! other, and one whose requests come rarely, do not wait. `docs/decisions/0173`.

use std::time::Duration;

use io::time::Instant;

/// Part of the last flush's time that the next one may wait, as a divisor.
const PART: u32 = 4;
/// Most time that a flush waits.
const WAIT_MAX: Duration = Duration::from_millis(2);
/// Shorter waits are not worth a timer.
const WAIT_MIN: Duration = Duration::from_micros(10);
/// Most flushes without a wait after fruitless waits.
const REST_MAX: u32 = 63;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Demands that were outstanding when the last flush ended.
    expected: usize,
    /// End of the wait. `None` if there is none.
    until: Option<Instant>,
    /// Whether all expected demands are there, so that the wait is only for the writes of their batch.
    is_complete: bool,
    /// End of the wait for which the owner has a timer.
    timer: Option<Instant>,
    /// Flushes that do not wait, after the last fruitless wait.
    rest: u32,
    /// Flushes left of these.
    left: u32,
}

impl Gathering {
    /// A flush ended at `now` that took this time. `outstanding` demands waited then, the answered ones among them.
    pub(super) fn flush_ended(&mut self, outstanding: usize, took: Duration, now: Instant) {
        let wait = (took / PART).min(WAIT_MAX);
        self.expected = outstanding;
        (self.until, self.is_complete) = (None, false);
        if self.left > 0 {
            self.left -= 1;
        } else if outstanding > 1 && wait >= WAIT_MIN {
            self.until = Some(now + wait);
        }
    }

    /// The end of the wait in progress, if the owner has no timer for it. The owner has one from now on.
    pub(super) fn take_timer(&mut self) -> Option<Instant> {
        let until = self.until?;
        let is_known = self.timer.replace(until) == Some(until);
        (!is_known).then_some(until)
    }

    /// Whether the next batch waits for further demands. `outstanding` demands wait at `now`.
    pub(super) fn waits_for_demands(&mut self, outstanding: usize, now: Instant) -> bool {
        let Some(until) = self.until.filter(|_| !self.is_complete) else {
            return false;
        };
        if outstanding >= self.expected {
            self.is_complete = true;
        } else if now >= until {
            self.end(4 * outstanding >= 3 * self.expected);
        }
        self.until.is_some() && !self.is_complete
    }

    /// Whether the next flush waits at `now` for the writes of a batch. `covers_all`: it would answer all demands.
    pub(super) fn waits_for_batch(&mut self, covers_all: bool, now: Instant) -> bool {
        let Some(until) = self.until else {
            return false;
        };
        if covers_all || now >= until {
            self.end(covers_all);
        }
        self.until.is_some()
    }

    /// The wait ends; `is_worth` if the flush has the demands for which it waited.
    fn end(&mut self, is_worth: bool) {
        self.until = None;
        self.rest = match is_worth {
            true => 0,
            false => (2 * self.rest + 1).min(REST_MAX),
        };
        self.left = self.rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_millis(1);

    fn at(us: u64) -> Instant {
        Instant::default() + Duration::from_micros(us)
    }

    #[test]
    fn the_next_flush_waits_for_the_clients_of_the_last_one() {
        let mut gathering = Gathering::default();
        gathering.flush_ended(8, FLUSH, at(1000));
        assert!(gathering.waits_for_demands(4, at(1010)));
        assert_eq!(gathering.take_timer(), Some(at(1250)));
        assert!(gathering.waits_for_demands(7, at(1020)));
        assert_eq!(gathering.take_timer(), None, "there is one");
        assert!(!gathering.waits_for_demands(8, at(1030)));
        assert!(gathering.waits_for_batch(false, at(1040)));
        assert!(!gathering.waits_for_batch(true, at(1100)));
        assert!(
            !gathering.waits_for_demands(2, at(1110)),
            "the wait has ended"
        );
    }

    #[test]
    fn nobody_waits_for_a_single_client_or_a_fast_flush() {
        let mut gathering = Gathering::default();
        gathering.flush_ended(1, FLUSH, at(1000));
        assert!(!gathering.waits_for_demands(0, at(1001)));
        gathering.flush_ended(8, Duration::from_micros(30), at(1000));
        assert!(!gathering.waits_for_demands(1, at(1001)));
    }

    /// Where the write of a batch takes as long as a flush, a flush does not wait for it.
    #[test]
    fn a_slow_batch_makes_the_wait_fruitless() {
        let mut gathering = Gathering::default();
        gathering.flush_ended(8, FLUSH, at(1000));
        assert!(!gathering.waits_for_demands(8, at(1010)));
        assert!(gathering.waits_for_batch(false, at(1249)));
        assert!(!gathering.waits_for_batch(false, at(1250)));
        gathering.flush_ended(8, FLUSH, at(3000));
        assert!(!gathering.waits_for_demands(4, at(3001)), "it rests");
    }

    #[test]
    fn fruitless_waits_become_rare() {
        let mut gathering = Gathering::default();
        let mut waits = 0;
        for n in 1..=200 {
            let end = n * 10_000;
            gathering.flush_ended(2, FLUSH, at(end));
            waits += u32::from(gathering.waits_for_demands(1, at(end + 1)));
            assert!(!gathering.waits_for_demands(1, at(end + 5000)));
        }
        assert_eq!(waits, 8);
        // one client more returns
        gathering.left = 0;
        gathering.flush_ended(2, FLUSH, at(1));
        assert!(!gathering.waits_for_demands(2, at(2)));
        assert!(!gathering.waits_for_batch(true, at(3)));
        gathering.flush_ended(2, FLUSH, at(3));
        assert!(gathering.waits_for_demands(1, at(4)));
    }
}
