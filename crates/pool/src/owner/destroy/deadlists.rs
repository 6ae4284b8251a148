//! Deadlists: the blocks that one dataset holds and the next one does not.
//!
//! Each snapshot has a list of the blocks that it holds and its successor, the next snapshot or the volume, does not.
//! When the snapshot is destroyed, the blocks on its list that were born after the previous snapshot are free; the
//! others are handed over to the previous snapshot's list. A clone has a list of the blocks that its origin holds and
//! its oldest snapshot, or the clone itself, does not. So each pair of consecutive datasets has one list, and a
//! promotion leaves the lists with their pairs: `deadlist(S) + pending hand-overs = blocks(S) − blocks(next(S))`. The
//! lists lie in one tree, in chunks of pointers. `docs/decisions/0105`.
//!
//! **Owns** the tree's root, the sizes of the lists, and the rule by which a block is freed or listed. **Called by**
//! checkpoints and pending destroys. **Invariants**: a block is on one list at most; it is freed when the last dataset
//! that holds it is destroyed.

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;
use crate::format::{
    Birth, BlockPtr, BlockSpace, DEAD_CHUNK_MAX, Defect, Key, ListId, PrevSnapshot, Value,
    dead_key, dead_keys, decode_dead, encode_dead,
};
use crate::shared::Shared;
use crate::tree::{Direction, Layer, Root, Scan, ScanStep};

pub(crate) use crate::format::DEAD_TREE;

/// The pointers in a chunk.
pub(in crate::owner) fn pointers(value: &Value) -> std::result::Result<Vec<BlockPtr>, Defect> {
    match value {
        Value::Inline(bytes) => decode_dead(bytes),
        Value::Block(block) => Err(Defect::Field {
            field: "pointer in place of a chunk of a list of dead blocks",
            value: block.ptr().offset.0,
        }),
    }
}

/// A scan of the chunks of a list, in the order of their keys.
pub(in crate::owner) struct ListScan(Scan);

impl ListScan {
    pub(in crate::owner) fn new(root: Root, list: ListId) -> Self {
        Self(Scan::new(root, dead_keys(list), Direction::Forward))
    }

    /// The next chunk, with `changes` on top of the stored ones; `None` at the end.
    ///
    /// # Errors
    /// A node of the tree cannot be read: the scan is at its end.
    pub(in crate::owner) async fn next(
        &mut self,
        shared: &Shared,
        changes: &Layer,
    ) -> Result<Option<(Key, Value)>> {
        loop {
            match self.0.step(&[changes]) {
                ScanStep::Need(need) => self.0.supply(shared.node(DEAD_TREE, &need).await?)?,
                ScanStep::Entry(key, value) => return Ok(Some((key, value))),
                ScanStep::Done => return Ok(None),
            }
        }
    }
}

/// The deadlists as of the last durable checkpoint.
#[derive(Default)]
pub(in crate::owner) struct Deadlists {
    root: Root,
    /// Bytes of the blocks on each list, in whole sectors.
    sizes: BTreeMap<ListId, u64>,
    /// Lists of snapshots that a volume was rolled back to: the volume holds the blocks on them again. The next checkpoint
    /// empties these lists.
    forgotten: Vec<ListId>,
}

impl Deadlists {
    /// The deadlists below `root`, with the bytes on each.
    pub(in crate::owner) fn new(root: Root, sizes: BTreeMap<ListId, u64>) -> Self {
        Self {
            root,
            sizes,
            forgotten: Vec::new(),
        }
    }

    /// The root of their tree.
    pub(in crate::owner) fn root(&self) -> Root {
        self.root
    }

    /// Bytes of the blocks on each list, in whole sectors.
    pub(in crate::owner) fn sizes(&self) -> &BTreeMap<ListId, u64> {
        &self.sizes
    }

    /// Bytes of the blocks on a list that the list's dataset holds alone.
    pub(in crate::owner) fn bytes(&self, list: ListId) -> u64 {
        let bytes = self.sizes.get(&list).filter(|_| !self.is_forgotten(list));
        bytes.copied().unwrap_or(0)
    }

    /// The next checkpoint empties a list, without freeing the blocks on it.
    pub(in crate::owner) fn forget(&mut self, list: ListId) {
        self.forgotten.push(list);
    }

    /// Whether a list is to be emptied.
    pub(in crate::owner) fn is_forgotten(&self, list: ListId) -> bool {
        self.forgotten.contains(&list)
    }

    /// The lists that the checkpoint that begins now empties.
    pub(in crate::owner) fn take_forgotten(&mut self) -> Vec<ListId> {
        std::mem::take(&mut self.forgotten)
    }

    /// A checkpoint is durable that changed the sizes of these lists.
    pub(in crate::owner) fn durable(&mut self, root: Root, changed: BTreeMap<ListId, u64>) {
        self.root = root;
        for (list, bytes) in changed {
            match bytes {
                0 => self.sizes.remove(&list),
                bytes => self.sizes.insert(list, bytes),
            };
        }
    }
}

/// The changes of deadlists by one checkpoint.
pub(in crate::owner) struct DeadlistChanges {
    birth: Birth,
    /// Chunks written of each list.
    written: BTreeMap<ListId, u64>,
    space: BlockSpace,
    /// Bytes that each list gained or lost.
    changed: BTreeMap<ListId, i64>,
    cleared: BTreeSet<ListId>,
    pub(in crate::owner) layer: Layer,
}

/// The fate of a block that a dataset no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) enum Fate {
    /// No other dataset holds it: it is freed.
    Free,
    /// The previous snapshot may hold it: it goes to that snapshot's deadlist.
    Listed,
}

impl Fate {
    pub(in crate::owner) fn of(prev: PrevSnapshot, birth: Birth) -> Self {
        if birth <= prev.floor {
            Fate::Listed
        } else {
            Fate::Free
        }
    }
}

impl DeadlistChanges {
    pub(in crate::owner) fn new(birth: Birth, space: BlockSpace) -> Self {
        Self {
            birth,
            written: BTreeMap::new(),
            space,
            changed: BTreeMap::new(),
            cleared: BTreeSet::new(),
            layer: Layer::new(),
        }
    }

    /// Adds blocks to a list.
    pub(in crate::owner) fn add(&mut self, list: ListId, ptrs: &[BlockPtr]) {
        *self.changed.entry(list).or_default() += self.bytes(ptrs);
        let written = self.written.entry(list).or_default();
        for ptrs in ptrs.chunks(DEAD_CHUNK_MAX) {
            let key = dead_key(list, self.birth, *written);
            *written += 1;
            self.layer.put(key, Value::Inline(encode_dead(ptrs)));
        }
    }

    /// Removes a chunk.
    pub(in crate::owner) fn take(&mut self, key: Key, ptrs: &[BlockPtr]) {
        let list = ListId(key.object().0);
        *self.changed.entry(list).or_default() -= self.bytes(ptrs);
        self.layer.delete(key);
    }

    fn bytes(&self, ptrs: &[BlockPtr]) -> i64 {
        let bytes = |ptr| self.space.of_block(ptr) as i64;
        ptrs.iter().map(bytes).sum()
    }

    /// Bytes on each changed list. `before` has their sizes before this checkpoint.
    pub(in crate::owner) fn sizes(&self, before: &BTreeMap<ListId, u64>) -> BTreeMap<ListId, u64> {
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

    /// Empties a list as it was before this checkpoint.
    pub(in crate::owner) fn clear(&mut self, list: ListId) {
        self.cleared.insert(list);
        let start = dead_key(list, self.birth, 0);
        self.layer
            .delete_range(dead_keys(list).start..start, |_| {});
    }
}
