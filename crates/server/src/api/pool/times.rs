//! Times of operations of a pool, and of its durable writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
