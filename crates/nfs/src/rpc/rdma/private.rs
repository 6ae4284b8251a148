//! Private data of the connection manager (RFC 8797): lengths of messages, and remote invalidation.
//!
//! **Called by** both ends, with a connection request and its acceptance. **Invariants**: an unknown form counts as absent (section 4), and a
//! peer without it has [`INLINE_DEFAULT`].

use super::INLINE_DEFAULT;

/// Bytes of the private data.
pub const PRIVATE_LEN: usize = 8;
/// The first word of its form.
const MAGIC: u32 = 0xf6ab_0e18;
const VERSION: u8 = 1;
/// The sender may be sent a message that invalidates one of its keys.
const INVALIDATES: u8 = 1;
/// Unit of lengths, bytes. A length is sent in units, less one.
const UNIT: u32 = 1024;

/// The properties of one end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Whether messages to it may withdraw one of its keys.
    pub invalidates: bool,
    /// Longest message that it sends, bytes: a multiple of 1024, at most 256 KiB.
    pub sends: u32,
    /// Longest message that it receives, bytes, likewise.
    pub receives: u32,
}

impl Properties {
    /// The properties of an end that announced none.
    pub const DEFAULT: Properties = Properties {
        invalidates: false,
        sends: INLINE_DEFAULT,
        receives: INLINE_DEFAULT,
    };

    /// Reads private data.
    #[must_use]
    pub fn parse(private: &[u8]) -> Properties {
        let Some(([m0, m1, m2, m3, version, flags, sends, receives], _)) =
            private.split_first_chunk::<PRIVATE_LEN>()
        else {
            return Properties::DEFAULT;
        };
        if u32::from_be_bytes([*m0, *m1, *m2, *m3]) != MAGIC || *version != VERSION {
            return Properties::DEFAULT;
        }
        let len = |units: u8| (u32::from(units) + 1) * UNIT;
        Properties {
            invalidates: flags & INVALIDATES != 0,
            sends: len(*sends),
            receives: len(*receives),
        }
    }

    /// The private data.
    #[must_use]
    pub fn build(&self) -> [u8; PRIVATE_LEN] {
        let [m0, m1, m2, m3] = MAGIC.to_be_bytes();
        let flags = if self.invalidates { INVALIDATES } else { 0 };
        let units = |len: u32| u8::try_from((len / UNIT).saturating_sub(1)).unwrap_or(u8::MAX);
        let (sends, receives) = (units(self.sends), units(self.receives));
        [m0, m1, m2, m3, VERSION, flags, sends, receives]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_is_read_as_it_was_written() {
        for invalidates in [false, true] {
            let own = Properties {
                invalidates,
                sends: 4096,
                receives: 65536,
            };
            let mut bytes = own.build().to_vec();
            assert_eq!(bytes[4..], [1, u8::from(invalidates), 3, 63]);
            // The connection manager fills it up.
            bytes.resize(56, 0);
            assert_eq!(Properties::parse(&bytes), own);
        }
    }

    #[test]
    fn an_unknown_form_counts_as_absent() {
        let known = Properties {
            invalidates: true,
            sends: 4096,
            receives: 4096,
        };
        for at in 0..5 {
            let mut bytes = known.build();
            bytes[at] ^= 1;
            assert_eq!(Properties::parse(&bytes), Properties::DEFAULT);
        }
        assert_eq!(Properties::parse(&known.build()[..7]), Properties::DEFAULT);
        assert_eq!(Properties::parse(&[0; 56]), Properties::DEFAULT);
    }
}
