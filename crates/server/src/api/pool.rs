//! Pools and volumes: what is asked and answered.

use super::call::{Call, Done, call};
use super::{Damage, DiskState, Export, Resilver, Scrub, Trim};
use crate::size::ByteSize;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// What tells it from all others, 16 hexadecimal digits; empty while it is not open.
    pub guid: String,
    /// Whether it can be used.
    pub state: DiskState,
    /// How sound it is, if it is open.
    pub health: Option<Health>,
    /// Why it is held back, or takes no writes though it is open.
    pub reason: Option<String>,
    /// Where its disks are looked for.
    pub disks: Vec<PathBuf>,
    /// Nothing is written to it.
    #[serde(default)]
    pub read_only: bool,
    /// Bytes that its allocator has; `used`, `freeing` and `free` add up to it. 0 while it is not open.
    pub size: u64,
    /// Bytes taken.
    pub used: u64,
    /// Bytes of what was destroyed, about, and freed ones that the next checkpoint makes reusable.
    pub freeing: u64,
    /// Bytes not taken.
    pub free: u64,
    /// Of these, bytes kept for volumes that have a reservation.
    pub reserved: u64,
    /// Bytes that were acknowledged and are only in memory.
    pub dirty: u64,
    /// Its volumes whose clients are told of stable storage without it: `sync=disabled`.
    #[serde(default)]
    pub sync_disabled: Vec<String>,
    /// Records that were read, in memory.
    #[serde(default)]
    pub record_cache: RecordCache,
    /// Its vdevs.
    pub vdevs: Vec<Vdev>,
    /// Its scrub, the last one or the one under way.
    #[serde(default)]
    pub scrub: Option<Scrub>,
    /// Its trim, the last one or the one under way.
    #[serde(default)]
    pub trim: Option<Trim>,
    /// What is freed is given back to the disks by itself.
    #[serde(default)]
    pub autotrim: bool,
    /// A vdev whose disks became larger uses that by itself.
    #[serde(default)]
    pub autoexpand: bool,
    /// The disk that is being brought up to date, or the last one that was.
    #[serde(default)]
    pub resilver: Option<Resilver>,
    /// What clients cannot read of it, as far as reads, scrubs and resilvers came by it.
    #[serde(default)]
    pub damage: Vec<Damage>,
    /// There is more than that.
    #[serde(default)]
    pub more_damage: bool,
}

/// Records that were read, in memory; counts since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCache {
    /// Bytes that it may hold; 0 if there is none.
    pub limit: u64,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Records found.
    pub hits: u64,
    /// Records not found.
    pub misses: u64,
    /// Of those not found: records that twice the memory would have held, most of them.
    pub ghost_hits: u64,
}

/// How sound a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Every side has everything.
    Online,
    /// A side is missing, faulted, offline or stale; another has its data.
    Degraded,
    /// A vdev has no side with everything.
    Faulted,
}

/// A top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vdev {
    /// Such as `mirror-0`.
    pub name: String,
    /// How sound it is.
    pub health: Health,
    /// Bytes of its data.
    pub size: u64,
    /// Its sides: one, or those of a mirror.
    pub sides: Vec<Side>,
}

/// A disk of a vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// What tells it from all others, 16 hexadecimal digits.
    pub guid: String,
    /// Where it is, if it is there.
    pub path: Option<PathBuf>,
    /// Where it was, if it is not there and that is known.
    #[serde(default)]
    pub was: Option<PathBuf>,
    /// Another takes its place, and it is detached then.
    #[serde(default)]
    pub replaced: bool,
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
    /// Writes that the file system below had no space for.
    #[serde(default)]
    pub no_space: u64,
    /// Blocks that were not what was written.
    pub checksum_errors: u64,
    /// Blocks that were written anew from another side.
    pub repairs: u64,
    /// Bytes that were given back to the disk.
    #[serde(default)]
    pub trimmed_bytes: u64,
    /// Bytes that were read.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes that were written.
    #[serde(default)]
    pub written_bytes: u64,
    /// How long reads took.
    #[serde(default)]
    pub read_times: SideTimes,
    /// How long writes took.
    #[serde(default)]
    pub write_times: SideTimes,
    /// How long flushes took.
    #[serde(default)]
    pub flush_times: SideTimes,
}

