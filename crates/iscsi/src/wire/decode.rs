//! Decoding of a PDU's header: its end, and the length of the data that follows.
//!
//! **Called by** both ends, with the bytes that have arrived. **Invariants**: no field is used before the header digest was
//! checked; the length of the data segment is checked against our declaration before memory is reserved for it.

use super::bhs::{BHS_LEN, Bhs, padding};
use session::digest::{DIGEST_LEN, crc32c};

/// Bytes of the longest header with its digest.
pub const HEADER_LEN_MAX: usize = BHS_LEN + 255 * 4 + DIGEST_LEN;

/// Digests and lengths that a receiver expects.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Headers carry a digest.
    pub header_digest: bool,
    /// Data segments carry a digest.
    pub data_digest: bool,
    /// Longest data segment that this end declared, bytes.
    pub data_max: u32,
}

impl Rules {
    /// Rules of a login (§6.3): no digests, and the default length.
    pub const LOGIN: Rules = Rules {
        header_digest: false,
        data_digest: false,
        data_max: crate::limits::LOGIN_DATA_MAX,
    };
}

/// Result of decoding.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The header is whole after this number of bytes in all.
    NeedMore(usize),
    /// A header.
    Header(Header),
}

/// A whole header, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The basic header segment.
    pub bhs: Bhs,
    /// Bytes of additional header segments, which follow the first 48.
    pub ahs_len: usize,
    /// Bytes up to the data segment.
    pub len: usize,
    /// Bytes of the data segment.
    pub data_len: u32,
    /// Bytes behind the data segment: padding and digest.
    pub trailer: usize,
}

/// Why the next PDU of a byte stream cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The header digest does not match, so that the length cannot be trusted (§7.8): close the connection.
    #[error("the header digest does not match")]
    HeaderDigest,
    /// The data segment is longer than was declared: refuse and close.
    #[error("a data segment of {len} bytes is longer than the {max} declared")]
    DataTooLong {
        /// Its length.
        len: u32,
        /// The most that was declared.
        max: u32,
    },
}

/// Looks for a whole header at the front of `bytes`.
pub fn decode(bytes: &[u8], rules: &Rules) -> Result<Decoded, DecodeError> {
    let Some(first) = bytes.first_chunk::<BHS_LEN>() else {
        return Ok(Decoded::NeedMore(BHS_LEN));
    };
    let bhs = Bhs(*first);
    let ahs_len = bhs.ahs_len();
    let digested = BHS_LEN + ahs_len;
    let len = digested + if rules.header_digest { DIGEST_LEN } else { 0 };
    if bytes.len() < len {
        return Ok(Decoded::NeedMore(len));
    }
    if rules.header_digest {
        let digest = bytes[digested..].first_chunk::<DIGEST_LEN>();
        if digest.map(|d| u32::from_le_bytes(*d)) != Some(crc32c(&bytes[..digested])) {
            return Err(DecodeError::HeaderDigest);
        }
    }
    let data_len = bhs.data_len();
    if data_len > rules.data_max {
        return Err(DecodeError::DataTooLong {
            len: data_len,
            max: rules.data_max,
        });
    }
    let digest = if rules.data_digest && data_len > 0 {
        DIGEST_LEN
    } else {
        0
    };
    Ok(Decoded::Header(Header {
        bhs,
        ahs_len,
        len,
        data_len,
        trailer: padding(data_len) + digest,
    }))
}
