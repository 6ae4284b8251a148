//! What one volume may take of the pool, and takes.
//!
//! **Owns** the sums of one volume. **Called by** [`crate::room`], which holds them against the pool. **Invariant**: they are
//! never less than what the volume, its snapshots and the nodes that are still to be written take.

/// The most that a record's entry adds to a tree: 64 bytes, in nodes of which a third is used.
const ENTRY_BYTES: u64 = 192;
/// What snapshots hold is on lists too, which are a tree of their own.
const TREES: u64 = 2;

/// What came into a volume.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Put {
    /// Bytes, as stored.
    pub(crate) bytes: u64,
    /// Records.
    pub(crate) records: u64,
    /// Snapshots that were taken meanwhile.
    pub(crate) snapshots: u64,
}

/// What a volume may take, and takes, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Account {
    /// 0 for no limit.
    pub(crate) quota: u64,
    pub(crate) reservation: u64,
    /// By it and its snapshots, as of the last checkpoint.
    pub(crate) used: u64,
    /// Put since, and held by the checkpoint that is being written.
    pub(crate) merging: Put,
    /// Put since.
    pub(crate) layered: Put,
    /// Of dirty records, without an address yet.
    pub(crate) promised: u64,
    pub(crate) record_size: u64,
    /// Bytes that its client sees; the most since it was opened.
    pub(crate) size: u64,
    /// Whether its nodes are shared: then those that take their place come on top.
    pub(crate) is_shared: bool,
    /// Bytes of its tree's nodes, as of the last checkpoint.
    pub(crate) tree: u64,
}

/// What a volume is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Bytes that it and its snapshots take.
    pub(crate) used: u64,
    /// Bytes of its tree's nodes.
    pub(crate) tree: u64,
    /// Whether it has snapshots, or began as one.
    pub(crate) is_shared: bool,
}

impl Account {
    /// Bytes that nodes for what is not merged yet may take at most, and keep.
    pub(crate) fn nodes(&self, node_size: u64) -> u64 {
        let mut layered = self.layered;
        layered.records += self.records_of(self.promised);
        let nodes = [self.merging, layered].map(|put| {
            // however often a record changes, it has one entry
            let added = put.records.min(self.records_of(self.size)) * ENTRY_BYTES;
            if !self.is_shared {
                return added;
            }
            // each change may have a leaf to itself, and no merge writes more than the whole tree
            let trees = (put.snapshots + 1) * (self.tree + added);
            trees.min(put.records * node_size) * TREES
        });
        nodes.iter().sum()
    }

    /// Bytes of nodes that the checkpoint writes anew, about.
    pub(crate) fn rewritten(&self, node_size: u64) -> u64 {
        self.tree.min(self.merging.records * node_size)
    }

    /// How many records have so many bytes.
    pub(crate) fn records_of(&self, bytes: u64) -> u64 {
        bytes.checked_div(self.record_size).unwrap_or(0)
    }

    /// A snapshot is taken.
    pub(crate) fn share(&mut self) {
        self.layered.snapshots += 1;
        self.is_shared = true;
    }

    pub(crate) fn stand(&mut self, standing: Standing) {
        self.used = standing.used;
        self.tree = standing.tree;
        self.is_shared = standing.is_shared;
    }

    pub(crate) fn taken(&self) -> u64 {
        self.used + self.merging.bytes + self.layered.bytes + self.promised
    }

    /// What is left of its reservation.
    pub(crate) fn unused(&self) -> u64 {
        self.reservation.saturating_sub(self.taken())
    }

    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.quota == 0 || self.taken() + bytes <= self.quota
    }
}
