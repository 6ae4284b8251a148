//! Pending destroys: datasets that are gone, and whose blocks are not all free yet.
//!
//! **Owns** the pending destroys by number, as the pool's own tree has them, and how many blocks one checkpoint frees.
//! **Called by** the operations that destroy or roll back, and by checkpoints, which free the blocks (`freeing.rs`).
//! **Invariant**: a pending destroy changes when a checkpoint is durable, not while it is written; only the deadlist that
//! it hands blocks over to may change at any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dataset::Frozen;
use crate::format::{Birth, BlockPtr, DatasetRoot, Freeing, Key, ListId, PrevSnapshot, Value};
use crate::tree::{Layer, Root};

/// A destroyed dataset, or the state that a rollback gave up.
#[derive(Clone)]
pub(in crate::owner) struct PendingDestroy {
    /// Changes above a tree. The next checkpoint frees all their blocks; the journal's size bounds them.
    layers: Vec<Arc<Layer>>,
    /// Other datasets hold the blocks that were born up to here.
    floor: Birth,
    /// The rest of the tree or deadlist. None if only layers are pending.
    left: Option<Freeing>,
}

/// How far a checkpoint got with a pending destroy.
pub(in crate::owner) struct DestroyProgress {
    pub(in crate::owner) number: u64,
    /// What is still pending, or none if all blocks are free.
    pub(in crate::owner) left: Option<Freeing>,
}

impl PendingDestroy {
    /// A pending destroy as the pool's own tree has it.
    pub(super) fn resumed(left: Freeing) -> Self {
        let (Freeing::Tree { floor, .. }
        | Freeing::List {
            prev: PrevSnapshot { floor, .. },
            ..
        }) = left;
        Self {
            layers: Vec::new(),
            floor,
            left: Some(left),
        }
    }

    /// The deadlist of a destroyed snapshot.
    pub(super) fn of_list(list: ListId, prev: PrevSnapshot) -> Self {
        Self::resumed(Freeing::List { list, prev })
    }

    /// The layers and the tree of a dataset. Other datasets hold the blocks born up to `floor`; the others have about
    /// `bytes` bytes.
    pub(super) fn of_dataset(
        layers: impl IntoIterator<Item = Frozen>,
        root: Root,
        floor: Birth,
        bytes: u64,
    ) -> Self {
        Self {
            layers: layers.into_iter().map(|frozen| frozen.layer).collect(),
            floor,
            left: root.map(|root| Freeing::Tree {
                root,
                floor,
                from: Key::START,
                left: bytes,
            }),
        }
    }

    /// The rest of its tree or deadlist. None if only layers are pending.
    pub(in crate::owner) fn left(&self) -> Option<Freeing> {
        self.left
    }

    /// Calls `each` with the blocks that only its layers point to.
    pub(in crate::owner) fn each_layered(&self, mut each: impl FnMut(&BlockPtr)) {
        each_layered(&self.layers, |ptr| {
            if ptr.birth > self.floor {
                each(ptr);
            }
        });
    }

    /// The checkpoint that was being written merged its layers into a tree.
    fn replace_root(&mut self, held: &DatasetRoot) {
        self.left = held.root.map(|root| Freeing::Tree {
            root,
            floor: self.floor,
            from: Key::START,
            left: held.allocated,
        });
    }
}

/// See the module header.
pub(in crate::owner) struct Destroyer {
    pending: BTreeMap<u64, PendingDestroy>,
    /// Blocks that one checkpoint frees, about.
    blocks_max: usize,
    /// Whether a checkpoint is due that frees blocks.
    is_due: bool,
}

impl Destroyer {
    /// Goes on with pending destroys from the pool's own tree. One checkpoint frees about `blocks_max` blocks.
    pub(in crate::owner) fn new(left: BTreeMap<u64, Freeing>, blocks_max: usize) -> Self {
        let pending = left.into_iter();
        let pending = pending.map(|(number, left)| (number, PendingDestroy::resumed(left)));
        Self {
            pending: pending.collect(),
            blocks_max,
            is_due: false,
        }
    }

    /// Whether all destroyed datasets are free.
    pub(in crate::owner) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The pending destroys, oldest first.
    pub(in crate::owner) fn pending(&self) -> impl Iterator<Item = &PendingDestroy> {
        self.pending.values()
    }

