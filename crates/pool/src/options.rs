//! Options of an open pool: limits, and the use of a feature.
//!
//! **Owns** their defaults. **Called by** the opening of a pool, and by what shards share. **Invariant**: none of them is in the
//! format: a pool may be opened with others.

use crate::journal::UNPROVEN_MAX;

/// The way of small durable writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DurableWrites {
    /// With their contents in the journal where that was measured to be much faster.
    #[default]
    Measured,
    /// At once to blocks of their own.
    Blocks,
    /// With their contents in the journal.
    Journal,
}

/// Options of an open pool: bytes of memory, the work of one checkpoint, and the use of a feature.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes for tree nodes.
    pub cache_bytes: usize,
    /// Bytes for records that were read; 0 for none.
    pub record_cache_bytes: usize,
    /// Bytes that may be written to each cache device in 24 hours; `None` for its size.
    pub cache_daily_bytes: Option<u64>,
    /// Bytes for records that are not written yet.
    pub dirty_bytes: u64,
    /// Bytes for buffers of writes in flight.
    pub buffer_bytes: usize,
    /// Blocks of destroyed datasets that one checkpoint frees, about.
    pub freeing_max: usize,
    /// Bytes of unproven data that the next opening may have to read after a crash. A seek counts as 256 KiB.
    pub unproven_bytes: u64,
    /// Bytes for the maps of used space: bitmaps of loaded regions, and summaries of the others. All summaries and a few loaded regions
    /// are kept also if they need more.
    pub space_bytes: usize,
    /// Blocks that a resilver sorts by address at once, about 90 bytes each. At least 64.
    pub resilver_blocks: usize,
    /// Blocks that the movers relocate at most, about 100 bytes each. A pool that has more keeps them.
    pub relocations_max: usize,
    /// The way of small durable writes.
    pub durable_writes: DurableWrites,
    /// Whether new records get checksums of their parts. Then the pool gets the feature `record_parts`, so that earlier versions
    /// cannot open it.
    pub record_parts: bool,
    /// Least bytes of work that goes to another shard ([`crate::Pool::set_workers`]): smaller work ends earlier on the owner's.
    pub worker_bytes_min: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            record_cache_bytes: 64 << 20,
            cache_daily_bytes: None,
            dirty_bytes: 64 << 20,
            buffer_bytes: 32 << 20,
            freeing_max: 128 << 10,
            unproven_bytes: UNPROVEN_MAX,
            space_bytes: 128 << 20,
            resilver_blocks: 1 << 20,
            relocations_max: 1 << 20,
            durable_writes: DurableWrites::default(),
            record_parts: true,
            worker_bytes_min: 32 << 10,
        }
    }
}
