//! Reading the contents of files.
//!
//! **Owns** the records of a range of bytes of a file. **Called by** the store, and by writes of parts of records.
//! **Invariant**: bytes behind the stored end of a record are zero.

use std::ops::Range;

use io::Payload;

use super::FileStore;
use crate::Result;
use crate::dataset::{Location, Piece, RECORDS_END, data_keys};
use crate::dirty::Known;
use crate::format::ObjectId;

impl FileStore {
    /// The locations of records of a file. Records above the highest possible number are holes.
    pub(super) async fn locations(
        &self,
        object: ObjectId,
        records: Range<u64>,
        is_cached: bool,
    ) -> Result<Vec<Location>> {
        let possible = records.start.min(RECORDS_END)..records.end.min(RECORDS_END);
        let holes = (records.end - records.start) - (possible.end - possible.start);
        let mut found = match possible.is_empty() {
            true => Vec::new(),
            false => {
                let keys = data_keys(object, possible);
                self.0.locate(keys, is_cached).await?
            }
        };
        found.extend((0..holes).map(|_| Location::Known(Known::Zero)));
        Ok(found)
    }

    fn is_cached(&self, bytes: &Range<u64>) -> bool {
        let size = self.record_size();
        let records = bytes.end.div_ceil(size) - bytes.start / size;
        self.0
            .is_cached((bytes.end - bytes.start) as usize, records)
    }

    /// The parts of records that a range of bytes of a file has, and zeroes.
    async fn pieces(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        is_cached: bool,
    ) -> Result<Vec<Piece>> {
        let size = self.record_size();
        let records = bytes.start / size..bytes.end.div_ceil(size);
        let locations = self.locations(object, records.clone(), is_cached).await?;
        let mut pieces = Vec::with_capacity(locations.len());
        for (record, location) in records.zip(locations) {
            let start = record * size;
            let from = (bytes.start.max(start) - start) as usize;
            let to = (bytes.end.min(start.saturating_add(size)) - start) as usize;
            let stored = location.len().clamp(from, to);
            let key = data_keys(object, record..record).start;
            if stored > from {
                pieces.push(Piece {
                    key,
                    location,
                    skip: from,
                    len: stored - from,
                });
            }
            if to > stored {
                pieces.push(Piece {
                    key,
                    location: Location::Known(Known::Zero),
                    skip: stored,
                    len: to - stored,
                });
            }
        }
        Ok(pieces)
    }

    /// Reads a range of bytes of a file.
    pub(super) async fn read_bytes(&self, object: ObjectId, bytes: Range<u64>) -> Result<Payload> {
        let len = (bytes.end - bytes.start) as usize;
        if len == 0 {
            return Ok(Payload::zeroes(0));
        }
        let _reader = self.0.shared.readers.enter();
        let is_cached = self.is_cached(&bytes);
        let pieces = self.pieces(object, bytes, is_cached).await?;
        self.0.read_pieces(&pieces, len, is_cached).await
    }

    /// Fills `out` with the bytes of a file from `at` on.
    pub(super) async fn read_into(&self, object: ObjectId, at: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let _reader = self.0.shared.readers.enter();
        let bytes = at..at + out.len() as u64;
        let is_cached = self.is_cached(&bytes);
        let pieces = self.pieces(object, bytes, is_cached).await?;
        self.0.fill(&pieces, out, is_cached).await
    }
}
