//! Requests and answers about pools and volumes.

mod caches;

pub use caches::*;

use super::{
    Damage, DiskState, ExportedAs, LostChanges, Resilver, Scrub, SpecialClass, Trim, VdevClass,
    VdevLayout, VdevSpec,
};
use crate::size::ByteSize;
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Words of the grammar of a pool's layout, of which some are not supported yet. None is the name of a pool, or the path of a disk.
pub const LAYOUT_WORDS: [&str; 11] = [
    "mirror", "raidz", "raidz1", "raidz2", "raidz3", "draid", "spare", "log", "cache", "special",
    "dedup",
];

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its GUID, 16 hexadecimal digits; empty while it is not open.
    pub guid: String,
    /// Whether it can be used.
    pub state: DiskState,
    /// Its health, if it is open.
    pub health: Option<Health>,
    /// Why it is held back, or takes no writes though it is open.
    pub reason: Option<String>,
    /// Paths of its disks.
    pub disks: Vec<PathBuf>,
    /// Opened read-only.
    #[serde(default)]
    pub read_only: bool,
    /// Bytes of its allocator: `used` + `freeing` + `free`. 0 while it is not open.
    pub size: u64,
    /// Bytes taken.
    pub used: u64,
    /// Bytes of pending destroys (approximate) and of freed blocks that the next checkpoint makes reusable.
    pub freeing: u64,
    /// Free bytes.
    pub free: u64,
    /// Of these, bytes reserved for volumes.
    pub reserved: u64,
    /// Acknowledged bytes that are only in memory.
    pub dirty: u64,
    /// Memory for the maps of used space, bytes.
    #[serde(default)]
    pub space_maps: u64,
    /// Its volumes with `sync=disabled`: their clients get successful flushes without stable storage.
    #[serde(default)]
    pub sync_disabled: Vec<String>,
    /// Its record cache.
    #[serde(default)]
    pub record_cache: RecordCache,
    /// The caches that its datasets use.
    #[serde(default)]
    pub cached_datasets: CachedDatasets,
    /// Nodes of trees that its disks had to read.
    #[serde(default)]
    pub node_reads: NodeReads,
    /// Its vdevs.
    pub vdevs: Vec<Vdev>,
    /// Logs that failed and left it since it was opened.
    #[serde(default)]
    pub logs_lost: u64,
    /// Its hot spares.
    #[serde(default)]
    pub spares: Vec<Spare>,
    /// Its cache devices.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// How often a spare took the place of a disk.
    #[serde(default)]
    pub spares_taken: u64,
    /// Its present or last scrub.
    #[serde(default)]
    pub scrub: Option<Scrub>,
    /// Its present or last trim.
    #[serde(default)]
    pub trim: Option<Trim>,
    /// Whether freed space is trimmed automatically (`autotrim`).
    #[serde(default)]
    pub autotrim: bool,
    /// Whether vdevs use the space of grown disks automatically (`autoexpand`).
    #[serde(default)]
    pub autoexpand: bool,
    /// Its present or last resilver.
    #[serde(default)]
    pub resilver: Option<Resilver>,
    /// The removal of a vdev, while that is in progress.
    #[serde(default)]
    pub removal: Option<Removal>,
    /// Its row mover, if it is open and has a raidz.
    #[serde(default)]
    pub row_moves: Option<RowMoves>,
    /// Its order mover, if it is open.
    #[serde(default)]
    pub order_moves: Option<OrderMoves>,
    /// Its region mover, if it is open.
    #[serde(default)]
    pub region_moves: Option<RegionMoves>,
    /// Its balance mover, if it is open and has several vdevs.
    #[serde(default)]
    pub balance_moves: Option<BalanceMoves>,
    /// Its special class, if it is open and has one.
    #[serde(default)]
    pub special: Option<SpecialClass>,
    /// The changes that were lost with its journal, if it was imported without the log since the server started.
    #[serde(default)]
    pub lost_changes: Option<LostChanges>,
    /// The way of its small durable writes, if it is open.
    #[serde(default)]
    pub durable_writes: Option<DurableWrites>,
    /// Unreadable ranges that reads, scrubs and resilvers found.
    #[serde(default)]
    pub damage: Vec<Damage>,
    /// Whether there are more ranges.
    #[serde(default)]
    pub more_damage: bool,
}

