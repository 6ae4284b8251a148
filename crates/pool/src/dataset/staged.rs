//! Staged transactions: changes of a filesystem's values that the journal does not have yet.
//!
//! **Owns** the transactions in order, and the values that reads find before those of the layers. **Called by** the store of a
//! filesystem, which adds transactions, and by the pool's owner, which appends them to the journal. **Invariants**: they leave in
//! order, each as a whole; all of them are in the journal before a group of records leaves, so that a group is newer than every
//! transaction before it, and none leaves while a snapshot is pending.

use std::collections::VecDeque;

use crate::dirty::Group;
use crate::format::filesystem::{KIND_BLOCK, KIND_DATA};
use crate::format::{Key, Record, Value};
use crate::record::Contents;
use crate::tree::Layer;

/// Bytes of staged transactions at which the owner is woken.
pub(crate) const STAGED_LAZY_BYTES: usize = 64 << 10;

/// Applies a record of a dataset's values to a layer. `replaced` gets values of the layer that it replaces.
///
/// # Panics
/// For a record that is no change of values.
pub(crate) fn apply(record: &Record, layer: &mut Layer, mut replaced: impl FnMut(Value)) {
    let old = match record {
        Record::Put(_, key, value) => layer.put(*key, value.clone()),
        Record::PutFresh(_, key, block) => layer.put(*key, Value::Block(block.clone())),
        Record::Delete(_, key) => layer.delete(*key),
        Record::DeleteRange(_, keys) => return layer.delete_range(keys.clone(), replaced),
        Record::PutContents(..) | Record::Freeze(..) | Record::State(_) => {
            panic!("{record:?} changes no value")
        }
    };
    if let Some(old) = old {
        replaced(old);
    }
}

/// Changes that are in the journal together, or not at all.
#[derive(Debug)]
pub(crate) struct StagedTransaction {
    pub(crate) records: Vec<Record>,
    /// Bytes of space and memory that were admitted for it.
    pub(crate) admitted: u64,
}

impl StagedTransaction {
    /// Bytes in the journal.
    fn bytes(&self) -> usize {
        self.records.iter().map(Record::size).sum()
    }

    /// The changes of records of files, in the form in which groups in flight hide older contents. None if it has none.
    pub(crate) fn group(&self) -> Option<Group> {
        let mut group = Group::default();
        for record in &self.records {
            match record {
                Record::Put(_, key, Value::Inline(value)) if key.kind() == KIND_DATA => {
                    group.records.push((*key, Contents::inline(value)));
                }
                Record::DeleteRange(_, keys) if keys.start.kind() <= KIND_BLOCK => {
                    group.ranges.push(keys.clone());
                }
                _ => {}
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
        for record in &transaction.records {
            apply(record, &mut self.layer, drop);
        }
        self.bytes += transaction.bytes();
        self.queue.push_back(transaction);
    }

    /// The oldest transaction.
    pub(crate) fn oldest(&self) -> Option<&StagedTransaction> {
        self.queue.front()
    }

    /// Takes the oldest transaction, which the journal has now, and which is in a layer below before the dataset's lock is given
    /// up.
    pub(crate) fn take_oldest(&mut self) -> Option<StagedTransaction> {
        let taken = self.queue.pop_front()?;
        self.bytes -= taken.bytes();
        if self.queue.is_empty() {
            self.layer = Layer::new();
        }
        Some(taken)
    }

    /// Drops all transactions. Returns the bytes that were admitted for them.
    pub(crate) fn forget(&mut self) -> u64 {
        let forgotten = std::mem::take(self);
        forgotten.queue.iter().map(|t| t.admitted).sum()
    }
}
