//! What can go wrong for a caller of the initiator, by what the caller does next.

use super::sense::Sense;
use initiator::Disconnected;
use iscsi::wire::decode::DecodeError;
use iscsi::wire::response::{LoginStatus, RejectReason};
use iscsi::wire::text::TextError;
use thiserror::Error as ThisError;

/// Result of an initiator call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command, a login or a connection failed.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The unit does not do what was asked for: correct the request.
    #[error("the unit refused the command: {0}")]
    Refused(Sense),
    /// The medium or the device failed: its data is lost, or was not written.
    #[error("the medium failed: {0}")]
    Media(Sense),
    /// The medium is full: free space.
    #[error("no space left: {0}")]
    NoSpace(Sense),
    /// The unit may not be written: do not.
    #[error("write-protected: {0}")]
    Protected(Sense),
    /// What was compared differs; nothing was written.
    #[error("the comparison failed: {0}")]
    Miscompare(Sense),
    /// The unit is not ready: wait for it.
    #[error("the unit is not ready: {0}")]
    NotReady(Sense),
    /// The command was ended before it was done: try again, its effect is unknown.
    #[error("the command was aborted")]
    Aborted,
    /// The unit was busy for longer than a command is repeated for: try again later; nothing was done.
    #[error("the unit is busy")]
    Busy,
    /// Somebody else holds a reservation.
    #[error("reservation conflict")]
    ReservationConflict,
    /// The unit answered with a status that no command of ours has: report it.
    #[error("unexpected status {0:#04x}")]
    UnexpectedStatus(u8),
    /// The request cannot be sent to this unit as it is: correct it.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// An answer's data makes no sense: report the target.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// The target broke the protocol; the connection was cut: report it.
    #[error("the target broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The target rejected a PDU of ours (§11.17); the connection was cut: report it.
    #[error("the target rejected a PDU (reason {:#04x})", .0.0)]
    Rejected(RejectReason),
    /// Data that came with a read failed its digest; the connection was cut: try again.
    #[error("the data digest differs")]
    DataDigest,
    /// The target refused the login: its status says why.
    #[error("login refused: {}", explain(*.0))]
    LoginRefused(LoginStatus),
    /// The target did not prove itself, or asks for a proof that we have no secret for: check the secrets.
    #[error("authentication failed: {0}")]
    Authentication(&'static str),
    /// The command had no answer in time and was aborted: its effect is unknown.
    #[error("timed out")]
    Timeout,
    /// The connection broke and did not come back, or the command may not be sent twice: its effect is unknown.
    #[error("disconnected")]
    Disconnected,
    /// No connection could be made: try another address, or later.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// This handle was closed: connect anew.
    #[error("closed")]
    Closed,
}

impl From<Disconnected> for Error {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

/// How a target broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
pub enum ProtocolError {
    /// Bytes that cannot be followed any further.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A text that is none.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An answer to a task that is not outstanding.
    #[error("an answer to a task that is not outstanding")]
    NoTask,
    /// StatSN, DataSN or R2TSN is not the next one.
    #[error("{0} is not the next one")]
    SerialNumber(&'static str),
    /// Data, or a request for it, that does not fit its task.
    #[error("{0}")]
    Transfer(&'static str),
    /// More of something than was agreed to, or than any honest target sends.
    #[error("{0}")]
    Limit(&'static str),
    /// A PDU that has no place here.
    #[error("{0}")]
    Unexpected(&'static str),
    /// A key's value is not what its result function allows (§13).
    #[error("the answer to {0} is not one that was offered")]
    Key(&'static str),
}

/// The status of a login in words (§11.13.5).
fn explain(status: LoginStatus) -> String {
    let words = match status {
        LoginStatus::MOVED_TEMPORARILY | LoginStatus::MOVED_PERMANENTLY => "the target has moved",
        LoginStatus::INITIATOR_ERROR => "initiator error",
        LoginStatus::AUTHENTICATION_FAILURE => "authentication failed",
        LoginStatus::AUTHORIZATION_FAILURE => "this initiator may not use the target",
        LoginStatus::NOT_FOUND => "no such target",
        LoginStatus::TARGET_REMOVED => "the target was removed",
        LoginStatus::UNSUPPORTED_VERSION => "no common version",
        LoginStatus::TOO_MANY_CONNECTIONS => "too many connections",
        LoginStatus::MISSING_PARAMETER => "a parameter is missing",
        LoginStatus::CANNOT_INCLUDE => "the session cannot be joined",
        LoginStatus::SESSION_TYPE_NOT_SUPPORTED => "session type not supported",
        LoginStatus::SESSION_DOES_NOT_EXIST => "no such session",
        LoginStatus::INVALID_DURING_LOGIN => "invalid during login",
        LoginStatus::TARGET_ERROR => "target error",
        LoginStatus::SERVICE_UNAVAILABLE => "service unavailable",
        LoginStatus::OUT_OF_RESOURCES => "out of resources",
        LoginStatus(other) => return format!("status {other:#06x}"),
    };
    words.into()
}
