//! XDR (RFC 4506): integers of four and eight bytes, big endian, and opaque bytes padded to a multiple of four.
//!
//! **Owns** [`Reader`] and [`Writer`], and the description of types for both ([`Xdr`], [`Codec`]). **Called by** [`crate::rpc`] and
//! [`crate::wire`]. **Invariants**: a reader never allocates, and never reads beyond its bytes; a length is compared with its limit and
//! with the remaining bytes before use. Padding bytes are written as zero and ignored when read.

mod types;

pub use types::{Bytes, Codec, List, Plain, Range, Skip, SkipAfter, Xdr};
pub(crate) use types::{no_fields, xdr_codec, xdr_enum, xdr_struct, xdr_union};

use io::Payload;
use thiserror::Error;

/// Why bytes are no value of the requested type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum XdrError {
    /// The bytes end before the value does.
    #[error("the bytes end before the value")]
    Short,
    /// A length is above its limit.
    #[error("a length is above its limit")]
    TooLong,
    /// A number is no value of its type.
    #[error("a number has no meaning here")]
    Value,
}

/// Result of reading.
pub type Result<T> = std::result::Result<T, XdrError>;

/// Reads values from bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that were not read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `len` bytes, without padding. Errors: `Short`.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(XdrError::Short)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A fixed number of bytes, a multiple of four. Errors: `Short`.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(XdrError::Short)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// An unsigned number of 32 bits. Errors: `Short`.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// An unsigned number of 64 bits. Errors: `Short`.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A signed number of 64 bits. Errors: `Short`.
    pub fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A truth value. Errors: `Short`; `Value` for another number than 0 and 1.
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(XdrError::Value),
        }
    }

    /// Opaque bytes of variable length, at most `max`. Errors: `Short`, `TooLong`.
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > max {
            return Err(XdrError::TooLong);
        }
        let bytes = self.take(len)?;
        self.take(padding(len))?;
        Ok(bytes)
    }

    /// The number of items that follow, at most `max`, of at least `item_len` bytes each. Errors: `Short`, `TooLong`.
    pub fn count(&mut self, max: usize, item_len: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count > max {
            return Err(XdrError::TooLong);
        }
        match count.saturating_mul(item_len) <= self.bytes.len() {
            true => Ok(count),
            false => Err(XdrError::Short),
        }
    }
}

/// Bytes of padding behind `len` opaque bytes.
#[must_use]
pub fn padding(len: usize) -> usize {
    len.wrapping_neg() % 4
}

/// Writes values. Payloads keep their own buffers.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Payloads in order.
    payloads: Vec<Placed>,
    payload_len: usize,
}

/// A payload in its place.
#[derive(Debug)]
struct Placed {
    /// Number of the writer's bytes before it.
    before: usize,
    payload: Payload,
    /// See [`Part::Item`].
    is_item: bool,
}

