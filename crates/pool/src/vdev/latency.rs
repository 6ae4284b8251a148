//! Latency histogram of a disk.
//!
//! **Owns** one histogram. **Called by** leaves, on any shard. **Invariants**: recording takes no lock; a time is reported at
//! most one eighth too long, and never too short.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per power of two, as a binary logarithm.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
/// Powers of two covered: times up to 2^36 µs, which is 19 hours.
const POWERS: usize = 36;
const BUCKETS: usize = (POWERS - SUB_BITS as usize + 1) * SUB;

/// Counts of times by length.
pub(super) struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

fn bucket(us: u64) -> usize {
    if us < SUB as u64 {
        return us as usize;
    }
    let power = us.ilog2();
    let sub = (us >> (power - SUB_BITS)) as usize & (SUB - 1);
    let index = (power - SUB_BITS + 1) as usize * SUB + sub;
    index.min(BUCKETS - 1)
}

/// The longest time of a bucket, µs.
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
            sum_us: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(super) fn record(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Latency {
        let counts = self.buckets.iter().enumerate();
        let counts = counts.map(|(i, count)| (bound(i), count.load(Ordering::Relaxed)));
        Latency {
            counts: counts.filter(|(_, count)| *count > 0).collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// Latencies of completed operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency {
    /// Buckets in ascending order: upper bound in µs, and number of operations that took longer than the bound before and at
    /// most this one.
    pub counts: Vec<(u64, u64)>,
    /// Sum of all times, µs.
    pub sum_us: u64,
}

impl Latency {
    /// Number of operations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The time that the fraction `part` of all operations did not exceed, µs; zero if there were none.
    #[must_use]
    pub fn quantile_us(&self, part: f64) -> u64 {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.map_or(0, |(us, _)| *us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_reported_at_most_an_eighth_too_long() {
        for us in (0..10_000).chain((10..35).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + 1])) {
            let told = bound(bucket(us));
            assert!(
                told >= us && told <= us + us / 8 + 1,
                "{us} is told as {told}"
            );
        }
        let times = Histogram::default();
        for us in 1..=1000 {
            times.record(Duration::from_micros(us));
        }
        let read = times.read();
        assert_eq!((read.count(), read.sum_us), (1000, 500_500));
        assert!((500..=563).contains(&read.quantile_us(0.5)));
        assert_eq!(Latency::default().quantile_us(0.5), 0);
    }
}
