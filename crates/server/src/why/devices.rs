//! The devices' part of a verdict: the slowest one, and the advice to add a log.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; a mean is that of the interval.

use crate::api::{Member, MemberTimes, Pool, Vdev, VdevClass};
use doctor::checks::SLOW_JOURNAL_US;
use std::path::Path;

/// With a smaller part of their time, %, requests hardly wait for stable data.
const STABLE_PERCENT: f64 = 10.0;

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
    let mean = |times: fn(&Member) -> &MemberTimes, member: &Member| {
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
