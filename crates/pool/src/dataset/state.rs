//! The records of a dataset in memory.
//!
//! **Owns** dirty records, groups in flight, records that only the journal has, and layers: everything between a request and the dataset's tree. **Called
//! by** requests and the owner, under the dataset's lock. **Invariants**: newer places are searched first,
//! so that a change is visible from the moment it is put here; a record is at every moment in one of these places, or
//! in the tree.

use super::charges::{Charges, Move};
use super::demands::Demands;
use super::gate::Gate;
use super::in_flight::InFlight;
use super::journaled::Journaled;
use super::keys::{fragment_key, fragments_max, record_of_block};
use super::layers::Layers;
use super::staged::Staged;
use super::tails::Tails;
use crate::dirty::{Dirty, Group, Known};
use crate::format::filesystem::{BLOCK_SIZE, Charge, Inode, KIND_BLOCK};
use crate::format::{Block, BlockPtr, Dataset, DatasetRoot, Key, ObjectId, Record, TreeId, Value};
use crate::record::Contents;
use crate::tree::Root;

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
    pub(crate) in_flight: InFlight,
    pub(crate) journaled: Journaled,
    pub(crate) layers: Layers,
    pub(crate) demands: Demands,
}

/// The source of a record's contents.
#[derive(Clone)]
pub(super) enum Source {
    Known(Known),
    /// A block on the devices.
    Block(Block),
    /// Several blocks: the record is in fragments.
    Fragments(Vec<BlockPtr>),
    /// The tree below this root.
    Tree(Root),
}

impl Source {
    /// Whether a record with this source now has the contents that it had with the source `before`. Contents in memory are always
    /// other ones.
    pub(super) fn is_still(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Known(Known::Zero), Self::Known(Known::Zero)) => true,
            (Self::Block(now), Self::Block(before)) => now == before,
            (Self::Fragments(now), Self::Fragments(before)) => now == before,
            // the same tree, and no layer has the key
            (Self::Tree(now), Self::Tree(before)) => now == before,
            _ => false,
        }
    }
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
            in_flight: InFlight::default(),
            journaled: Journaled::default(),
            layers: Layers::over(held),
            demands: Demands::default(),
        }
    }

    /// The state of a new snapshot, whose newest layer was frozen just before.
    pub(crate) fn snapshot(&self, dataset: Dataset) -> Self {
        Self {
            layers: self.layers.of_snapshot(),
            ..Self::new(dataset, self.layers.held())
        }
    }

    /// Whether the owner has nothing to do for it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_written()
            && self.journaled.is_empty()
            && self.pending_snapshot.is_none()
            && self.demands.is_empty()
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

    /// The records that leave next, and whether others than urgent ones leave: all records of a pending snapshot are urgent.
    fn leaving_with(&mut self, lazy: bool) -> (&mut Dirty, bool) {
        let lazy = lazy && self.pending_snapshot.is_none();
        (self.leaving(), lazy)
    }

    /// As [`Dirty::next`].
    pub(crate) fn next(&mut self, bytes_max: usize, lazy: bool) -> Vec<Contents> {
        let (leaving, lazy) = self.leaving_with(lazy);
        leaving.next(bytes_max, lazy)
    }

    /// The contents of the next records to be taken that are not compressed or hashed yet.
    pub(crate) fn next_unprepared(&mut self, bytes_max: usize, lazy: bool) -> Vec<Contents> {
        let wanted = |contents: &Contents| !contents.is_prepared();
        let (leaving, lazy) = self.leaving_with(lazy);
        leaving.next_where(bytes_max, lazy, wanted)
    }

    /// As [`Dirty::next_is_large`].
    pub(crate) fn next_is_large(&mut self, lazy: bool) -> bool {
        let (leaving, lazy) = self.leaving_with(lazy);
        leaving.next_is_large(lazy)
    }

    /// As [`Dirty::take`].
    pub(crate) fn take(&mut self, count: usize, lazy: bool) -> Group {
        let (leaving, lazy) = self.leaving_with(lazy);
        leaving.take(count, lazy)
    }

    /// Sets the contents of a block of a file. Returns the bytes of dirty contents that they replace.
    pub(crate) fn put_block(&mut self, key: Key, contents: Contents, is_urgent: bool) -> usize {
        let start = key.offset() * BLOCK_SIZE;
        let is_awaited = self
            .tails
            .is_awaited(key.object(), &(start..start + BLOCK_SIZE));
        self.dirty.put(key, contents, is_urgent || is_awaited)
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

    /// Gives up waiting for large writes.
    pub(crate) fn give_up(&mut self) {
        self.dirty.give_up();
        if let Some(pending_snapshot) = &mut self.pending_snapshot {
            pending_snapshot.give_up();
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
        let mut in_flight = self.in_flight.iter().rev();
        hides(&|key| self.dirty.get(key))
            .or_else(|| hides(&staged))
            .or_else(|| hides(&pending_snapshot))
            .or_else(|| in_flight.find_map(|group| hides(&|key| group.get(key))))
            .or_else(|| hides(&|key| self.journaled.get(key)))
    }

    /// Whether a key is that of a file's block whose record only the journal has. The contents of such a block never go to the
    /// journal.
    pub(crate) fn has_journaled_record_of(&self, key: Key) -> bool {
        if !self.dataset.kind.has_files() || key.kind() != KIND_BLOCK {
            return false;
        }
        let record = record_of_block(key, self.dataset.record_size);
        self.journaled.get(record).is_some()
    }

    pub(super) fn source(&self, key: Key) -> Source {
        if let Some(known) = self.in_memory(key) {
            return Source::Known(known);
        }
        let said = self.layers.iter().find_map(|l| Some((l, l.get(key)?)));
        match said {
            Some((_, Some(Value::Block(block)))) if self.dataset.is_whole(block.ptr()) => {
                Source::Block(block.clone())
            }
            Some((layer, Some(Value::Block(first)))) => {
                // the layer has all fragments or none
                let others = (1..fragments_max(key)).map_while(|number| {
                    let fragment = layer.get(fragment_key(key, number))??;
                    fragment.block().copied()
                });
                Source::Fragments(std::iter::once(*first.ptr()).chain(others).collect())
            }
            Some((_, value)) => Source::Known(Known::of_value(value)),
            None => Source::Tree(self.layers.root()),
        }
    }
}