impl Pool {
    /// Space taken, % of its size; 0 while it is not open.
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        let used = self.used.saturating_mul(100);
        used.checked_div(self.size).unwrap_or(0)
    }
}

/// The expansion of a raidz by a disk. The vdev has its new size when it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expansion {
    /// Bytes of each disk that are moved.
    pub done: u64,
    /// Bytes of each disk that are moved when it ends.
    pub of: u64,
    /// `done` when it began, or went on after the pool was opened.
    pub began_at: u64,
    /// Time since then in which it did not wait.
    pub active_ms: u64,
    /// The reason why it does not go on.
    pub waits_for: Option<String>,
    /// Number of disks of the vdev that may fail now without loss.
    pub may_fail: u64,
}

impl Expansion {
    /// Bytes of each disk that were moved since the expansion began or went on, and bytes that it then had to move.
    #[must_use]
    pub fn since_start(&self) -> (u64, u64) {
        let since = |n: u64| n.saturating_sub(self.began_at);
        (since(self.done), since(self.of))
    }
}

/// The removal of a vdev: its blocks are copied to the other vdevs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removal {
    /// The vdev, such as `mirror-1`.
    pub vdev: String,
    /// Bytes that were copied.
    pub copied: u64,
    /// Bytes that are still to be copied, about.
    pub left: u64,
    /// Of `copied`, bytes that were copied since the removal began or the pool was opened.
    pub copied_now: u64,
    /// Time that this took, without rests.
    pub active_ms: u64,
    /// Whether it was given up, and the copies are being freed.
    pub is_stopping: bool,
    /// The reason why it does not go on.
    pub waits_for: Option<String>,
}

/// The row mover of a pool with a raidz: it frees rows by writing the records in sparse rows again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowMoves {
    /// Whether records are being moved, because few rows are free.
    pub is_moving: bool,
    /// Whether a write waits for free rows.
    pub is_awaited: bool,
    /// Bytes of records that were moved since the pool was opened.
    pub moved: u64,
    /// Bytes of used rows that no block takes.
    pub dead: u64,
}

/// The order mover: it writes records that lie apart again one behind the other, where clients read them in order (`autodefrag`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderMoves {
    /// Whether records are being moved.
    pub is_moving: bool,
    /// Bytes that clients read in order and that lie apart, rounded up to parts of 1 MiB: they will be moved.
    pub waiting: u64,
    /// Bytes of records that were moved since the pool was opened.
    pub moved: u64,
    /// Bytes that were read in order in the last ten minutes, and stay apart because snapshots hold them.
    pub held: u64,
    /// Whether nothing is moved because less than a sixteenth of the pool is free.
    pub is_short: bool,
}

/// The region mover: it empties sparse regions of mirrors where records had to be stored in fragments (`autodefrag`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegionMoves {
    /// Whether records are being moved.
    pub is_moving: bool,
    /// Bytes of blocks that were moved since the pool was opened.
    pub moved: u64,
    /// The part of them whose pointers stay as they are: blocks that snapshots hold, nodes of trees, and fragments of records.
    pub relocated: u64,
    /// Blocks of the pool that are at another place than their pointers say.
    pub relocations: u64,
    /// Whether no more blocks are relocated because the pool has as many relocations as it may have.
    pub is_full: bool,
    /// Regions of 8192 sectors that became free by it.
    pub emptied: u64,
    /// Records that were stored in fragments since the pool was opened, because no run of free space was long enough.
    pub in_fragments: u64,
    /// Whether no region is worth it now: all are more than three quarters full, or could not be emptied in the last hour.
    pub has_none: bool,
}

/// The balance mover: it writes records of vdevs that are fuller than others again on emptier ones, as after `pool add` (`autodefrag`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BalanceMoves {
    /// Whether records are being moved.
    pub is_moving: bool,
    /// Bytes that the fuller vdevs have more than if all vdevs were equally full.
    pub surplus: u64,
    /// Bytes of records that were moved since the pool was opened.
    pub moved: u64,
    /// Whether the surplus stays where it is: snapshots hold the blocks, or `autodefrag` is off.
    pub is_stuck: bool,
}

