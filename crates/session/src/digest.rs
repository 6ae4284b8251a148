//! CRC32C, the digest of headers and data (NVMe/TCP 3.1 "HDGST" and "DDGST", RFC 7143 13.1).
//!
//! **Called by** PDU codecs for headers, and by server and initiator for data. **Invariants**: a digest on the wire is a
//! little-endian 32-bit value.

use crc_fast::CrcAlgorithm;

/// Length of a digest on the wire, bytes.
pub const DIGEST_LEN: usize = 4;

/// Returns the CRC32C of one slice.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC32C that is computed slice by slice.
#[derive(Debug, Clone)]
pub struct Crc32c(crc_fast::Digest);

impl Crc32c {
    /// The digest of zero bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the CRC32C of all bytes added.
    #[must_use]
    pub fn value(&self) -> u32 {
        // The 64-bit result has CRC-32/ISCSI in its low half.
        (self.0.finalize() & u64::from(u32::MAX)) as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the CRC32C of the concatenated slices.
#[must_use]
pub fn crc32c_multi<'a>(slices: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = Crc32c::new();
    for slice in slices {
        digest.update(slice);
    }
    digest.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 3720, appendix B.4.
    #[test]
    fn rfc3720_vectors() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        assert_eq!(crc32c(&descending), 0x113f_db5c);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    proptest::proptest! {
        #[test]
        fn slices_equal_whole(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2048), cut in 0usize..2048) {
            let cut = cut.min(bytes.len());
            let (head, tail) = bytes.split_at(cut);
            proptest::prop_assert_eq!(crc32c_multi([head, tail]), crc32c(&bytes));
        }
    }
}
