//! Metrics of filesystems and their mounts.

use super::families::{Families, metrics};
use super::table::percentiles;
use crate::api::{DiskState, Filesystem};
use fuse::MountTotals;
use std::fmt;

/// Counters of a mount, and its filesystem.
pub(super) type Totals = (String, MountTotals);

pub(super) fn encode(all: &[Filesystem], of_mounts: &[Totals], out: &mut Families) -> fmt::Result {
    filesystems(all, out)?;
    mounts(of_mounts, out)
}

/// Latencies of the kernel's requests: operation and percentile, and the time in seconds.
fn latencies(totals: &MountTotals) -> impl Iterator<Item = ((&'static str, &'static str), f64)> {
    totals.operations.latency.iter().flat_map(|l| {
        let all = percentiles([l.p50_us, l.p90_us, l.p99_us, l.p999_us]);
        all.map(|(percentile, s)| ((l.kind.name(), percentile), s))
    })
}

metrics! {
    /// Filesystems.
    pub(super) FILESYSTEMS, filesystems: f in Filesystem, [filesystem: f.name] {
        Gauge filesystem_used_bytes "Bytes of the filesystem and its snapshots as stored, as of the last checkpoint": f.used;
        Gauge filesystem_snapshot_bytes "Bytes that only snapshots of the filesystem hold": f.by_snapshots;
        Gauge filesystem_referenced_bytes "Bytes of the filesystem as stored, including shared ones": f.referenced;
        Gauge filesystem_available_bytes "Bytes that can still be written to the filesystem": f.available;
        Gauge filesystem_quota_bytes "Quota of the filesystem, 0 for none": f.quota;
        Gauge filesystem_mounted "1 if the filesystem is mounted, 0 if the configuration has a mount that is not there": f.mount.as_ref().map(|m| m.state == DiskState::Online);
    }
}

metrics! {
    /// Mounts.
    pub(super) MOUNTS, mounts: m in Totals, [filesystem: m.0] {
        Counter mount_operations by [operation] "Requests of the kernel that were answered, by kind": m.1.operations.ended.iter().map(|(of, n)| (of.name(), *n));
        Counter mount_operation_errors by [operation] "Requests of the kernel that failed, by kind": m.1.operations.failed.iter().map(|(of, n)| (of.name(), *n));
        Gauge mount_latency_seconds by [operation percentile] "Time from a request of the kernel to its answer since the mount, by percentile": latencies(&m.1);
        Counter mount_read_bytes "Bytes that the kernel read": m.1.operations.bytes_read;
        Counter mount_written_bytes "Bytes that the kernel wrote": m.1.operations.bytes_written;
        Gauge mount_requests_in_flight "Requests of the kernel that are not answered": m.1.in_flight;
        Gauge mount_known_objects "Objects that the kernel knows": m.1.known_objects;
        Gauge mount_open_files "Open files": m.1.open_files;
    }
}
