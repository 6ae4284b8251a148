//! Movers of a pool, which write blocks again at other places.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
