//! What to do about an answered command, by its status and sense data (SAM-5 5.3.1, SPC-4 4.5).
//!
//! **Called by** [`super::unit`] for every answer.

use super::error::Error;
use super::sense::Sense;
use scsi::{Asc, SenseKey};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_becomes_what_the_caller_does_next() {
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
