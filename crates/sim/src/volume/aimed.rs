//! Scenario `aimed`: small pools, with faults aimed at the steps where a promise could break.
//!
//! **Owns** the parameters that a seed of this scenario chooses. **Called by** `volume::run`. A seed has one aim. Runs are
//! short: thousands of them take a minute.

use super::plan::{End, Fault, Plan};
use crate::crowd;
use crate::workload::Expected;
use io::rng::Prng;
use io::sim::{Latency, PowerCutFate};
use pool::format::{ChecksumKind, JournalLayout, Packing, Sync};
use std::time::Duration;

/// Sector size, and unit that a power cut does not tear, bytes.
const SECTOR: u32 = 512;
/// Size of a block and of most records, bytes.
const BLOCK: u32 = 4096;
/// Bytes of a journal segment for each record of the volume. A batch may contain every record once.
const RECORD_BYTES: u64 = 96;
/// Further bytes of a segment.
const SEGMENT_MIN: u64 = 1536;
/// A journal that takes most of the smallest disk.
const LARGE_JOURNAL: JournalLayout = JournalLayout {
    segment_size: 2 << 20,
    segments: 25,
};

/// A journal that leaves most of the smallest disks to rows.
const EXPANDED_JOURNAL: JournalLayout = JournalLayout {
    segment_size: 256 << 10,
    segments: 6,
};
/// Per cent of small raidz that are expanded.
const EXPANSIONS: u64 = 35;
/// Per cent of small raidz whose rows are short.
const MOVERS: u64 = 10;
/// Per cent of pools from which vdevs are removed.
const REMOVALS: u64 = 8;
/// Per cent of pools whose regions are emptied.
const RELOCATIONS: u64 = 10;
/// Bytes of rows of a raidz whose rows are short.
const MOVED_DATA: u64 = 12 << 20;
/// Disk steps that no incarnation takes.
const NEVER: u64 = 1 << 40;

/// The aim of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// The end of the journal: one disk, a journal of a few kilobytes that wraps all the time, batches of several sectors of
    /// which a power cut writes some, and incarnations of a few disk steps. Batches that replay refused lie where the next
    /// batch goes.
    Journal,
    /// Membership: a member of a mirror fails for a while under load and may be resilvered, the power is cut, and either
    /// member is away for the next incarnation. So each member must have what its label says.
    Members,
    /// Expansion of a raidz: the power goes while its rows are moved.
    Expansion,
    /// The row mover of a raidz: single blocks of a volume that takes much of the pool are overwritten, so that rows are short.
    Mover,
    /// Reuse of space: little space, frequent checkpoints, and reads that take longer than a checkpoint.
    Readers,
    /// Relocation of blocks that snapshots hold: the power goes while they are moved out of small regions, their old addresses are used
    /// again, and a member may be away meanwhile.
    Relocation,
    /// Removal of a vdev: the power goes while its blocks are copied to the other one, and the copies are read, overwritten and freed.
    Removal,
    /// Rot where the data lies, on one member of a mirror with long records, of which reads take parts.
    Rot,
}

/// A latency with which fewer than `percent` % of the operations take up to 128 ms longer than usual.
fn slow(usual: Latency, percent: u64, rng: &mut Prng) -> Latency {
    Latency {
        tail_chance: rng.below(percent) as f64 / 100.0,
        tail: Duration::from_millis(1 << rng.below(8)),
        ..usual
    }
}

impl Plan {
    /// Chooses a small pool of one vdev with two disks beside it, whose members fail while the power may go.
    pub(super) fn hot(&mut self, rng: &mut Prng) {
        self.aim_at_failures(rng);
        self.spares = 2;
        self.hot = true;
        self.may_be_away = false;
    }

    /// Chooses an aim and sets all parameters for it.
    pub(super) fn aim(&mut self, rng: &mut Prng) {
        let (aim, set): (Aim, fn(&mut Plan, &mut Prng)) = match rng.below(9) {
            0..=3 => (Aim::Journal, Plan::aim_at_journal),
            4..=6 => (Aim::Members, Plan::aim_at_members),
            7 => (Aim::Readers, Plan::aim_at_readers),
            _ => (Aim::Rot, Plan::aim_at_rot),
        };
        self.aim = Some(aim);
        self.shrink(rng);
        set(self, rng);
    }

