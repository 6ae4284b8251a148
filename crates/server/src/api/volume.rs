//! Requests and answers about volumes.

use super::ExportedAs;
use crate::size::ByteSize;
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
