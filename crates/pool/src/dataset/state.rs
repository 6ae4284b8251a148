//! The records of a dataset in memory.
//!
//! **Owns** dirty records, groups in flight, and layers: everything between a request and the dataset's tree. **Called
//! by** requests and the owner, under the dataset's lock. **Invariants**: newer places are searched first,
//! so that a change is visible from the moment it is put here; a record is at every moment in one of these places, or
//! in the tree.

use std::collections::VecDeque;
use std::sync::Arc;

use backend::Durable;
use io::sync::oneshot;
use io::time::Instant;

use super::charges::{Charges, Move};
use super::gate::Gate;
use super::keys::{fragment_key, fragments_max, record_of_block};
use super::staged::Staged;
use super::tails::Tails;
use crate::dirty::{Dirty, Group, Known};
use crate::format::filesystem::{Charge, Inode, KIND_BLOCK};
use crate::format::{Birth, BlockPtr, Dataset, DatasetRoot, Key, ObjectId, Record, TreeId, Value};
use crate::record::Contents;
use crate::tree::{Layer, Root};
use crate::{Error, Result};

/// The owner's answer to a demand: the changes that the demand names are durable.
pub(crate) struct Promise {
    pub(crate) proof: Durable,
    /// When the journal had taken the changes into a batch.
    pub(crate) taken_at: Instant,
    /// When the devices were asked to make data and batch stable.
    pub(crate) flush_at: Instant,
}

/// Answers a demand that dirty, or urgent, records become durable.
pub(crate) type Demand = oneshot::Sender<Result<Promise>>;

/// A layer that does not change any longer.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) layer: Arc<Layer>,
    /// The epoch in which it was frozen. All its blocks were born in it or before.
    pub(crate) epoch: Birth,
}

/// A group in flight.
pub(crate) struct Writing {
    pub(crate) group: Arc<Group>,
    pub(crate) written: bool,
}

/// The records of a dataset that its tree does not have, and the tree's root and sums.
pub(crate) struct State {
    pub(crate) dataset: Dataset,
    pub(crate) dirty: Dirty,
    /// Transactions of a filesystem that the journal does not have yet. Newer than all below.
    pub(crate) staged: Staged,
    /// Inodes of files whose data is not all written.
    pub(crate) tails: Tails,
    /// Space of a filesystem's files by owner.
    pub(crate) charges: Charges,
    pub(crate) gate: Gate,
    /// The records of a pending snapshot that were dirty when it was requested.
    pub(crate) pending_snapshot: Option<Dirty>,
    /// Groups in flight, oldest first. Their pointers are in `top`, or come there when they are made. A written group
    /// stays until the groups before it are written, so that replaced records of those do not become visible again.
    pub(crate) writing: VecDeque<Writing>,
    pub(crate) top: Layer,
    /// Layers frozen for snapshots or a checkpoint, newest first.
    pub(crate) frozen: VecDeque<Frozen>,
    pub(crate) root: Root,
    /// Stored bytes of its records, as of the last checkpoint.
    pub(crate) referenced: u64,
    /// Bytes of its records once decompressed, as of the last checkpoint.
    pub(crate) logical: u64,
    /// Bytes of its records and nodes in whole sectors, as of the last checkpoint.
    pub(crate) allocated: u64,
    pub(crate) demands: Vec<Demand>,
    /// Whether the owner knows that it has work: [`crate::shared::Shared::asking`] has its number, or the owner took
    /// it from there.
    pub(crate) is_asking: bool,
    /// Whether it is destroyed, or its pool closed.
    pub(crate) is_ended: bool,
}

/// The source of a record's contents.
pub(super) enum Source {
    Known(Known),
    /// A block on the devices.
    Block(BlockPtr),
    /// Several blocks: the record is in fragments.
    Fragments(Vec<BlockPtr>),
    /// The tree below this root.
    Tree(Root),
}

impl State {
    pub(crate) fn new(dataset: Dataset, held: DatasetRoot) -> Self {
        Self {
            dataset,
            dirty: Dirty::default(),
            staged: Staged::default(),
            tails: Tails::default(),
            charges: Charges::default(),
            gate: Gate::default(),
            pending_snapshot: None,
            writing: VecDeque::new(),
            top: Layer::new(),
            frozen: VecDeque::new(),
            root: held.root,
            referenced: held.referenced,
            logical: held.logical,
            allocated: held.allocated,
            demands: Vec::new(),
            is_asking: false,
            is_ended: false,
        }
    }

    /// The tree and the sums.
    pub(crate) fn held(&self) -> DatasetRoot {
        DatasetRoot {
            root: self.root,
            referenced: self.referenced,
            logical: self.logical,
            allocated: self.allocated,
        }
    }

    /// Sets the tree and the sums.
    pub(crate) fn set_held(&mut self, held: DatasetRoot) {
        self.root = held.root;
        self.referenced = held.referenced;
        self.logical = held.logical;
        self.allocated = held.allocated;
    }