/// The way of small durable writes: at once to blocks of their own, or with their contents in the journal and to blocks later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DurableWrites {
    /// The usual time until such a write to blocks is durable, µs. `None` before one was measured.
    pub blocks_us: Option<u64>,
    /// The same of a write with its contents in the journal. `None` where that was not tried: writes to blocks take less than 500 µs.
    pub journal_us: Option<u64>,
    /// Number of records whose contents went to the journal since the pool was opened.
    pub journaled: u64,
    /// Their bytes.
    pub journaled_bytes: u64,
    /// Waits of clients for durable data: flushes, durable writes and commits.
    #[serde(default)]
    pub waits: OperationTimes,
    /// Time since the pool was opened, ms.
    #[serde(default)]
    pub open_ms: u64,
    /// Bytes of the journal that were written since the pool was opened, each once for all members of a mirror.
    #[serde(default)]
    pub journal_written: u64,
    /// Bytes of the smallest disk that can be a log of the pool.
    #[serde(default)]
    pub log_size_min: u64,
}

/// Health of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Every member has every block.
    Online,
    /// A member is missing, faulted, offline or stale; another has its data.
    Degraded,
    /// A vdev has no member with every block.
    Faulted,
    /// The pool takes no writes, though all data can be read: a write or flush failed on every member of a vdev, or the file system below
    /// is full. `reason` says which.
    Suspended,
}

/// A top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vdev {
    /// Such as `mirror-0`.
    pub name: String,
    /// Its layout.
    pub layout: VdevLayout,
    /// Its class.
    #[serde(default)]
    pub class: VdevClass,
    /// Its health.
    pub health: Health,
    /// Bytes of its data, without parity.
    pub size: u64,
    /// Its expansion by a disk, while that is in progress.
    #[serde(default)]
    pub expansion: Option<Expansion>,
    /// Whether the pool's journal is on it, or moves to it.
    #[serde(default)]
    pub journal: bool,
    /// Its members.
    pub members: Vec<Member>,
}

/// State of a hot spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpareState {
    /// It waits.
    Avail,
    /// It is a member of this pool, or of another one that shares it.
    Inuse,
    /// Its disk was not found.
    Unavail,
}

/// A hot spare: a disk that takes the place of one that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spare {
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// Its path, or its last known one.
    pub path: Option<PathBuf>,
    /// Its state.
    pub state: SpareState,
    /// Bytes of its disk.
    pub size: u64,
    /// If it is in use in this pool: the GUID of the member that its disk is.
    #[serde(default)]
    pub member: Option<String>,
    /// If it is in use in this pool: the path or GUID of the disk that it stands in for.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// If it is in use in another pool: that pool.
    #[serde(default)]
    pub in_pool: Option<String>,
    /// Why it is not available.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A disk of a vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// Its path, if it is present.
    pub path: Option<PathBuf>,
    /// Its last known path, if it is missing.
    #[serde(default)]
    pub was: Option<PathBuf>,
    /// Whether it is being replaced, and will be detached.
    #[serde(default)]
    pub replaced: bool,
    /// Whether it is a spare that stands in for another disk.
    #[serde(default)]
    pub spare: bool,
    /// `online`, `stale`, `offline`, `faulted` or `missing`.
    pub state: String,
    /// Why it is faulted: `errors`, `gone` or `hung`.
    #[serde(default)]
    pub fault: Option<String>,
    /// Reads since the pool was opened.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed.
    pub write_errors: u64,
    /// Writes for which the file system below had no space.
    #[serde(default)]
    pub no_space: u64,
    /// Blocks with a wrong checksum.
    pub checksum_errors: u64,
    /// Blocks that were repaired from another member.
    pub repairs: u64,
    /// Trimmed bytes.
    #[serde(default)]
    pub trimmed_bytes: u64,
    /// Bytes that were read.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes that were written.
    #[serde(default)]
    pub written_bytes: u64,
    /// Durations of reads.
    #[serde(default)]
    pub read_times: OperationTimes,
    /// Durations of writes.
    #[serde(default)]
    pub write_times: OperationTimes,
    /// Durations of flushes.
    #[serde(default)]
    pub flush_times: OperationTimes,
}

