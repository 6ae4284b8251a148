//! Metrics of written bytes, journals, and the wear of disks.
//!
//! **Invariants**: a value that is unknown has no series.

use super::families::{Families, Labels, one};
use crate::api::{DatasetWrites, DiskWrites, PoolWrites};
use std::fmt;

fn disk(pool: &PoolWrites, disk: &DiskWrites) -> Labels {
    vec![
        ("pool", pool.name.clone()),
        ("member", disk.guid.clone()),
        ("path", disk.path.display().to_string()),
    ]
}

fn with_class(mut labels: Labels, class: &str) -> Labels {
    labels.push(("class", class.to_owned()));
    labels
}

pub(super) fn encode(pools: &[PoolWrites], out: &mut Families) -> fmt::Result {
    let by_class = pools.iter().flat_map(|p| {
        let classes = p.written.classes().into_iter();
        classes.map(|(class, bytes)| (with_class(one("pool", &p.name), class), bytes))
    });
    out.counter("pool_written_bytes", by_class)?;
    journals(pools, out)?;
    datasets(pools, out)?;
    disks(pools, out)
}

fn journals(pools: &[PoolWrites], out: &mut Families) -> fmt::Result {
    let label = |p: &PoolWrites| one("pool", &p.name);
    let size = pools.iter().map(|p| (label(p), p.journal.size as f64));
    out.gauge("pool_journal_size_bytes", size)?;
    let used = pools.iter().map(|p| (label(p), p.journal.used as f64));
    out.gauge("pool_journal_used_bytes", used)?;
    let full = pools.iter().map(|p| (label(p), p.journal.full));
    out.counter("pool_journal_full", full)?;
    let at = |p: &PoolWrites| (label(p), p.journal.checkpoint_ms as f64 / 1e3);
    out.gauge(
        "pool_last_checkpoint_timestamp_seconds",
        pools.iter().map(at),
    )
}

fn datasets(pools: &[PoolWrites], out: &mut Families) -> fmt::Result {
    let all = || pools.iter().flat_map(|p| &p.datasets);
    let label = |d: &DatasetWrites| one("dataset", &d.name);
    out.counter(
        "dataset_client_written_bytes",
        all().map(|d| (label(d), d.client)),
    )?;
    let by_class = all().flat_map(|d| {
        let classes = [("data", d.data), ("journal", d.journal), ("nodes", d.nodes)];
        classes.map(|(class, bytes)| (with_class(label(d), class), bytes))
    });
    out.counter("dataset_written_bytes", by_class)
}

fn disks(pools: &[PoolWrites], out: &mut Families) -> fmt::Result {
    let all = || {
        pools
            .iter()
            .flat_map(|p| p.disks.iter().map(move |d| (p, d)))
    };
    let by_class = all().flat_map(|(p, d)| {
        let classes = d.written.classes();
        classes.map(|(class, bytes)| (with_class(disk(p, d), class), bytes))
    });
    out.counter("pool_member_class_written_bytes", by_class)?;
    let host = all().filter_map(|(p, d)| Some((disk(p, d), d.health.host_written?)));
    out.counter("pool_member_disk_written_bytes", host)?;
    let media = all().filter_map(|(p, d)| Some((disk(p, d), d.health.media_written?)));
    out.counter("pool_member_media_written_bytes", media)?;
    let used = all().filter_map(|(p, d)| {
        let percent = d.health.percentage_used?;
        Some((disk(p, d), percent as f64 / 100.0))
    });
    out.gauge("pool_member_endurance_used_ratio", used)?;
    let left = all().filter_map(|(p, d)| Some((disk(p, d), d.forecast.days? * 86_400.0)));
    out.gauge("pool_member_endurance_left_seconds", left)
}