    /// Whether the owner has nothing to do for it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_written() && self.pending_snapshot.is_none() && self.demands.is_empty()
    }

    /// Whether there are no changes that the journal does not have.
    pub(crate) fn is_written(&self) -> bool {
        self.dirty.is_empty() && self.staged.is_empty()
    }

    /// Whether some records are urgent.
    pub(crate) fn has_urgent(&self) -> bool {
        self.pending_snapshot.as_ref().is_some_and(Dirty::is_urgent) || self.dirty.is_urgent()
    }

    /// The dirty records that are written next: those of a pending snapshot before all others.
    pub(crate) fn leaving(&mut self) -> &mut Dirty {
        self.pending_snapshot.as_mut().unwrap_or(&mut self.dirty)
    }

    /// As [`Dirty::next`].
    pub(crate) fn next(&mut self, bytes_max: usize, lazy: bool) -> Vec<Contents> {
        let lazy = lazy && self.pending_snapshot.is_none();
        self.leaving().next(bytes_max, lazy)
    }

    /// As [`Dirty::next_is_large`].
    pub(crate) fn next_is_large(&mut self, lazy: bool) -> bool {
        let lazy = lazy && self.pending_snapshot.is_none();
        self.leaving().next_is_large(lazy)
    }

    /// As [`Dirty::take`].
    pub(crate) fn take(&mut self, count: usize, lazy: bool) -> Group {
        let lazy = lazy && self.pending_snapshot.is_none();
        self.leaving().take(count, lazy)
    }

    /// Freezes the newest layer, unless it is empty.
    pub(crate) fn freeze(&mut self, epoch: Birth) {
        if !self.top.is_empty() {
            let layer = std::mem::take(&mut self.top).freeze();
            self.frozen.push_front(Frozen { layer, epoch });
        }
    }

    /// A file was written: it has this inode. `before` is the newest one before.
    pub(crate) fn written(&mut self, object: ObjectId, inode: Inode, before: &Inode) {
        let seen = self.tails.get(object).unwrap_or(before);
        self.charges.see(Move {
            object,
            before: Charge::of(seen),
            after: Charge::of(&inode),
        });
        self.tails.written(object, inode, before);
    }

    /// The journal gets these inodes of files with dirty data. Returns the changes of the space of their owners.
    pub(crate) fn charge_leaving(
        &mut self,
        tree: TreeId,
        inodes: &[(ObjectId, Inode)],
    ) -> Vec<Record> {
        let mut records = Vec::new();
        for (object, inode) in inodes {
            let after = Charge::of(inode);
            let before = self.tails.charge(*object, after);
            let object = *object;
            let change = Move {
                object,
                before,
                after,
            };
            self.charges.journal(tree, change, &mut records);
        }
        records
    }

    /// Answers waiting demands with an error.
    pub(crate) fn refuse(&mut self, error: impl Fn() -> Error) {
        for demand in self.demands.drain(..) {
            demand.send(Err(error()));
        }
    }

    /// Gives up waiting for large writes.
    pub(crate) fn give_up(&mut self) {
        self.dirty.give_up();
        if let Some(pending_snapshot) = &mut self.pending_snapshot {
            pending_snapshot.give_up();
        }
    }

    /// A group is in flight.
    pub(crate) fn begin_writing(&mut self, group: Arc<Group>) {
        let written = false;
        self.writing.push_back(Writing { group, written });
    }

    /// A group is written, or has no data to write.
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

    /// The contents of a record or block that no layer has. A newer record hides its blocks: they are then known as zero, which
    /// means that there are none.
    fn in_memory(&self, key: Key) -> Option<Known> {
        let base = self.dataset.record_size;
        let record = (key.kind() == KIND_BLOCK).then(|| record_of_block(key, base));
        let hides = |found: &dyn Fn(Key) -> Option<Known>| {
            found(key).or_else(|| record.and_then(found).map(|_| Known::Zero))
        };
        let staged = |key| Some(Known::of_value(self.staged.get(key)?));
        let pending_snapshot = |key| self.pending_snapshot.as_ref()?.get(key);
        let mut writing = self.writing.iter().rev();
        hides(&|key| self.dirty.get(key))
            .or_else(|| hides(&staged))
            .or_else(|| hides(&pending_snapshot))
            .or_else(|| writing.find_map(|w| hides(&|key| w.group.get(key))))
    }

    pub(super) fn source(&self, key: Key) -> Source {
        if let Some(known) = self.in_memory(key) {
            return Source::Known(known);
        }
        let frozen = self.frozen.iter().map(|f| f.layer.as_ref());
        let mut layers = std::iter::once(&self.top).chain(frozen);
        let said = layers.find_map(|l| Some((l, l.get(key)?)));
        match said {
            Some((_, Some(Value::Block(ptr)))) if self.dataset.is_whole(ptr) => Source::Block(*ptr),
            Some((layer, Some(Value::Block(first)))) => {
                // the layer has all fragments or none
                let others = (1..fragments_max(key)).map_while(|number| {
                    let fragment = layer.get(fragment_key(key, number))??;
                    fragment.block().copied()
                });
                Source::Fragments(std::iter::once(*first).chain(others).collect())
            }
            Some((_, value)) => Source::Known(Known::of_value(value)),
            None => Source::Tree(self.root),
        }
    }
}
