//! Pools and volumes as metrics.

use super::encode::{Families, Labels, one};
use crate::api::{DiskState, Health, Pool, Side, Status};
use std::fmt;

/// A metric's name, what it says, and where it comes from.
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
    let help = "1 if every side of the pool has everything";
    out.gauge("pool_healthy", help, pools.iter().map(well))?;
    let bytes: [Figure<Pool>; 5] = [
        (
            "pool_size_bytes",
            "What the pool's allocator has: used, freeing and free",
            |p| p.size,
        ),
        ("pool_used_bytes", "Space taken", |p| p.used),
        (
            "pool_freeing_bytes",
            "Space that the next checkpoint makes reusable",
            |p| p.freeing,
        ),
        ("pool_free_bytes", "Space not taken", |p| p.free),
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
    let counts: [Figure<Side>; 4] = [
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
            "pool_side_checksum_errors",
            "Blocks of the disk that were not what was written",
            |s| s.checksum_errors,
        ),
        (
            "pool_side_repairs",
            "Blocks of the disk that were written anew from another side",
            |s| s.repairs,
        ),
    ];
    for (name, help, of) in counts {
        let sides = pools.iter().flat_map(|p| {
            p.vdevs
                .iter()
                .flat_map(move |v| v.sides.iter().map(move |s| (p, s)))
        });
        out.counter(name, help, sides.map(|(p, s)| (side(p, s), of(s))))?;
    }
    Ok(())
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
