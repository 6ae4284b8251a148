//! Metrics of pools and volumes.

use super::families::{Families, Labels, one};
use crate::api::{DiskState, Health, Pool, Resilver, ScanState, Scrub, Side, Status};
use std::fmt;

/// A metric's name, its help text, and its value.
type Figure<T> = (&'static str, &'static str, fn(&T) -> u64);

pub(super) fn encode(status: &Status, out: &mut Families) -> fmt::Result {
    pools(&status.pools, out)?;
    let volumes = &status.volumes;
    out.gauge(
        "volume_size_bytes",
        "Size of the volume as clients see it",
        volumes
            .iter()
            .map(|v| (one("volume", &v.name), v.size as f64)),
    )?;
    out.gauge(
        "volume_used_bytes",
        "Bytes of the volume's records as stored, as of the last checkpoint",
        volumes
            .iter()
            .map(|v| (one("volume", &v.name), v.used as f64)),
    )
}

fn pools(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let flag = |set: bool| f64::from(u8::from(set));
    let online = |p: &Pool| (one("pool", &p.name), flag(p.state == DiskState::Online));
    let help = "1 if the pool is open, 0 if it is held back";
    out.gauge("pool_online", help, pools.iter().map(online))?;
    let well = |p: &Pool| (one("pool", &p.name), flag(p.health == Some(Health::Online)));
    let help = "1 if every member of the pool has every block";
    out.gauge("pool_healthy", help, pools.iter().map(well))?;
    let bytes: [Figure<Pool>; 5] = [
        (
            "pool_size_bytes",
            "Size of the pool's allocator: used, freeing and free",
            |p| p.size,
        ),
        ("pool_used_bytes", "Space taken", |p| p.used),
        (
            "pool_freeing_bytes",
            "Space that the next checkpoint makes reusable",
            |p| p.freeing,
        ),
        ("pool_free_bytes", "Free space", |p| p.free),
        (
            "pool_dirty_bytes",
            "Bytes acknowledged that are only in memory",
            |p| p.dirty,
        ),
    ];
    for (name, help, of) in bytes {
        let open = pools.iter().filter(|p| p.state == DiskState::Online);
        out.gauge(
            name,
            help,
            open.map(|p| (one("pool", &p.name), of(p) as f64)),
        )?;
    }
    record_caches(pools, out)?;
    counts(pools, out)?;
    times(pools, out)?;
    scrubs(pools, out)
}

/// The record cache.
fn record_caches(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let open = || pools.iter().filter(|p| p.state == DiskState::Online);
    let label = |p: &Pool| one("pool", &p.name);
    let gauges: [Figure<Pool>; 2] = [
        (
            "pool_record_cache_limit_bytes",
            "Limit of the pool's record cache",
            |p| p.record_cache.limit,
        ),
        (
            "pool_record_cache_bytes",
            "Size of the record cache with its tables",
            |p| p.record_cache.bytes,
        ),
    ];
    for (name, help, of) in gauges {
        out.gauge(name, help, open().map(|p| (label(p), of(p) as f64)))?;
    }
    let counters: [Figure<Pool>; 3] = [
        ("pool_record_cache_hits", "Hits of the record cache", |p| {
            p.record_cache.hits
        }),
        (
            "pool_record_cache_misses",
            "Misses of the record cache",
            |p| p.record_cache.misses,
        ),
        (
            "pool_record_cache_ghost_hits",
            "Misses that a record cache of twice the size would probably have found",
            |p| p.record_cache.ghost_hits,
        ),
    ];
    for (name, help, of) in counters {
        out.counter(name, help, open().map(|p| (label(p), of(p))))?;
    }
    let help = "Volumes and filesystems of the pool with sync=disabled";
    let disabled = open().map(|p| (label(p), p.sync_disabled.len() as f64));
    out.gauge("pool_sync_disabled_volumes", help, disabled)
}

