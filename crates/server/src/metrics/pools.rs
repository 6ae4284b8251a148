//! Metrics of pools and volumes.

use super::families::{Families, Labels, one};
use crate::api::{DiskState, Health, Member, Pool, Resilver, ScanState, Scrub, SpareState, Status};
use std::fmt;

/// A metric's name, and its value.
type Figure<T> = (&'static str, fn(&T) -> u64);

pub(super) fn encode(status: &Status, out: &mut Families) -> fmt::Result {
    pools(&status.pools, out)?;
    let volumes = &status.volumes;
    out.gauge(
        "volume_size_bytes",
        volumes
            .iter()
            .map(|v| (one("volume", &v.name), v.size as f64)),
    )?;
    out.gauge(
        "volume_used_bytes",
        volumes
            .iter()
            .map(|v| (one("volume", &v.name), v.used as f64)),
    )?;
    let by_snapshots = volumes
        .iter()
        .map(|v| (one("volume", &v.name), v.by_snapshots as f64));
    out.gauge("volume_snapshot_bytes", by_snapshots)
}

fn pools(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let flag = |set: bool| f64::from(u8::from(set));
    let online = |p: &Pool| (one("pool", &p.name), flag(p.state == DiskState::Online));
    out.gauge("pool_online", pools.iter().map(online))?;
    let well = |p: &Pool| (one("pool", &p.name), flag(p.health == Some(Health::Online)));
    out.gauge("pool_healthy", pools.iter().map(well))?;
    let bytes: [Figure<Pool>; 5] = [
        ("pool_size_bytes", |p| p.size),
        ("pool_used_bytes", |p| p.used),
        ("pool_freeing_bytes", |p| p.freeing),
        ("pool_free_bytes", |p| p.free),
        ("pool_dirty_bytes", |p| p.dirty),
    ];
    for (name, of) in bytes {
        let open = pools.iter().filter(|p| p.state == DiskState::Online);
        out.gauge(name, open.map(|p| (one("pool", &p.name), of(p) as f64)))?;
    }
    record_caches(pools, out)?;
    counts(pools, out)?;
    times(pools, out)?;
    spares(pools, out)?;
    scrubs(pools, out)
}

/// The record cache.
fn record_caches(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let open = || pools.iter().filter(|p| p.state == DiskState::Online);
    let label = |p: &Pool| one("pool", &p.name);
    let gauges: [Figure<Pool>; 2] = [
        ("pool_record_cache_limit_bytes", |p| p.record_cache.limit),
        ("pool_record_cache_bytes", |p| p.record_cache.bytes),
    ];
    for (name, of) in gauges {
        out.gauge(name, open().map(|p| (label(p), of(p) as f64)))?;
    }
    let counters: [Figure<Pool>; 3] = [
        ("pool_record_cache_hits", |p| p.record_cache.hits),
        ("pool_record_cache_misses", |p| p.record_cache.misses),
        ("pool_record_cache_ghost_hits", |p| {
            p.record_cache.ghost_hits
        }),
    ];
    for (name, of) in counters {
        out.counter(name, open().map(|p| (label(p), of(p))))?;
    }
    let disabled = open().map(|p| (label(p), p.sync_disabled.len() as f64));
    out.gauge("pool_sync_disabled_volumes", disabled)
}

/// Hot spares by state.
fn spares(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let open = || pools.iter().filter(|p| p.state == DiskState::Online);
    let mut values = Vec::new();
    for p in open() {
        for (name, state) in [
            ("avail", SpareState::Avail),
            ("inuse", SpareState::Inuse),
            ("unavail", SpareState::Unavail),
        ] {
            let mut labels = one("pool", &p.name);
            labels.push(("state", name.to_owned()));
            let count = p.spares.iter().filter(|s| s.state == state).count();
            values.push((labels, count as f64));
        }
    }
    out.gauge("pool_spares", values)?;
    let taken = open().map(|p| (one("pool", &p.name), p.spares_taken));
    out.counter("pool_spares_taken", taken)
}

/// Operations and errors of disks.
fn counts(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let counts: [Figure<Member>; 9] = [
        ("pool_member_reads", |s| s.reads),
        ("pool_member_writes", |s| s.writes),
        ("pool_member_read_bytes", |s| s.read_bytes),
        ("pool_member_written_bytes", |s| s.written_bytes),
        ("pool_member_read_errors", |s| s.read_errors),
        ("pool_member_write_errors", |s| s.write_errors),
        ("pool_member_no_space", |s| s.no_space),
        ("pool_member_checksum_errors", |s| s.checksum_errors),
        ("pool_member_repairs", |s| s.repairs),
    ];
    for (name, of) in counts {
        out.counter(name, members(pools).map(|(p, s)| (member(p, s), of(s))))?;
    }
    Ok(())
}

/// Durations of operations of disks.
fn times(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let mut values = Vec::new();
    for (p, s) in members(pools) {
        let of_kind = [
            ("read", &s.read_times),
            ("write", &s.write_times),
            ("flush", &s.flush_times),
        ];
        for (kind, t) in of_kind {
            for (percentile, us) in [("50", t.p50_us), ("99", t.p99_us), ("100", t.max_us)] {
                let mut labels = member(p, s);
                labels.push(("kind", kind.to_owned()));
                labels.push(("percentile", percentile.to_owned()));
                values.push((labels, us as f64 / 1e6));
            }
        }
    }
    out.gauge("pool_member_latency_seconds", values)
}

fn scrubs(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let scrubbed = || pools.iter().filter_map(|p| Some((p, p.scrub.as_ref()?)));
    let figures: [Figure<Scrub>; 4] = [
        ("pool_scrub_running", |s| {
            u64::from(s.state == ScanState::Running)
        }),
        ("pool_scrub_done_bytes", |s| s.done),
        ("pool_scrub_repaired", |s| s.repaired),
        ("pool_scrub_lost", |s| s.lost),
    ];
    for (name, of) in figures {
        let values = scrubbed().map(|(p, s)| (one("pool", &p.name), of(s) as f64));
        out.gauge(name, values)?;
    }
    let ranges = pools
        .iter()
        .map(|p| (one("pool", &p.name), p.damage.len() as f64));
    out.gauge("pool_damaged_ranges", ranges)?;
    let resilvering = pools.iter().map(|p| {
        let runs = |r: &Resilver| r.state == ScanState::Running;
        let runs = p.resilver.as_ref().is_some_and(runs);
        (one("pool", &p.name), f64::from(u8::from(runs)))
    });
    out.gauge("pool_resilvering", resilvering)
}

fn members(pools: &[Pool]) -> impl Iterator<Item = (&Pool, &Member)> {
    let vdevs = pools
        .iter()
        .flat_map(|p| p.vdevs.iter().map(move |v| (p, v)));
    vdevs.flat_map(|(p, v)| v.members.iter().map(move |s| (p, s)))
}

fn member(pool: &Pool, member: &Member) -> Labels {
    let path = member
        .path
        .as_ref()
        .map_or(String::new(), |p| p.display().to_string());
    vec![
        ("pool", pool.name.clone()),
        ("member", member.guid.clone()),
        ("path", path),
    ]
}
