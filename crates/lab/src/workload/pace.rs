//! Schedule of the I/Os of an open loop.
//!
//! **Owns** the schedule of one job. **Invariants**: the k-th I/O is due at `start + k / rate`, independent of the
//! target; its latency counts from there. So a target that stalls is charged for every I/O that it delayed, not only
//! for those in flight (coordinated omission).

use io::time::Instant;
use std::time::Duration;

/// The schedule of one job.
#[derive(Debug, Clone)]
pub struct Pace {
    start: Instant,
    interval_ns: f64,
    next: u64,
}

impl Pace {
    /// Job `job` of `jobs`, which share `rate` I/Os per second; their I/Os are due in turn.
    #[must_use]
    pub fn new(start: Instant, rate: f64, job: u32, jobs: u32) -> Pace {
        let interval_ns = 1e9 * f64::from(jobs) / rate;
        let shift = Duration::from_nanos((interval_ns * f64::from(job) / f64::from(jobs)) as u64);
        Pace {
            start: start + shift,
            interval_ns,
            next: 0,
        }
    }

    /// The due time of the next I/O; advances to the one after it.
    pub fn take(&mut self) -> Instant {
        let due = self.peek();
        self.next += 1;
        due
    }

    /// The due time of the next I/O.
    #[must_use]
    pub fn peek(&self) -> Instant {
        self.start + Duration::from_nanos((self.next as f64 * self.interval_ns) as u64)
    }
}