/// How long operations of a disk took, since the pool was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideTimes {
    /// Operations.
    pub count: u64,
    /// All together, µs.
    pub sum_us: u64,
    /// Half of them took no longer, µs.
    pub p50_us: u64,
    /// 99 of 100 took no longer, µs.
    pub p99_us: u64,
    /// The longest, µs.
    pub max_us: u64,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// Bytes that the client sees.
    pub size: u64,
    /// Bytes that it and its snapshots take, without what it shares with the snapshot that it began as.
    pub used: u64,
    /// Of that, what only its snapshots hold.
    pub by_snapshots: u64,
    /// Bytes of its records as stored, as of the last checkpoint, also those that it shares.
    pub referenced: u64,
    /// The same once decompressed.
    #[serde(default)]
    pub logical: u64,
    /// The most that it and its snapshots may take, bytes; 0 for no limit.
    pub quota: u64,
    /// Bytes reserved for it, taken or not.
    pub reservation: u64,
    /// The snapshot that it began as.
    pub origin: Option<String>,
    /// Its logical block size, bytes.
    pub block_size: u32,
    /// Its record size, bytes.
    pub record_size: u32,
    /// When writes become durable.
    pub sync: VolumeSync,
    /// How new records are compressed: `off`, `lz4` or `zstd-1` to `zstd-19`.
    #[serde(default)]
    pub compression: String,
    /// How checksums of new records are made: `xxh3` or `blake3`.
    #[serde(default)]
    pub checksum: String,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// The subsystem it is exported by.
    pub nqn: Option<String>,
    /// The namespace it is exported as.
    pub nsid: Option<u32>,
    /// The iSCSI target that it is exported by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// The logical unit it is exported as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<u16>,
}

/// When a volume's writes become durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeSync {
    /// When the client asks for it.
    #[default]
    Standard,
    /// Before they are acknowledged.
    Always,
    /// Within a second or so: clients are told that they are although they are not.
    Disabled,
}

/// A pool that disks tell of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// What tells it from all others, 16 hexadecimal digits.
    pub guid: String,
    /// `active` or `exported`.
    pub state: String,
    /// Who used it last.
    pub host: String,
    /// Its disks that are there.
    pub disks: Vec<PathBuf>,
    /// How many of its disks are not.
    pub missing: usize,
    /// Disks of it that are too short to be used, each with its size.
    #[serde(default)]
    pub short: Vec<String>,
    /// Why it cannot be imported as it is.
    pub reason: Option<String>,
}

/// The pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListPools {}
call!(ListPools, "/v1/pools", Vec<Pool>, read true);

/// Makes a pool and opens it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// Its name.
    pub name: String,
    /// Its vdevs: each the absolute path of a disk, or of the sides of a mirror.
    pub vdevs: Vec<Vec<PathBuf>>,
    /// Make files that are missing, of this size.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Take disks that belong to another pool, whose data on them is lost.
    #[serde(default)]
    pub force: bool,
}
call!(CreatePool, "/v1/pools/create", Pool);

/// Looks for pools on disks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanPools {
    /// Where to look; absolute.
    pub disks: Vec<PathBuf>,
}
call!(ScanPools, "/v1/pools/scan", Vec<FoundPool>);

/// Opens a pool that is on disks, and keeps it in the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Its name, or its GUID in hexadecimal digits; may be left out if there is one only.
    #[serde(default)]
    pub name: Option<String>,
    /// The name that it gets; its own if not set.
    #[serde(default)]
    pub rename: Option<String>,
    /// Where to look; absolute.
    pub disks: Vec<PathBuf>,
    /// Although another host has it.
    #[serde(default)]
    pub force: bool,
    /// Although what missing disks would tell is not known: what was acknowledged may be lost.
    #[serde(default)]
    pub force_missing: bool,
    /// Write nothing, now or later.
    #[serde(default)]
    pub read_only: bool,
    /// Use the room that vdevs gained because all their disks became larger.
    #[serde(default)]
    pub expand: bool,
    /// As of this checkpoint; what came later is lost. Of the newest one, the journal is applied up to the first batch that is
    /// damaged.
    #[serde(default)]
    pub rewind: Option<u64>,
}
call!(ImportPool, "/v1/pools/import", Pool);

