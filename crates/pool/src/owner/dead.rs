//! Blocks that a dataset no longer holds and an older snapshot may.
//!
//! Each snapshot has a list of the blocks that it holds and its successor, the next snapshot or the volume, does not. When
//! it goes, what is on its list and was born after the snapshot before it was its alone; the rest goes to that one's
//! list. The lists lie in a tree of their own, in chunks of pointers.
//!
//! **Owns** that tree's layer during a checkpoint, and the rule by which a block is freed or remembered. **Called by**
//! checkpoints. **Invariants**: a block is on one list at most; it is freed when the last dataset that holds it goes.

use std::collections::BTreeMap;

use crate::format::{
    Birth, BlockPtr, DEAD_CHUNK_MAX, Defect, TreeId, Value, dead_key, dead_keys, decode_dead,
    encode_dead,
};
use crate::tree::Layer;

pub(crate) use crate::format::DEAD_TREE;
pub(super) use crate::format::dead_keys as list_keys;

/// The pointers in a chunk.
pub(super) fn pointers(value: &Value) -> Result<Vec<BlockPtr>, Defect> {
    match value {
        Value::Inline(bytes) => decode_dead(bytes),
        Value::Block(ptr) => Err(Defect::Field {
            field: "pointer in place of a chunk of a list of dead blocks",
            value: ptr.offset.0,
        }),
    }
}

/// What one checkpoint adds to the lists, and takes away.
pub(super) struct DeadLists {
    birth: Birth,
    /// Chunks written of each list.
    written: BTreeMap<TreeId, u64>,
    pub(super) layer: Layer,
}

/// What becomes of a block that a dataset holds no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody else holds it.
    Free,
    /// The snapshot before may hold it.
    Listed,
    /// The snapshot that the dataset is a clone of holds it.
    Foreign,
}

/// Births up to which others hold a dataset's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Floor {
    /// Of the snapshot before.
    pub(super) snapshot: Birth,
    /// Of the snapshot that it is a clone of.
    pub(super) origin: Birth,
}

impl Floor {
    pub(super) fn fate(self, birth: Birth) -> Fate {
        if birth <= self.origin {
            Fate::Foreign
        } else if birth <= self.snapshot {
            Fate::Listed
        } else {
            Fate::Free
        }
    }
}

impl DeadLists {
    pub(super) fn new(birth: Birth) -> Self {
        Self {
            birth,
            written: BTreeMap::new(),
            layer: Layer::new(),
        }
    }

    /// Adds to a snapshot's list.
    pub(super) fn add(&mut self, id: TreeId, ptrs: &[BlockPtr]) {
        let written = self.written.entry(id).or_default();
        for ptrs in ptrs.chunks(DEAD_CHUNK_MAX) {
            let key = dead_key(id, self.birth, *written);
            *written += 1;
            self.layer.put(key, Value::Inline(encode_dead(ptrs)));
        }
    }

    /// Forgets a snapshot's list as it was before this checkpoint.
    pub(super) fn clear(&mut self, id: TreeId) {
        let start = dead_key(id, self.birth, 0);
        self.layer.delete_range(dead_keys(id).start..start, |_| {});
    }
}
