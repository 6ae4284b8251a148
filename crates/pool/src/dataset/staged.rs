//! Staged transactions: changes of a filesystem's values that the journal does not have yet.
//!
//! **Owns** the transactions in order, and the values that reads find before those of the layers. **Called by** the store of a
//! filesystem, which adds transactions, and by the pool's owner, which appends them to the journal. **Invariants**: they leave in
//! order, each as a whole; all of them are in the journal before a group of records leaves, so that a group is newer than every
//! transaction before it, and none leaves while a snapshot is pending.

use std::collections::VecDeque;
use std::ops::Range;

use crate::dirty::Group;
use crate::format::filesystem::{KIND_BLOCK, KIND_DATA};
use crate::format::{Key, Record, TreeId, Value};
use crate::record::Contents;
use crate::tree::Layer;

/// Bytes of staged transactions at which the owner is woken.
pub(crate) const STAGED_LAZY_BYTES: usize = 64 << 10;

/// A change of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Put(Key, Box<[u8]>),
    Delete(Key),
    DeleteRange(Range<Key>),
}

impl Step {
    /// The change as a record of the journal.
    pub(crate) fn record(&self, tree: TreeId) -> Record {
        match self {
            Step::Put(key, value) => Record::Put(tree, *key, Value::Inline(value.clone())),
            Step::Delete(key) => Record::Delete(tree, *key),
            Step::DeleteRange(keys) => Record::DeleteRange(tree, keys.clone()),
        }
    }

    /// Applies the change to a layer. `replaced` gets values of the layer that it replaces.
    pub(crate) fn apply(&self, layer: &mut Layer, mut replaced: impl FnMut(Option<Value>)) {
        match self {
            Step::Put(key, value) => replaced(layer.put(*key, Value::Inline(value.clone()))),
            Step::Delete(key) => replaced(layer.delete(*key)),
            Step::DeleteRange(keys) => {
                layer.delete_range(keys.clone(), |old| replaced(Some(old)));
            }
        }
    }
}

/// Changes that are in the journal together, or not at all.
#[derive(Debug, Default)]
pub(crate) struct StagedTransaction {
    pub(crate) steps: Vec<Step>,
    /// Bytes of space and memory that were admitted for it.
    pub(crate) admitted: u64,
}

impl StagedTransaction {
    /// Bytes in the journal.
    pub(crate) fn bytes(&self) -> usize {
        let tree = TreeId(0);
        self.steps.iter().map(|step| step.record(tree).size()).sum()
    }

    /// The changes of records of files, in the form in which groups in flight hide older contents. None if it has none.
    pub(crate) fn group(&self) -> Option<Group> {
        let mut group = Group::default();
        for step in &self.steps {
            match step {
                Step::Put(key, value) if key.kind() == KIND_DATA => {
                    group.records.push((*key, Contents::inline(value)));
                }
                Step::DeleteRange(keys) if keys.start.kind() <= KIND_BLOCK => {
                    group.ranges.push(keys.clone());
                }
                Step::Put(..) | Step::Delete(_) | Step::DeleteRange(_) => {}
            }
        }
        group.ranges.sort_by_key(|keys| keys.start);
        group.ranges.dedup_by(|next, last| {
            let overlaps = next.start < last.end;
            if overlaps {
                last.end = last.end.max(next.end);
            }
            overlaps
        });
        group.records.sort_by_key(|(key, _)| *key);
        (!group.is_empty()).then_some(group)
    }
}

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// The values after all of `queue`, and after earlier transactions that left since it was last empty.
    layer: Layer,
    queue: VecDeque<StagedTransaction>,
    bytes: usize,
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes in the journal of all transactions.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The change of a value: its value, or `Some(None)` if it was deleted; `None` if it is not changed.
    pub(crate) fn get(&self, key: Key) -> Option<Option<&Value>> {
        self.layer.get(key)
    }

    /// The changes of all values.
    pub(crate) fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Adds a transaction.
    pub(crate) fn push(&mut self, transaction: StagedTransaction) {
        for step in &transaction.steps {
            step.apply(&mut self.layer, drop);
        }
        self.bytes += transaction.bytes();
        self.queue.push_back(transaction);
    }

    /// The oldest transactions, together at most `bytes_max` bytes in the journal, at least one.
    pub(crate) fn next(&self, bytes_max: usize) -> impl Iterator<Item = &StagedTransaction> {
        let mut left = bytes_max;
        self.queue
            .iter()
            .enumerate()
            .map_while(move |(n, transaction)| {
                let bytes = transaction.bytes();
                let fits = bytes <= left;
                left = left.saturating_sub(bytes);
                (fits || n == 0).then_some(transaction)
            })
    }

    /// Takes the oldest transactions, which the journal has now, and which are in a layer below before the dataset's lock is
    /// given up.
    pub(crate) fn take(&mut self, count: usize) -> Vec<StagedTransaction> {
        let taken: Vec<_> = self.queue.drain(..count).collect();
        self.bytes -= taken.iter().map(StagedTransaction::bytes).sum::<usize>();
        if self.queue.is_empty() {
            self.layer = Layer::new();
        }
        taken
    }

    /// Drops all transactions. Returns the bytes that were admitted for them.
    pub(crate) fn forget(&mut self) -> u64 {
        let forgotten = std::mem::take(self);
        forgotten.queue.iter().map(|t| t.admitted).sum()
    }
}
