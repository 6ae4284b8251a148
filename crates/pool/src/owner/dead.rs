//! Blocks that a dataset no longer holds and an older snapshot may.
//!
//! Each snapshot has a list of the blocks that it holds and its successor, the next snapshot or the volume, does not. When
//! it goes, what is on its list and was born after the snapshot before it was its alone; the rest goes to that one's
//! list. A clone has one of what its origin holds and its oldest snapshot, or itself, does not. So there is a list for each
//! pair of datasets that follow each other, and when a clone is promoted, lists stay with their pairs. They lie in a tree
//! of their own, in chunks of pointers.
//!
//! **Owns** that tree's layer during a checkpoint, and the rule by which a block is freed or remembered. **Called by**
//! checkpoints. **Invariants**: a block is on one list at most; it is freed when the last dataset that holds it goes.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{
    BLOCK_PTR_SIZE, Birth, BlockPtr, Defect, Edge, INLINE_SIZE_MAX, Key, Kind, ListId, ObjectId,
    TreeId, Value,
};
use crate::tree::Layer;

/// The tree of all lists.
pub(crate) const DEAD_TREE: TreeId = TreeId(2);
/// Kind of the keys of chunks; the object is the list, the offset says when it was written.
const KIND_CHUNK: Kind = Kind(1);
/// Pointers in a chunk at most.
const CHUNK_MAX: usize = INLINE_SIZE_MAX / BLOCK_PTR_SIZE;
/// Chunks of one list that one checkpoint may write.
const CHUNK_BITS: u32 = 24;

/// The keys of one list.
pub(super) fn list_keys(list: ListId) -> std::ops::Range<Key> {
    let object = ObjectId(list.0);
    Key::new(object, KIND_CHUNK, 0)..Key::new(object, Kind(KIND_CHUNK.0 + 1), 0)
}

/// The pointers in a chunk.
pub(super) fn pointers(value: &Value) -> Result<Vec<BlockPtr>, Defect> {
    let Value::Inline(bytes) = value else {
        return Err(Defect::Checksum);
    };
    let (chunks, rest) = bytes.as_chunks::<BLOCK_PTR_SIZE>();
    if !rest.is_empty() {
        return Err(Defect::Length {
            what: "chunk of a list of dead blocks",
            got: bytes.len(),
            want: chunks.len() * BLOCK_PTR_SIZE,
        });
    }
    chunks.iter().map(BlockPtr::decode).collect()
}

pub(super) fn chunk(ptrs: &[BlockPtr]) -> Value {
    let bytes: Vec<u8> = ptrs.iter().flat_map(BlockPtr::encode).collect();
    Value::Inline(bytes.into())
}

/// What one checkpoint adds to the lists, and takes away.
pub(super) struct DeadLists {
    birth: Birth,
    /// Chunks written of each list.
    written: BTreeMap<ListId, u64>,
    sector: u32,
    /// Bytes that each list has more or less.
    changed: BTreeMap<ListId, i64>,
    cleared: BTreeSet<ListId>,
    pub(super) layer: Layer,
}

/// What becomes of a block that a dataset holds no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody else holds it.
    Free,
    /// What lies before the dataset may hold it.
    Listed,
}

impl Fate {
    pub(super) fn of(edge: Edge, birth: Birth) -> Self {
        if birth <= edge.floor {
            Fate::Listed
        } else {
            Fate::Free
        }
    }
}

impl DeadLists {
    pub(super) fn new(birth: Birth, sector: u32) -> Self {
        Self {
            birth,
            written: BTreeMap::new(),
            sector,
            changed: BTreeMap::new(),
            cleared: BTreeSet::new(),
            layer: Layer::new(),
        }
    }

    /// Adds to a list.
    pub(super) fn add(&mut self, list: ListId, ptrs: &[BlockPtr]) {
        *self.changed.entry(list).or_default() += self.bytes(ptrs);
        let written = self.written.entry(list).or_default();
        for ptrs in ptrs.chunks(CHUNK_MAX) {
            assert!(
                *written < 1 << CHUNK_BITS,
                "a checkpoint frees less than this"
            );
            let offset = self.birth.0 << CHUNK_BITS | *written;
            *written += 1;
            let key = Key::new(ObjectId(list.0), KIND_CHUNK, offset);
            self.layer.put(key, chunk(ptrs));
        }
    }

    /// Takes a chunk away.
    pub(super) fn take(&mut self, key: Key, ptrs: &[BlockPtr]) {
        let list = ListId(key.object().0);
        *self.changed.entry(list).or_default() -= self.bytes(ptrs);
        self.layer.delete(key);
    }

    fn bytes(&self, ptrs: &[BlockPtr]) -> i64 {
        let sizes = ptrs.iter().map(|ptr| ptr.physical_size);
        sizes
            .map(|size| i64::from(size.next_multiple_of(self.sector)))
            .sum()
    }

    /// Bytes on the lists that change, which had `before`.
    pub(super) fn sizes(&self, before: &BTreeMap<ListId, u64>) -> BTreeMap<ListId, u64> {
        let lists = self.changed.keys().chain(&self.cleared);
        let sizes = lists.map(|list| {
            let kept = before.get(list).filter(|_| !self.cleared.contains(list));
            let changed = self.changed.get(list).copied().unwrap_or(0);
            (
                *list,
                kept.copied().unwrap_or(0).saturating_add_signed(changed),
            )
        });
        sizes.collect()
    }

    /// Forgets a list as it was before this checkpoint.
    pub(super) fn clear(&mut self, list: ListId) {
        self.cleared.insert(list);
        let keys = list_keys(list);
        let start = Key::new(ObjectId(list.0), KIND_CHUNK, self.birth.0 << CHUNK_BITS);
        self.layer.delete_range(keys.start..start, |_| {});
    }
}
