//! Metrics of written bytes, journals, and the wear of disks.
//!
//! **Invariants**: a value that is unknown has no series.

use super::families::{Families, metrics};
use crate::api::{DatasetWrites, DiskWrites, PoolWrites};
use std::fmt;

pub(super) fn encode(all: &[PoolWrites], out: &mut Families) -> fmt::Result {
    pools(all, out)?;
    let of_datasets = all.iter().flat_map(|p| &p.datasets);
    datasets(&of_datasets.collect::<Vec<_>>(), out)?;
    let of_disks = all.iter();
    let of_disks = of_disks.flat_map(|p| p.disks.iter().map(move |d| (p, d)));
    disks(&of_disks.collect::<Vec<_>>(), out)
}

metrics! {
    /// Pools.
    pub(super) POOL_WRITES, pools: p in PoolWrites, [pool: p.name] {
        Counter pool_written_bytes by [class] "Blocks and batches that the pool wrote by class, each once for all members of a mirror": p.written.classes();
        Gauge pool_journal_size_bytes "Size of the pool's journal": p.journal.size;
        Gauge pool_journal_used_bytes "Bytes of the journal that a start after a crash would replay": p.journal.used;
        Counter pool_journal_full "Times that a change found no room in the journal, and waited for a checkpoint": p.journal.full;
        Gauge pool_last_checkpoint_timestamp_seconds "Time of the last durable checkpoint, seconds since 1970": p.journal.checkpoint_ms as f64 / 1e3;
    }
}

metrics! {
    /// Volumes and filesystems.
    pub(super) DATASET_WRITES, datasets: d in &DatasetWrites, [dataset: d.name] {
        Counter dataset_client_written_bytes "Data of acknowledged writes of clients to the volume or filesystem": d.client;
        Counter dataset_written_bytes by [class] "Bytes written for the volume or filesystem by class: data, journal, nodes; each block once for all members of a mirror": [("data", d.data), ("journal", d.journal), ("nodes", d.nodes)];
    }
}

metrics! {
    /// Disks of pools.
    pub(super) DISK_WRITES, disks: d in (&PoolWrites, &DiskWrites), [pool: d.0.name, member: d.1.guid, path: d.1.path.display()] {
        Counter pool_member_class_written_bytes by [class] "Bytes written to the disk by class: data, journal, nodes, labels, repair, moved": d.1.written.classes();
        Counter pool_member_disk_written_bytes "Bytes that hosts wrote to the disk in its life, by the disk's own counter; absent if the disk does not tell": d.1.health.host_written;
        Counter pool_member_media_written_bytes "Bytes that the disk wrote to its medium in its life, by the disk's own counter; absent if the disk does not tell": d.1.health.media_written;
        Gauge pool_member_endurance_used_ratio "Used part of the disk's endurance as its vendor estimates it, 1 is all; absent if the disk does not tell": d.1.health.percentage_used.map(|used| used as f64 / 100.0);
        Gauge pool_member_endurance_left_seconds "Forecast of the time that the disk's endurance lasts; absent if it is unknown": d.1.forecast.days.map(|days| days * 86_400.0);
    }
}
