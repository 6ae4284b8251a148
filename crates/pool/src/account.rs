//! The account of one volume: space that it takes, its quota and its reservation.
//!
//! **Owns** the sums of one volume. **Called by** [`crate::write_budget`], which compares them with the pool's free
//! space. **Invariant**: the sums are never less than the space that the volume, its snapshots and its unwritten nodes
//! take.

/// The most bytes that a record's entry adds to a tree: 64 bytes, in nodes of which a third is used.
const ENTRY_BYTES: u64 = 192;
/// Trees with an entry for each block that a snapshot holds: the dataset's and the deadlists'.
const TREES: u64 = 2;

/// The changes of a volume between two checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Put {
    /// Stored bytes of put records.
    pub(crate) bytes: u64,
    /// Number of put records.
    pub(crate) records: u64,
    /// Snapshots taken.
    pub(crate) snapshots: u64,
}

/// The sums of a volume, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Account {
    /// 0 for no limit.
    pub(crate) quota: u64,
    pub(crate) reservation: u64,
    /// Bytes of the volume and its snapshots, as of the last checkpoint.
    pub(crate) used: u64,
    /// Put since the last checkpoint, and held by the current one.
    pub(crate) merging: Put,
    /// Put since the current checkpoint began, or since the last one.
    pub(crate) layered: Put,
    /// Bytes of dirty records without an extent.
    pub(crate) promised: u64,
    pub(crate) record_size: u64,
    /// The size that clients see: the largest since the pool was opened.
    pub(crate) size: u64,
    /// Whether snapshots share its nodes, so that rewritten nodes take additional space.
    pub(crate) is_shared: bool,
    /// Bytes of its tree's nodes, as of the last checkpoint.
    pub(crate) tree: u64,
}

/// The sums of a volume as of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Bytes of the volume and its snapshots.
    pub(crate) used: u64,
    /// Bytes of its tree's nodes.
    pub(crate) tree: u64,
    /// Whether it has snapshots, or is a clone.
    pub(crate) is_shared: bool,
}

impl Account {
    /// The most bytes that the nodes of unmerged changes may take.
    pub(crate) fn nodes(&self, node_size: u64) -> u64 {
        let mut layered = self.layered;
        layered.records += self.records_of(self.promised);
        let nodes = [self.merging, layered].map(|put| {
            // a record has one entry, independent of the number of its changes
            let added = put.records.min(self.records_of(self.size)) * ENTRY_BYTES;
            if !self.is_shared {
                return added;
            }
            // each change may rewrite a leaf of its own, but a merge writes at most the whole tree
            let trees = (put.snapshots + 1) * (self.tree + added);
            trees.min(put.records * node_size) * TREES
        });
        nodes.iter().sum()
    }

    /// Bytes of nodes that the checkpoint rewrites, about.
    pub(crate) fn rewritten(&self, node_size: u64) -> u64 {
        self.tree.min(self.merging.records * node_size)
    }

    /// The number of records in `bytes` bytes.
    pub(crate) fn records_of(&self, bytes: u64) -> u64 {
        bytes.checked_div(self.record_size).unwrap_or(0)
    }

    /// A snapshot is taken.
    pub(crate) fn share(&mut self) {
        self.layered.snapshots += 1;
        self.is_shared = true;
    }

    /// A checkpoint begins. It holds all changes until now.
    pub(crate) fn begin_merge(&mut self) {
        let Put {
            bytes,
            records,
            snapshots,
        } = std::mem::take(&mut self.layered);
        self.merging.bytes += bytes;
        self.merging.records += records;
        self.merging.snapshots += snapshots;
    }

    /// A checkpoint has ended.
    pub(crate) fn end_merge(&mut self, standing: Standing) {
        self.merging = Put::default();
        self.stand(standing);
    }

    /// Sets the sums as of the last checkpoint.
    pub(crate) fn stand(&mut self, standing: Standing) {
        self.used = standing.used;
        self.tree = standing.tree;
        self.is_shared = standing.is_shared;
    }

    pub(crate) fn taken(&self) -> u64 {
        self.used + self.merging.bytes + self.layered.bytes + self.promised
    }

    /// Unused bytes of the reservation.
    pub(crate) fn unused(&self) -> u64 {
        self.reservation.saturating_sub(self.taken())
    }

    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.quota == 0 || self.taken() + bytes <= self.quota
    }
}
