//! Parameters that a seed chooses for a run of scenario `files`.
//!
//! **Owns** the disks, the pool's properties, and the ends of incarnations. **Called by** scenario `files`. **Invariant**:
//! only weak members ([`Weak`]) fail or are absent.

use super::weak::Weak;
use crate::absence::LastLabels;
use crate::classes::Classes;
use crate::model::Violation;
use crate::{raidz, workers};
use io::disk::{self, Disk};
use io::rng::Prng;
use io::sim::{DiskConfig, PowerCutFate};
use io::time::sleep;
use pool::format::{ChecksumKind, Host, JournalLayout, Packing, Sync};
use pool::journal::UNPROVEN_MAX;
use pool::vdev::limits::DISK_SIZE_MIN;
use pool::vdev::{self, Layout, OpenOptions, Opened, PoolSpec, VdevSpec};
use pool::{NewFilesystem, Options, Pool};
use std::sync::Arc;
use std::time::Duration;

/// Name of the filesystem.
pub(super) const FILESYSTEM: &str = "files";

/// The end of an incarnation.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// Power cut this many disk steps after the work began, or when it ends.
    PowerCut(u64),
    /// Power cut this many disk steps after the start, which may be while the pool is opened.
    EarlyPowerCut(u64),
    /// Kill of the process after this time, or when the work ends.
    Kill(Duration),
    /// The pool is closed when the work ends.
    Close,
}

/// See the module header.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Members of the vdev.
    pub(super) disks: usize,
    /// Further disks, which may replace members of a raidz.
    pub(super) spares: usize,
    pub(super) layout: Layout,
    /// Vdevs of other classes, each on a disk of its own.
    pub(super) classes: Classes,
    pub(super) weak: Weak,
    last_labels: LastLabels,
    pub(super) disk: DiskConfig,
    ashift: Option<u8>,
    journal: JournalLayout,
    options: Options,
    record_size: u32,
    sync: Sync,
    pub(super) compression: Packing,
    checksum: ChecksumKind,
    pub(super) lives: Vec<End>,
    pub(super) tasks: u64,
    pub(super) steps: u64,
    /// Chance that a mutation is durable when it is answered.
    pub(super) durable: f64,
    /// Longest pause of a task between two operations.
    pub(super) pause: Duration,
    pub(super) checkpoints: Duration,
    /// Bytes that are left beside the reservation of another dataset, if the pool is nearly full.
    pub(super) left: Option<u64>,
    pub(super) quotas: bool,
    pub(super) snapshots: bool,
    /// Whether the weak members fail at random.
    pub(super) fails: bool,
    /// Whether weak members of a raidz may be absent for an incarnation, and are rebuilt.
    pub(super) may_be_away: bool,
    /// Whether users and groups have quotas.
    pub(super) owner_quotas: bool,
    /// Whether the record size of new files changes.
    pub(super) record_sizes: bool,
    /// Whether most changes of contents are at the ends of files.
    pub(super) is_at_ends: bool,
}

fn host() -> Host {
    Host::new([7; 16], "sim")
}

impl Plan {
    pub(super) fn new(rng: &mut Prng) -> Plan {
        let end = |rng: &mut Prng| {
            let longest = 1 << (4 + rng.below(9));
            match rng.below(8) {
                0 => End::Kill(Duration::from_micros(10 * rng.below(longest))),
                1 => End::Close,
                2 => End::EarlyPowerCut(rng.below(longest)),
                _ => End::PowerCut(rng.below(longest)),
            }
        };
        let lives = (0..1 + rng.below(6)).map(|_| end(rng)).collect();
        let mut disk = DiskConfig {
            size: DISK_SIZE_MIN,
            trims_to_garbage: true,
            volatile_cache: rng.chance(0.9),
            ..DiskConfig::default()
        };
        let small = rng.chance(0.5);
        if small {
            (disk.logical_block, disk.physical_block, disk.atomic_unit) = (512, 512, 512);
            if rng.chance(0.3) {
                disk.power_cut = PowerCutFate::Torn;
            }
        }
        let disks = 1 + rng.below(2) as usize;
        let freeing_max = 1 << rng.below(12);
        // a separate generator, so that the runs of older seeds do not change
        let mut own = Prng::new(freeing_max as u64 ^ rng.clone().u64() ^ 0x59ce);
        Plan {
            disks,
            spares: 0,
            layout: Layout::Mirror,
            // chosen by a generator of its own
            classes: Classes::default(),
            weak: Weak::new(1..disks),
            last_labels: LastLabels::default(),
            disk,
            ashift: small.then_some(9),
            journal: JournalLayout {
                segment_size: (256 + 64 * rng.below(8) as u32) << 10,
                segments: 4 + rng.below(4) as u32,
            },
            options: Options {
                cache_bytes: 64 << 10,
                record_cache_bytes: if rng.chance(0.5) { 0 } else { 256 << 10 },
                dirty_bytes: 256 << 10 << rng.below(6),
                buffer_bytes: 8 << 20,
                freeing_max,
                unproven_bytes: match rng.chance(0.4) {
                    true => UNPROVEN_MAX,
                    false => 1 << rng.below(24),
                },
                space_bytes: crate::volume::space_bytes(&mut own),
                resilver_blocks: 64,
                worker_bytes_min: workers::least(&mut own),
                durable_writes: crate::volume::durable_writes(&mut own),
                ..Options::default()
            },
            record_size: 4096 << rng.below(4),
            sync: match rng.below(6) {
                0 => Sync::Always,
                1 => Sync::Disabled,
                _ => Sync::Standard,
            },
            compression: match rng.below(4) {
                0 => Packing::Off,
                1 => Packing::Zstd(1),
                _ => Packing::Lz4,
            },
            checksum: match rng.below(3) {
                0 => ChecksumKind::Blake3,
                _ => ChecksumKind::Xxh3,
            },
            lives,
            tasks: 1 + rng.below(5),
            steps: 5 + rng.below(60),
            durable: [0.0, 0.02, 0.2][rng.below(3) as usize],
            pause: Duration::from_micros(1 << rng.below(14)),
            checkpoints: Duration::from_micros(100 << rng.below(12)),
            left: rng.chance(0.2).then(|| (256 + rng.below(2048)) << 10),
            quotas: rng.chance(0.3),
            snapshots: rng.chance(0.6),
            fails: disks > 1 && rng.chance(0.4),
            may_be_away: false,
            owner_quotas: rng.chance(0.5),
            // chosen by a generator of its own
            record_sizes: false,
            is_at_ends: false,
        }
    }