impl Member {
    /// Its path; the last known one if it is missing.
    #[must_use]
    pub fn last_path(&self) -> Option<&PathBuf> {
        self.path.as_ref().or(self.was.as_ref())
    }
}

/// Durations of operations since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTimes {
    /// Operations.
    pub count: u64,
    /// Sum, µs.
    pub sum_us: u64,
    /// Median, µs.
    pub p50_us: u64,
    /// 99th percentile, µs.
    pub p99_us: u64,
    /// Maximum, µs.
    pub max_us: u64,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// Its size for clients, bytes.
    pub size: u64,
    /// Bytes that it and its snapshots own, without blocks shared with its origin.
    pub used: u64,
    /// Of these, bytes that only its snapshots hold.
    pub by_snapshots: u64,
    /// Bytes of its records as stored, including shared ones, as of the last checkpoint.
    pub referenced: u64,
    /// The same after decompression.
    #[serde(default)]
    pub logical: u64,
    /// Maximum bytes of it and its snapshots; 0 for no limit.
    pub quota: u64,
    /// Bytes reserved for it, used or not.
    pub reservation: u64,
    /// The snapshot that it was cloned from.
    pub origin: Option<String>,
    /// Its logical block size, bytes.
    pub block_size: u32,
    /// Its record size, bytes.
    pub record_size: u32,
    /// When writes become durable.
    pub sync: VolumeSync,
    /// Compression of new records: `off`, `lz4` or `zstd-1` to `zstd-19`.
    #[serde(default)]
    pub compression: String,
    /// Why compression has no effect; missing if it has one, or is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression_warning: Option<String>,
    /// Checksum of new records: `xxh3` or `blake3`.
    #[serde(default)]
    pub checksum: String,
    /// Time of its creation, ms since 1970.
    pub created_ms: u64,
    /// Its export.
    #[serde(flatten)]
    pub exported_as: ExportedAs,
}

/// When a volume's writes become durable.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum VolumeSync {
    /// When the client asks for it.
    #[default]
    Standard,
    /// Before they are acknowledged.
    Always,
    /// Within about a second: clients get the confirmation earlier.
    Disabled,
}

/// A pool found by the labels of disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// `active` or `exported`.
    pub state: String,
    /// The host that used it last.
    pub host: String,
    /// Its present disks.
    pub disks: Vec<PathBuf>,
    /// Number of its missing disks.
    pub missing: usize,
    /// Disks of it that are too short to be used, each with its size.
    #[serde(default)]
    pub short: Vec<String>,
    /// Why it cannot be imported without force.
    pub reason: Option<String>,
}

/// The pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPools {}

/// Creates a pool and opens it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name.
    pub name: String,
    /// Its vdevs.
    pub vdevs: Vec<VdevSpec>,
    /// Disks that become its hot spares.
    #[serde(default)]
    pub spares: Vec<PathBuf>,
    /// Disks that become its cache devices.
    #[serde(default)]
    pub caches: Vec<PathBuf>,
    /// Create missing files with this size.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Use disks that belong to another pool or have other contents, such as a file system: everything on them is lost. Also accept
    /// vdevs of which some lose data after fewer failures, and a raidz of disks of different sizes.
    #[serde(default)]
    pub force: bool,
}

/// Looks for pools on disks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanPools {
    /// Disks, and directories with disks; absolute paths. Without any: the search directories of the configuration.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
}

/// Imports a pool from its disks, and stores it in the configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Its name, or its GUID in hexadecimal digits; optional if there is only one pool.
    #[serde(default)]
    pub name: Option<String>,
    /// New name; by default its own.
    #[serde(default)]
    pub rename: Option<String>,
    /// Disks, and directories with disks; absolute paths. Without any: the search directories of the configuration.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
    /// Import it although another host has it.
    #[serde(default)]
    pub force: bool,
    /// Import it although missing disks may have later labels: acknowledged writes may be lost.
    #[serde(default)]
    pub force_missing: bool,
    /// Open it read-only.
    #[serde(default)]
    pub read_only: bool,
    /// Use the space of grown disks, if all disks of a vdev have grown.
    #[serde(default)]
    pub expand: bool,
    /// Open it at this checkpoint; later changes are lost. For the newest checkpoint, the journal is applied up to
    /// the first damaged batch.
    #[serde(default)]
    pub rewind: Option<u64>,
}

