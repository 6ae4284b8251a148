//! Requests and answers about pools.

mod caches;
mod import;
mod movers;
mod times;
mod vdevs;

pub use caches::*;
pub use import::*;
pub use movers::*;
pub use times::*;
pub use vdevs::*;

use super::{Damage, DiskState, LostChanges, Resilver, Scrub, SpecialClass, Trim, VdevSpec};
use crate::size::ByteSize;
use clap::Args;
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
