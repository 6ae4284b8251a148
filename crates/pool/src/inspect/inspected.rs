//! Result and progress of a verification.
//!
//! **Owns** the sums and the damage that a verification reports. **Called by** verification, which fills them in, and by its
//! callers. **Invariant**: damage is a finding, never an error.

use std::collections::BTreeMap;

use super::found::Findings;
use crate::format::{DatasetKind, TreeId};

/// Space of one dataset, in bytes of whole sectors except `referenced` and `logical`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetSpace {
    /// Its identifier.
    pub id: TreeId,
    /// Its name.
    pub name: String,
    /// Volume or snapshot.
    pub kind: DatasetKind,
    /// Bytes of its records, as stored.
    pub referenced: u64,
    /// Bytes of its records, decompressed.
    pub logical: u64,
    /// Bytes of the blocks that it owns. The sum over all datasets is the space of their trees.
    pub used: u64,
    /// Bytes that destroying only this dataset would free.
    pub unique: u64,
    /// Bytes on its deadlist, pending hand-overs included.
    pub dead: u64,
    /// Of a volume: bytes of the volume and its snapshots that its origin does not hold. Its quota limits them.
    pub owned: u64,
    /// Its quota, bytes; 0 for no limit.
    pub quota: u64,
    /// Its reservation, bytes, used or not.
    pub reservation: u64,
}

/// Progress of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the blocks visited.
    pub done: u64,
    /// Bytes that the bitmaps have as used.
    pub total: u64,
}

/// Result of a verification.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    /// Space by dataset.
    pub datasets: Vec<DatasetSpace>,
    /// Bytes of nodes of the pool's own tree.
    pub pool_tree: u64,
    /// Bytes of nodes of the lists of dead blocks.
    pub lists: u64,
    /// Remaining bytes of each pending destroy, by number.
    pub freeing: BTreeMap<u64, u64>,
    /// Bytes of blocks that only the journal refers to.
    pub journal: u64,
    /// Bytes that the saved bitmaps have as used.
    pub saved: u64,
    /// Bytes that are taken after replay: in use, or given up by the journal and not free yet.
    pub taken: u64,
    /// Used bytes without an owner.
    pub leaked: u64,
    /// Number of blocks visited.
    pub blocks: u64,
    /// Whether records were read, or only trees.
    pub read_records: bool,
    /// Damage.
    pub findings: Findings,
}
