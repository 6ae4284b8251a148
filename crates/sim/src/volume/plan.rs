//! Parameters that a seed chooses for a run over a pool.
//!
//! **Owns** the disks, their faults, and the ends of incarnations. **Called by** scenarios `pool`, `full` and `aimed`.
//! **Invariant**: at any time, each vdev has as many members whose disks are sound as its layout needs.

use super::VOLUME;
use super::aimed::Aim;
use crate::absence::{Away, LastLabels};
use crate::classes::Classes;
use crate::crowd::{self, Crowd};
use crate::raidz;
use crate::settings::SimSettings;
use crate::workers;
use crate::workload::{Expected, Profile};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, SimDisk};
use pool::format::{ChecksumKind, JournalLayout, Packing, Sync};
use pool::journal::UNPROVEN_MAX;
use pool::vdev::limits::DISK_SIZE_MIN;
use pool::vdev::{DATA_START, Layout};
use pool::{DurableWrites, NewVolume, Options};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Smallest sector of a full pool, bytes; it may be two or four times as large. Larger sectors mean fewer records.
const SECTOR_MIN: u32 = 4096;
/// Most incarnations of such a pool, without the last: each reads the whole pool.
const LIVES_MAX: usize = 2;

/// Bytes of each failing member of a raidz that rot before its rows are judged.
const ROTTEN: u64 = 8 << 20;

/// Incarnations with a small journal, without the last.
const TIGHT_LIVES: u64 = 6;
/// Size of a small journal, bytes.
const TIGHT_JOURNAL: u32 = 512 << 10;
/// Size of its smallest segment, bytes.
const TIGHT_SEGMENT: u64 = 16 << 10;
/// Upper bound of a record's bytes in the journal.
const RECORD_BYTES: u64 = 128;

/// Parameters of one run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) disks: usize,
    /// Whether vdevs behind the first one are of the special class.
    pub(super) has_special: bool,
    /// Further vdevs of other classes, each on a disk of its own.
    pub(super) classes: Classes,
    pub(super) disk: DiskConfig,
    /// Members of each vdev.
    pub(super) members: usize,
    /// Parity of each vdev, if they are raidz; 0 for mirrors.
    pub(super) parity: usize,
    /// Number of members of each vdev that fail together.
    pub(super) failing: usize,
    /// Whether all rows of a raidz must be valid after the scrubs at the end.
    pub(super) judges_rows: bool,
    /// Whether more members of a raidz may fail at once than it can lack. Requests may fail then.
    pub(super) overloads: bool,
    /// Sector size of all vdevs, as a power of two.
    pub(super) ashift: Option<u8>,
    pub(super) journal: JournalLayout,
    pub(super) volume: NewVolume,
    pub(super) options: Options,
    pub(super) lives: Vec<End>,
    pub(super) jobs: u64,
    pub(super) profile: Profile,
    /// Longest pause between two requested checkpoints.
    pub(super) checkpoints: Duration,
    /// Whether other volumes are created and destroyed.
    pub(super) churn: bool,
    /// Whether snapshots and clones are created and destroyed.
    pub(super) snapshots: bool,
    /// Whether the model's volume shrinks and grows.
    pub(super) resizes: bool,
    /// Number of spare disks. With spares, members are taken offline, attached, detached and replaced.
    pub(super) spares: usize,
    /// Whether these are hot spares, which stand in for members that fail. There is no other change of members then.
    pub(super) hot: bool,
    /// Whether the pool has a cache device.
    pub(super) is_cached: bool,
    pub(super) fault: Fault,
    /// Number of the first failing member of each vdev. It changes when the vdevs are complete again.
    pub(super) faulty: Rc<Cell<usize>>,
    /// The aim of the seed, in scenario `aimed`.
    pub(super) aim: Option<Aim>,
    /// How to fill the pool, if it is to be full.
    pub(super) crowd: Option<Crowd>,
    /// Whether steps until a power cut count from the opening of the pool instead of from power-on.
    pub(super) cuts_at_work: bool,
    /// Whether a member may be away for an incarnation.
    pub(super) may_be_away: bool,
    pub(super) away: Away,
    pub(super) last_labels: LastLabels,
    /// Most openings in a row that lose power.
    pub(super) cuts_max: u64,
    /// Disk steps, from when its disks were found, after which the next opening loses power.
    pub(super) cut_opening: Rc<Cell<Option<u64>>>,
    /// The newest checkpoint that an opening made durable: no later opening may return to an older one.
    pub(super) reached: Rc<Cell<u64>>,
}

