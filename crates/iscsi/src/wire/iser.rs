//! The iSER header (RFC 7145, section 9.2), and the capabilities in the private data of the connection manager.
//!
//! **Called by** both ends, for each message. **Invariants**: each message has a header of 28 bytes before its PDU, also during the login, as
//! Linux sends them; a place of memory is valid only with its flag. There are no Hello messages: the private data of the connection manager takes
//! their place (InfiniBand annex A12).

use std::fmt;

/// Bytes of the header.
pub const ISER_HEADER_LEN: usize = 28;

/// Code of a message with a PDU, in the upper four bits of byte 0.
const CONTROL: u8 = 0x10;
const CODE_MASK: u8 = 0xf0;
/// Bit of byte 0: the place to read a write's data from is valid.
const WRITE_VALID: u8 = 0x08;
/// Bit of byte 0: the place to write a read's data to is valid.
const READ_VALID: u8 = 0x04;

/// A place in the initiator's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised {
    /// Steering tag: the key that gives access.
    pub key: u32,
    /// Address in the initiator's terms.
    pub address: u64,
}

/// The header of a message. Memory that a command does not need is not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IserHeader {
    /// Where the solicited data of a write begins; unsolicited data is not in it.
    pub write: Option<Advertised>,
    /// Where the data of a read goes.
    pub read: Option<Advertised>,
}

/// Why a message has no PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IserError {
    /// It is shorter than a header.
    Short,
    /// Its code is not that of a PDU.
    Code,
}

impl std::error::Error for IserError {}

impl fmt::Display for IserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl IserError {
    /// What was wrong, for the log.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            IserError::Short => "a message that is shorter than an iSER header",
            IserError::Code => "a message that has no PDU",
        }
    }
}

impl IserHeader {
    /// Splits a message into its header and its PDU.
    ///
    /// # Errors
    /// The message has no PDU.
    pub fn parse(message: &[u8]) -> Result<(IserHeader, &[u8]), IserError> {
        let (h, pdu) = message
            .split_first_chunk::<ISER_HEADER_LEN>()
            .ok_or(IserError::Short)?;
        if h[0] & CODE_MASK != CONTROL {
            return Err(IserError::Code);
        }
        let at = |flag: u8, from: usize| {
            (h[0] & flag != 0).then(|| Advertised {
                key: u32::from_be_bytes([h[from], h[from + 1], h[from + 2], h[from + 3]]),
                address: u64::from_be_bytes([
                    h[from + 4],
                    h[from + 5],
                    h[from + 6],
                    h[from + 7],
                    h[from + 8],
                    h[from + 9],
                    h[from + 10],
                    h[from + 11],
                ]),
            })
        };
        let header = IserHeader {
            write: at(WRITE_VALID, 4),
            read: at(READ_VALID, 16),
        };
        Ok((header, pdu))
    }

    /// The header's bytes.
    #[must_use]
    pub fn build(&self) -> [u8; ISER_HEADER_LEN] {
        let mut h = [0; ISER_HEADER_LEN];
        h[0] = CONTROL;
        for (place, flag, at) in [(self.write, WRITE_VALID, 4), (self.read, READ_VALID, 16)] {
            if let Some(place) = place {
                h[0] |= flag;
                h[at..at + 4].copy_from_slice(&place.key.to_be_bytes());
                h[at + 4..at + 12].copy_from_slice(&place.address.to_be_bytes());
            }
        }
        h
    }
}

/// Capabilities of one end, in the private data of the connection manager's request and acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Its keys may be withdrawn by the messages of the other end (Send with Invalidate), or its own messages may do it.
    pub invalidates: bool,
}

/// Bit of byte 0: addresses are not relative to the beginning of the memory. Both ends of Linux set it, and we do.
const NOT_ZERO_BASED: u8 = 0x80;
/// Bit of byte 0: no message may withdraw a key.
const NO_INVALIDATE: u8 = 0x40;

impl Capabilities {
    /// Reads private data. An end that says nothing can nothing.
    #[must_use]
    pub fn parse(private: &[u8]) -> Capabilities {
        let flags = private.first().copied().unwrap_or(NO_INVALIDATE);
        Capabilities {
            invalidates: flags & NO_INVALIDATE == 0,
        }
    }

    /// As private data.
    #[must_use]
    pub fn build(self) -> [u8; 4] {
        let withdraw = if self.invalidates { 0 } else { NO_INVALIDATE };
        [NOT_ZERO_BASED | withdraw, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_bytes_of_the_specification() {
        let header = IserHeader {
            write: Some(Advertised {
                key: 0x0102_0304,
                address: 0x1112_1314_1516_1718,
            }),
            read: None,
        };
        let mut bytes = [0; ISER_HEADER_LEN];
        bytes[..4].copy_from_slice(&[0x18, 0, 0, 0]);
        bytes[4..8].copy_from_slice(&[1, 2, 3, 4]);
        bytes[8..16].copy_from_slice(&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(header.build(), bytes);
        let with_pdu = [&bytes[..], b"pdu"].concat();
        assert_eq!(IserHeader::parse(&with_pdu), Ok((header, &b"pdu"[..])));
        let read = IserHeader {
            write: None,
            read: header.write,
        };
        let bytes = read.build();
        assert_eq!((bytes[0], &bytes[16..20]), (0x14, &[1, 2, 3, 4][..]));
        assert_eq!(IserHeader::parse(&bytes), Ok((read, &[][..])));
    }

    #[test]
    fn messages_without_a_pdu_are_refused() {
        assert_eq!(IserHeader::parse(&[0x10; 27]), Err(IserError::Short));
        let hello = [0x20; ISER_HEADER_LEN];
        assert_eq!(IserHeader::parse(&hello), Err(IserError::Code));
    }

    #[test]
    fn capabilities_are_those_of_linux() {
        let able = Capabilities { invalidates: true };
        let unable = Capabilities { invalidates: false };
        assert_eq!(able.build(), [0x80, 0, 0, 0]);
        assert_eq!(unable.build(), [0xc0, 0, 0, 0]);
        assert_eq!(Capabilities::parse(&[0x80]), able);
        assert_eq!(Capabilities::parse(&[0xc0, 0, 0, 0, 9]), unable);
        assert_eq!(Capabilities::parse(&[]), unable);
    }
}
