//! The end of a command: SAM-5 status codes, residuals, and the mapping from [`StorageError`].
//!
//! **Invariants**: the mapping has no catch-all, so that a new error needs its own sense.

use crate::sense::{Asc, Sense, SenseKey};
use backend::StorageError;

/// Status codes (SAM-5 5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Success.
    Good = 0x00,
    /// Sense data has the reason.
    CheckCondition = 0x02,
    /// PRE-FETCH: everything is cached.
    ConditionMet = 0x04,
    /// Try again later.
    Busy = 0x08,
    /// Another nexus's reservation forbids it.
    ReservationConflict = 0x18,
    /// Too many commands.
    TaskSetFull = 0x28,
    /// An auto contingent allegiance; never used, because NACA is refused.
    AcaActive = 0x30,
    /// Another nexus aborted the command, and TAS is one.
    TaskAborted = 0x40,
}

/// Difference between the length that the initiator expected and that of the CDB, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Residual {
    /// They are equal.
    #[default]
    None,
    /// This many bytes of the initiator's buffer were not used.
    Underflow(u32),
    /// This many more bytes would have been transferred if the initiator had expected them.
    Overflow(u32),
}

impl Residual {
    /// The residual of `wanted` bytes, of which the initiator expected `expected`.
    pub(crate) fn of(wanted: u64, expected: u32) -> Residual {
        let short = u64::from(expected).abs_diff(wanted);
        let short = u32::try_from(short).unwrap_or(u32::MAX);
        match wanted.cmp(&u64::from(expected)) {
            std::cmp::Ordering::Equal => Residual::None,
            std::cmp::Ordering::Less => Residual::Underflow(short),
            std::cmp::Ordering::Greater => Residual::Overflow(short),
        }
    }
}

/// Why a command ends without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// CHECK CONDITION with this sense data.
    Sense(Sense),
    /// RESERVATION CONFLICT.
    Conflict,
    /// BUSY.
    Busy,
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Refusal {
        Refusal::Sense(sense)
    }
}

impl From<StorageError> for Refusal {
    fn from(e: StorageError) -> Refusal {
        of_storage(e)
    }
}

/// The outcome of a command that the backend refused or failed.
pub(crate) fn of_storage(e: StorageError) -> Refusal {
    let sense = |key, asc| Refusal::Sense(Sense::new(key, asc));
    match e {
        StorageError::OutOfRange => sense(SenseKey::IllegalRequest, Asc::LBA_OUT_OF_RANGE),
        StorageError::ReadOnly => sense(SenseKey::DataProtect, Asc::WRITE_PROTECTED),
        // SBC-3 4.7.3.6: a resource exhaustion that needs an administrator.
        StorageError::NoSpace => sense(SenseKey::DataProtect, Asc::SPACE_ALLOCATION_FAILED),
        StorageError::MediaRead => sense(SenseKey::MediumError, Asc::UNRECOVERED_READ_ERROR),
        StorageError::MediaWrite => sense(SenseKey::MediumError, Asc::WRITE_ERROR),
        StorageError::Corrupt => sense(SenseKey::MediumError, Asc::READ_ERROR_DATA_LOST),
        StorageError::Offline => sense(SenseKey::NotReady, Asc::NOT_READY_BECOMING_READY),
        StorageError::Exhausted => Refusal::Busy,
        StorageError::Aborted => sense(SenseKey::AbortedCommand, Asc::NO_SENSE),
        StorageError::Miscompare(at) => Refusal::Sense(
            Sense::new(SenseKey::Miscompare, Asc::MISCOMPARE_DURING_VERIFY).with_information(at),
        ),
        StorageError::Unsupported => sense(SenseKey::IllegalRequest, Asc::INVALID_OPCODE),
    }
}
