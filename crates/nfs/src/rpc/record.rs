//! Record marking of RPC over TCP (RFC 5531, section 11): a record is a sequence of fragments, each with a length.
//!
//! **Owns** [`Framing`], the state of one direction of a connection, without its bytes. **Called by** both ends.
//! **Invariants**: a record never exceeds the limit, nor [`FRAGMENTS_MAX`]; both are checked before a byte of the fragment
//! is taken.

use crate::limits::FRAGMENTS_MAX;
use thiserror::Error;

/// Bytes of a fragment's header.
pub const MARK_LEN: usize = 4;
/// The bit of a header that marks the last fragment of a record.
const LAST: u32 = 1 << 31;

/// Why a byte stream cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The record would be longer than the limit.
    #[error("an RPC record is longer than {0} bytes")]
    TooLong(usize),
    /// The record has too many fragments.
    #[error("an RPC record has more than {FRAGMENTS_MAX} fragments")]
    Fragments,
}

/// The header of the only fragment of a record.
#[must_use]
pub fn mark(len: usize) -> [u8; MARK_LEN] {
    let len = u32::try_from(len).expect("records are bounded");
    (len | LAST).to_be_bytes()
}

/// The position in a stream of fragments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framing {
    len_max: usize,
    /// Bytes of the record so far, with those of the present fragment that are missing.
    len: usize,
    /// Bytes of the present fragment that are missing.
    missing: usize,
    fragments: u32,
    is_last: bool,
}

impl Framing {
    /// The start of a stream of records of at most `len_max` bytes.
    #[must_use]
    pub fn new(len_max: usize) -> Self {
        Self {
            len_max,
            len: 0,
            missing: 0,
            fragments: 0,
            is_last: false,
        }
    }

    /// A fragment begins. Called while no bytes are missing. Errors: the record is beyond a limit.
    pub fn begin(&mut self, header: [u8; MARK_LEN]) -> Result<(), RecordError> {
        assert_eq!(self.missing, 0, "fragments do not overlap");
        let header = u32::from_be_bytes(header);
        let len = (header & !LAST) as usize;
        if len > self.len_max - self.len {
            return Err(RecordError::TooLong(self.len_max));
        }
        if self.fragments == FRAGMENTS_MAX {
            return Err(RecordError::Fragments);
        }
        self.fragments += 1;
        self.len += len;
        self.missing = len;
        self.is_last = header & LAST != 0;
        Ok(())
    }

    /// Bytes of the present fragment that are missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Bytes of the record up to the end of the present fragment.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the record has no bytes so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the present fragment is the record's last one.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Bytes of the present fragment arrived, at most [`Framing::missing`]. Returns whether the record is complete.
    pub fn arrived(&mut self, bytes: usize) -> bool {
        assert!(bytes <= self.missing, "bytes belong to one fragment");
        self.missing -= bytes;
        self.missing == 0 && self.is_last
    }

    /// The next record begins.
    pub fn reset(&mut self) {
        *self = Self::new(self.len_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_complete_with_its_last_fragment() {
        let mut framing = Framing::new(10);
        framing.begin(4u32.to_be_bytes()).unwrap();
        assert!(!framing.arrived(4));
        framing.begin(mark(6)).unwrap();
        assert_eq!((framing.len(), framing.missing()), (10, 6));
        assert!(!framing.arrived(5));
        assert!(framing.arrived(1));
        framing.reset();
        framing.begin(mark(0)).unwrap();
        assert!(framing.arrived(0), "an empty record is one");
    }

    #[test]
    fn a_record_beyond_a_limit_is_refused_before_its_bytes() {
        let mut framing = Framing::new(10);
        framing.begin(8u32.to_be_bytes()).unwrap();
        framing.arrived(8);
        assert_eq!(framing.begin(mark(3)), Err(RecordError::TooLong(10)));
        let mut framing = Framing::new(10);
        for _ in 0..FRAGMENTS_MAX {
            framing.begin([0; 4]).unwrap();
            assert!(!framing.arrived(0));
        }
        assert_eq!(framing.begin([0; 4]), Err(RecordError::Fragments));
    }
}
