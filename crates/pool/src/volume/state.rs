//! What is known of a volume's records in memory.
//!
//! **Owns** dirty records, groups on their way, and layers: all that lies between a request and the volume's tree. **Called by**
//! the volume's requests and the owner, under the volume's lock. **Invariants**: what is newer is looked at first, so that a
//! change is seen from the moment it is put here; a record is at every moment in one of these places, or in the tree.

use std::collections::VecDeque;
use std::sync::Arc;

use backend::Durable;
use io::sync::oneshot;

use super::{piece_key, record_key};
use crate::dirty::{Dirty, Group, Known};
use crate::format::{Birth, BlockPtr, Dataset, DatasetRoot, PIECES_MAX, Value};
use crate::record::Contents;
use crate::tree::{Layer, Root};
use crate::{Error, Result};

/// Who waits for everything that is dirty, or urgent, to be durable.
pub(crate) type Demand = oneshot::Sender<Result<Durable>>;

/// A layer that changes no more.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) layer: Arc<Layer>,
    /// The epoch in which it was frozen: nothing in it is younger.
    pub(crate) epoch: Birth,
}

/// A group on its way to the devices.
pub(crate) struct Writing {
    pub(crate) group: Arc<Group>,
    pub(crate) written: bool,
}

/// What is known of a volume's records beside its tree on the devices.
pub(crate) struct State {
    pub(crate) dataset: Dataset,
    pub(crate) dirty: Dirty,
    /// What was dirty when a snapshot was asked for, and is to be in it.
    pub(crate) aging: Option<Dirty>,
    /// Groups on their way to the devices, oldest first. Their pointers are in `top`, or come there once they are made. A
    /// group that is written stays until the groups before it are: what it replaces in them is not to be seen again.
    pub(crate) writing: VecDeque<Writing>,
    pub(crate) top: Layer,
    /// Frozen for snapshots or a checkpoint, newest first.
    pub(crate) frozen: VecDeque<Frozen>,
    pub(crate) root: Root,
    /// Bytes of the records that it holds, as stored, up to the last checkpoint.
    pub(crate) referenced: u64,
    /// The same once decompressed.
    pub(crate) logical: u64,
    /// Bytes of its records and nodes in whole sectors, up to the last checkpoint.
    pub(crate) allocated: u64,
    pub(crate) demands: Vec<Demand>,
    /// The owner looks at it: [`crate::shared::Shared::asking`] has its number, or the owner took it from there.
    pub(crate) is_asking: bool,
    /// Destroyed, or its pool is closed.
    pub(crate) gone: bool,
}

/// What a record's contents come from.
pub(super) enum Source {
    Known(Known),
    /// A block on the devices.
    Block(BlockPtr),
    /// Several, since it is in pieces.
    Pieces(Vec<BlockPtr>),
    /// The tree knows.
    Tree(Root),
}

impl State {
    pub(crate) fn new(dataset: Dataset, held: DatasetRoot) -> Self {
        Self {
            dataset,
            dirty: Dirty::default(),
            aging: None,
            writing: VecDeque::new(),
            top: Layer::new(),
            frozen: VecDeque::new(),
            root: held.root,
            referenced: held.referenced,
            logical: held.logical,
            allocated: held.allocated,
            demands: Vec::new(),
            is_asking: false,
            gone: false,
        }
    }

    /// What it holds, without its layers.
    pub(crate) fn held(&self) -> DatasetRoot {
        DatasetRoot {
            root: self.root,
            referenced: self.referenced,
            logical: self.logical,
            allocated: self.allocated,
        }
    }

    /// It holds this, without its layers.
    pub(crate) fn hold(&mut self, held: DatasetRoot) {
        self.root = held.root;
        self.referenced = held.referenced;
        self.logical = held.logical;
        self.allocated = held.allocated;
    }

    /// Whether the owner has nothing to do for it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.dirty.is_empty() && self.aging.is_none() && self.demands.is_empty()
    }

    /// Whether something is to leave before the rest.
    pub(crate) fn has_urgent(&self) -> bool {
        self.aging.as_ref().is_some_and(Dirty::is_urgent) || self.dirty.is_urgent()
    }

    /// What is to leave next; all of it before anything else if it is aging.
    pub(crate) fn leaving(&mut self) -> &mut Dirty {
        self.aging.as_mut().unwrap_or(&mut self.dirty)
    }

    /// As [`Dirty::next`].
    pub(crate) fn next(&mut self, bytes_max: usize, lazy: bool) -> Vec<Contents> {
        let lazy = lazy && self.aging.is_none();
        self.leaving().next(bytes_max, lazy)
    }

    /// As [`Dirty::next_is_large`].
    pub(crate) fn next_is_large(&mut self, lazy: bool) -> bool {
        let lazy = lazy && self.aging.is_none();
        self.leaving().next_is_large(lazy)
    }

    /// As [`Dirty::take`].
    pub(crate) fn take(&mut self, count: usize, lazy: bool) -> Group {
        let lazy = lazy && self.aging.is_none();
        self.leaving().take(count, lazy)
    }

    /// Nothing changes the newest layer any more.
    pub(crate) fn freeze(&mut self, epoch: Birth) {
        if !self.top.is_empty() {
            let layer = std::mem::take(&mut self.top).freeze();
            self.frozen.push_front(Frozen { layer, epoch });
        }
    }

    /// Answers whoever waits with an error.
    pub(crate) fn refuse(&mut self, error: impl Fn() -> Error) {
        for demand in self.demands.drain(..) {
            demand.send(Err(error()));
        }
    }

    /// Nobody waits any more until the devices have a large write.
    pub(crate) fn give_up(&mut self) {
        self.dirty.give_up();
        if let Some(aging) = &mut self.aging {
            aging.give_up();
        }
    }

    /// A group is on its way.
    pub(crate) fn begin_writing(&mut self, group: Arc<Group>) {
        let written = false;
        self.writing.push_back(Writing { group, written });
    }

    /// A group is written, or has nothing to write.
    pub(crate) fn end_writing(&mut self, group: &Arc<Group>) {
        for writing in &mut self.writing {
            writing.written |= Arc::ptr_eq(&writing.group, group);
        }
        self.forget_written();
    }

    fn forget_written(&mut self) {
        while self.writing.front().is_some_and(|w| w.written) {
            self.writing.pop_front();
        }
    }

    pub(super) fn source(&self, record: u64) -> Source {
        let writing = self.writing.iter().rev();
        let groups = || writing.clone().find_map(|w| w.group.get(record));
        let aging = || self.aging.as_ref()?.get(record);
        if let Some(known) = self.dirty.get(record).or_else(aging).or_else(groups) {
            return Source::Known(known);
        }
        let key = record_key(record);
        let frozen = self.frozen.iter().map(|f| f.layer.as_ref());
        let mut layers = std::iter::once(&self.top).chain(frozen);
        let said = layers.find_map(|l| Some((l, l.get(key)?)));
        match said {
            Some((_, Some(Value::Block(ptr)))) if ptr.logical_size == self.dataset.record_size => {
                Source::Block(*ptr)
            }
            Some((layer, Some(Value::Block(first)))) => {
                // the others came together with it
                let others = (1..PIECES_MAX).map_while(|number| {
                    let piece = layer.get(piece_key(record, number))??;
                    piece.block().copied()
                });
                Source::Pieces(std::iter::once(*first).chain(others).collect())
            }
            Some((_, Some(Value::Inline(_)) | None)) => Source::Known(Known::Zero),
            None => Source::Tree(self.root),
        }
    }
}
