//! Space accounting of a dataset.
//!
//! **Owns** the sums of one dataset. **Called by** [`crate::write_budget`], which compares them with the pool's space.
//! **Invariants**: the sums are never less than the space of the dataset, its snapshots and the nodes that must still be
//! written; quotas count the bytes of blocks, and the pool's free space the bytes of the extents that they may need.

use crate::format::part_sums_size;
use crate::vdev::ExtentSpace;

/// Most bytes of a record's entry in a tree, without checksums of parts.
pub(crate) const ENTRY_SIZE: u64 = 64;
/// Number of trees per entry: blocks that snapshots hold are also in the tree of deadlists.
const TREES: u64 = 2;
/// The part of a node that is used at least, as a divisor.
const NODE_PART: u64 = 3;

/// The space that extents take on the pool's vdevs, and the size of nodes, each of which is an extent there.
#[derive(Debug, Clone)]
pub(crate) struct Extents {
    pub(crate) space: ExtentSpace,
    /// Most bytes of a node.
    pub(crate) node_size: u64,
}

impl Extents {
    /// The most bytes that a node takes.
    pub(crate) fn node(&self) -> u64 {
        self.space.most(self.node_size)
    }

    /// The most bytes that the nodes of a tree take, whose blocks have `tree` bytes.
    fn tree(&self, tree: u64) -> u64 {
        match self.node() == self.node_size {
            true => tree,
            false => self.full_nodes(tree).saturating_mul(NODE_PART),
        }
    }

    /// The least bytes that a merge of `records` changes writes: a root, which takes a row.
    fn least(&self, records: u64) -> u64 {
        match self.node() == self.node_size {
            true => 0,
            false => records.min(1) * self.node(),
        }
    }

    /// The bytes that `bytes` bytes in full nodes take.
    pub(crate) fn full_nodes(&self, bytes: u64) -> u64 {
        self.space.in_extents(bytes, self.node_size)
    }
}

/// Changes of a volume.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Put {
    /// Stored bytes.
    pub(crate) bytes: u64,
    /// Number of records.
    pub(crate) records: u64,
    /// Number of snapshots taken meanwhile.
    pub(crate) snapshots: u64,
    /// Number of records that the row mover wrote again. They take as much space as before.
    pub(crate) moved: u64,
}

/// Space that a volume may use and uses, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Account {
    /// Its quota; 0 for no limit.
    pub(crate) quota: u64,
    pub(crate) reservation: u64,
    /// Its quota without snapshots; 0 for no limit.
    pub(crate) refquota: u64,
    /// Used by it and its snapshots, as of the last checkpoint.
    pub(crate) used: u64,
    /// Bytes of its tree with its records, shared or not, as of the last checkpoint.
    pub(crate) own: u64,
    /// Changes since, which the checkpoint in progress contains.
    pub(crate) merging: Put,
    /// Changes since, which no checkpoint contains.
    pub(crate) layered: Put,
    /// Dirty records, which have no address yet.
    pub(crate) promised: u64,
    /// Bytes of the smallest record that a change may have.
    pub(crate) record_size: u64,
    /// Bytes of its usual record. A reservation is enough for such records.
    pub(crate) usual_size: u64,
    /// Size that clients see; the largest one since it was opened.
    pub(crate) size: u64,
    /// Whether its nodes are shared with snapshots, so that rewritten nodes need additional space.
    pub(crate) is_shared: bool,
    /// Bytes of its tree's nodes, as of the last checkpoint.
    pub(crate) tree: u64,
    /// Bytes of deleted contents of files, about, which the next checkpoint frees.
    pub(crate) freed: u64,
    /// The same, of the checkpoint in progress.
    pub(crate) freed_merging: u64,
}

/// Space of a volume as of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Bytes of it and its snapshots.
    pub(crate) used: u64,
    /// Bytes of its tree with its records, shared or not.
    pub(crate) own: u64,
    /// Bytes of its tree's nodes.
    pub(crate) tree: u64,
    /// Whether it has snapshots, or is a clone.
    pub(crate) is_shared: bool,
}

