//! Views of pools and volumes.
//!
//! **Called by** the control API and the metrics. **Invariants**: read-only.

use super::entry::{PoolState, datasets_of, filesystems_of, full_name, volumes_of};
use super::names::by_hierarchy;
use super::notes::Notes;
use crate::api::{self, DiskState, ExportedAs, Health, Member, OperationTimes, Vdev, VdevLayout};
use crate::config::PoolConfig;
use crate::server::{Holdings, Server};
use crate::size::ByteSize;
use crate::word::word;
use crate::{Error, Result};
use backend::{BlockBackend, Usage};
use io::histogram::Times;
use pool::format::{DatasetProperty, PoolProperty, Sync};
use pool::vdev::{Fault, MemberState, MemberStatus, VdevStatus, least_size};
use pool::{Expanding, ExpansionWait, Pool, RemovalWait, VolumeSpace};

impl Server {
    /// The pools as they are now.
    #[must_use]
    pub fn pools(&self) -> Vec<api::Pool> {
        self.state.borrow().pools()
    }

    /// The volumes as they are now.
    #[must_use]
    pub fn volumes(&self) -> Vec<api::Volume> {
        self.volumes_that(|_| true)
    }

    /// The volumes whose whole names are wanted.
    fn volumes_that(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<api::Volume> {
        let state = self.state.borrow();
        let mut out = Vec::new();
        for (name, pool) in state.pools.all_open() {
            let spaces = pool.volume_spaces();
            for volume in volumes_of(pool) {
                let space = spaces.get(&volume.dataset().name).copied();
                let full = full_name(name, &volume.dataset().name);
                if !is_wanted(&full) {
                    continue;
                }
                let exported_as = self.exported_as(state.file.config(), &full);
                let space = space.unwrap_or_default();
                out.push(volume_view(name, pool, &volume, space, exported_as));
            }
        }
        out.sort_by(|a: &api::Volume, b| by_hierarchy(&a.name, &b.name));
        out
    }

    /// The numbers of volumes and of filesystems of open pools.
    pub(crate) fn dataset_counts(&self) -> (usize, usize) {
        let state = self.state.borrow();
        let pools = state.pools.all_open();
        pools.fold((0, 0), |(volumes, filesystems), (_, pool)| {
            let (more, of_files) = (volumes_of(pool).len(), filesystems_of(pool).len());
            (volumes + more, filesystems + of_files)
        })
    }

    pub(super) fn pool_view(&self, name: &str) -> Result<api::Pool> {
        let found = self.pools().into_iter().find(|p| p.name == name);
        found.ok_or_else(|| Error::NoPool(name.to_owned()))
    }

    pub(super) fn volume_view(&self, name: &str) -> Result<api::Volume> {
        let found = self.volumes_that(|full| full == name).pop();
        found.ok_or_else(|| Error::NoVolume(name.to_owned()))
    }
}

impl Holdings {
    pub(crate) fn pools(&self) -> Vec<api::Pool> {
        self.file
            .config()
            .pools
            .iter()
            .map(|p| self.pool(p))
            .collect()
    }

    /// Used space of a pool, if it is open; blocks of pending destroys count as used.
    pub(crate) fn pool_usage(&self, name: &str) -> Option<Usage> {
        match self.pools.state(name) {
            Some(PoolState::Online(pool)) => {
                let space = pool.space();
                Some(Usage {
                    provisioned: space.size,
                    used: space.size.saturating_sub(space.free),
                })
            }
            _ => None,
        }
    }

