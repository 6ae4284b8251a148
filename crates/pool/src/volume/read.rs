//! Reading a volume.
//!
//! **Owns** the records of a range of bytes. **Called by** [`super::Volume`]'s requests. **Invariant**: a read is a
//! registered reader from before it looks an address up until it has the block.

use std::ops::Range;

use io::Payload;

use super::Volume;
use crate::Result;
use crate::dataset::{Piece, record_key};

/// The records with space after which a request for runs ends.
const RECORDS_AT_ONCE: u64 = 4096;

impl Volume {
    /// Whether a request uses the record cache.
    fn is_cached(&self, bytes: &Range<u64>) -> bool {
        let size = self.record_size() as u64;
        let records = bytes.end.div_ceil(size) - bytes.start / size;
        self.0
            .is_cached((bytes.end - bytes.start) as usize, records)
    }

    /// The parts of records that a range of bytes has.
    async fn pieces(&self, bytes: Range<u64>, is_cached: bool) -> Result<Vec<Piece>> {
        let size = self.record_size() as u64;
        let records = bytes.start / size..bytes.end.div_ceil(size);
        let keys = record_key(records.start)..record_key(records.end);
        let locations = self.0.locate(keys, is_cached).await?;
        let piece = |(record, location)| {
            let start = record * size;
            let from = bytes.start.max(start);
            Piece {
                key: record_key(record),
                location,
                skip: (from - start) as usize,
                len: (bytes.end.min(start + size) - from) as usize,
            }
        };
        Ok(records.zip(locations).map(piece).collect())
    }

    /// Alternating runs of bytes with and without space, with about [`RECORDS_AT_ONCE`] records at most: their lengths, and
    /// whether they have space. A hole of any length costs nothing.
    pub(super) async fn runs(&self, bytes: Range<u64>) -> Result<Vec<(u64, bool)>> {
        let _reader = self.0.shared.readers.enter();
        let size = self.record_size() as u64;
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut add = |from: u64, to: u64, mapped: bool| {
            let len = to.min(bytes.end).saturating_sub(from.max(bytes.start));
            match runs.last_mut() {
                _ if len == 0 => {}
                Some((so_far, same)) if *same == mapped => *so_far += len,
                _ => runs.push((len, mapped)),
            }
        };
        let end = bytes.end.div_ceil(size);
        let mut at = bytes.start / size;
        let mut looked = 0;
        while at < end && looked < RECORDS_AT_ONCE {
            let walked = self.0.walk(record_key(at)..record_key(end)).await?;
            looked += walked.found.len() as u64;
            for (key, _) in walked.found {
                add(at * size, key.offset() * size, false);
                at = key.offset() + 1;
                add(key.offset() * size, at * size, true);
            }
            let next = walked.next.offset();
            add(at * size, next * size, false);
            at = next;
        }
        Ok(runs)
    }

    /// Reads a range of bytes.
    pub(super) async fn read(&self, bytes: Range<u64>) -> Result<Payload> {
        let len = (bytes.end - bytes.start) as usize;
        if len == 0 {
            return Ok(Payload::zeroes(0));
        }
        let _reader = self.0.shared.readers.enter();
        let is_cached = self.is_cached(&bytes);
        let pieces = self.pieces(bytes, is_cached).await?;
        self.0.read_pieces(&pieces, len, is_cached).await
    }

    /// Reads the bytes from `at` on.
    pub(super) async fn read_into(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let _reader = self.0.shared.readers.enter();
        let bytes = at..at + out.len() as u64;
        let is_cached = self.is_cached(&bytes);
        let pieces = self.pieces(bytes, is_cached).await?;
        self.0.fill(&pieces, out, is_cached).await
    }
}