impl Account {
    /// Most bytes that a record's entry adds to a tree, in nodes of which a third is used. The smallest record counts: a longer one of
    /// a file is counted as several when it has checksums of parts.
    fn entry_bytes(&self) -> u64 {
        let part_sums = part_sums_size(u32::try_from(self.record_size).unwrap_or(0));
        NODE_PART * (ENTRY_SIZE + part_sums as u64)
    }

    /// Most bytes that nodes for unmerged changes may take and keep.
    pub(crate) fn nodes(&self, extents: &Extents) -> u64 {
        let mut layered = self.layered;
        layered.records += self.records_of(self.promised);
        let nodes = [self.merging, layered].map(|put| {
            // A record has one entry, however often it changes.
            let added = put.records.min(self.records_of(self.size)) * self.entry_bytes();
            let added = extents.full_nodes(added).max(extents.least(put.records));
            // no snapshot holds the leaf of a record that is moved
            let moved = extents.full_nodes(put.moved * self.entry_bytes());
            let moved = moved.max(extents.least(put.moved));
            if !self.is_shared {
                return added + moved;
            }
            // Each change may have a leaf to itself, but no merge writes more than the whole tree.
            let trees = (put.snapshots + 1) * (extents.tree(self.tree) + added);
            trees.min(put.records * extents.node()) * TREES + moved
        });
        nodes.iter().sum()
    }

    /// Approximate bytes of nodes that the checkpoint rewrites.
    pub(crate) fn rewritten(&self, extents: &Extents) -> u64 {
        let tree = extents.tree(self.tree);
        let records = self.merging.records + self.merging.moved;
        tree.min(records * extents.node())
    }

    /// Most bytes of the extents that dirty records need beyond their own bytes: each may be written alone.
    pub(crate) fn promised_more(&self, extents: &Extents) -> u64 {
        let space = extents.space.in_extents(self.promised, self.record_size);
        space - self.promised
    }

    /// Bytes of free extents that are kept for the unused part of its reservation.
    pub(crate) fn reserved(&self, extents: &Extents) -> u64 {
        let unused = self.unused();
        extents.space.in_extents(unused, self.usual_size)
    }

    /// Number of records in `bytes` bytes.
    pub(crate) fn records_of(&self, bytes: u64) -> u64 {
        bytes.checked_div(self.record_size).unwrap_or(0)
    }

    /// Counts a snapshot of the volume.
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
            moved,
        } = std::mem::take(&mut self.layered);
        self.merging.bytes += bytes;
        self.merging.records += records;
        self.merging.snapshots += snapshots;
        self.merging.moved += moved;
        self.freed_merging += std::mem::take(&mut self.freed);
    }

    /// A checkpoint has ended.
    pub(crate) fn end_merge(&mut self, standing: Standing) {
        self.merging = Put::default();
        self.freed_merging = 0;
        self.stand(standing);
    }

    /// Sets the sums as of the last checkpoint.
    pub(crate) fn stand(&mut self, standing: Standing) {
        self.used = standing.used;
        self.own = standing.own;
        self.tree = standing.tree;
        self.is_shared = standing.is_shared;
    }

    /// Bytes of unmerged changes and dirty records.
    pub(crate) fn unmerged(&self) -> u64 {
        self.merging.bytes + self.layered.bytes + self.promised
    }

    /// Bytes, about, that checkpoints free: deleted contents that no snapshot holds.
    pub(crate) fn pending_frees(&self) -> u64 {
        match self.is_shared {
            true => 0,
            false => (self.freed + self.freed_merging).min(self.taken()),
        }
    }

    pub(crate) fn taken(&self) -> u64 {
        self.used + self.unmerged()
    }

    /// Bytes that it may still take by its quotas.
    pub(crate) fn left(&self) -> u64 {
        let left = |limit: u64, taken: u64| match limit {
            0 => u64::MAX,
            limit => limit.saturating_sub(taken),
        };
        let own = self.own + self.unmerged();
        left(self.quota, self.taken()).min(left(self.refquota, own))
    }

    /// The unused part of its reservation, bytes.
    pub(crate) fn unused(&self) -> u64 {
        self.reservation.saturating_sub(self.taken())
    }

    pub(crate) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.left()
    }
}
