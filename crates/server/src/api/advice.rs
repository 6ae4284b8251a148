//! Requests and answers about the blocks of a pool by size, and about clients' requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The blocks of a pool's volumes and filesystems by size, as of the last checkpoint, and clients' requests since it was opened.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSizes {
    /// The pool.
    pub name: String,
}

/// Blocks of a pool by size, and clients' requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeReport {
    /// Bytes of a sector: each block takes whole sectors.
    pub sector: u32,
    /// Its volumes and filesystems, without snapshots.
    pub datasets: Vec<DatasetSizes>,
    /// The reads that caches would answer.
    #[serde(default)]
    pub reads: ReadsByCache,
}

/// Clients' reads of records, and how many of them caches of several sizes answer that keep the records that were used last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadsByCache {
    /// Reads in the sample from which the other numbers are estimated.
    pub sampled: u64,
    /// All reads. First reads of a record are answered by no cache.
    pub reads: u64,
    /// By size of the cache, ascending.
    pub answered: Vec<Answered>,
}

/// The reads that a cache answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// Size of the cache, bytes.
    pub size: u64,
    /// The reads.
    pub reads: u64,
}

/// Blocks of a volume or filesystem, with the blocks that it shares with snapshots and clones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetSizes {
    /// Its name.
    pub name: String,
    /// Its blocks; none if an earlier release wrote some of them, which did not count.
    pub blocks: Option<BlocksBySize>,
    /// Bytes of a record of a new file, or of the volume.
    #[serde(default)]
    pub record_size: u32,
    /// Requests of its clients since the pool was opened.
    #[serde(default)]
    pub accesses: Accesses,
}

/// Requests of clients to a volume or filesystem. A short one has at most a quarter of a record, and does not continue another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accesses {
    /// Reads.
    pub reads: u64,
    /// Short reads that memory did not answer.
    pub short_reads: u64,
    /// Bytes of these.
    pub short_read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Short writes below the end of the file or volume.
    pub short_overwrites: u64,
    /// Bytes of these.
    pub short_overwrite_bytes: u64,
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
