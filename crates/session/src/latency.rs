//! Latencies of commands by kind.
//!
//! **Owns** the histograms of one connection ([`Latencies`]) and their sum over several ([`LatencySums`]). **Called by**
//! connections once per turn, by mounts, and by the control plane. **Invariants**: a histogram is allocated when the first
//! command of its kind ends, so that an idle connection costs no memory for it.

use crate::counters::Enumerated;
use hdrhistogram::Histogram;
use std::marker::PhantomData;

/// The kinds of commands that have a histogram each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommandKind {
    /// A read of any length.
    Read,
    /// A write of any length.
    Write,
    /// A flush of a disk's volatile cache (NVMe Flush, SCSI SYNCHRONIZE CACHE).
    Flush,
    /// Every other command.
    Other,
}

impl CommandKind {
    /// All kinds, in the order of their histograms.
    pub const ALL: [CommandKind; 4] = [
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Flush,
        CommandKind::Other,
    ];
}

/// Largest latency that a histogram can hold, µs.
const LATENCY_MAX_US: u64 = 600_000_000;

impl Enumerated for CommandKind {
    const ALL: &'static [CommandKind] = &CommandKind::ALL;
}

/// The latencies of one connection, by kind of command.
pub struct Latencies<K = CommandKind> {
    /// In the order of [`Enumerated::ALL`]; shorter until a command of a later kind has ended.
    histograms: Vec<Option<Box<Histogram<u32>>>>,
    of: PhantomData<K>,
}

impl<K> Default for Latencies<K> {
    fn default() -> Latencies<K> {
        Latencies {
            histograms: Vec::new(),
            of: PhantomData,
        }
    }
}

impl<K: Enumerated> Latencies<K> {
    /// Records `count` commands of one kind that took `us` microseconds each.
    pub fn record(&mut self, kind: K, us: u64, count: u32) {
        let Some(index) = K::ALL.iter().position(|k| *k == kind) else {
            return;
        };
        if self.histograms.len() <= index {
            self.histograms.resize_with(index + 1, || None);
        }
        let slot = &mut self.histograms[index];
        if slot.is_none() {
            *slot = Histogram::new_with_bounds(1, LATENCY_MAX_US, 2)
                .ok()
                .map(Box::new);
        }
        if let Some(h) = slot {
            h.saturating_record_n(us.max(1), count);
        }
    }

    /// Adds these latencies to `sum`.
    pub fn add_to(&self, sum: &mut LatencySums<K>) {
        for (own, sum) in self.histograms.iter().zip(&mut sum.histograms) {
            if let Some(h) = own {
                for v in h.iter_recorded() {
                    sum.saturating_record_n(v.value_iterated_to(), u64::from(v.count_at_value()));
                }
            }
        }
    }
}

/// Sum of the latencies of several connections.
pub struct LatencySums<K = CommandKind> {
    histograms: Vec<Histogram<u64>>,
    of: PhantomData<K>,
}

impl<K: Enumerated> Default for LatencySums<K> {
    fn default() -> LatencySums<K> {
        let empty =
            |_| Histogram::new_with_bounds(1, LATENCY_MAX_US, 2).expect("the bounds are sound");
        LatencySums {
            histograms: K::ALL.iter().map(empty).collect(),
            of: PhantomData,
        }
    }
}

impl<K: Enumerated> LatencySums<K> {
    /// Returns the percentiles of each kind of which a command has ended.
    #[must_use]
    pub fn summary(&self) -> Vec<CommandLatency<K>> {
        K::ALL
            .iter()
            .zip(&self.histograms)
            .filter(|(_, h)| !h.is_empty())
            .map(|(kind, h)| CommandLatency {
                kind: *kind,
                count: h.len(),
                mean_us: h.mean(),
                p50_us: h.value_at_quantile(0.5),
                p90_us: h.value_at_quantile(0.9),
                p99_us: h.value_at_quantile(0.99),
                p999_us: h.value_at_quantile(0.999),
                max_us: h.max(),
            })
            .collect()
    }
}

/// Latency of one kind of command in the server: from the arrival of the command to the handover of its reply to the socket,
/// µs.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLatency<K = CommandKind> {
    /// The kind.
    pub kind: K,
    /// Commands that ended.
    pub count: u64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Median, µs.
    pub p50_us: u64,
    /// 90th percentile, µs.
    pub p90_us: u64,
    /// 99th percentile, µs.
    pub p99_us: u64,
    /// 99.9th percentile, µs.
    pub p999_us: u64,
    /// Largest, µs.
    pub max_us: u64,
}
