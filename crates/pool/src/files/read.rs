//! Reading the contents of files.
//!
//! **Owns** the records of a range of bytes of a file. **Called by** the store, and by writes of parts of records.
//! **Invariant**: bytes behind the stored end of a record are zero.

use std::iter::Peekable;
use std::ops::Range;

use io::Payload;

use super::FileStore;
use crate::Result;
use crate::dataset::{Location, Piece, RECORDS_END, block_keys, data_keys};
use crate::dirty::Known;
use crate::format::filesystem::{BLOCK_SIZE, KIND_BLOCK};
use crate::format::{Key, ObjectId};

/// A block that wins over a record.
struct Block {
    number: u64,
    location: Location,
}

/// A record of a file.
struct Record {
    key: Key,
    /// Its first byte in the file.
    start: u64,
    location: Location,
}

impl Record {
    /// Adds the pieces of a range of bytes of the record, in which these blocks win.
    fn pieces(
        self,
        bytes: Range<usize>,
        blocks: &mut Peekable<impl Iterator<Item = Block>>,
        pieces: &mut Vec<Piece>,
    ) {
        let mut from = bytes.start;
        let end = self.start + bytes.end as u64;
        while let Some(block) = blocks.next_if(|block| block.number * BLOCK_SIZE < end) {
            let start = block.number * BLOCK_SIZE;
            let at = start.max(self.start + bytes.start as u64);
            self.own_pieces(from..(at - self.start) as usize, pieces);
            let to = end.min(start + BLOCK_SIZE);
            pieces.push(Piece {
                key: Key::new(self.key.object(), KIND_BLOCK, block.number),
                location: block.location,
                skip: (at - start) as usize,
                len: (to - at) as usize,
            });
            from = (to - self.start) as usize;
        }
        self.own_pieces(from..bytes.end, pieces);
    }

    /// Adds the pieces of a range of bytes, of which the end is zero if it is not stored.
    fn own_pieces(&self, bytes: Range<usize>, pieces: &mut Vec<Piece>) {
        let stored = self.location.len().clamp(bytes.start, bytes.end);
        let mut push = |location, part: Range<usize>| {
            if !part.is_empty() {
                pieces.push(Piece {
                    key: self.key,
                    location,
                    skip: part.start,
                    len: part.end - part.start,
                });
            }
        };
        push(self.location.clone(), bytes.start..stored);
        push(Location::Known(Known::Zero), stored..bytes.end);
    }
}

/// Number of these records that have no key.
fn records_beyond(records: &Range<u64>) -> usize {
    let possible = records.start.min(RECORDS_END)..records.end.min(RECORDS_END);
    ((records.end - records.start) - (possible.end - possible.start)) as usize
}

impl FileStore {
    /// The locations of records of a file. Records above the highest possible number are holes.
    pub(super) async fn locations(
        &self,
        object: ObjectId,
        records: Range<u64>,
        is_cached: bool,
    ) -> Result<Vec<Location>> {
        let keys = data_keys(object, records.clone());
        let mut found = self.0.locate(keys, is_cached).await?;
        let holes = std::iter::repeat_n(Location::Known(Known::Zero), records_beyond(&records));
        found.extend(holes);
        Ok(found)
    }

    fn is_cached(&self, object: ObjectId, bytes: &Range<u64>) -> bool {
        let size = self.record_size(object);
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
        let size = self.record_size(object);
        let records = bytes.start / size..bytes.end.div_ceil(size);
        let numbers = match self.0.settings.has_blocks() {
            true => bytes.start / BLOCK_SIZE..bytes.end.div_ceil(BLOCK_SIZE),
            false => 0..0,
        };
        // a record that is written meanwhile must not be joined with blocks that it replaced
        let keys = [
            data_keys(object, records.clone()),
            block_keys(object, numbers.clone()),
        ];
        let [data, blocks] = self.0.sources(keys);
        let locations = self.0.resolve(data, is_cached).await?;
        let holes = std::iter::repeat_n(Location::Known(Known::Zero), records_beyond(&records));
        let locations = locations.into_iter().chain(holes);
        let blocks = numbers.zip(self.0.resolve(blocks, is_cached).await?);
        let blocks = blocks.filter(|(_, location)| !location.is_zero());
        let blocks = blocks.map(|(number, location)| Block { number, location });
        let mut blocks = blocks.peekable();
        let mut pieces = Vec::new();
        for (record, location) in records.zip(locations) {
            let start = record * size;
            let from = (bytes.start.max(start) - start) as usize;
            let to = (bytes.end.min(start.saturating_add(size)) - start) as usize;
            let key = data_keys(object, record..record).start;
            let record = Record {
                key,
                start,
                location,
            };
            record.pieces(from..to, &mut blocks, &mut pieces);
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
        let is_cached = self.is_cached(object, &bytes);
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
        let is_cached = self.is_cached(object, &bytes);
        let pieces = self.pieces(object, bytes, is_cached).await?;
        self.0.fill(&pieces, out, is_cached).await
    }
}
