//! Sense data (SPC-4 4.5), and what the caller must do about it.
//!
//! **Called by** [`super::unit`] for every status but GOOD, and for SCSI events. **Invariants**: sense data of any length and
//! content is decoded; missing fields are zero.

use super::error::Error;
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

/// Statuses (SAM-5 5.3.1).
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const CONDITION_MET: u8 = 0x04;
const BUSY: u8 = 0x08;
const RESERVATION_CONFLICT: u8 = 0x18;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;
/// VOLUME OVERFLOW, a key that our own device does not return.
const VOLUME_OVERFLOW: u8 = 0xd;

/// What to do about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The command succeeded.
    Done,
    /// Not started, because of a unit attention: repeat it.
    Attention(Sense),
    /// Not started, because the unit was busy: repeat it later.
    Busy,
    /// The command failed.
    Failed(Error),
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

    /// What to do about a command with this status and sense data.
    pub(super) fn judge(status: u8, sense: Sense) -> Verdict {
        let failed = Verdict::Failed;
        match status {
            GOOD | CONDITION_MET => Verdict::Done,
            BUSY | TASK_SET_FULL => Verdict::Busy,
            RESERVATION_CONFLICT => failed(Error::ReservationConflict),
            TASK_ABORTED => failed(Error::Aborted),
            CHECK_CONDITION => sense.condition(),
            other => failed(Error::UnexpectedStatus(other)),
        }
    }

    fn condition(self) -> Verdict {
        const NO_SENSE: u8 = SenseKey::NoSense as u8;
        const RECOVERED_ERROR: u8 = SenseKey::RecoveredError as u8;
        const NOT_READY: u8 = SenseKey::NotReady as u8;
        const MEDIUM_ERROR: u8 = SenseKey::MediumError as u8;
        const HARDWARE_ERROR: u8 = SenseKey::HardwareError as u8;
        const UNIT_ATTENTION: u8 = SenseKey::UnitAttention as u8;
        const DATA_PROTECT: u8 = SenseKey::DataProtect as u8;
        const ABORTED_COMMAND: u8 = SenseKey::AbortedCommand as u8;
        const MISCOMPARE: u8 = SenseKey::Miscompare as u8;
        Verdict::Failed(match self.key {
            NO_SENSE | RECOVERED_ERROR => return Verdict::Done,
            UNIT_ATTENTION => return Verdict::Attention(self),
            NOT_READY => Error::NotReady(self),
            MEDIUM_ERROR | HARDWARE_ERROR => Error::Media(self),
            DATA_PROTECT if self.is(Asc::SPACE_ALLOCATION_FAILED) => Error::NoSpace(self),
            VOLUME_OVERFLOW => Error::NoSpace(self),
            DATA_PROTECT => Error::Protected(self),
            ABORTED_COMMAND => Error::Aborted,
            MISCOMPARE => Error::Miscompare(self),
            _ => Error::Refused(self),
        })
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

    #[test]
    fn each_condition_has_the_error_that_says_what_to_do() {
        let of = |key: u8, asc: u16| {
            let information = None;
            Sense::judge(
                CHECK_CONDITION,
                Sense {
                    key,
                    asc,
                    information,
                },
            )
        };
        let failed = |v: Verdict| match v {
            Verdict::Failed(e) => e,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(1, 0), Verdict::Done);
        assert!(matches!(of(6, 0x2900), Verdict::Attention(s) if s.is_reset()));
        assert!(matches!(failed(of(2, 0x0401)), Error::NotReady(_)));
        assert!(matches!(failed(of(3, 0x1100)), Error::Media(_)));
        assert!(matches!(failed(of(4, 0x4400)), Error::Media(_)));
        assert!(matches!(failed(of(5, 0x2400)), Error::Refused(_)));
        assert!(matches!(failed(of(7, 0x2700)), Error::Protected(_)));
        assert!(matches!(failed(of(7, 0x2707)), Error::NoSpace(_)));
        assert!(matches!(failed(of(0xb, 0x4b00)), Error::Aborted));
        assert!(matches!(failed(of(0xe, 0x1d00)), Error::Miscompare(_)));
        let plain = |status| Sense::judge(status, Sense::default());
        assert_eq!((plain(0), plain(4)), (Verdict::Done, Verdict::Done));
        assert_eq!((plain(8), plain(0x28)), (Verdict::Busy, Verdict::Busy));
        assert_eq!(failed(plain(0x18)), Error::ReservationConflict);
        assert_eq!(failed(plain(0x40)), Error::Aborted);
        assert_eq!(failed(plain(0x30)), Error::UnexpectedStatus(0x30));
    }
}
