//! Histogram of latencies.
//!
//! **Invariants**: a percentile is within a thousandth of the true one (three significant digits); the mean and the
//! extremes are those of the recorded values up to the same error; merging two equals recording both.

use crate::limits::LATENCY_MAX;
use hdrhistogram::Histogram;
use std::time::Duration;

/// A histogram of latencies, nanoseconds.
#[derive(Clone)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Latency {
        let max = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
        Latency(Histogram::new_with_bounds(1, max, 3).expect("the bounds are constant and fit"))
    }
}

impl Latency {
    /// Counts one latency; one beyond the limit counts as the limit.
    pub fn record(&mut self, d: Duration) {
        self.0
            .saturating_record(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Latency) {
        self.0
            .add(&other.0)
            .expect("all histograms have the same bounds");
    }

    /// Number of recorded latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency below which `percent` of all lie, ns; 0 if there are none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        if self.0.is_empty() {
            0
        } else {
            self.0.value_at_percentile(percent)
        }
    }

    /// The share of latencies up to `ns`; 0 if there are none.
    #[must_use]
    pub fn share_below(&self, ns: u64) -> f64 {
        if self.0.is_empty() {
            0.0
        } else {
            self.0.count_between(0, ns) as f64 / self.count() as f64
        }
    }

    /// The recorded latencies, rounded up, ns, ascending, each with its number.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        let values = self.0.iter_recorded();
        values.map(|v| (v.value_iterated_to(), v.count_at_value()))
    }

    /// The mean, ns.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.0.is_empty() {
            0.0
        } else {
            self.0.mean()
        }
    }

    /// The standard deviation, ns.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.0.is_empty() {
            0.0
        } else {
            self.0.stdev()
        }
    }

    /// The smallest, ns; 0 if there are none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// The largest, ns; 0 if there are none.
    #[must_use]
    pub fn max(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// Sum of all latencies, ns: over the elapsed time it is the mean number in flight (Little's law).
    #[must_use]
    pub fn total(&self) -> f64 {
        self.mean() * self.count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slow model: all values sorted.
    fn nearest_rank(sorted: &[u64], percent: f64) -> u64 {
        let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank.min(sorted.len()) - 1]
    }

    fn close(got: u64, want: u64) -> bool {
        got.abs_diff(want) as f64 <= want as f64 / 1000.0 + 1.0
    }

    proptest! {
        #[test]
        fn percentiles_match_the_sorted_values(
            mut a in prop::collection::vec(1u64..10_000_000_000, 1..500), b in prop::collection::vec(1u64..1_000_000, 0..500),
        ) {
            let (mut x, mut y) = (Latency::default(), Latency::default());
            a.iter().for_each(|v| x.record(Duration::from_nanos(*v)));
            b.iter().for_each(|v| y.record(Duration::from_nanos(*v)));
            x.merge(&y);
            a.extend(&b);
            a.sort_unstable();
            prop_assert_eq!(x.count(), a.len() as u64);
            for p in [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
                let (got, want) = (x.percentile(p), nearest_rank(&a, p));
                prop_assert!(close(got, want), "p{}: {} and {}", p, got, want);
            }
            prop_assert!(close(x.max(), a[a.len() - 1]) && close(x.min(), a[0]));
            let mean = a.iter().map(|v| *v as f64).sum::<f64>() / a.len() as f64;
            prop_assert!((x.mean() - mean).abs() <= mean / 1000.0 + 1.0);
        }
    }

    #[test]
    fn nothing_recorded_is_all_zero_and_the_far_end_is_kept() {
        let mut l = Latency::default();
        assert_eq!(
            (l.percentile(99.0), l.min(), l.max(), l.mean()),
            (0, 0, 0, 0.0)
        );
        l.record(LATENCY_MAX * 10);
        assert!(close(l.max(), LATENCY_MAX.as_nanos() as u64));
    }
}
