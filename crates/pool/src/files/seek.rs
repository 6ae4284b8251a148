//! Data and holes of files.
//!
//! **Owns** the search for the next record with data, or without. **Called by** the store. **Invariant**: a record with data is
//! never said to be a hole.

use std::ops::Range;

use backend::file::Seek;

use super::FileStore;
use crate::Result;
use crate::dataset::{RECORDS_END, data_keys};
use crate::format::ObjectId;

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
            let locations = self.bytes(object).locations(rest.start..end).await?;
            if let Some(index) = locations.iter().position(|l| l.is_zero()) {
                return Ok(Some(rest.start + index as u64));
            }
            rest.start = end;
        }
        Ok(None)
    }

    async fn next_data(&self, object: ObjectId, records: Range<u64>) -> Result<Option<u64>> {
        let _reader = self.0.shared.readers.enter();
        let mut keys = data_keys(object, records.start..records.end.min(RECORDS_END));
        while keys.start < keys.end {
            let walked = self.0.walk(keys.clone()).await?;
            if let Some((key, _)) = walked.found.first() {
                return Ok(Some(key.offset()));
            }
            keys.start = walked.next;
        }
        Ok(None)
    }
}