    /// The destroyed trees with the keys from which on they are not free yet, and the births up to which other datasets
    /// hold their blocks.
    pub(in crate::owner) fn trees(&self) -> impl Iterator<Item = (BlockPtr, Key, Birth)> {
        self.pending
            .values()
            .filter_map(|destroy| match destroy.left {
                Some(Freeing::Tree { root, from, .. }) => Some((root, from, destroy.floor)),
                _ => None,
            })
    }

    /// The deadlists of destroyed snapshots, and what lies before them.
    pub(in crate::owner) fn lists(&self) -> impl Iterator<Item = (ListId, PrevSnapshot)> {
        self.pending
            .values()
            .filter_map(|destroy| match destroy.left {
                Some(Freeing::List { list, prev }) => Some((list, prev)),
                _ => None,
            })
    }

    /// The pending destroys by number, as a checkpoint holds them.
    pub(in crate::owner) fn snapshot(&self) -> BTreeMap<u64, PendingDestroy> {
        self.pending.clone()
    }

    /// Blocks that one checkpoint frees, about.
    pub(in crate::owner) fn blocks_max(&self) -> usize {
        self.blocks_max
    }

    /// Whether a checkpoint is due that frees blocks.
    pub(in crate::owner) fn is_due(&self) -> bool {
        self.is_due
    }

    /// A second passed: a checkpoint is due if a destroy is pending.
    pub(in crate::owner) fn tick(&mut self) {
        self.is_due = !self.pending.is_empty();
    }

    /// A checkpoint begins.
    pub(in crate::owner) fn begin_checkpoint(&mut self) {
        self.is_due = false;
    }

    /// Adds a destroy. Returns whether it has blocks to free.
    pub(in crate::owner) fn add(&mut self, destroy: PendingDestroy) -> bool {
        let has_blocks = !destroy.layers.is_empty() || destroy.left.is_some();
        if has_blocks {
            let last = self.pending.last_key_value().map_or(0, |(n, _)| *n);
            self.pending.insert(last + 1, destroy);
        }
        has_blocks
    }

    /// Ends hand-overs to the deadlist `from`: they go to `to`, or nowhere, in which case they keep their floor.
    pub(super) fn redirect(&mut self, from: ListId, to: Option<PrevSnapshot>) {
        for destroy in self.pending.values_mut() {
            if let Some(Freeing::List { prev, .. }) = &mut destroy.left
                && prev.list == Some(from)
            {
                match to {
                    Some(to) => *prev = to,
                    None => prev.list = None,
                }
            }
        }
    }

    /// A checkpoint merged layers: pending destroys that hold them hold the root `root_of` them instead.
    pub(in crate::owner) fn replace_layers(
        &mut self,
        root_of: impl Fn(&[Arc<Layer>]) -> Option<DatasetRoot>,
        is_merged: impl Fn(&Arc<Layer>) -> bool,
    ) {
        for destroy in self.pending.values_mut() {
            if let Some(held) = root_of(&destroy.layers) {
                destroy.replace_root(&held);
            }
            destroy.layers.retain(|layer| !is_merged(layer));
        }
    }

    /// A checkpoint is durable, and got so far.
    pub(in crate::owner) fn advance(&mut self, progress: &[DestroyProgress]) {
        for DestroyProgress { number, left } in progress {
            self.is_due |= left.is_some();
            let Some(destroy) = self.pending.get_mut(number) else {
                continue;
            };
            destroy.layers.clear();
            match (left, &mut destroy.left) {
                (None, _) => drop(self.pending.remove(number)),
                // the list that it hands blocks over to may have changed meanwhile
                (Some(Freeing::List { .. }), _) => {}
                (Some(tree), now) => *now = Some(*tree),
            }
        }
    }
}

/// Calls `each` with the blocks that layers put.
pub(in crate::owner) fn each_layered(layers: &[Arc<Layer>], mut each: impl FnMut(&BlockPtr)) {
    let points = layers.iter().flat_map(|layer| layer.points());
    for (_, delta) in points {
        if let Some(ptr) = delta.value().and_then(Value::block) {
            each(ptr);
        }
    }
}
