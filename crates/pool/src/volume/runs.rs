//! The parts of a volume that have space.
//!
//! **Owns** the search for them. **Called by** [`super::Volume`]'s requests. **Invariant**: bytes with data are never said to be
//! without space.

use std::ops::Range;

use super::Volume;
use crate::Result;
use crate::dataset::record_key;

/// The records with space after which a request for runs ends.
const RECORDS_AT_ONCE: u64 = 4096;

impl Volume {
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
}
