//! Caches that may hold a working set.
//!
//! **Owns** the assumed sizes and the rule about them. **Called by** the rules. **Invariants**: a target that
//! is memory on purpose is not judged; if the devices' counters show that reads came from devices, only a device's
//! own cache remains, which no counter shows.

use super::verdict::{Findings, Rule, Thresholds, Weight};
use crate::engine::Run;
use crate::size;
use crate::stats::Spread;
use crate::targets::Medium;
use crate::workload::Sync;

/// A cache that may hold a working set.
struct Cache {
    bytes: u64,
    what: &'static str,
}

/// Flags a region that fits the largest cache on its way.
pub(super) fn working_set(f: &mut Findings, rounds: &[Run], t: &Thresholds) {
    let Some(first) = rounds.first().filter(|r| r.facts.medium != Medium::Ram) else {
        return;
    };
    let region = first.workload.region.unwrap_or(u64::MAX);
    let region = region.min(first.facts.size);
    let largest = caches(rounds, first, t).into_iter().max_by_key(|c| c.bytes);
    let Some(cache) = largest.filter(|c| region < c.bytes) else {
        return;
    };
    let (region, bytes) = (size::size(region), size::size(cache.bytes));
    let what = cache.what;
    let text = format!(
        "{region} may fit {what} ({bytes}): use a larger region, or ?medium=ram for a target in memory"
    );
    f.add(Weight::Flag, Rule::WorkingSet, text);
}

fn caches(rounds: &[Run], first: &Run, t: &Thresholds) -> Vec<Cache> {
    let mut all = vec![Cache {
        bytes: t.device_cache,
        what: "a device's own cache",
    }];
    let w = &first.workload;
    let from_devices = device_read_share(rounds).is_some_and(|s| s >= t.device_read_min);
    let durable = !w.reads() && w.sync != Sync::None;
    if from_devices || durable {
        return all;
    }
    if first.facts.transport.is_some() {
        let what = match first.facts.server_pid {
            Some(_) => "the memory of this machine, where the server is",
            None => {
                "the server's memory, which is unknown and assumed to be as large as this machine's"
            }
        };
        let bytes = t.memory;
        all.push(Cache { bytes, what });
    } else if first.facts.caches > 0 {
        all.push(Cache {
            bytes: first.facts.caches,
            what: "the pool's record cache and its dirty records",
        });
    }
    all
}

/// Bytes that devices read for each byte that the client read: the median of the rounds with a known value.
pub(super) fn device_read_share(rounds: &[Run]) -> Option<f64> {
    let shares: Vec<f64> = rounds.iter().filter_map(Run::device_read_share).collect();
    (!shares.is_empty()).then(|| Spread::of(&shares).median)
}