    /// Sets the parameters of a small pool that loses power while it works.
    fn shrink(&mut self, rng: &mut Prng) {
        (self.churn, self.resizes, self.snapshots) = (false, false, false);
        (self.fault, self.spares) = (Fault::None, 0);
        (self.disks, self.members) = (1, 1);
        self.cuts_at_work = true;
        self.ashift = Some(SECTOR.ilog2() as u8);
        self.disk.logical_block = SECTOR;
        self.disk.physical_block = SECTOR;
        self.disk.atomic_unit = SECTOR;
        self.disk.volatile_cache = true;
        self.volume.block_size = BLOCK;
        self.volume.record_size = BLOCK;
        self.volume.sync = Sync::Standard;
        self.options.record_cache_bytes = 0;
        self.jobs = 1 + rng.below(6);
        self.profile.requests = 4 + rng.below(40) as u32;
        self.profile.pause = Duration::from_micros(rng.below(300));
        self.checkpoints = Duration::from_micros(200 << rng.below(8));
    }

    /// Sets the parameters of a small pool whose members fail for good.
    pub(super) fn aim_at_failures(&mut self, rng: &mut Prng) {
        self.shrink(rng);
        self.aim_at_members(rng);
        let lives = 3 + rng.below(5);
        let mut cut = |_| {
            let most = 200 << rng.below(6);
            End::PowerCut(200 + rng.below(most))
        };
        self.lives = (0..lives).map(&mut cut).collect();
    }

    /// Sets the volume's size to `blocks` blocks, all of them hot.
    fn size_volume(&mut self, blocks: u64, blocks_max: u64) {
        self.volume.size = blocks * u64::from(BLOCK);
        self.profile.hot = 0..blocks;
        self.profile.blocks_max = blocks_max;
    }

    /// Chooses a journal whose segments hold approximately two of the largest batches that the volume's records can make.
    fn shorten_journal(&mut self, rng: &mut Prng) {
        let records = self.volume.size.div_ceil(self.volume.record_size.into());
        let segment = (records * RECORD_BYTES + SEGMENT_MIN).next_multiple_of(SECTOR.into());
        self.journal = JournalLayout {
            segment_size: segment as u32,
            segments: 3 + rng.below(6) as u32,
        };
    }

    /// Sets `lives` incarnations that end by a power cut after up to `16 << longest` disk steps of work.
    fn cut_lives(&mut self, lives: u64, longest: u64, rng: &mut Prng) {
        let mut cut = |_| {
            let steps = 16 << rng.below(longest);
            End::PowerCut(rng.below(steps))
        };
        self.lives = (0..lives).map(&mut cut).collect();
    }

    fn aim_at_journal(&mut self, rng: &mut Prng) {
        self.jobs = 2 + rng.below(8);
        if rng.chance(0.5) {
            let blocks = 4 + rng.below(60);
            self.size_volume(blocks, 1 + rng.below(blocks));
            self.profile.zeroes = rng.chance(0.5);
        } else {
            // All batches have one length. So in a sector that a torn batch lacks, the records of an older batch begin where
            // those of the torn batch would.
            let blocks = 8 + rng.below(16);
            self.size_volume(blocks, blocks);
            self.profile.whole = true;
            self.profile.zeroes = false;
        }
        self.shorten_journal(rng);
        self.cut_lives(6 + rng.below(8), 5, rng);
        if rng.chance(0.7) {
            self.disk.power_cut = PowerCutFate::Torn;
        }
        self.cuts_max = 6;
    }

    fn aim_at_members(&mut self, rng: &mut Prng) {
        (self.disks, self.members) = (2, 2);
        self.size_volume(4 + rng.below(40), 1 + rng.below(16));
        if rng.chance(0.5) {
            self.shorten_journal(rng);
        }
        self.cut_lives(3 + rng.below(5), 7, rng);
        self.cuts_max = 1;
        self.may_be_away = true;
    }

    /// Gives some raidz another aim: rows that are moved.
    pub(super) fn aim_at_rows(&mut self, rng: &mut Prng) {
        let chance = rng.below(100);
        if chance < EXPANSIONS {
            self.aim_at_expansion(rng);
        } else if chance < EXPANSIONS + MOVERS {
            self.aim_at_mover(rng);
        }
    }

    /// Sets the parameters of a raidz of the smallest disks, without members that fail.
    fn calm(&mut self) {
        self.overloads = false;
        self.profile.expected = Expected::default();
        self.profile.whole = false;
        self.disk.size = pool::vdev::limits::DISK_SIZE_MIN;
    }

    /// A raidz that is expanded. Its first rows have data, which must be readable wherever the power goes.
    fn aim_at_expansion(&mut self, rng: &mut Prng) {
        self.aim = Some(Aim::Expansion);
        self.calm();
        (self.spares, self.failing, self.may_be_away) = (1, 0, false);
        if rng.chance(0.5) {
            self.disk.power_cut = PowerCutFate::Torn;
        }
        self.journal = EXPANDED_JOURNAL;
        self.size_volume(256 + rng.below(1024), 64);
        self.profile.requests = 20 + rng.below(60) as u32;
        // The expansion itself chooses when the power goes.
        let lives = 2 + rng.below(3);
        self.lives = (0..lives).map(|_| End::PowerCut(NEVER)).collect();
    }

