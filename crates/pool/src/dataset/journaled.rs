//! Records whose contents only the journal has: they are durable, and get blocks later, together with others.
//!
//! **Owns** their contents. **Called by** the owner, and by reads, under the dataset's lock. **Invariants**: groups and layers have
//! no newer contents of a record that is here, because each batch takes away the records that it puts or deletes; a file's record and
//! a block of it are never both here: a record that comes takes its blocks away, and no block comes while its record is here, since
//! the record in memory takes the write into its contents; no snapshot and no checkpoint is taken while records are here.
//! `docs/decisions/0171`, `0183`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::compress::Packer;
use crate::dirty::Known;
use crate::format::{Key, Record};
use crate::record::Contents;

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct Journaled {
    records: BTreeMap<Key, Contents>,
    bytes: usize,
}

impl Journaled {
    /// Bytes of the contents.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn get(&self, key: Key) -> Option<Known> {
        self.records.get(&key).cloned().map(Known::Data)
    }

    /// The first `max` of these keys that are here.
    pub(super) fn keys_in(&self, keys: Range<Key>, max: usize) -> Vec<Key> {
        let found = self.records.range(keys).take(max);
        found.map(|(key, _)| *key).collect()
    }

    /// The journal has these contents of a record. Returns the bytes of older contents here.
    pub(crate) fn put(&mut self, key: Key, contents: Contents) -> usize {
        let replaced = self.forget(key);
        self.bytes += contents.len();
        self.records.insert(key, contents);
        replaced
    }

    /// The record got newer contents, or none. Returns the bytes of the contents here.
    pub(crate) fn forget(&mut self, key: Key) -> usize {
        let bytes = self.records.remove(&key).map_or(0, |old| old.len());
        self.bytes -= bytes;
        bytes
    }

    /// As [`Journaled::forget`], of all records under these keys.
    pub(crate) fn forget_range(&mut self, keys: Range<Key>) -> usize {
        let gone = self.records.extract_if(keys, |_, _| true);
        let bytes = gone.map(|(_, old)| old.len()).sum();
        self.bytes -= bytes;
        bytes
    }

    /// A record of the journal that is no [`Record::PutContents`] puts or deletes keys. Returns the bytes of the contents here.
    pub(crate) fn supersede(&mut self, record: &Record) -> usize {
        match record {
            Record::Put(_, key, _) | Record::PutFresh(_, key, _) | Record::Delete(_, key) => {
                self.forget(*key)
            }
            Record::DeleteRange(_, keys) => self.forget_range(keys.clone()),
            Record::PutContents(..) | Record::Freeze(..) | Record::State(_) => 0,
        }
    }

    /// The records are compressed like this when they get blocks.
    pub(crate) fn pack_with(&mut self, packer: Packer) {
        for contents in self.records.values_mut() {
            *contents = Contents::copied(contents.to_vec(), packer);
        }
    }

    /// The contents of the first records: about `bytes_max` bytes, at least one record if there is one.
    pub(crate) fn next(&self, bytes_max: usize) -> Vec<Contents> {
        let first = Contents::first_of(self.records.values(), bytes_max);
        first.cloned().collect()
    }

    /// Takes the first `count` records, which get blocks.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Vec<(Key, Contents)> {
        let records =
            (0..count).map(|_| self.records.pop_first().expect("`count` records are here"));
        let records: Vec<_> = records.collect();
        self.bytes -= records.iter().map(|(_, c)| c.len()).sum::<usize>();
        records
    }
}
