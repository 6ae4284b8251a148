//! Time series: I/Os and bytes per step of time.
//!
//! **Invariants**: an I/O counts in the step in which it completed; steps are [`SERIES_STEP`] wide and start with the
//! measured window.

use crate::limits::{SERIES_STEP, SERIES_STEPS_MAX};
use std::time::Duration;

/// One step of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// I/Os that completed.
    pub ios: u64,
    /// Bytes they moved.
    pub bytes: u64,
}

/// A row of steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series(pub Vec<Step>);

impl Series {
    /// Counts an I/O that completed `at` after the start of the window.
    pub fn record(&mut self, at: Duration, bytes: u64) {
        // Once per I/O: a division of 64 bits, not of the 128 that nanoseconds come in.
        const STEP_NS: u64 = SERIES_STEP.as_nanos() as u64;
        let at_ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let i = ((at_ns / STEP_NS) as usize).min(SERIES_STEPS_MAX - 1);
        if self.0.len() <= i {
            self.0.resize(i + 1, Step::default());
        }
        self.0[i].ios += 1;
        self.0[i].bytes += bytes;
    }

    /// Adds another job's steps.
    pub fn merge(&mut self, other: &Series) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), Step::default());
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            a.ios += b.ios;
            a.bytes += b.bytes;
        }
    }

    /// I/Os per second in each whole slice of `slice` within the first `window`; a target that stopped shows as
    /// zeroes.
    #[must_use]
    pub fn rates(&self, slice: Duration, window: Duration) -> Vec<f64> {
        let per = (slice.as_nanos() / SERIES_STEP.as_nanos()).max(1) as usize;
        let steps = (window.as_nanos() / SERIES_STEP.as_nanos()) as usize;
        let seconds = (SERIES_STEP * per as u32).as_secs_f64();
        (0..steps / per)
            .map(|s| {
                let ios: u64 = (s * per..(s + 1) * per)
                    .filter_map(|i| self.0.get(i))
                    .map(|s| s.ios)
                    .sum();
                ios as f64 / seconds
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_count_what_completed_in_them_also_nothing() {
        let mut s = Series::default();
        for ms in [0, 99, 100, 950, 1000, 1999, 3500] {
            s.record(Duration::from_millis(ms), 4096);
        }
        let mut other = Series::default();
        other.record(Duration::from_millis(3501), 1);
        s.merge(&other);
        let second = Duration::from_secs(1);
        assert_eq!(s.rates(second, second * 5), [4.0, 2.0, 0.0, 2.0, 0.0]);
        assert_eq!(
            s.rates(second, Duration::from_millis(3900)),
            [4.0, 2.0, 0.0]
        );
        assert_eq!(
            s.0[35],
            Step {
                ios: 2,
                bytes: 4097
            }
        );
    }
}
