//! Caches that may hold a working set.
//!
//! **Owns** the assumed sizes and the rule about them. **Called by** [`super::after`]. **Invariants**: a target that
//! is memory on purpose is not judged; if the devices' counters show that reads came from devices, only a device's
//! own cache remains, which no counter shows.

use super::{Findings, Rule, Thresholds, Weight, device_read_share};
use crate::engine::Run;
use crate::size;
use crate::targets::Medium;
use crate::workload::Sync;

/// Assumed size of a device's cache, bytes: hard disks have up to 512 MiB, solid-state disks for consumers up to 1
/// GiB, mostly for their tables. Controllers with batteries have more and are not recognised.
pub(super) const DEVICE: u64 = 512 << 20;

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
