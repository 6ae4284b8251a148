//! The bytes of a volume or of a file, which lie in records.
//!
//! **Owns** the records that a range of bytes touches, and the new contents of a record of which a part is written. **Called
//! by** volumes and filesystems. **Invariants**: bytes behind the stored end of a record are zero; a block of a file wins over
//! its record; a read is a registered reader from before it looks an address up until it has the block.

use std::iter::Peekable;
use std::ops::Range;

use io::Payload;

use super::OpenDataset;
use super::keys::{RECORDS_END, block_keys, data_keys};
use super::read::{Location, Piece};
use crate::Result;
use crate::block_reads::Caching;
use crate::dirty::Known;
use crate::format::filesystem::{BLOCK_SIZE, KIND_BLOCK};
use crate::format::{Key, ObjectId};

/// Whether all bytes are zero. Compares them together, without a branch for each.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(16)
        .all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

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

/// The bytes of an object. See the module header.
pub(crate) struct ObjectBytes<'a> {
    of: &'a OpenDataset,
    object: ObjectId,
    record_size: u64,
}

impl OpenDataset {
    /// The bytes of a file, or of the volume's only object.
    pub(crate) fn bytes(&self, object: ObjectId) -> ObjectBytes<'_> {
        ObjectBytes {
            of: self,
            object,
            record_size: self.settings.record_size_of(object).into(),
        }
    }
}

impl ObjectBytes<'_> {
    /// The records that a range of bytes touches.
    pub(crate) fn records(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start / self.record_size..bytes.end.div_ceil(self.record_size)
    }

    /// The whole records in a range of bytes, and the parts of the range that are no whole records: two at most.
    pub(crate) fn whole_records(&self, bytes: &Range<u64>) -> (Range<u64>, Vec<Range<u64>>) {
        let size = self.record_size;
        let first = bytes.start.div_ceil(size);
        let whole = first..first.max(bytes.end / size);
        let ends = [bytes.start / size, bytes.end / size];
        let ends = if ends[0] == ends[1] {
            &ends[..1]
        } else {
            &ends[..]
        };
        let part = |record: &u64| {
            let start = record * size;
            bytes.start.max(start)..bytes.end.min(start.saturating_add(size))
        };
        let is_edge = |part: &Range<u64>| !part.is_empty() && part.end - part.start < size;
        (whole, ends.iter().map(part).filter(is_edge).collect())
    }

    /// The locations of records. Records above the highest possible number are holes.
    pub(crate) async fn locations(&self, records: Range<u64>) -> Result<Vec<Location>> {
        let keys = data_keys(self.object, records.clone());
        let mut found = self.of.locate(keys, Caching::NONE).await?;
        let holes = std::iter::repeat_n(Location::Known(Known::Zero), records_beyond(&records));
        found.extend(holes);
        Ok(found)
    }

    /// The caches that a request uses.
    fn caching(&self, bytes: &Range<u64>) -> Caching {
        let records = self.records(bytes);
        let len = (bytes.end - bytes.start) as usize;
        self.of.caching(len, records.end - records.start)
    }

    /// The parts of records and blocks that a range of bytes has, and zeroes.
    async fn pieces(&self, bytes: Range<u64>, caching: Caching) -> Result<Vec<Piece>> {
        let (object, size) = (self.object, self.record_size);
        let records = self.records(&bytes);
        let numbers = match self.of.settings.has_blocks() {
            true => bytes.start / BLOCK_SIZE..bytes.end.div_ceil(BLOCK_SIZE),
            false => 0..0,
        };
        // a record that is written meanwhile must not be joined with blocks that it replaced
        let keys = [
            data_keys(object, records.clone()),
            block_keys(object, numbers.clone()),
        ];
        let [data, blocks] = self.of.sources(keys);
        let locations = self.of.resolve(data, caching).await?;
        let holes = std::iter::repeat_n(Location::Known(Known::Zero), records_beyond(&records));
        let locations = locations.into_iter().chain(holes);
        let blocks = numbers.zip(self.of.resolve(blocks, caching).await?);
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

    /// Reads a range of bytes.
    pub(crate) async fn read(&self, bytes: Range<u64>) -> Result<Payload> {
        let len = (bytes.end - bytes.start) as usize;
        if len == 0 {
            return Ok(Payload::zeroes(0));
        }
        let _reader = self.of.shared.readers.enter();
        let caching = self.caching(&bytes);
        let mut pieces = self.pieces(bytes, caching).await?;
        self.of.choose_parts(&mut pieces, len, caching);
        self.of.note_read(&pieces, len, caching);
        self.of.read_pieces(&pieces, len, caching).await
    }

    /// Fills `out` with the bytes from `at` on.
    pub(crate) async fn read_into(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let _reader = self.of.shared.readers.enter();
        let bytes = at..at + out.len() as u64;
        let caching = self.caching(&bytes);
        let mut pieces = self.pieces(bytes, caching).await?;
        self.of.choose_parts(&mut pieces, out.len(), caching);
        self.of.fill(&pieces, out, caching).await
    }

    /// Bytes of an object whose size is `visible`, with `data` from its byte `from` on. Bytes behind `visible` are zero.
    pub(crate) async fn laid_over(
        &self,
        bytes: Range<u64>,
        visible: u64,
        (from, data): (u64, &[u8]),
    ) -> Result<Vec<u8>> {
        let Range { start, end } = bytes;
        let within = from.clamp(start, end)..(from + data.len() as u64).clamp(start, end);
        let kept = visible.clamp(start, end);
        if within.is_empty() {
            let mut new = vec![0; (end - start) as usize];
            let kept = (kept - start) as usize;
            self.read_into(start, &mut new[..kept]).await?;
            return Ok(new);
        }
        let source = &data[(within.start - from) as usize..(within.end - from) as usize];
        if within.start == start && within.end >= kept {
            // nothing of the old contents stays: each byte is written once
            let mut new = Vec::with_capacity((end - start) as usize);
            new.extend_from_slice(source);
            new.resize((end - start) as usize, 0);
            return Ok(new);
        }
        let mut new = vec![0; (end - start) as usize];
        let kept = (kept - start) as usize;
        self.read_into(start, &mut new[..kept]).await?;
        new[(within.start - start) as usize..(within.end - start) as usize].copy_from_slice(source);
        Ok(new)
    }
}
