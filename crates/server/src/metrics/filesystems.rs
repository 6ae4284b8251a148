//! Metrics of filesystems and their mounts.

use super::families::{Families, Labels, one};
use crate::api::{DiskState, Filesystem};
use fuse::{MountTotals, Operation};
use std::fmt;

/// A metric's name, its help text, and its value.
type Figure<T> = (&'static str, &'static str, fn(&T) -> u64);

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
    let help = "1 if the filesystem is mounted, 0 if it should be";
    out.gauge("filesystem_mounted", help, is_there)?;
    operations(mounts, out)?;
    states(mounts, out)
}

fn space(filesystems: &[Filesystem], out: &mut Families) -> fmt::Result {
    let figures: [Figure<Filesystem>; 5] = [
        (
            "filesystem_used_bytes",
            "Bytes of the filesystem and its snapshots as stored, as of the last checkpoint",
            |f| f.used,
        ),
        (
            "filesystem_snapshot_bytes",
            "Bytes that only snapshots of the filesystem hold",
            |f| f.by_snapshots,
        ),
        (
            "filesystem_referenced_bytes",
            "Bytes of the filesystem as stored, including shared ones",
            |f| f.referenced,
        ),
        (
            "filesystem_available_bytes",
            "Bytes that can still be written to the filesystem",
            |f| f.available,
        ),
        (
            "filesystem_quota_bytes",
            "Quota of the filesystem, 0 for none",
            |f| f.quota,
        ),
    ];
    for (name, help, of) in figures {
        let values = filesystems
            .iter()
            .map(|f| (one("filesystem", &f.name), of(f) as f64));
        out.gauge(name, help, values)?;
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
    out.counter(
        "mount_operations",
        "Requests of the kernel that were answered, by kind",
        ended,
    )?;
    let failed = mounts.iter().flat_map(|(name, totals)| {
        let failed = totals.operations.failed.iter();
        failed.map(move |(of, count)| (labels(name, *of), *count))
    });
    out.counter(
        "mount_operation_errors",
        "Requests of the kernel that failed, by kind",
        failed,
    )?;
    let quantiles = mounts.iter().flat_map(|(name, totals)| {
        totals.operations.latency.iter().flat_map(move |l| {
            let values = [
                ("0.5", l.p50_us),
                ("0.9", l.p90_us),
                ("0.99", l.p99_us),
                ("0.999", l.p999_us),
            ];
            values.map(|(quantile, us)| {
                let mut labels = labels(name, l.kind);
                labels.push(("quantile", quantile.to_owned()));
                (labels, us as f64 / 1e6)
            })
        })
    });
    out.gauge(
        "mount_latency_seconds",
        "Time from a request of the kernel to its answer, by quantile",
        quantiles,
    )
}

fn states(mounts: &[Totals], out: &mut Families) -> fmt::Result {
    let counters: [Figure<MountTotals>; 2] = [
        ("mount_read_bytes", "Bytes that the kernel read", |t| {
            t.operations.bytes_read
        }),
        ("mount_written_bytes", "Bytes that the kernel wrote", |t| {
            t.operations.bytes_written
        }),
    ];
    for (name, help, of) in counters {
        let values = mounts.iter().map(|(f, t)| (one("filesystem", f), of(t)));
        out.counter(name, help, values)?;
    }
    let gauges: [Figure<MountTotals>; 3] = [
        (
            "mount_requests_in_flight",
            "Requests of the kernel that are not answered",
            |t| t.in_flight as u64,
        ),
        (
            "mount_known_objects",
            "Objects that the kernel knows",
            |t| t.known_objects as u64,
        ),
        ("mount_open_files", "Open files", |t| t.open_files as u64),
    ];
    for (name, help, of) in gauges {
        let values = mounts
            .iter()
            .map(|(f, t)| (one("filesystem", f), of(t) as f64));
        out.gauge(name, help, values)?;
    }
    Ok(())
}