    /// Makes the vdev a raidz of few members. The parity is also the largest number of weak members.
    pub(super) fn stripe(&mut self, rng: &mut Prng) {
        let (parity, members) = raidz::draw(rng);
        self.layout = Layout::Raidz {
            parity: parity as u8,
        };
        self.disks = members;
        self.fails = rng.chance(0.4);
        self.may_be_away = rng.chance(0.7);
        self.spares = usize::from(self.may_be_away && rng.chance(0.5));
        self.weak = Weak::new(0..0);
        let members = (0..self.disks).collect();
        self.weak.choose(members, parity, rng);
    }

    pub(super) fn filesystem(&self) -> NewFilesystem {
        NewFilesystem {
            record_size: self.record_size,
            sync: self.sync,
            compression: self.compression,
            checksum: self.checksum,
            ..NewFilesystem::new(FILESYSTEM)
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let disks = 0..self.disks + self.spares;
        disks.map(|n| format!("disk{n}")).collect()
    }

    /// The disks, in their order.
    pub(super) async fn open_disks(&self) -> Vec<Disk> {
        let mut disks = Vec::new();
        for name in self.names() {
            loop {
                match Disk::open(&name, disk::OpenOptions::default()).await {
                    Ok(disk) => break disks.push(disk),
                    // Requests of a killed process still hold the disk.
                    Err(io::Error::Busy(_)) => sleep(Duration::from_millis(1)).await,
                    Err(e) => panic!("a disk that is there opens: {e}"),
                }
            }
        }
        disks.extend(self.classes.disks().await);
        disks
    }

    /// Creates the pool, on sound disks.
    pub(super) async fn create(&self) -> Result<Pool, Violation> {
        let mut members = self.open_disks().await;
        members.truncate(self.disks);
        let layout = self.layout;
        let mut vdevs = vec![VdevSpec::new(layout, members)];
        vdevs.extend(self.classes.vdevs().await);
        let mut spec = PoolSpec::new("tank", vdevs, host());
        spec.journal = Some(self.journal);
        spec.ashift = self.ashift;
        let opened = vdev::create(spec).await;
        let opened = opened.map_err(|e| Violation(format!("a pool cannot be made: {e}")))?;
        if self.may_be_away {
            let set = opened.vdevs.set_witness(Arc::new(self.last_labels.clone()));
            let set = set.await;
            set.map_err(|e| Violation(format!("the last labels cannot be recorded: {e}")))?;
        }
        self.open_devices(opened).await
    }

    /// Opens the pool of the present disks. Absent ones return if the pool refuses to open without them.
    pub(super) async fn open(&self) -> Result<Pool, Violation> {
        let mut options = OpenOptions::new(host());
        if self.may_be_away {
            options.witness = Some(Arc::new(self.last_labels.clone()));
        }
        let away = self.weak.away();
        let without = match away.is_one() {
            true => away.open(self.open_disks().await, options.clone()).await,
            false => None,
        };
        let opened = match without {
            Some(opened) => opened,
            None => {
                let found = vdev::scan(self.open_disks().await).await.pools.pop();
                let found = found.ok_or_else(|| Violation("there is no pool".into()))?;
                let opened = vdev::open(found, options).await;
                opened.map_err(|e| Violation(format!("the devices do not open: {e}")))?
            }
        };
        self.open_devices(opened).await
    }

    async fn open_devices(&self, opened: Opened) -> Result<Pool, Violation> {
        let pool = Pool::open(opened, self.options).await;
        let pool = pool.map_err(|e| Violation(format!("the pool does not open: {e}")))?;
        workers::give(&pool, &self.options);
        Ok(pool)
    }
}