/// A position in a [`Writer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    payloads: usize,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes written, with payloads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.payload_len
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The present end.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            payloads: self.payloads.len(),
        }
    }

    /// Removes everything behind `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        let removed = self.payloads.drain(mark.payloads..);
        self.payload_len -= removed.map(|placed| placed.payload.len()).sum::<usize>();
    }

    /// Replaces the number at `mark`, which was written with [`Writer::u32`].
    pub fn set_u32(&mut self, mark: Mark, value: u32) {
        self.bytes[mark.bytes..mark.bytes + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Bytes written behind `mark`, with payloads.
    #[must_use]
    pub fn len_since(&self, mark: Mark) -> usize {
        let payloads = self.payloads[mark.payloads..].iter();
        self.bytes.len() - mark.bytes + payloads.map(|placed| placed.payload.len()).sum::<usize>()
    }

    /// An unsigned number of 32 bits.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// An unsigned number of 64 bits.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A signed number of 64 bits.
    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// A number of items, or a length.
    pub fn count(&mut self, value: usize) {
        self.u32(u32::try_from(value).expect("lengths are bounded"));
    }

    /// A fixed number of bytes, a multiple of four.
    pub fn fixed(&mut self, value: &[u8]) {
        assert_eq!(value.len() % 4, 0, "fixed values need no padding");
        self.bytes.extend_from_slice(value);
    }

    /// Opaque bytes of variable length.
    pub fn opaque(&mut self, value: &[u8]) {
        self.count(value.len());
        self.bytes.extend_from_slice(value);
        self.pad(value.len());
    }

    /// A payload as opaque bytes of variable length, without a copy.
    pub fn payload(&mut self, value: Payload) {
        self.place(value, false);
    }

    /// The same for an item that a transport may place apart from its message ([`Part::Item`]).
    pub fn item(&mut self, value: Payload) {
        self.place(value, true);
    }

    fn place(&mut self, payload: Payload, is_item: bool) {
        let len = payload.len();
        self.count(len);
        self.payload_len += len;
        self.payloads.push(Placed {
            before: self.bytes.len(),
            payload,
            is_item,
        });
        self.pad(len);
    }

    fn pad(&mut self, len: usize) {
        let padded = self.bytes.len() + padding(len);
        self.bytes.resize(padded, 0);
    }

    /// Everything in order: slices of bytes, and payloads.
    pub fn into_parts(self, mut part: impl FnMut(Part<'_>)) {
        let mut at = 0;
        for placed in self.payloads {
            part(Part::Bytes(&self.bytes[at..placed.before]));
            part(match placed.is_item {
                true => Part::Item(placed.payload),
                false => Part::Payload(placed.payload),
            });
            at = placed.before;
        }
        part(Part::Bytes(&self.bytes[at..]));
    }

    /// A copy of everything, with payloads.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        let mut at = 0;
        for placed in &self.payloads {
            all.extend_from_slice(&self.bytes[at..placed.before]);
            let start = all.len();
            all.resize(start + placed.payload.len(), 0);
            placed.payload.copy_to(&mut all[start..]);
            at = placed.before;
        }
        all.extend_from_slice(&self.bytes[at..]);
        all
    }
}

/// A part of an encoded message.
#[derive(Debug)]
pub enum Part<'a> {
    /// Bytes to be copied.
    Bytes(&'a [u8]),
    /// A payload with a buffer of its own.
    Payload(Payload),
    /// A payload that the transport may place apart from the message, in memory that the peer named for it: an item that is eligible for direct
    /// data placement (RFC 8267). Its padding begins the next bytes.
    Item(Payload),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_bytes_are_padded() {
        for len in 0..9 {
            let mut writer = Writer::new();
            writer.opaque(&[7; 8][..len.min(8)]);
            writer.u32(9);
            let bytes = writer.to_vec();
            assert_eq!(bytes.len() % 4, 0);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.opaque(8).unwrap().len(), len.min(8));
            assert_eq!(reader.u32(), Ok(9));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let huge = u32::MAX.to_be_bytes();
        assert_eq!(Reader::new(&huge).opaque(usize::MAX), Err(XdrError::Short));
        assert_eq!(Reader::new(&huge).opaque(400), Err(XdrError::TooLong));
        assert_eq!(
            Reader::new(&huge).count(usize::MAX, 4),
            Err(XdrError::Short)
        );
        assert_eq!(
            Reader::new(&[0, 0, 0, 5]).count(4, 0),
            Err(XdrError::TooLong)
        );
        assert_eq!(
            Reader::new(&[0, 0, 0, 3, 1, 2]).opaque(8),
            Err(XdrError::Short)
        );
        assert_eq!(
            Reader::new(&[0, 0, 0, 3, 1, 2, 3]).opaque(8),
            Err(XdrError::Short)
        );
        assert_eq!(Reader::new(&[0, 0, 0, 2]).bool(), Err(XdrError::Value));
        assert_eq!(Reader::new(&[0, 0, 0]).u32(), Err(XdrError::Short));
    }

    #[test]
    fn payloads_keep_their_place() {
        let mut writer = Writer::new();
        writer.u32(1);
        let kept = writer.mark();
        writer.payload(Payload::from(vec![5; 3]));
        writer.u32(2);
        assert_eq!(
            writer.to_vec(),
            [0, 0, 0, 1, 0, 0, 0, 3, 5, 5, 5, 0, 0, 0, 0, 2]
        );
        assert_eq!((writer.len(), writer.len_since(kept)), (16, 12));
        let mut all = Vec::new();
        let removed = {
            writer.truncate(kept);
            writer.payload(Payload::from(vec![6; 4]));
            writer.len()
        };
        writer.into_parts(|part| match part {
            Part::Bytes(bytes) => all.extend_from_slice(bytes),
            Part::Payload(payload) | Part::Item(payload) => {
                all.extend_from_slice(payload.as_slice().unwrap());
            }
        });
        assert_eq!(all, [0, 0, 0, 1, 0, 0, 0, 4, 6, 6, 6, 6]);
        assert_eq!(removed, all.len());
    }
}
