//! Histograms of times that many threads record.
//!
//! **Owns** one histogram. **Called by** the disks of pools (µs) and by the counters of stages (ns), on any shard.
//! **Invariants**: recording takes no lock; a time is reported at most one eighth too long, and never too short.

use crate::time::Instant;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets per power of two, as a binary logarithm.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
/// Powers of two covered: times up to 2^40, which is 12 days in µs, and 18 minutes in ns.
const POWERS: usize = 40;
const BUCKETS: usize = (POWERS - SUB_BITS as usize + 1) * SUB;

/// Counts of times by length, in one unit that its user chooses.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

fn bucket(time: u64) -> usize {
    if time < SUB as u64 {
        return time as usize;
    }
    let power = time.ilog2();
    let sub = (time >> (power - SUB_BITS)) as usize & (SUB - 1);
    let index = (power - SUB_BITS + 1) as usize * SUB + sub;
    index.min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn bound(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let (power, sub) = (index / SUB - 1, index % SUB);
    ((SUB + sub + 1) as u64) << power
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Records `count` times of this length.
    pub fn record(&self, time: u64, count: u32) {
        let count = u64::from(count);
        self.buckets[bucket(time)].fetch_add(count, Ordering::Relaxed);
        self.sum
            .fetch_add(time.saturating_mul(count), Ordering::Relaxed);
    }

    /// Records the time since `began`, µs.
    pub fn record_micros_since(&self, began: Instant) {
        let us = began.elapsed().as_micros();
        self.record(u64::try_from(us).unwrap_or(u64::MAX), 1);
    }

    /// The times recorded so far.
    #[must_use]
    pub fn read(&self) -> Times {
        let counts = self.buckets.iter().enumerate();
        let counts = counts.map(|(i, count)| (bound(i), count.load(Ordering::Relaxed)));
        Times {
            counts: counts.filter(|(_, count)| *count > 0).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Times by length, in the unit of their [`Histogram`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Buckets in ascending order: upper bound, and number of times that were longer than the bound before and at most this
    /// one. Empty buckets are left out.
    pub counts: Vec<(u64, u64)>,
    /// Sum of all times.
    pub sum: u64,
}

impl Times {
    /// Number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The length that the fraction `part` of all times did not exceed; zero if there are none.
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.map_or(0, |(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_reported_at_most_an_eighth_too_long() {
        for us in (0..10_000).chain((10..39).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + 1])) {
            let told = bound(bucket(us));
            assert!(
                told >= us && told <= us + us / 8 + 1,
                "{us} is told as {told}"
            );
        }
        let times = Histogram::default();
        for us in 1..=1000 {
            times.record(us, 1);
        }
        let read = times.read();
        assert_eq!((read.count(), read.sum), (1000, 500_500));
        assert!((500..=563).contains(&read.quantile(0.5)));
        assert_eq!(Times::default().quantile(0.5), 0);
    }
}