/// Operations and errors of disks.
fn counts(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let counts: [Figure<Side>; 9] = [
        ("pool_side_reads", "Reads of the disk", |s| s.reads),
        ("pool_side_writes", "Writes of the disk", |s| s.writes),
        ("pool_side_read_bytes", "Bytes read from the disk", |s| {
            s.read_bytes
        }),
        (
            "pool_side_written_bytes",
            "Bytes written to the disk",
            |s| s.written_bytes,
        ),
        (
            "pool_side_read_errors",
            "Reads of the disk that failed since the pool was opened",
            |s| s.read_errors,
        ),
        (
            "pool_side_write_errors",
            "Writes and flushes of the disk that failed",
            |s| s.write_errors,
        ),
        (
            "pool_side_no_space",
            "Writes for which the file system below the disk had no space",
            |s| s.no_space,
        ),
        (
            "pool_side_checksum_errors",
            "Blocks of the disk with a wrong checksum",
            |s| s.checksum_errors,
        ),
        (
            "pool_side_repairs",
            "Blocks of the disk that were repaired from another member",
            |s| s.repairs,
        ),
    ];
    for (name, help, of) in counts {
        out.counter(name, help, sides(pools).map(|(p, s)| (side(p, s), of(s))))?;
    }
    Ok(())
}

/// Durations of operations of disks.
fn times(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let mut values = Vec::new();
    for (p, s) in sides(pools) {
        let of_kind = [
            ("read", &s.read_times),
            ("write", &s.write_times),
            ("flush", &s.flush_times),
        ];
        for (kind, t) in of_kind {
            for (quantile, us) in [("0.5", t.p50_us), ("0.99", t.p99_us), ("1", t.max_us)] {
                let mut labels = side(p, s);
                labels.push(("kind", kind.to_owned()));
                labels.push(("quantile", quantile.to_owned()));
                values.push((labels, us as f64 / 1e6));
            }
        }
    }
    let help = "Durations of the disk's operations since the pool was opened";
    out.gauge("pool_side_latency_seconds", help, values)
}

fn scrubs(pools: &[Pool], out: &mut Families) -> fmt::Result {
    let scrubbed = || pools.iter().filter_map(|p| Some((p, p.scrub.as_ref()?)));
    let figures: [Figure<Scrub>; 4] = [
        ("pool_scrub_running", "1 during a scrub of the pool", |s| {
            u64::from(s.state == ScanState::Running)
        }),
        (
            "pool_scrub_done_bytes",
            "Bytes the last scrub has read",
            |s| s.done,
        ),
        (
            "pool_scrub_repaired",
            "Copies that the last scrub repaired",
            |s| s.repaired,
        ),
        (
            "pool_scrub_lost",
            "Blocks that the last scrub found without a correct copy",
            |s| s.lost,
        ),
    ];
    for (name, help, of) in figures {
        let values = scrubbed().map(|(p, s)| (one("pool", &p.name), of(s) as f64));
        out.gauge(name, help, values)?;
    }
    let ranges = pools
        .iter()
        .map(|p| (one("pool", &p.name), p.damage.len() as f64));
    let help = "Known unreadable ranges of volumes and snapshots";
    out.gauge("pool_damaged_ranges", help, ranges)?;
    let resilvering = pools.iter().map(|p| {
        let runs = |r: &Resilver| r.state == ScanState::Running;
        let runs = p.resilver.as_ref().is_some_and(runs);
        (one("pool", &p.name), f64::from(u8::from(runs)))
    });
    let help = "1 during a resilver of the pool";
    out.gauge("pool_resilvering", help, resilvering)
}

fn sides(pools: &[Pool]) -> impl Iterator<Item = (&Pool, &Side)> {
    let vdevs = pools
        .iter()
        .flat_map(|p| p.vdevs.iter().map(move |v| (p, v)));
    vdevs.flat_map(|(p, v)| v.sides.iter().map(move |s| (p, s)))
}

fn side(pool: &Pool, side: &Side) -> Labels {
    let path = side
        .path
        .as_ref()
        .map_or(String::new(), |p| p.display().to_string());
    vec![
        ("pool", pool.name.clone()),
        ("side", side.guid.clone()),
        ("path", path),
    ]
}
