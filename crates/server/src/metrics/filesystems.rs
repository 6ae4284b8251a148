//! Metrics of filesystems and their mounts.

use super::families::{Families, Labels, one};
use crate::api::{DiskState, Filesystem};
use fuse::{MountTotals, Operation};
use std::fmt;

/// A metric's name, and its value.
type Figure<T> = (&'static str, fn(&T) -> u64);

/// Counters of a mount, and its filesystem.
pub(super) type Totals = (String, MountTotals);

pub(super) fn encode(
    filesystems: &[Filesystem],
    mounts: &[Totals],
    out: &mut Families,
) -> fmt::Result {
    space(filesystems, out)?;
    let mounted = filesystems
        .iter()
        .filter_map(|f| Some((f, f.mount.as_ref()?)));
    let is_there = mounted.map(|(f, m)| {
        let is_there = m.state == DiskState::Online;
        (one("filesystem", &f.name), f64::from(u8::from(is_there)))
    });
    out.gauge("filesystem_mounted", is_there)?;
    operations(mounts, out)?;
    states(mounts, out)
}

fn space(filesystems: &[Filesystem], out: &mut Families) -> fmt::Result {
    let figures: [Figure<Filesystem>; 5] = [
        ("filesystem_used_bytes", |f| f.used),
        ("filesystem_snapshot_bytes", |f| f.by_snapshots),
        ("filesystem_referenced_bytes", |f| f.referenced),
        ("filesystem_available_bytes", |f| f.available),
        ("filesystem_quota_bytes", |f| f.quota),
    ];
    for (name, of) in figures {
        let values = filesystems
            .iter()
            .map(|f| (one("filesystem", &f.name), of(f) as f64));
        out.gauge(name, values)?;
    }
    Ok(())
}

fn labels(filesystem: &str, of: Operation) -> Labels {
    vec![
        ("filesystem", filesystem.to_owned()),
        ("operation", of.name().to_owned()),
    ]
}

fn operations(mounts: &[Totals], out: &mut Families) -> fmt::Result {
    let ended = mounts.iter().flat_map(|(name, totals)| {
        let ended = totals.operations.ended.iter();
        ended.map(move |(of, count)| (labels(name, *of), *count))
    });
    out.counter("mount_operations", ended)?;
    let failed = mounts.iter().flat_map(|(name, totals)| {
        let failed = totals.operations.failed.iter();
        failed.map(move |(of, count)| (labels(name, *of), *count))
    });
    out.counter("mount_operation_errors", failed)?;
    let quantiles = mounts.iter().flat_map(|(name, totals)| {
        totals.operations.latency.iter().flat_map(move |l| {
            let values = [
                ("50", l.p50_us),
                ("90", l.p90_us),
                ("99", l.p99_us),
                ("99.9", l.p999_us),
            ];
            values.map(|(percentile, us)| {
                let mut labels = labels(name, l.kind);
                labels.push(("percentile", percentile.to_owned()));
                (labels, us as f64 / 1e6)
            })
        })
    });
    out.gauge("mount_latency_seconds", quantiles)
}

fn states(mounts: &[Totals], out: &mut Families) -> fmt::Result {
    let counters: [Figure<MountTotals>; 2] = [
        ("mount_read_bytes", |t| t.operations.bytes_read),
        ("mount_written_bytes", |t| t.operations.bytes_written),
    ];
    for (name, of) in counters {
        let values = mounts.iter().map(|(f, t)| (one("filesystem", f), of(t)));
        out.counter(name, values)?;
    }
    let gauges: [Figure<MountTotals>; 3] = [
        ("mount_requests_in_flight", |t| t.in_flight as u64),
        ("mount_known_objects", |t| t.known_objects as u64),
        ("mount_open_files", |t| t.open_files as u64),
    ];
    for (name, of) in gauges {
        let values = mounts
            .iter()
            .map(|(f, t)| (one("filesystem", f), of(t) as f64));
        out.gauge(name, values)?;
    }
    Ok(())
}
