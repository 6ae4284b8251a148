//! Data and holes of files.
//!
//! **Owns** the search for the next record with data, or without. **Called by** the store. **Invariant**: a record with data is
//! never said to be a hole.

use std::ops::Range;

use backend::file::Seek;

use super::FileStore;
use crate::Result;
use crate::dataset::{RECORDS_END, data_keys};
use crate::format::{Key, ObjectId};
use crate::mutex::lock;

/// Records that one step of the search for a hole looks at.
const RECORDS_AT_ONCE: u64 = 256;

impl FileStore {
    /// The next byte in a range of a file that may hold data, or that is in a hole.
    pub(super) async fn next_byte(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        to: Seek,
    ) -> Result<Option<u64>> {
        let size = self.record_size(object);
        let records = bytes.start / size..bytes.end.div_ceil(size);
        let found = match to {
            Seek::Data => self.next_data(object, records).await?,
            Seek::Hole => self.next_hole(object, records).await?,
        };
        let found = found.map(|record| (record * size).max(bytes.start));
        Ok(found.filter(|byte| *byte < bytes.end))
    }

    async fn next_hole(&self, object: ObjectId, records: Range<u64>) -> Result<Option<u64>> {
        let _reader = self.0.shared.readers.enter();
        let mut rest = records;
        while !rest.is_empty() {
            let end = rest.end.min(rest.start + RECORDS_AT_ONCE);
            let locations = self.locations(object, rest.start..end, false).await?;
            if let Some(index) = locations.iter().position(|l| l.is_zero()) {
                return Ok(Some(rest.start + index as u64));
            }
            rest.start = end;
        }
        Ok(None)
    }

    async fn next_data(&self, object: ObjectId, records: Range<u64>) -> Result<Option<u64>> {
        let _reader = self.0.shared.readers.enter();
        let mut rest = records.start..records.end.min(RECORDS_END);
        while !rest.is_empty() {
            let keys = data_keys(object, rest.clone());
            let dirty = self.first_in_memory(&keys);
            let stored = self.values(keys, 1, |_, _| true).await?;
            let stored = stored.first().map(|(key, _)| *key);
            let Some(next) = dirty.into_iter().chain(stored).min() else {
                return Ok(None);
            };
            let record = next.offset();
            // newer changes may hide it
            let location = self.locations(object, record..record + 1, false).await?;
            if location.iter().any(|l| !l.is_zero()) {
                return Ok(Some(record));
            }
            rest.start = record + 1;
        }
        Ok(None)
    }

    /// The first of these keys that has a dirty record, or a record in a group in flight.
    fn first_in_memory(&self, keys: &Range<Key>) -> Option<Key> {
        let state = lock(&self.0.state);
        let dirty = state.dirty.first_record_in(keys.clone());
        let groups = state.writing.iter().filter_map(|w| {
            let records = &w.group.records;
            let first = records.partition_point(|(key, _)| *key < keys.start);
            let found = records.get(first).map(|(key, _)| *key);
            found.filter(|key| *key < keys.end)
        });
        groups.chain(dirty).min()
    }
}
