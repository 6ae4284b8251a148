//! What a seed decides of a pool's runs.
//!
//! **Owns** the disks, their faults, and how incarnations end. **Called by** scenarios `pool`, `full` and `aimed`.
//! **Invariant**: each vdev has a side whose disk is sound, at any time.

use super::VOLUME;
use super::absence::{Away, LastLabels};
use super::aimed::Aim;
use crate::crowd::{self, Crowd};
use crate::settings::Settings;
use crate::workload::{Expected, Profile};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, SimDisk};
use pool::format::{ChecksumKind, JournalLayout, Packing, Sync};
use pool::journal::UNPROVEN_MAX;
use pool::vdev::limits::DISK_SIZE_MIN;
use pool::{NewVolume, Options};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of a sector of a pool that is full, or two or four times as many: with larger ones it has fewer.
const SECTOR_MIN: u32 = 4096;
/// Lives of such a pool but the last: each reads all of it.
const LIVES_MAX: usize = 2;

/// Incarnations with a small journal, but the last.
const TIGHT_LIVES: u64 = 6;
/// Bytes of a small journal.
const TIGHT_JOURNAL: u32 = 512 << 10;
/// Bytes of its smallest segment.
const TIGHT_SEGMENT: u64 = 16 << 10;
/// Bytes of the journal for one record, and more.
const RECORD_BYTES: u64 = 128;

/// What a seed decides.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) disks: usize,
    pub(super) disk: DiskConfig,
    /// Of each vdev.
    pub(super) sides: usize,
    /// Of all vdevs.
    pub(super) ashift: Option<u8>,
    pub(super) journal: JournalLayout,
    pub(super) volume: NewVolume,
    pub(super) options: Options,
    pub(super) lives: Vec<End>,
    pub(super) jobs: u64,
    pub(super) profile: Profile,
    /// Longest pause between two checkpoints that somebody asks for.
    pub(super) checkpoints: Duration,
    /// Other volumes come and go.
    pub(super) churn: bool,
    /// Snapshots and clones come and go.
    pub(super) snapshots: bool,
    /// The model's volume shrinks and grows.
    pub(super) resizes: bool,
    /// Sides are taken out, attached, detached and replaced; disks that may become one.
    pub(super) spares: usize,
    pub(super) fault: Fault,
    /// Which side of each mirror: it changes when the mirrors are whole again.
    pub(super) faulty: Rc<Cell<usize>>,
    /// What the seed aims at, in scenario `aimed`.
    pub(super) aim: Option<Aim>,
    /// What fills the pool, if it is to be full.
    pub(super) crowd: Option<Crowd>,
    /// The power goes some steps after the pool was opened, not after it was switched on.
    pub(super) cuts_at_work: bool,
    /// A member may be away for an incarnation.
    pub(super) may_be_away: bool,
    pub(super) away: Away,
    pub(super) last_labels: LastLabels,
    /// Openings in a row that may be cut short.
    pub(super) cuts_max: u64,
    /// The next opening loses power after this many disk steps, counted from when its disks were found.
    pub(super) cut_opening: Rc<Cell<Option<u64>>>,
    /// The newest checkpoint that an opening made durable: no later opening may come back at an older one.
    pub(super) reached: Rc<Cell<u64>>,
}

/// What is the matter with one side of each mirror. The other one is sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// What it holds changes by itself.
    Rot,
    /// Reads, writes and flushes fail now and then.
    Errors,
    /// It takes long.
    Stalls,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// The power goes after so many disk steps, or when the work is done.
    PowerCut(u64),
    /// The process is killed after this time, or when the work is done.
    Kill(Duration),
    /// The pool is closed when the work is done.
    Close,
}

