//! The devices' part of a verdict: the slowest one, and the advice to add a log, a special class or a cache device.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; a mean is that of the interval.

use crate::advice::{AGAIN_PERCENT, MEMORY_FIRST_PERCENT};
use crate::api::{Member, OperationTimes, Pool, SpecialClass, Vdev, VdevClass};
use doctor::checks::SLOW_JOURNAL_US;
use std::path::Path;

/// With a smaller part of their time, %, requests hardly wait for stable data.
const STABLE_PERCENT: f64 = 10.0;
/// With a smaller part of the time that requests wait for devices, %, nodes hardly matter.
const NODES_PERCENT: f64 = 10.0;
/// Fewer nodes or records than this say nothing.
const READS_MIN: u64 = 16;

/// Mean times of a device, µs; none without operations of the kind.
struct Means<'r> {
    pool: &'r Pool,
    vdev: &'r Vdev,
    path: &'r Path,
    read: Option<u64>,
    write: Option<u64>,
    flush: Option<u64>,
}

impl Means<'_> {
    /// The longer one of a write and a flush.
    fn stable(&self) -> Option<u64> {
        self.write.max(self.flush)
    }
}

/// The means of all devices with a path.
fn means<'r>(before: &[Pool], now: &'r [Pool]) -> Vec<Means<'r>> {
    let old = before
        .iter()
        .flat_map(|p| &p.vdevs)
        .flat_map(|v| &v.members);
    let old: Vec<&Member> = old.collect();
    let mean = |times: fn(&Member) -> &OperationTimes, member: &Member| {
        let old = old.iter().find(|o| o.path == member.path).map(|o| times(o));
        let now = times(member);
        let old = old.filter(|old| old.count <= now.count && old.sum_us <= now.sum_us);
        let (count, sum) = old.map_or((0, 0), |old| (old.count, old.sum_us));
        (now.sum_us - sum).checked_div(now.count - count)
    };
    let mut all = Vec::new();
    for pool in now {
        for vdev in &pool.vdevs {
            let placed = vdev
                .members
                .iter()
                .filter_map(|m| Some((m, m.path.as_deref()?)));
            all.extend(placed.map(|(member, path)| Means {
                pool,
                vdev,
                path,
                read: mean(|m| &m.read_times, member),
                write: mean(|m| &m.write_times, member),
                flush: mean(|m| &m.flush_times, member),
            }));
        }
    }
    all
}

/// The device with the longest mean write or flush, in words. None if no device was written or flushed.
pub(super) fn slowest(before: &[Pool], now: &[Pool]) -> Option<String> {
    let devices = means(before, now).into_iter();
    let slowest = devices.max_by_key(Means::stable)?;
    let parts = [
        ("read", slowest.read),
        ("write", slowest.write),
        ("flush", slowest.flush),
    ];
    let parts = parts.into_iter();
    let parts = parts.filter_map(|(kind, us)| Some(format!("{} µs for a {kind}", us?)));
    let parts: Vec<String> = parts.collect();
    let took = || {
        format!(
            "{} took on average {}",
            slowest.path.display(),
            parts.join(", ")
        )
    };
    (!parts.is_empty()).then(took)
}

/// The advice to add a log to the pool whose journal is on the slowest disk. Requests wait until data is stable for `percent` % of their time, `us` µs on
/// average. None if they hardly wait for it, if the disk is fast, or if the journal is on a log.
pub(super) fn log_advice(
    (percent, us): (f64, f64),
    before: &[Pool],
    now: &[Pool],
) -> Option<String> {
    if percent < STABLE_PERCENT {
        return None;
    }
    let devices = means(before, now).into_iter();
    let with_journal = devices.filter(|m| m.vdev.journal);
    let slowest = with_journal.max_by_key(Means::stable)?;
    let is_slow = slowest.stable()? >= SLOW_JOURNAL_US && slowest.vdev.class != VdevClass::Log;
    is_slow.then(|| {
        format!(
            "a log on flash, `wirepool pool add {} log mirror DISK DISK`: small durable writes then wait for it alone; \
             {percent:.0} % of the time of requests, {us:.0} µs on average, is spent until data is stable on {}",
            slowest.pool.name, slowest.vdev.name
        )
    })
}