/// Fault of one member of each mirror, or of at most as many members of a raidz as it has parity. The others are sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Its contents change.
    Rot,
    /// Reads, writes and flushes fail at random.
    Errors,
    /// Its operations stall.
    Stalls,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// Power cut after this many disk steps, or when the jobs end.
    PowerCut(u64),
    /// Kill of the process after this time, or when the jobs end.
    Kill(Duration),
    /// The pool is closed when the jobs end.
    Close,
}

/// Behavior of the jobs; most extents begin in the blocks `hot`.
fn profile(hot: Range<u64>, rng: &mut Prng) -> Profile {
    Profile {
        requests: 5 + rng.below(120) as u32,
        blocks_max: 1 + rng.below(64),
        hot,
        pause: Duration::from_micros(rng.below(500)),
        fused_max: 4,
        zeroes: true,
        whole: false,
        reserves_space: true,
        latency_max: None,
        expected: Expected::default(),
    }
}

/// Memory for space maps: for all regions, or for so few that regions are evicted all the time.
pub(crate) fn space_bytes(rng: &mut Prng) -> usize {
    match rng.below(4) {
        0 => usize::MAX,
        1 => 16 << 10,
        _ => 0,
    }
}

fn fault(members: usize, rng: &mut Prng) -> Fault {
    match rng.below(6) {
        0 if members > 1 => Fault::Rot,
        1 if members > 1 => Fault::Errors,
        2 => Fault::Stalls,
        _ => Fault::None,
    }
}

/// The way of small durable writes.
pub(crate) fn durable_writes(rng: &mut Prng) -> DurableWrites {
    match rng.chance(0.3) {
        true => DurableWrites::Journal,
        false => DurableWrites::Measured,
    }
}

impl Plan {
    pub(super) fn new(rng: &mut Prng) -> Plan {
        let block_size: u32 = if rng.chance(0.5) { 512 } else { 4096 };
        let record_size = 4096 << rng.below(4);
        let blocks = 16 + rng.below(600);
        let hot = blocks / (1 + rng.below(8));
        let lives = (0..rng.below(6))
            .map(|_| {
                let longest = 1 << (4 + rng.below(9));
                match rng.below(6) {
                    0 => End::Kill(Duration::from_micros(10 * rng.below(longest))),
                    1 => End::Close,
                    _ => End::PowerCut(rng.below(longest)),
                }
            })
            .collect();
        let disk = DiskConfig {
            size: (64 + rng.below(64)) << 20,
            logical_block: 4096,
            physical_block: 4096,
            atomic_unit: 4096,
            volatile_cache: rng.chance(0.9),
            trims_to_garbage: true,
            ..DiskConfig::default()
        };
        let profile = profile(0..hot.max(1), rng);
        let members = 1 + rng.below(2) as usize;
        let mut plan = Plan {
            disks: members * (1 + rng.below(2) as usize),
            has_special: false,
            classes: Classes::default(),
            disk,
            members,
            parity: 0,
            failing: 1,
            judges_rows: false,
            overloads: false,
            ashift: None,
            journal: JournalLayout {
                segment_size: (64 + 64 * rng.below(8) as u32) << 10,
                segments: 4 + rng.below(8) as u32,
            },
            volume: NewVolume {
                name: VOLUME.into(),
                size: blocks * u64::from(block_size),
                block_size,
                record_size,
                sync: match rng.chance(0.2) {
                    true => Sync::Always,
                    false => Sync::Standard,
                },
                compression: Packing::Off,
                checksum: ChecksumKind::Xxh3,
            },
            options: Options {
                cache_bytes: 64 << 10,
                record_cache_bytes: 0,
                dirty_bytes: 256 << 10 << rng.below(6),
                buffer_bytes: 8 << 20,
                unproven_bytes: UNPROVEN_MAX,
                ..Options::default()
            },
            lives,
            jobs: 1 + rng.below(8),
            profile,
            checkpoints: Duration::from_micros(100 + rng.below(20_000)),
            churn: rng.chance(0.5),
            snapshots: rng.chance(0.6),
            resizes: false,
            spares: 0,
            hot: false,
            is_cached: false,
            faulty: Rc::default(),
            aim: None,
            crowd: None,
            cuts_at_work: false,
            may_be_away: false,
            away: Away::default(),
            last_labels: LastLabels::default(),
            cuts_max: 4,
            cut_opening: Rc::default(),
            reached: Rc::default(),
            fault: fault(members, rng),
        };
        plan.options.freeing_max = 1 << rng.below(12);
        // A separate generator, so that the runs of older seeds do not change.
        let mut rng = Prng::new(rng.u64() ^ 0x51de);
        if plan.fault == Fault::None && rng.chance(0.4) {
            plan.spares = 1 + rng.below(2) as usize;
        }
        let mut rng = Prng::new(rng.u64() ^ 0xf105);
        if rng.chance(0.6) {
            plan.options.unproven_bytes = 1 << rng.below(24);
        }
        let mut rng = Prng::new(rng.u64() ^ 0x4eb1);
        plan.options.resilver_blocks = 64 << rng.below(8);
        plan.options.space_bytes = space_bytes(&mut Prng::new(rng.u64() ^ 0x59ce));
        plan.options.worker_bytes_min = workers::least(&mut Prng::new(rng.u64() ^ 0x0172));
        plan.options.durable_writes = durable_writes(&mut Prng::new(rng.u64() ^ 0x0171));
        plan
    }

