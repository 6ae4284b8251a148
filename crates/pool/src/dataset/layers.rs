//! The layers of a dataset: changes that the journal has and the tree does not, above the tree.
//!
//! **Owns** the newest layer, the frozen ones, and the tree's root and sums. **Called by** requests and the owner, under the
//! dataset's lock. **Invariants**: newer layers hide older ones, and all hide the tree; a frozen layer does not change any
//! longer, because snapshots and a checkpoint share it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::staged::apply;
use crate::format::{Birth, DatasetRoot, Key, Record, Value};
use crate::tree::{Layer, Root};

/// A layer that does not change any longer.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) layer: Arc<Layer>,
    /// The epoch in which it was frozen. All its blocks were born in it or before.
    pub(crate) epoch: Birth,
}

/// See the module header.
pub(crate) struct Layers {
    /// The newest one, which changes go to.
    top: Layer,
    /// Newest first.
    frozen: VecDeque<Frozen>,
    /// The tree, and its sums, as of the last checkpoint.
    held: DatasetRoot,
}

impl Layers {
    /// A tree without changes.
    pub(super) fn over(held: DatasetRoot) -> Self {
        Self {
            top: Layer::new(),
            frozen: VecDeque::new(),
            held,
        }
    }

    /// The layers of a snapshot of the dataset, whose newest layer was frozen just before.
    pub(super) fn of_snapshot(&self) -> Self {
        Self {
            frozen: self.frozen.clone(),
            ..Self::over(self.held)
        }
    }

    /// The tree and its sums.
    pub(crate) fn held(&self) -> DatasetRoot {
        self.held
    }

    /// Sets the tree and its sums.
    pub(crate) fn set_held(&mut self, held: DatasetRoot) {
        self.held = held;
    }

    /// The tree below the layers.
    pub(crate) fn root(&self) -> Root {
        self.held.root
    }

    /// Whether the tree has all changes.
    pub(crate) fn is_merged(&self) -> bool {
        self.top.is_empty() && self.frozen.is_empty()
    }

    /// All layers, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Layer> {
        let frozen = self.frozen.iter().map(|f| f.layer.as_ref());
        std::iter::once(&self.top).chain(frozen)
    }

    /// The frozen layers, newest first.
    pub(crate) fn frozen(&self) -> impl Iterator<Item = &Frozen> {
        self.frozen.iter()
    }

    /// The newest layer.
    pub(crate) fn top(&self) -> &Layer {
        &self.top
    }

    /// Puts a value into the newest layer. Returns the value of that layer that it replaces.
    pub(crate) fn put(&mut self, key: Key, value: Value) -> Option<Value> {
        self.top.put(key, value)
    }

    /// Deletes a range in the newest layer; `replaced` gets the values of that layer that it replaces.
    pub(crate) fn delete_range(&mut self, keys: Range<Key>, replaced: impl FnMut(Value)) {
        self.top.delete_range(keys, replaced);
    }

    /// Applies a record of the journal to the newest layer; `replaced` gets the values of that layer that it replaces.
    pub(crate) fn apply(&mut self, record: &Record, replaced: impl FnMut(Value)) {
        apply(record, &mut self.top, replaced);
    }

    /// Freezes the newest layer, unless it is empty.
    pub(crate) fn freeze(&mut self, epoch: Birth) {
        if !self.top.is_empty() {
            let layer = std::mem::take(&mut self.top).freeze();
            self.frozen.push_front(Frozen { layer, epoch });
        }
    }

    /// Takes everything away, for a destroy: the layers, newest first, and the tree.
    pub(crate) fn take(&mut self, epoch: Birth) -> (VecDeque<Frozen>, DatasetRoot) {
        self.freeze(epoch);
        (
            std::mem::take(&mut self.frozen),
            std::mem::take(&mut self.held),
        )
    }

    /// Drops the frozen layers that `is_merged`. `root_of` has the result of the newest merge of one of these layers.
    pub(crate) fn replace_merged(
        &mut self,
        root_of: impl Fn(&dyn Fn(&Arc<Layer>) -> bool) -> Option<DatasetRoot>,
        is_merged: impl Fn(&Arc<Layer>) -> bool,
    ) {
        let frozen = &self.frozen;
        let merged = root_of(&|l| frozen.iter().any(|f| Arc::ptr_eq(&f.layer, l)));
        self.held = merged.unwrap_or(self.held);
        self.frozen.retain(|f| !is_merged(&f.layer));
    }
}