/// Trial of an import: returns the result, and changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TryImport {
    /// The import.
    pub import: ImportPool,
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The name that the pool would have.
    pub name: String,
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// The checkpoint that it would be opened at.
    pub sequence: u64,
    /// Time of that checkpoint, ms since 1970.
    pub time_ms: u64,
    /// The health that it would have.
    pub health: Option<Health>,
    /// The volumes and filesystems that it would have; empty if it would not open.
    pub volumes: Vec<String>,
    /// Why it would not open.
    pub problem: Option<String>,
    /// The recovery with the smallest loss; none if the newest checkpoint opens without loss.
    pub advice: Option<String>,
    /// The checkpoints, newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Disks of it that are too short to be used, each with its size.
    #[serde(default)]
    pub short: Vec<String>,
}

/// A checkpoint that a pool may be opened at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its number.
    pub sequence: u64,
    /// The epoch that it ended: it holds every block born up to then that was not freed.
    pub epoch: u64,
    /// Time of writing, ms since 1970.
    pub time_ms: u64,
    /// Why the pool cannot be opened at it; none if its trees can be read.
    pub reason: Option<String>,
    /// Batches of the journal that are applied on top of it.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Durable batches of the journal that are lost with this choice.
    pub lost_batches: u64,
    /// Newer checkpoints that are lost with this choice.
    pub lost_checkpoints: u64,
}

/// Exports a pool: closes it, if none of its volumes is exported, marks it as unused, and removes it from the
/// configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ExportPool {
    /// The pool.
    pub name: String,
}

/// Destroys a pool and all of its data.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct DestroyPool {
    /// The pool.
    pub name: String,
    /// Confirm the destruction.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
}

/// Writes a checkpoint now.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct CheckpointPool {
    /// The pool.
    pub name: String,
}

/// The volumes of all pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListVolumes {}

/// Creates a volume.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// The pool and the name of the volume, such as tank/vm1.
    pub name: String,
    /// The size of the volume, such as 100G.
    #[arg(long)]
    pub size: ByteSize,
    /// Logical block size: 512 or 4K (default).
    #[serde(default)]
    #[arg(long)]
    pub block_size: Option<ByteSize>,
    /// Record size: a power of two from 4K (default) to 1M. Records of one sector are never compressed: take 16K to save space, and
    /// 4K for the fastest small random writes.
    #[serde(default)]
    #[arg(long)]
    pub record_size: Option<ByteSize>,
    /// When writes become durable: standard (when the client asks for it), always (before they are acknowledged),
    /// or disabled (never awaited, although the client is told otherwise). Default: inherited, else standard.
    #[serde(default)]
    #[arg(long, value_enum)]
    pub sync: Option<VolumeSync>,
    /// Compression of records: off, lz4, or zstd-1 (fast) to zstd-19 (small). Only records of 8K and more can be
    /// compressed: a record must be larger than a sector of the disks, mostly 4K. Default: inherited, else lz4.
    #[serde(default)]
    #[arg(long)]
    pub compression: Option<String>,
    /// Checksum of records: xxh3 detects damage, blake3 also detects forgery. Default: inherited, else xxh3.
    #[serde(default)]
    #[arg(long)]
    pub checksum: Option<String>,
    /// Maximum space of the volume and its snapshots.
    #[serde(default)]
    #[arg(long)]
    pub quota: Option<ByteSize>,
    /// Space reserved for the volume and its snapshots.
    #[serde(default)]
    #[arg(long)]
    pub reservation: Option<ByteSize>,
}

/// Changes the size of a volume, visible to clients at once.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ResizeVolume {
    /// The volume, such as tank/vm1.
    pub name: String,
    /// The new size, such as 200G.
    pub size: ByteSize,
    /// Allow a smaller size. Data beyond the new size is lost.
    #[serde(default)]
    #[arg(long)]
    pub shrink: bool,
}

/// Destroys a volume that is not exported.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct DestroyVolume {
    /// The volume.
    pub name: String,
    /// Confirm the destruction.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
    /// Also destroy its snapshots, all datasets below it, and their snapshots.
    #[serde(default)]
    #[arg(short, long)]
    pub recursive: bool,
}