    /// Chooses how the volume's records are stored. Every other disk has sectors of 512 bytes, so that most records can be
    /// smaller.
    pub(super) fn furnish(&mut self, rng: &mut Prng) {
        if rng.chance(0.5) {
            self.ashift = Some(9);
            self.disk.logical_block = 512;
            self.disk.physical_block = 512;
            self.disk.atomic_unit = 512;
        }
        let set = SimSettings::new(rng);
        self.volume.compression = set.compression;
        self.volume.checksum = set.checksum;
        if rng.chance(0.7) {
            self.options.record_cache_bytes = 64 << 10 << rng.below(6);
        }
    }

    /// Gives some pools a journal of small segments, whose rest often is too small for a batch, and incarnations that end
    /// while the journal wraps: batches that replay refused lie where later batches go. Other pools lose a member for an
    /// incarnation.
    pub(super) fn tighten(&mut self, rng: &mut Prng) {
        self.may_be_away = self.members > 1 && self.spares == 0 && self.fault != Fault::Rot;
        if !rng.chance(0.3) {
            return;
        }
        self.ashift = Some(9);
        self.disk.logical_block = 512;
        self.disk.physical_block = 512;
        self.disk.atomic_unit = 512;
        let records = self.volume.size.div_ceil(self.volume.record_size.into());
        let segment = (records * RECORD_BYTES)
            .next_power_of_two()
            .max(TIGHT_SEGMENT) as u32;
        self.journal = JournalLayout {
            segment_size: segment,
            segments: (TIGHT_JOURNAL / segment).max(4) + rng.below(8) as u32,
        };
        // Their groups do not fit into the journal.
        self.churn = false;
        self.cuts_at_work = true;
        let mut cut = |_| {
            let longest = 16 << rng.below(6);
            End::PowerCut(rng.below(longest))
        };
        self.lives = (0..TIGHT_LIVES).map(&mut cut).collect();
    }

    /// Lets half of the incarnations close the pool: a cache device then has all blocks that have gathered.
    pub(super) fn close_often(&mut self, rng: &mut Prng) {
        let chosen = self.lives.iter_mut().filter(|_| rng.chance(0.5));
        chosen.for_each(|life| *life = End::Close);
    }