/// The increase of a counter, which counts from zero if it went back.
fn since(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn same<'r>(before: &'r [Pool], now: &Pool) -> Option<&'r Pool> {
    before.iter().find(|old| old.name == now.name)
}

/// The advice to add a special class, or more of it, to the pool whose disks took longest for nodes. Requests that write nothing waited `waited_us` µs for devices. None if
/// nodes were read fast or took a small part of that, and if the class had room for all of them.
pub(super) fn special_advice(waited_us: f64, before: &[Pool], now: &[Pool]) -> Option<String> {
    let nodes = now.iter().map(|pool| {
        let old = same(before, pool).map_or_else(Default::default, |old| old.node_reads);
        let us = since(pool.node_reads.normal_us, old.normal_us);
        (us, since(pool.node_reads.normal, old.normal), pool)
    });
    let (us, count, pool) = nodes.max_by_key(|(us, ..)| *us)?;
    let mean_us = us.checked_div(count)?;
    let percent = (us as f64 * 100.0 / waited_us.max(1.0)).min(100.0);
    if count < READS_MIN || mean_us < SLOW_JOURNAL_US || percent < NODES_PERCENT {
        return None;
    }
    let name = &pool.name;
    let what = match pool.special.as_ref().map(SpecialClass::spilled_bytes) {
        None => "a special class on flash",
        // The nodes are from before the class.
        Some(0) => return None,
        Some(_) => "more special vdevs, since the special class had no room",
    };
    Some(format!(
        "{what}, `wirepool pool add {name} special mirror DISK DISK`: {count} nodes of trees (directories, inodes, pointers to records) were read \
         from other disks, {mean_us} µs each on average, up to {percent:.0} % of the time that requests waited for devices"
    ))
}

/// The advice to add a cache device, or a larger one, to the pool that would have read most records from it. None if its disks are fast, or if few records
/// were read again.
pub(super) fn cache_advice(before: &[Pool], now: &[Pool]) -> Option<String> {
    let asked = now.iter().map(|pool| {
        let old = same(before, pool);
        let of = |count: fn(&Pool) -> (u64, u64)| {
            let (misses, again) = count(pool);
            let (old_misses, old_again) = old.map_or((0, 0), count);
            (since(misses, old_misses), since(again, old_again))
        };
        let of_memory = |p: &Pool| (p.record_cache.misses, p.record_cache.ghost_hits);
        let of_devices = |p: &Pool| {
            let sum = |n: fn(&crate::api::Cache) -> u64| p.caches.iter().map(n).sum::<u64>();
            (sum(|c| c.misses), sum(|c| c.hits_of_twice))
        };
        match pool.caches.iter().any(|c| c.reason.is_none()) {
            true => (pool, of(of_devices), MEMORY_FIRST_PERCENT),
            false => (pool, of(of_memory), AGAIN_PERCENT),
        }
    });
    let (pool, (misses, again), percent_min) = asked.max_by_key(|(_, (_, again), _)| *again)?;
    let percent = (again * 100).checked_div(misses)?;
    let disks = means(before, now).into_iter();
    let data = disks.filter(|m| m.pool.name == pool.name && m.vdev.class == VdevClass::Normal);
    let slowest = data.max_by_key(|m| m.read)?;
    let read_us = slowest.read?;
    if again < READS_MIN || percent < percent_min || read_us < SLOW_JOURNAL_US {
        return None;
    }
    let (name, path) = (&pool.name, slowest.path.display());
    let waits = format!("a read of {path} took {read_us} µs on average");
    Some(match pool.caches.is_empty() {
        true => format!(
            "a cache device on flash, `wirepool pool add {name} cache DISK`, or faster still, more memory (`record_cache_mib`): {percent} % of {misses} \
             reads that memory did not answer were of records that it had evicted a short time before; {waits}"
        ),
        false => format!(
            "another cache device, `wirepool pool add {name} cache DISK`: twice its size would have answered {percent} % of {misses} reads that went to the \
             other disks; {waits}"
        ),
    })
}