/// How the jobs behave; most extents begin in these blocks.
fn profile(hot: Range<u64>, rng: &mut Prng) -> Profile {
    Profile {
        requests: 5 + rng.below(120) as u32,
        blocks_max: 1 + rng.below(64),
        hot,
        pause: Duration::from_micros(rng.below(500)),
        fused_max: 4,
        zeroes: true,
        whole: false,
        latency_max: None,
        expected: Expected::default(),
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
        let sides = 1 + rng.below(2) as usize;
        let mut plan = Plan {
            disks: sides * (1 + rng.below(2) as usize),
            disk,
            sides,
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
                sync: if rng.chance(0.2) {
                    Sync::Always
                } else {
                    Sync::Standard
                },
                compression: Packing::Off,
                checksum: ChecksumKind::Xxh3,
            },
            options: Options {
                cache_bytes: 64 << 10,
                record_cache_bytes: 0,
                dirty_bytes: 256 << 10 << rng.below(6),
                buffer_bytes: 8 << 20,
                freeing_max: 0,
                unproven_bytes: UNPROVEN_MAX,
            },
            lives,
            jobs: 1 + rng.below(8),
            profile,
            checkpoints: Duration::from_micros(100 + rng.below(20_000)),
            churn: rng.chance(0.5),
            snapshots: rng.chance(0.6),
            resizes: false,
            spares: 0,
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
            fault: match rng.below(6) {
                0 if sides > 1 => Fault::Rot,
                1 if sides > 1 => Fault::Errors,
                2 => Fault::Stalls,
                _ => Fault::None,
            },
        };
        plan.options.freeing_max = 1 << rng.below(12);
        // of its own, so that older seeds are what they were
        let mut rng = Prng::new(rng.u64() ^ 0x51de);
        if plan.fault == Fault::None && rng.chance(0.4) {
            plan.spares = 1 + rng.below(2) as usize;
        }
        let mut rng = Prng::new(rng.u64() ^ 0xf105);
        if rng.chance(0.6) {
            plan.options.unproven_bytes = 1 << rng.below(24);
        }
        plan
    }

    /// How the volume's records are stored. Every other disk has sectors of 512 bytes, so that most records can be smaller.
    pub(super) fn furnish(&mut self, rng: &mut Prng) {
        if rng.chance(0.5) {
            self.ashift = Some(9);
            self.disk.logical_block = 512;
            self.disk.physical_block = 512;
            self.disk.atomic_unit = 512;
        }
        let set = Settings::new(rng);
        self.volume.compression = set.compression;
        self.volume.checksum = set.checksum;
        if rng.chance(0.7) {
            self.options.record_cache_bytes = 64 << 10 << rng.below(6);
        }
    }

    /// Some pools have a journal of small segments, of which a batch often does not fit the rest, and incarnations that end
    /// while it laps: what replay passed over lies where it looks next. Others lose a member for an incarnation.
    pub(super) fn tighten(&mut self, rng: &mut Prng) {
        self.may_be_away = self.sides > 1 && self.spares == 0 && self.fault != Fault::Rot;
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
        // their groups do not fit
        self.churn = false;
        self.cuts_at_work = true;
        let mut cut = |_| {
            let longest = 16 << rng.below(6);
            End::PowerCut(rng.below(longest))
        };
        self.lives = (0..TIGHT_LIVES).map(&mut cut).collect();
    }

    /// Whether a member is away in the next incarnation, and which: mostly one on a sound disk.
    pub(super) fn leave(&self, rng: &mut Prng) {
        let leaves = self.may_be_away && rng.chance(0.5);
        let vdev = rng.below((self.disks / self.sides) as u64) as usize;
        let is_sound = rng.chance(0.8);
        let side = match self.aim {
            Some(_) => rng.below(self.sides as u64) as usize,
            None => (self.faulty.get() + usize::from(is_sound)) % self.sides,
        };
        self.away
            .set(Some(vdev * self.sides + side).filter(|_| leaves));
    }

    /// A quarter of the pools has the smallest journal, so that an older checkpoint has nothing to replay; most of them are of
    /// one disk whose sectors are so small that a cut tears all that is being written, and many of their openings are cut.
    pub(super) fn shrink_journal(&mut self, rng: &mut Prng) {
        if !rng.chance(0.25) {
            return;
        }
        self.journal = JournalLayout {
            segment_size: 64 << 10,
            segments: 4,
        };
        if self.fault == Fault::None && self.spares == 0 {
            (self.disks, self.sides) = (1, 1);
            self.ashift = Some(9);
            self.disk.logical_block = 512;
            self.disk.physical_block = 512;
            self.disk.atomic_unit = 512;
            self.cuts_max = 24;
        }
    }

    /// The pool is full in small parts, and sides come and go also where media fail.
    pub(super) fn crowd(&mut self, rng: &mut Prng) {
        let sector = SECTOR_MIN << rng.below(3);
        self.ashift = Some(sector.ilog2() as u8);
        self.disk.logical_block = 4096;
        self.disk.physical_block = 4096;
        self.disk.atomic_unit = 4096;
        self.disk.size = DISK_SIZE_MIN;
        self.sides = 1 + rng.below(2) as usize;
        self.disks = self.sides;
        self.volume.record_size = sector << (1 + rng.below(3));
        self.options.dirty_bytes = 4 << 20;
        self.journal = crowd::JOURNAL;
        self.lives.truncate(LIVES_MAX);
        self.profile.expected.no_space = true;
        // what they write is not to be refused
        self.churn = false;
        self.fault = match rng.below(8) {
            0 | 1 if self.sides > 1 => Fault::Rot,
            2 | 3 if self.sides > 1 => Fault::Errors,
            4 => Fault::Stalls,
            _ => Fault::None,
        };
        let may_change = self.fault == Fault::None || self.sides > 1;
        self.spares = match may_change && rng.chance(0.6) {
            true => 1 + rng.below(2) as usize,
            false => 0,
        };
        self.crowd = Some(Crowd {
            sector,
            large: sector << (1 + rng.below(3)),
            changes: 2 + rng.below(120),
        });
    }

    /// The disks that fail.
    pub(super) fn bad(&self) -> BTreeSet<PathBuf> {
        let failing = match self.fault {
            Fault::None => 0,
            _ => self.disks,
        };
        let numbers = (0..failing).skip(self.faulty.get()).step_by(self.sides);
        numbers.map(|n| format!("disk{n}").into()).collect()
    }

    pub(super) fn break_disks(&self, disks: &[SimDisk], rng: &mut Prng) {
        let disks = &disks[..self.disks];
        for disk in disks.iter().skip(self.faulty.get()).step_by(self.sides) {
            match self.fault {
                Fault::None => {}
                Fault::Rot => {
                    let start = rng.below(self.disk.size);
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

    /// What goes wrong in this incarnation, for the trace.
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