/// Says what importing would come to, and changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TryImport {
    /// What would be asked for.
    pub import: ImportPool,
}
call!(TryImport, "/v1/pools/import/try", Trial);

/// What importing would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The name that it would have.
    pub name: String,
    /// What tells it from all others, 16 hexadecimal digits.
    pub guid: String,
    /// The checkpoint that it would be opened at.
    pub sequence: u64,
    /// When that was written, ms since 1970.
    pub time_ms: u64,
    /// How sound it would be.
    pub health: Option<Health>,
    /// Its volumes as they would be; empty if it would not open.
    pub volumes: Vec<String>,
    /// Why it would not open.
    pub problem: Option<String>,
    /// The recovery that loses least; none if the newest checkpoint opens and nothing durable is lost.
    pub advice: Option<String>,
    /// The checkpoints that there are, the newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Disks of it that are too short to be used, each with its size.
    #[serde(default)]
    pub short: Vec<String>,
}

/// A checkpoint that a pool may be opened at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Counts them.
    pub sequence: u64,
    /// The epoch that it ended: it holds every block born up to then that was not freed.
    pub epoch: u64,
    /// When it was written, ms since 1970.
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

/// Closes a pool none of whose volumes is exported, marks it as used by nobody, and takes it out of the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportPool {
    /// Its name.
    pub name: String,
}
call!(ExportPool, "/v1/pools/export", Done);

/// Destroys a pool with everything in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyPool {
    /// Its name.
    pub name: String,
    /// It is meant.
    #[serde(default)]
    pub force: bool,
}
call!(DestroyPool, "/v1/pools/destroy", Done);

/// Writes a checkpoint now.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointPool {
    /// The pool.
    pub name: String,
}
call!(CheckpointPool, "/v1/pools/checkpoint", Pool);

/// The volumes of all pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListVolumes {}
call!(ListVolumes, "/v1/volumes", Vec<Volume>, read true);

/// Makes a volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// What the client sees.
    pub size: ByteSize,
    /// Bytes of a logical block: 512 or 4096, which is the default.
    #[serde(default)]
    pub block_size: Option<ByteSize>,
    /// Bytes of a record: a power of two from 4K, which is the default, to 1M.
    #[serde(default)]
    pub record_size: Option<ByteSize>,
    /// When writes become durable.
    #[serde(default)]
    pub sync: VolumeSync,
    /// How records are compressed: `off`, `lz4`, which is the default, or `zstd-1` to `zstd-19`.
    #[serde(default)]
    pub compression: Option<String>,
    /// How records' checksums are made: `xxh3`, which is the default, or `blake3`.
    #[serde(default)]
    pub checksum: Option<String>,
    /// The most that it and its snapshots may take; no limit by default.
    #[serde(default)]
    pub quota: Option<ByteSize>,
    /// What is kept free for them.
    #[serde(default)]
    pub reservation: Option<ByteSize>,
}
call!(CreateVolume, "/v1/volumes/create", Volume);

/// Changes the size of a volume; clients see it at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeVolume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// Its new size.
    pub size: ByteSize,
    /// Allow a smaller size: what lies beyond it is lost.
    #[serde(default)]
    pub shrink: bool,
}
call!(ResizeVolume, "/v1/volumes/resize", Volume);

/// Destroys a volume that is not exported.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyVolume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// It is meant.
    #[serde(default)]
    pub force: bool,
}
call!(DestroyVolume, "/v1/volumes/destroy", Done);

/// Exports a disk or volume over NVMe, in a subsystem of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportNvme {
    /// The disk or volume.
    pub disk: String,
    /// The subsystem; if not set, one whose name is made of the disk's identity.
    #[serde(default)]
    pub nqn: Option<String>,
    /// Who may connect: host NQNs, or `any`.
    #[serde(default)]
    pub hosts: Vec<String>,
}
call!(ExportNvme, "/v1/exports/nvme", Export);
