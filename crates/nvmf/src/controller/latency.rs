//! Latency histograms of a subsystem since it was made, over all its sessions.
//!
//! **Owns** counters by bound, shared by all shards. **Called by** connections once per turn, and by
//! [`super::Target::subsystem_totals`]. **Invariants**: an ended command is in exactly one bucket of its kind; counts
//! never fall, so that the numbers outlive sessions.

use session::latency::CommandKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets, µs, each inclusive; one more bucket holds longer ones.
pub const LATENCY_BOUNDS_US: [u64; 20] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
];
const BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

/// The counters, by [`CommandKind`].
#[derive(Default)]
pub(crate) struct LatencyCounters([Counts; CommandKind::ALL.len()]);

#[derive(Default)]
struct Counts {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// The latencies of a kind of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyBuckets {
    /// The kind.
    pub kind: CommandKind,
    /// Commands that took longer than the bound before and not longer than this one of [`LATENCY_BOUNDS_US`]; the last
    /// bucket has commands beyond all bounds.
    pub counts: [u64; BUCKETS],
    /// The sum of all, µs.
    pub sum_us: u64,
}

impl LatencyCounters {
    /// `count` commands of a kind took `us` microseconds each.
    pub(crate) fn record(&self, kind: CommandKind, us: u64, count: u32) {
        let counts = &self.0[kind as usize];
        let at = LATENCY_BOUNDS_US.partition_point(|bound| *bound < us);
        counts.buckets[at].fetch_add(u64::from(count), Ordering::Relaxed);
        counts
            .sum_us
            .fetch_add(us * u64::from(count), Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Vec<LatencyBuckets> {
        let of = |kind: CommandKind| {
            let counts = &self.0[kind as usize];
            LatencyBuckets {
                kind,
                counts: std::array::from_fn(|i| counts.buckets[i].load(Ordering::Relaxed)),
                sum_us: counts.sum_us.load(Ordering::Relaxed),
            }
        };
        CommandKind::ALL.map(of).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_the_bucket_of_its_bound() {
        let counters = LatencyCounters::default();
        for us in [0, 10, 11, 30_000_000, 30_000_001] {
            counters.record(CommandKind::Write, us, 2);
        }
        let all = counters.snapshot();
        let write = &all[CommandKind::Write as usize];
        assert_eq!((write.counts[0], write.counts[1]), (4, 2));
        assert_eq!(
            (write.counts[BUCKETS - 2], write.counts[BUCKETS - 1]),
            (2, 2)
        );
        assert_eq!(write.sum_us, 2 * 60_000_022);
        assert!(
            all[CommandKind::Read as usize]
                .counts
                .iter()
                .all(|n| *n == 0)
        );
    }
}