    fn pool(&self, config: &PoolConfig) -> api::Pool {
        let mut view = api::Pool {
            name: config.name.clone(),
            guid: String::new(),
            state: DiskState::Opening,
            health: None,
            reason: None,
            disks: config.disks.clone(),
            read_only: config.read_only,
            size: 0,
            used: 0,
            freeing: 0,
            free: 0,
            reserved: 0,
            dirty: 0,
            space_maps: 0,
            sync_disabled: Vec::new(),
            record_cache: api::RecordCache::default(),
            cached_datasets: api::CachedDatasets::default(),
            node_reads: api::NodeReads::default(),
            vdevs: Vec::new(),
            logs_lost: 0,
            spares: Vec::new(),
            caches: Vec::new(),
            spares_taken: 0,
            scrub: None,
            trim: None,
            autotrim: false,
            autoexpand: false,
            resilver: None,
            row_moves: None,
            order_moves: None,
            removal: None,
            balance_moves: None,
            special: None,
            lost_changes: None,
            region_moves: None,
            durable_writes: None,
            damage: Vec::new(),
            more_damage: false,
        };
        let entry = self.pools.get(&config.name);
        match entry.map(|e| &e.state) {
            None | Some(PoolState::Opening) => {}
            Some(PoolState::Held(reason)) => {
                view.state = DiskState::Held;
                view.reason = Some(reason.clone());
            }
            Some(PoolState::Online(pool)) => {
                show_open(&mut view, pool);
            }
        }
        if let Some(entry) = entry {
            if let Some(notes) = &entry.notes {
                show_notes(&mut view, notes);
                if let PoolState::Online(pool) = &entry.state {
                    view.spares = self.spares_view(&config.name, pool, notes);
                    show_spare_members(&mut view);
                    view.caches = self.caches_view(config, pool);
                }
            }
            let running = entry.resilver.borrow().clone();
            view.resilver = running.or(view.resilver);
            view.damage.clone_from(&entry.damage.damage);
            view.more_damage = entry.damage.more;
        }
        view
    }

