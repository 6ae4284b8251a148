//! Times of one kind of request as numbers and a histogram, for text, JSON and pages.
//!
//! **Called by** the probes and the report. **Invariants**: the counts of the histogram add up to the answered requests; its bars
//! are adjacent.

use crate::size::nanos;
use crate::stats::Latency;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Characters of the longest bar.
const BAR: usize = 40;

/// Numbers of one kind of request. Times in nanoseconds; zero without an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Requests sent.
    pub sent: u64,
    /// Requests without an answer.
    pub lost: u64,
    /// The shortest time.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// Times in steps of 1, 2 and 5.
    pub histogram: Vec<Bin>,
    /// The last reason why a request had no answer.
    pub error: Option<String>,
}

impl Summary {
    /// Requests that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.sent.saturating_sub(self.lost)
    }
}

/// A bar of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The shortest time of the bar, ns.
    pub from_ns: u64,
    /// The end of the bar, ns, which is the start of the next one.
    pub to_ns: u64,
    /// Requests.
    pub count: u64,
}

/// The bars from the shortest to the longest time, in steps of 1, 2 and 5.
pub(super) fn bins(l: &Latency) -> Vec<Bin> {
    if l.count() == 0 {
        return Vec::new();
    }
    let edges = (0..=11u32).flat_map(|e| [1, 2, 5].map(|lead| lead * 10u64.pow(e)));
    let edges = std::iter::once(0).chain(edges).chain([10u64.pow(12)]);
    let edges: Vec<u64> = edges.collect();
    let mut bins: Vec<Bin> = edges
        .windows(2)
        .map(|e| Bin {
            from_ns: e[0],
            to_ns: e[1],
            count: 0,
        })
        .collect();
    let last = bins.len() - 1;
    for (ns, count) in l.recorded() {
        let at = edges.partition_point(|e| *e <= ns).saturating_sub(1);
        bins[at.min(last)].count += count;
    }
    let first = bins.iter().position(|b| b.count > 0).unwrap_or(0);
    let end = bins.iter().rposition(|b| b.count > 0).unwrap_or(0);
    bins[first..=end].to_vec()
}

/// A histogram as lines of text.
#[must_use]
pub fn bars(bins: &[Bin]) -> String {
    let most = bins.iter().map(|b| b.count).max().unwrap_or(1).max(1);
    let mut out = String::new();
    for b in bins {
        let len = (b.count as f64 / most as f64 * BAR as f64).ceil() as usize;
        let _ = writeln!(
            out,
            "  {:>8} to {:<8} {:<BAR$} {}",
            round(b.from_ns),
            round(b.to_ns),
            "#".repeat(len),
            b.count
        );
    }
    out
}

/// The text of an edge: `20 µs`, not `20.0 µs`.
#[must_use]
pub fn round(ns: u64) -> String {
    let text = nanos(ns as f64);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn every_request_is_in_one_bar(times in prop::collection::vec(1u64..800_000_000_000, 0..200)) {
            let mut l = Latency::default();
            times.iter().for_each(|t| l.record(Duration::from_nanos(*t)));
            let bins = bins(&l);
            prop_assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), times.len() as u64);
            prop_assert!(bins.windows(2).all(|b| b[0].to_ns == b[1].from_ns));
            prop_assert!(bins.first().is_none_or(|b| b.count > 0) && bins.last().is_none_or(|b| b.count > 0));
        }
    }

    #[test]
    fn a_histogram_is_drawn_with_round_edges() {
        let mut l = Latency::default();
        for us in [30, 31, 32, 120, 2500] {
            l.record(Duration::from_micros(us));
        }
        let text = bars(&bins(&l));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].contains("20 µs to 50 µs") && lines[0].ends_with(" 3"),
            "{text}"
        );
        assert!(lines[2].contains("100 µs to 200 µs"), "{text}");
        assert!(
            text.trim_end().ends_with(" 1") && text.contains("2 ms to 5 ms"),
            "{text}"
        );
        assert_eq!(bars(&[]), "");
    }
}
