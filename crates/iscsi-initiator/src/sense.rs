//! Sense data (SPC-4 4.5).
//!
//! **Called by** [`super::unit`] for every status but GOOD, and for SCSI events. **Invariants**: sense data of any length and
//! content is decoded; missing fields are zero.

use scsi::{Asc, SenseKey};
use std::fmt;

/// Decoded sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sense {
    /// SENSE KEY.
    pub key: u8,
    /// ADDITIONAL SENSE CODE (high byte) and its qualifier.
    pub asc: u16,
    /// INFORMATION, if it is valid.
    pub information: Option<u64>,
}

impl Sense {
    /// Decodes sense data of the fixed or the descriptor format.
    #[must_use]
    pub fn parse(data: &[u8]) -> Sense {
        let byte = |at: usize| data.get(at).copied().unwrap_or(0);
        let word = |at: usize| u16::from_be_bytes([byte(at), byte(at + 1)]);
        match byte(0) & 0x7f {
            0x72 | 0x73 => Sense {
                key: byte(1) & 0xf,
                asc: word(2),
                information: data.get(8..).and_then(information),
            },
            0x70 | 0x71 => {
                let valid = byte(0) & 0x80 != 0;
                let information = u32::from_be_bytes([byte(3), byte(4), byte(5), byte(6)]);
                Sense {
                    key: byte(2) & 0xf,
                    asc: word(12),
                    information: valid.then_some(information.into()),
                }
            }
            _ => Sense::default(),
        }
    }

    /// Whether the additional sense code is `asc`.
    #[must_use]
    pub fn is(&self, asc: Asc) -> bool {
        self.asc == asc.0
    }

    /// Whether the unit was reset or lost its state of this initiator, so that writes that were not stable may be lost.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.key == SenseKey::UnitAttention as u8 && self.asc >> 8 == 0x29
    }
}

/// INFORMATION of the first information descriptor (SPC-4 4.5.2.2).
fn information(mut descriptors: &[u8]) -> Option<u64> {
    while let [kind, len, body @ ..] = descriptors {
        let body_len = usize::from(*len);
        if *kind == 0 {
            let value = body.get(2..10)?.first_chunk::<8>()?;
            return (body[0] & 0x80 != 0).then(|| u64::from_be_bytes(*value));
        }
        descriptors = body.get(body_len..)?;
    }
    None
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [asc, ascq] = self.asc.to_be_bytes();
        write!(f, "{:x}/{asc:02x}/{ascq:02x}", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_decoded_and_garbage_is_zero() {
        let told = scsi::Sense::new(SenseKey::MediumError, Asc::UNRECOVERED_READ_ERROR)
            .with_information(0x1234);
        for bytes in [told.fixed(), told.descriptor()] {
            let s = Sense::parse(&bytes);
            assert_eq!((s.key, s.asc, s.information), (3, 0x1100, Some(0x1234)));
            assert_eq!(s.to_string(), "3/11/00");
            for cut in 0..bytes.len() {
                let _ = Sense::parse(&bytes[..cut]);
            }
        }
        assert_eq!(Sense::parse(&[]), Sense::default());
        assert_eq!(Sense::parse(&[0xff; 300]), Sense::default());
        assert_eq!(
            Sense::parse(&[0x72, 3, 0x11, 0, 0, 0, 0, 4, 9, 2, 0, 0]).information,
            None
        );
    }
}
