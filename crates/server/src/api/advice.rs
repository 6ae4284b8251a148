//! Requests and answers about the blocks of a pool by size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The blocks of a pool's volumes and filesystems by size, as of the last checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSizes {
    /// The pool.
    pub name: String,
}

/// Blocks of a pool by size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeReport {
    /// Bytes of a sector: each block takes whole sectors.
    pub sector: u32,
    /// Its volumes and filesystems, without snapshots.
    pub datasets: Vec<DatasetSizes>,
}

/// Blocks of a volume or filesystem, with the blocks that it shares with snapshots and clones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetSizes {
    /// Its name.
    pub name: String,
    /// Its blocks; none if an earlier release wrote some of them, which did not count.
    pub blocks: Option<BlocksBySize>,
}

/// Nodes, and records by size as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlocksBySize {
    /// Nodes of its tree: with directories, inodes and pointers. `up_to` is 0.
    pub nodes: BlockCount,
    /// Records by size, ascending, without empty classes. A class has records of at most `up_to` bytes, and of more than half of that.
    pub records: Vec<BlockCount>,
}

/// Blocks of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockCount {
    /// Largest size, bytes.
    pub up_to: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Their bytes as stored, without the padding of their last sectors.
    pub bytes: u64,
}
