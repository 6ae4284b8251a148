//! Metrics of pools and volumes.

use super::families::{Families, metrics};
use crate::api::{
    Cache, DiskState, Health, Member, Pool, ScanState, Scrub, SpareState, SpecialClass, Status,
    Volume,
};
use std::fmt;

pub(super) fn encode(status: &Status, out: &mut Families) -> fmt::Result {
    pools(&status.pools, out)?;
    let open = status.pools.iter();
    let open: Vec<&Pool> = open.filter(|p| p.state == DiskState::Online).collect();
    open_pools(&open, out)?;
    let members = status.pools.iter().flat_map(|p| {
        let members = p.vdevs.iter().flat_map(|v| &v.members);
        members.map(move |m| (p, m))
    });
    members_of_pools(&members.collect::<Vec<_>>(), out)?;
    let scrubbed = status.pools.iter();
    let scrubbed = scrubbed.filter_map(|p| Some((p, p.scrub.as_ref()?)));
    scrubs(&scrubbed.collect::<Vec<_>>(), out)?;
    let caches = status.pools.iter();
    let caches = caches.flat_map(|p| p.caches.iter().map(move |c| (p, c)));
    cache_devices(&caches.collect::<Vec<_>>(), out)?;
    volumes(&status.volumes, out)
}

/// The numbers of a pool's spares by state.
fn spares(p: &Pool) -> impl Iterator<Item = (&'static str, usize)> {
    let states = [
        ("avail", SpareState::Avail),
        ("inuse", SpareState::Inuse),
        ("unavail", SpareState::Unavail),
    ];
    let count = |state| p.spares.iter().filter(|s| s.state == state).count();
    states
        .into_iter()
        .map(move |(name, state)| (name, count(state)))
}

/// Durations of a disk's operations: kind and percentile, and the time in seconds.
fn times(m: &Member) -> impl Iterator<Item = ((&'static str, &'static str), f64)> {
    let kinds = [
        ("read", &m.read_times),
        ("write", &m.write_times),
        ("flush", &m.flush_times),
    ];
    kinds.into_iter().flat_map(|(kind, t)| {
        let all = [("50", t.p50_us), ("99", t.p99_us), ("100", t.max_us)];
        all.map(|(percentile, us)| ((kind, percentile), us as f64 / 1e6))
    })
}

fn path(member: &Member) -> String {
    let path = member.path.as_ref();
    path.map_or(String::new(), |p| p.display().to_string())
}

metrics! {
    /// Pools.
    pub(super) POOLS, pools: p in Pool, [pool: p.name] {
        Gauge pool_online "1 if the pool is open, 0 if it is held back": p.state == DiskState::Online;
        Gauge pool_healthy "1 if every member of the pool has every block, and the pool takes writes": p.health == Some(Health::Online);
        Gauge pool_damaged_ranges "Unreadable ranges of volumes and snapshots that reads, scrubs and resilvers found": p.damage.len();
        Gauge pool_expanding "1 while a raidz of the pool is expanded by a disk": p.vdevs.iter().any(|v| v.expansion.is_some());
        Gauge pool_expansion_left_bytes "Bytes of each disk that expansions still move": p.vdevs.iter().filter_map(|v| v.expansion.as_ref()).map(|e| e.of - e.done).sum::<u64>();
        Gauge pool_resilvering "1 during a resilver of the pool": p.resilver.as_ref().is_some_and(|r| r.state == ScanState::Running);
    }
}

metrics! {
    /// Pools that are open.
    pub(super) OPEN_POOLS, open_pools: p in &Pool, [pool: p.name] {
        Gauge pool_size_bytes "Size of the pool's allocator: used, freeing and free": p.size;
        Gauge pool_used_bytes "Space taken in the pool": p.used;
        Gauge pool_freeing_bytes "Space that the next checkpoint makes reusable": p.freeing;
        Gauge pool_free_bytes "Free space of the pool": p.free;
        Gauge pool_special_size_bytes "Size of the pool's special class, which the size of the pool does not count; 0 without one": p.special.as_ref().map_or(0, |s| s.size);
        Gauge pool_special_used_bytes "Space taken in the special class": p.special.as_ref().map_or(0, |s| s.used);
        Gauge pool_special_free_bytes "Free space of the special class": p.special.as_ref().map_or(0, |s| s.free);
        Counter pool_special_spilled_bytes "Bytes of metadata and small records that the special class had no room for": p.special.as_ref().map_or(0, SpecialClass::spilled_bytes);
        Counter pool_logs_lost "Logs that failed and left the pool": p.logs_lost;
        Gauge pool_dirty_bytes "Bytes acknowledged that are only in memory": p.dirty;
        Gauge pool_space_maps_bytes "Memory for the pool's maps of used space": p.space_maps;
        Gauge pool_record_cache_limit_bytes "Limit of the pool's record cache": p.record_cache.limit;
        Gauge pool_record_cache_bytes "Size of the record cache with its tables": p.record_cache.bytes;
        Counter pool_record_cache_hits "Lookups that found a record in the record cache": p.record_cache.hits;
        Counter pool_record_cache_misses "Lookups that did not find a record in the record cache": p.record_cache.misses;
        Counter pool_record_cache_ghost_hits "Misses that a record cache of twice the size would probably have found": p.record_cache.ghost_hits;
        Counter pool_node_reads by [class] "Nodes of trees that no cache had and disks read, by class of the vdev: normal or special": [("normal", p.node_reads.normal), ("special", p.node_reads.special)];
        Gauge pool_sync_disabled_volumes "Volumes and filesystems of the pool with sync=disabled": p.sync_disabled.len();
        Gauge pool_spares by [state] "Hot spares of the pool, by state: avail, inuse or unavail": spares(p);
        Counter pool_spares_taken "How often a hot spare took the place of a disk": p.spares_taken;
    }
}