    /// Makes the vdevs raidz of few members, with members that fail or are away, up to the parity.
    pub(super) fn stripe(&mut self, rng: &mut Prng) {
        (self.parity, self.members) = raidz::draw(rng);
        self.disks = self.members;
        self.failing = 1 + rng.below(self.parity as u64) as usize;
        self.faulty.set(rng.below(self.members as u64) as usize);
        if self.aim.is_some() {
            self.overloads = self.aim == Some(Aim::Members) && rng.chance(0.5);
            self.profile.expected.media |= self.overloads;
            self.profile.expected.gone |= self.overloads;
            return;
        }
        self.disks *= 1 + rng.below(2) as usize;
        self.fault = match rng.below(5) {
            0 => Fault::Rot,
            1 => Fault::Errors,
            2 => Fault::Stalls,
            _ => Fault::None,
        };
        self.judges_rows = self.fault == Fault::Rot;
        self.spares = match self.fault == Fault::None && rng.chance(0.5) {
            true => 1 + rng.below(2) as usize,
            false => 0,
        };
        self.may_be_away = self.spares == 0 && self.fault != Fault::Rot;
        self.cuts_max = self.cuts_max.min(6);
    }

    /// Most members that fail at once for a moment.
    pub(super) fn lapsing_max(&self) -> usize {
        self.parity.max(1) + usize::from(self.overloads)
    }

    /// The layout of the vdevs.
    pub(super) fn layout(&self) -> Layout {
        match self.parity {
            0 => Layout::Mirror,
            parity => Layout::Raidz {
                parity: parity as u8,
            },
        }
    }

    /// Chooses the members of one raidz that are absent in the next incarnation, if any: at most as many as its parity.
    fn leave_raidz(&self, rng: &mut Prng) {
        let leaves = self.may_be_away && rng.chance(0.5);
        let vdev = rng.below((self.disks / self.members) as u64) as usize;
        let first = rng.below(self.members as u64) as usize;
        let count = 1 + rng.below(self.parity as u64) as usize;
        let away = (0..count).map(|n| vdev * self.members + (first + n) % self.members);
        self.away.set(away.filter(|_| leaves));
    }

    /// Chooses the member that is away in the next incarnation, if any; mostly one on a sound disk.
    pub(super) fn leave(&self, rng: &mut Prng) {
        if self.parity > 0 {
            return self.leave_raidz(rng);
        }
        let leaves = self.may_be_away && rng.chance(0.5);
        let vdev = rng.below((self.disks / self.members) as u64) as usize;
        let is_sound = rng.chance(0.8);
        let member = match self.aim {
            Some(_) => rng.below(self.members as u64) as usize,
            None => (self.faulty.get() + usize::from(is_sound)) % self.members,
        };
        self.away
            .set(Some(vdev * self.members + member).filter(|_| leaves));
    }

    /// Gives a quarter of the pools the smallest journal, so that an older checkpoint has nothing to replay. Most of these
    /// have one disk with sectors so small that a cut tears everything in flight, and many of their openings are cut.
    pub(super) fn shrink_journal(&mut self, rng: &mut Prng) {
        if !rng.chance(0.25) {
            return;
        }
        self.journal = JournalLayout {
            segment_size: 64 << 10,
            segments: 4,
        };
        if self.fault == Fault::None && self.spares == 0 {
            (self.disks, self.members) = (1, 1);
            self.ashift = Some(9);
            self.disk.logical_block = 512;
            self.disk.physical_block = 512;
            self.disk.atomic_unit = 512;
            self.cuts_max = 24;
        }
    }