    /// Errors: `NoDisk`, `NoVolume`, `NoPool`, `Pool`, `Invalid` if there is no disk or volume of this name that can be exported;
    /// `Conflict` if it has an export.
    pub(crate) fn exportable(&self, disk: &str) -> Result<()> {
        let config = self.file.config();
        match disk.split_once('/').map(|(pool, _)| pool) {
            None if config.disk(disk).is_none() => return Err(Error::NoDisk(disk.to_owned())),
            None => {}
            Some(pool) => match self.pools.state(pool) {
                None => return Err(Error::NoPool(pool.to_owned())),
                Some(PoolState::Held(reason)) => {
                    let (name, reason) = (pool.to_owned(), format!("held back: {reason}"));
                    return Err(Error::Pool { name, reason });
                }
                Some(PoolState::Online(pool)) if is_filesystem(pool, disk) => {
                    return Err(Error::Invalid(format!(
                        "{disk:?} is a filesystem: only volumes can be exported as disks; see `wirepool export nfs --help`"
                    )));
                }
                _ if self.disks.online(disk).is_none() => {
                    return Err(Error::NoVolume(disk.to_owned()));
                }
                _ => {}
            },
        }
        match config.exported_as(disk) {
            None => Ok(()),
            Some(export) => Err(Error::Conflict(format!(
                "the disk {disk:?} is exported already, as {export}"
            ))),
        }
    }
}

fn is_filesystem(pool: &Pool, full: &str) -> bool {
    let name = full.split_once('/').map(|(_, name)| name);
    name.is_some_and(|name| pool.filesystem(name).is_some())
}

fn volume_view(
    pool_name: &str,
    pool: &Pool,
    volume: &pool::Volume,
    space: VolumeSpace,
    exported_as: ExportedAs,
) -> api::Volume {
    let dataset = volume.dataset();
    let origin = pool.origin(volume);
    api::Volume {
        name: full_name(pool_name, &dataset.name),
        exported_as,
        size: dataset.size,
        used: space.used,
        by_snapshots: space.by_snapshots,
        referenced: space.referenced,
        logical: space.logical,
        quota: space.quota,
        reservation: space.reservation,
        origin: origin.map(|(of, name)| format!("{}@{name}", full_name(pool_name, &of))),
        block_size: volume.geometry().block_size,
        record_size: dataset.record_size,
        sync: dataset.sync.into(),
        compression: dataset.compression.to_string(),
        compression_warning: compression_warning(pool, &dataset),
        checksum: dataset.checksum.to_string(),
        created_ms: dataset.created / 1_000_000,
    }
}

/// Why compression of a volume's records has no effect: a record of one sector takes a sector, however short it becomes. `None` if
/// compression has an effect, or is off.
pub(super) fn compression_warning(pool: &Pool, volume: &pool::format::Dataset) -> Option<String> {
    let sector = pool.vdevs().sector();
    let is_on = volume.compression != pool::format::Packing::Off;
    let is_volume = volume.kind == pool::format::DatasetKind::Volume;
    (is_on && is_volume && volume.record_size <= sector).then(|| {
        let [record, sector, least] = [volume.record_size, sector, 4 * sector];
        let human = |bytes: u32| ByteSize(bytes.into()).human();
        format!(
            "compression={} saves nothing: a record of {} takes at least one sector of {}; create the volume with --record-size {} \
             to save space",
            volume.compression,
            human(record),
            human(sector),
            ByteSize(least.into())
        )
    })
}

/// Health of an open pool.
pub(super) fn health(vdevs: &[Vdev]) -> Option<Health> {
    let worst = |a: Health, b: Health| match (a, b) {
        (Health::Faulted, _) | (_, Health::Faulted) => Health::Faulted,
        (Health::Suspended, _) | (_, Health::Suspended) => Health::Suspended,
        (Health::Online, Health::Online) => Health::Online,
        _ => Health::Degraded,
    };
    vdevs.iter().map(|v| v.health).reduce(worst)
}

fn show_open(view: &mut api::Pool, pool: &Pool) {
    let vdevs = pool.vdevs();
    let space = pool.space();
    view.state = DiskState::Online;
    view.reason = pool.trouble().map(|trouble| trouble.to_string());
    view.guid = format!("{:016x}", vdevs.pool().0);
    view.vdevs = self::vdevs(pool);
    view.logs_lost = pool.lost_logs().len() as u64;
    view.health = match (health(&view.vdevs), &view.reason) {
        (Some(Health::Online | Health::Degraded), Some(_)) => Some(Health::Suspended),
        (found, _) => found,
    };
    view.size = space.size;
    view.used = space.used;
    view.freeing = space.freeing;
    view.free = space.free;
    view.reserved = space.reserved;
    view.dirty = pool.dirty();
    view.autotrim = pool.is_on(PoolProperty::Autotrim);
    view.autoexpand = pool.is_on(PoolProperty::Autoexpand);
    let disabled = datasets_of(pool)
        .map(|d| d.dataset())
        .filter(|d| d.sync == Sync::Disabled);
    view.sync_disabled = disabled.map(|d| full_name(&view.name, &d.name)).collect();
    view.space_maps = pool.space_maps().bytes;
    view.removal = removal(pool);
    view.row_moves = pool.row_moves().map(|moves| api::RowMoves {
        is_moving: moves.is_moving,
        is_awaited: moves.is_awaited,
        moved: moves.moved,
        dead: moves.dead,
    });
    let moves = pool.order_moves();
    view.order_moves = Some(api::OrderMoves {
        is_moving: moves.is_moving,
        waiting: moves.waiting,
        moved: moves.moved,
        held: moves.held,
        is_short: moves.is_short,
    });
    let moves = pool.region_moves();
    view.region_moves = Some(api::RegionMoves {
        is_moving: moves.is_moving,
        moved: moves.moved,
        relocated: moves.relocated,
        relocations: moves.relocations,
        is_full: moves.is_full,
        emptied: moves.emptied,
        in_fragments: moves.in_fragments,
        has_none: moves.has_none,
    });
    view.balance_moves = pool.balance_moves().map(|moves| api::BalanceMoves {
        is_moving: moves.is_moving,
        surplus: moves.surplus,
        moved: moves.moved,
        is_stuck: moves.is_stuck,
    });
    view.special = special(pool);
    view.lost_changes = pool.lost_changes().map(Into::into);
    view.durable_writes = Some(durable_writes(pool));
    let cache = pool.record_cache();
    view.record_cache = api::RecordCache {
        limit: cache.limit as u64,
        bytes: cache.memory as u64,
        hits: cache.hits,
        misses: cache.misses,
        ghost_hits: cache.ghost_hits,
    };
    view.cached_datasets = cached_datasets(pool);
    let nodes = pool.node_reads();
    view.node_reads = api::NodeReads {
        normal: nodes.normal,
        normal_us: micros(nodes.normal_time),
        special: nodes.special,
    };
}

fn micros(time: std::time::Duration) -> u64 {
    time.as_micros() as u64
}

fn cached_datasets(pool: &Pool) -> api::CachedDatasets {
    let datasets: Vec<_> = datasets_of(pool).collect();
    let kept = |of| datasets.iter().filter(|d| d.caches_data(of)).count() as u64;
    api::CachedDatasets {
        all: datasets.len() as u64,
        in_memory: kept(DatasetProperty::Primarycache),
        on_devices: kept(DatasetProperty::Secondarycache),
    }
}

fn durable_writes(pool: &Pool) -> api::DurableWrites {
    let (durable, waits, vdevs) = (pool.durable_times(), pool.durable_waits(), pool.vdevs());
    api::DurableWrites {
        blocks_us: durable.blocks.map(micros),
        journal_us: durable.journal.map(micros),
        journaled: durable.journaled,
        journaled_bytes: durable.bytes,
        waits: times(&waits.times),
        open_ms: waits.open_for.as_millis() as u64,
        journal_written: vdevs.written().journal,
        log_size_min: vdevs.log_size_min(),
    }
}

/// Marks the members that are spares.
fn show_spare_members(view: &mut api::Pool) {
    let spares: Vec<_> = view
        .spares
        .iter()
        .filter_map(|s| s.member.clone())
        .collect();
    for member in view.vdevs.iter_mut().flat_map(|v| &mut v.members) {
        member.spare = spares.contains(&member.guid);
    }
}

fn show_notes(view: &mut api::Pool, notes: &Notes) {
    let kept = notes.kept();
    view.scrub = kept.scrub;
    view.trim = kept.trim;
    view.resilver = kept.resilver;
    view.spares_taken = kept.spares_taken;
    for member in view.vdevs.iter_mut().flat_map(|v| &mut v.members) {
        let Ok(guid) = u64::from_str_radix(&member.guid, 16) else {
            continue;
        };
        member.was = kept
            .paths
            .get(&guid)
            .filter(|_| member.path.is_none())
            .cloned();
        member.replaced = kept.replacing.iter().any(|r| r.old == guid);
    }
}

pub(super) fn vdev(status: &VdevStatus) -> Vdev {
    let layout = VdevLayout::from(status.kind);
    let online = status
        .members
        .iter()
        .filter(|s| s.state == MemberState::Online)
        .count();
    Vdev {
        name: layout.vdev_name(status.id.0),
        layout,
        class: status.class.into(),
        health: match online {
            n if n < status.kind.needed(status.members.len()) => Health::Faulted,
            n if n == status.members.len() => Health::Online,
            _ => Health::Degraded,
        },
        size: status.size,
        expansion: None,
        journal: status.has_journal,
        members: status
            .members
            .iter()
            .map(|s| member(s, status.member_size))
            .collect(),
    }
}

/// The special class of an open pool, if it has one.
pub(super) fn special(pool: &Pool) -> Option<api::SpecialClass> {
    let class = pool.special_class()?;
    let pool_name = pool.vdevs().name();
    let spilled = class.spilled.iter().map(|(name, bytes)| api::Spilled {
        dataset: full_name(&pool_name, name),
        bytes: *bytes,
    });
    Some(api::SpecialClass {
        size: class.space.size,
        used: class.space.used,
        freeing: class.space.freeing,
        free: class.space.free,
        takes_small_records: class.takes_small_records,
        spilled: spilled.collect(),
        spilled_of_pool: class.spilled_of_pool,
        moves: class.moves.map(Into::into),
        moved: class.moved,
        lacks_room: class.lacks_room,
    })
}

/// The vdevs of an open pool, with their expansions.
pub(super) fn vdevs(pool: &Pool) -> Vec<Vdev> {
    let status = pool.vdevs().status();
    let mut views: Vec<Vdev> = status.iter().map(vdev).collect();
    for expanding in pool.expanding() {
        let mut both = views.iter_mut().zip(&status);
        if let Some((view, status)) = both.find(|(_, status)| status.id == expanding.vdev) {
            view.expansion = Some(expansion(&expanding, may_fail(status)));
        }
    }
    views
}

/// The number of members that are in and that a vdev does not need.
fn may_fail(status: &VdevStatus) -> u64 {
    let online = status.members.iter();
    let online = online.filter(|s| s.state == MemberState::Online).count();
    let needed = status.kind.needed(status.members.len());
    online.saturating_sub(needed) as u64
}

fn expansion(expanding: &Expanding, may_fail: u64) -> api::Expansion {
    let reason = |wait: ExpansionWait| match wait {
        ExpansionWait::Member => "a disk of the vdev is missing, offline, faulted or stale",
        ExpansionWait::Repair => "a resilver or a repair is in progress",
        ExpansionWait::Space => "there is too little free space",
        ExpansionWait::Failed => "a step failed, and is repeated",
    };
    api::Expansion {
        done: expanding.status.done,
        of: expanding.status.of,
        began_at: expanding.began_at,
        active_ms: expanding.active.as_millis() as u64,
        waits_for: expanding.waits_for.map(|wait| reason(wait).to_owned()),
        may_fail,
    }
}

/// Why a removal waits.
pub(super) fn removal_reason(wait: RemovalWait) -> &'static str {
    match wait {
        RemovalWait::Damaged => {
            "blocks on it are damaged: `wirepool pool status -v` names the data to restore or destroy"
        }
        RemovalWait::Space => "the other vdevs have too little free space",
        RemovalWait::Failed => "a step failed, and is repeated",
    }
}