metrics! {
    /// Disks of pools.
    pub(super) MEMBERS, members_of_pools: m in (&Pool, &Member), [pool: m.0.name, member: m.1.guid, path: path(m.1)] {
        Counter pool_member_reads "Reads of the disk": m.1.reads;
        Counter pool_member_writes "Writes of the disk": m.1.writes;
        Counter pool_member_read_bytes "Bytes read from the disk": m.1.read_bytes;
        Counter pool_member_written_bytes "Bytes written to the disk": m.1.written_bytes;
        Counter pool_member_read_errors "Reads of the disk that failed since the pool was opened": m.1.read_errors;
        Counter pool_member_write_errors "Writes and flushes of the disk that failed": m.1.write_errors;
        Counter pool_member_no_space "Writes for which the file system below the disk had no space": m.1.no_space;
        Counter pool_member_checksum_errors "Blocks of the disk with a wrong checksum": m.1.checksum_errors;
        Counter pool_member_repairs "Blocks of the disk that were repaired from another member": m.1.repairs;
        Gauge pool_member_latency_seconds by [kind percentile] "Durations of the disk's operations since the pool was opened, by percentile": times(m.1);
    }
}

metrics! {
    /// Cache devices of pools.
    pub(super) CACHE_DEVICES, cache_devices: c in (&Pool, &Cache), [pool: c.0.name, path: c.1.path.display()] {
        Gauge pool_cache_device_online "1 if the cache device is used": c.1.reason.is_none();
        Gauge pool_cache_device_size_bytes "Bytes for blocks on the cache device": c.1.size;
        Gauge pool_cache_device_used_bytes "Bytes of blocks on the cache device": c.1.used;
        Gauge pool_cache_device_memory_bytes "Memory of the cache device's tables": c.1.memory;
        Counter pool_cache_device_hits "Blocks that the cache device had": c.1.hits;
        Counter pool_cache_device_hit_bytes "Bytes of blocks that the cache device had": c.1.hit_bytes;
        Counter pool_cache_device_misses "Blocks that neither memory nor the cache device had": c.1.misses;
        Counter pool_cache_device_hits_of_twice "Misses that a cache device of twice the size would probably have had": c.1.hits_of_twice;
        Counter pool_cache_device_wrong "Blocks of the cache device with a wrong checksum, which were read from the other disks": c.1.wrong;
        Counter pool_cache_device_read_errors "Reads of the cache device that failed": c.1.read_errors;
        Counter pool_cache_device_written_bytes "Bytes written to the cache device": c.1.written;
        Counter pool_cache_device_over_budget "Blocks that did not enter because the daily write budget was spent": c.1.over_budget;
    }
}

metrics! {
    /// Scrubs of pools.
    pub(super) SCRUBS, scrubs: s in (&Pool, &Scrub), [pool: s.0.name] {
        Gauge pool_scrub_running "1 during a scrub of the pool": s.1.state == ScanState::Running;
        Gauge pool_scrub_done_bytes "Bytes the last scrub has read": s.1.done;
        Gauge pool_scrub_repaired "Copies that the last scrub repaired": s.1.repaired;
        Gauge pool_scrub_lost "Blocks that the last scrub found without a correct copy": s.1.lost;
    }
}

metrics! {
    /// Volumes.
    pub(super) VOLUMES, volumes: v in Volume, [volume: v.name] {
        Gauge volume_size_bytes "Size of the volume as clients see it": v.size;
        Gauge volume_used_bytes "Bytes of the volume's records as stored, as of the last checkpoint": v.used;
        Gauge volume_snapshot_bytes "Bytes that only snapshots of the volume hold": v.by_snapshots;
    }
}