    /// Fills the pool with fragmented free space. Members leave and return also where media fail.
    pub(super) fn crowd(&mut self, rng: &mut Prng) {
        let sector = SECTOR_MIN << rng.below(3);
        self.ashift = Some(sector.ilog2() as u8);
        self.disk.logical_block = 4096;
        self.disk.physical_block = 4096;
        self.disk.atomic_unit = 4096;
        self.disk.size = DISK_SIZE_MIN;
        self.members = 1 + rng.below(2) as usize;
        self.disks = self.members;
        self.volume.record_size = sector << (1 + rng.below(3));
        self.options.dirty_bytes = 4 << 20;
        self.journal = crowd::JOURNAL;
        self.lives.truncate(LIVES_MAX);
        self.profile.expected.no_space = true;
        // Their writes must not be refused.
        self.churn = false;
        self.fault = match rng.below(8) {
            0 | 1 if self.members > 1 => Fault::Rot,
            2 | 3 if self.members > 1 => Fault::Errors,
            4 => Fault::Stalls,
            _ => Fault::None,
        };
        let may_change = self.fault == Fault::None || self.members > 1;
        self.spares = match may_change && rng.chance(0.6) {
            true => 1 + rng.below(2) as usize,
            false => 0,
        };
        self.crowd = Some(Crowd {
            sector,
            large: sector << (1 + rng.below(3)),
            changes: 2 + rng.below(120),
            by_rows: false,
        });
    }

    /// Makes a pool that is to be full a raidz.
    pub(super) fn crowd_rows(&mut self, rng: &mut Prng) {
        self.stripe(rng);
        self.disks = self.members;
        self.journal = crowd::journal_of_raidz(self.members, self.parity);
        if let Some(crowd) = &mut self.crowd {
            crowd.by_rows = true;
        }
    }

    /// The failing disks.
    pub(super) fn bad(&self) -> BTreeSet<PathBuf> {
        if self.fault == Fault::None {
            return BTreeSet::new();
        }
        let numbers = self.failing_disks().into_iter();
        numbers.map(|n| format!("disk{n}").into()).collect()
    }

    /// The numbers of the disks that fail if there is a fault.
    fn failing_disks(&self) -> Vec<usize> {
        let members = self.members;
        let is_failing = |n: &usize| {
            let behind = n % members + members - self.faulty.get();
            behind % members < self.failing
        };
        (0..self.disks).filter(is_failing).collect()
    }

    /// Other members fail from now on: the next ones.
    pub(super) fn pass_fault_on(&self) {
        let next = self.faulty.get() + self.failing;
        self.faulty.set(next % self.members);
    }

    pub(super) fn break_disks(&self, disks: &[SimDisk], rng: &mut Prng) {
        for disk in self.failing_disks().into_iter().map(|n| &disks[n]) {
            match self.fault {
                Fault::None => {}
                Fault::Rot => {
                    let start = match self.aim {
                        Some(Aim::Rot) => self.data_start(),
                        _ => rng.below(self.disk.size),
                    };
                    let len = 1 << rng.below(24);
                    disk.rot(start..(start + len).min(self.disk.size));
                }
                Fault::Errors => {
                    let rate = rng.below(30) as f64 / 100.0;
                    disk.error_rates(rate, rate, rate / 4.0);
                }
                Fault::Stalls => disk.stall_next(Duration::from_secs(30)),
            }
        }
    }

    /// The first byte of each member behind the journal.
    fn data_start(&self) -> u64 {
        let copies = self.journal.segments as usize * (self.parity + 1);
        let slots = match self.parity {
            0 => copies,
            _ => copies.div_ceil(self.members),
        };
        DATA_START + slots as u64 * u64::from(self.journal.segment_size)
    }

    /// Rots the rows that are given out first, on all failing members of a raidz. Each row still has enough sound units.
    pub(super) fn rot_rows(&self) {
        let start = self.data_start();
        for number in self.failing_disks() {
            let disk = Node::current().disk(format!("disk{number}"));
            let disk = disk.expect("the run created it");
            disk.rot(start..(start + ROTTEN).min(self.disk.size));
        }
    }

    /// Describes the faults of this incarnation, for the trace.
    pub(super) fn trouble(&self) -> String {
        format!("{:?} on {:?}, {:?}", self.fault, self.bad(), self.away)
    }

    pub(super) fn heal(&self) {
        let disks = (0..self.disks).filter_map(|n| Node::current().disk(format!("disk{n}")));
        disks.for_each(SimDisk::heal);
    }

    pub(super) fn names(&self) -> Vec<String> {
        let disks = 0..self.disks + self.spares;
        disks.map(|n| format!("disk{n}")).collect()
    }
}