/// The removal in progress, for people.
pub(super) fn removal(pool: &Pool) -> Option<api::Removal> {
    let removing = pool.removing()?;
    let status = pool.vdevs().status();
    let vdev = status.iter().find(|v| v.id == removing.vdev)?;
    Some(api::Removal {
        vdev: self::vdev(vdev).name,
        copied: removing.copied,
        left: removing.left,
        copied_now: removing.copied_now,
        active_ms: removing.active.as_millis() as u64,
        is_stopping: removing.is_stopping,
        waits_for: removing
            .waits_for
            .map(|wait| removal_reason(wait).to_owned()),
    })
}

/// What is wrong with a member of a vdev with `data_size` bytes of data.
pub(super) fn fault_text(fault: Fault, data_size: u64) -> String {
    match fault {
        Fault::Short(size) => {
            let least = least_size(data_size);
            format!("device is {size} bytes, its label says {least}")
        }
        Fault::NoSpace => "the file system below is full".into(),
        other => word(other),
    }
}

/// Whether a member has its fault before it is faulted for it.
fn is_shown(fault: Fault) -> bool {
    matches!(fault, Fault::Short(_) | Fault::NoSpace)
}

fn member(status: &MemberStatus, data_size: u64) -> Member {
    let c = &status.counters;
    Member {
        guid: format!("{:016x}", status.guid.0),
        path: Some(status.path.clone()).filter(|p| !p.as_os_str().is_empty()),
        was: None,
        replaced: false,
        spare: false,
        state: word(status.state),
        fault: status
            .fault
            .filter(|f| status.state == MemberState::Faulted || is_shown(*f))
            .map(|f| fault_text(f, data_size)),
        reads: c.reads,
        writes: c.writes,
        read_errors: c.read_errors,
        write_errors: c.write_errors,
        no_space: c.no_space,
        checksum_errors: c.checksum_errors,
        repairs: c.repairs,
        trimmed_bytes: c.trimmed_bytes,
        read_bytes: c.read_bytes,
        written_bytes: c.written.total(),
        read_times: times(&status.times.read),
        write_times: times(&status.times.write),
        flush_times: times(&status.times.flush),
    }
}

fn times(times: &Times) -> OperationTimes {
    OperationTimes {
        count: times.count(),
        sum_us: times.sum,
        p50_us: times.quantile(0.5),
        p99_us: times.quantile(0.99),
        max_us: times.quantile(1.0),
    }
}
