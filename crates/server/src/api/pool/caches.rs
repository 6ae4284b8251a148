//! Caches of a pool: the record cache in memory, cache devices, and reads of nodes that no cache had.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The record cache; counts since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordCache {
    /// Maximum bytes; 0 if there is no cache.
    pub limit: u64,
    /// Present bytes.
    pub bytes: u64,
    /// Records found.
    pub hits: u64,
    /// Records not found.
    pub misses: u64,
    /// Misses that a cache of twice the size would probably have found.
    pub ghost_hits: u64,
}

/// The volumes and filesystems of a pool by the caches that keep their data; 0 while the pool is not open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedDatasets {
    /// All of them.
    pub all: u64,
    /// Those whose data the record cache in memory keeps (`primarycache=all`).
    pub in_memory: u64,
    /// Those whose data cache devices keep (`secondarycache=all`).
    pub on_devices: u64,
}

/// Nodes of trees (directories, inodes, pointers to records) that no cache had and disks had to read; since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReads {
    /// Nodes of normal vdevs.
    pub normal: u64,
    /// The sum of the times until these were read, µs.
    pub normal_us: u64,
    /// Nodes of special vdevs.
    pub special: u64,
}

/// A cache device: blocks of the pool on a fast disk, which are read from there when memory does not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Its GUID, 16 hexadecimal digits; empty while it is not open.
    pub guid: String,
    /// Its path.
    pub path: PathBuf,
    /// Why it is not used; `None` while it is.
    pub reason: Option<String>,
    /// Bytes for blocks.
    pub size: u64,
    /// Bytes that blocks take.
    pub used: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of memory of its tables.
    pub memory: u64,
    /// Blocks found, since it was opened.
    pub hits: u64,
    /// Bytes of these.
    pub hit_bytes: u64,
    /// Blocks that neither memory nor the device had.
    pub misses: u64,
    /// About the number of misses that a device of twice the size would have found.
    pub hits_of_twice: u64,
    /// Blocks that were not right on the device, and were read from the pool's other disks.
    pub wrong: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Blocks that entered.
    pub entered: u64,
    /// Blocks that did not enter because the daily write budget was spent.
    pub over_budget: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes written in the last 24 hours, also before a restart.
    pub written_today: u64,
    /// Bytes that may be written in 24 hours.
    pub daily: u64,
}