    /// A raidz whose rows the mover has to free while clients overwrite the records that it moves.
    fn aim_at_mover(&mut self, rng: &mut Prng) {
        self.aim = Some(Aim::Mover);
        self.calm();
        self.may_be_away = rng.chance(0.5);
        self.ashift = Some(BLOCK.ilog2() as u8);
        self.journal = crowd::journal_beside(MOVED_DATA, self.members, self.parity);
        let used = 50 + rng.below(20);
        let blocks = MOVED_DATA / u64::from(BLOCK) * used / 100;
        self.size_volume(blocks, 2);
        self.profile.zeroes = false;
        self.profile.expected.no_space = true;
        self.profile.pause = Duration::from_micros(rng.below(50));
        self.jobs = 8;
        self.profile.requests = 600 + rng.below(600) as u32;
        self.checkpoints = Duration::from_millis(1 << rng.below(6));
        let lives = 2 + rng.below(2);
        let mut cut = |_| End::PowerCut(4000 + rng.below(30_000));
        self.lives = (0..lives).map(&mut cut).collect();
    }

    /// Gives some pools another aim: a vdev that is added and removed, several times.
    pub(super) fn aim_at_removals(&mut self, rng: &mut Prng) {
        if rng.below(100) >= REMOVALS {
            return;
        }
        self.aim = Some(Aim::Removal);
        self.shrink(rng);
        self.calm();
        (self.spares, self.may_be_away) = (1, false);
        self.snapshots = rng.chance(0.6);
        self.journal = EXPANDED_JOURNAL;
        self.size_volume(64 + rng.below(256), 16);
        self.profile.requests = 50 + rng.below(200) as u32;
        // The removals themselves choose when the power goes.
        let lives = 1 + rng.below(3);
        self.lives = (0..lives).map(|_| End::PowerCut(NEVER)).collect();
    }

    /// Gives some pools another aim: regions of which blocks are moved that snapshots hold.
    pub(super) fn aim_at_relocations(&mut self, rng: &mut Prng) {
        if self.aim == Some(Aim::Removal) || rng.below(100) >= RELOCATIONS {
            return;
        }
        self.aim = Some(Aim::Relocation);
        self.shrink(rng);
        self.calm();
        self.may_be_away = rng.chance(0.5);
        if self.may_be_away {
            (self.disks, self.members) = (2, 2);
        }
        self.snapshots = true;
        self.journal = EXPANDED_JOURNAL;
        self.size_volume(64 + rng.below(256), 16);
        self.profile.requests = 50 + rng.below(200) as u32;
        // The walks themselves choose when the power goes.
        let lives = 1 + rng.below(4);
        self.lives = (0..lives).map(|_| End::PowerCut(NEVER)).collect();
        if rng.chance(0.5) {
            self.slow_writes(rng);
        }
    }

    /// Some writes take longer than a checkpoint.
    fn slow_writes(&mut self, rng: &mut Prng) {
        let usual = self.disk.latency;
        (self.disk.read_latency, self.disk.flush_latency) = (Some(usual), Some(usual));
        self.disk.latency = slow(usual, 60, rng);
    }

    /// Whether members fail for a while beside the jobs.
    pub(super) fn lapses(&self) -> bool {
        self.aim == Some(Aim::Members)
    }

    fn aim_at_rot(&mut self, rng: &mut Prng) {
        (self.disks, self.members) = (2, 2);
        (self.fault, self.failing, self.may_be_away) = (Fault::Rot, 1, false);
        self.journal = EXPANDED_JOURNAL;
        self.disk.size = pool::vdev::limits::DISK_SIZE_MIN;
        self.volume.record_size = BLOCK << (2 + rng.below(2));
        self.volume.compression = Packing::Off;
        self.volume.checksum = ChecksumKind::Xxh3;
        self.options.record_parts = true;
        self.size_volume(64 + rng.below(256), 16);
        self.profile.requests = 40 + rng.below(80) as u32;
        self.cut_lives(1 + rng.below(3), 9, rng);
    }

    fn aim_at_readers(&mut self, rng: &mut Prng) {
        self.journal = LARGE_JOURNAL;
        self.disk.size = pool::vdev::limits::DISK_SIZE_MIN;
        self.disk.read_latency = Some(slow(Latency::default(), 20, rng));
        self.volume.record_size = BLOCK << rng.below(4);
        self.size_volume(64 + rng.below(256), 64);
        self.profile.requests = 100 + rng.below(100) as u32;
        self.jobs = 4 + rng.below(6);
        self.profile.pause = Duration::from_micros(0);
        self.profile.expected.no_space = true;
        self.cut_lives(rng.below(2), 8, rng);
    }
}
