//! Errors of the initiator, by what the caller does next.

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
    /// The unit refused the request: correct it.
    #[error("the unit refused the command: {0}")]
    Refused(Sense),
    /// The medium or the device failed: its data is lost, or was not written.
    #[error("the medium failed: {0}")]
    Media(Sense),
    /// The medium is full: free space.
    #[error("no space left: {0}")]
    NoSpace(Sense),
    /// The unit is write-protected: do not write.
    #[error("write-protected: {0}")]
    Protected(Sense),
    /// The compared data differs; nothing was written.
    #[error("the comparison failed: {0}")]
    Miscompare(Sense),
    /// The unit is not ready: try again later.
    #[error("the unit is not ready: {0}")]
    NotReady(Sense),
    /// The command was aborted: try again. Its effect is unknown.
    #[error("the command was aborted")]
    Aborted,
    /// The unit was busy at each repetition of the command: try again later. Nothing was done.
    #[error("the unit is busy")]
    Busy,
    /// Another initiator holds a conflicting reservation.
    #[error("reservation conflict")]
    ReservationConflict,
    /// The unit answered with an unexpected status: report it.
    #[error("unexpected status {0:#04x}")]
    UnexpectedStatus(u8),
    /// This unit cannot take the request: correct it.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// The data of an answer is invalid: report the target.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// The target violated the protocol, and the connection was closed: report it.
    #[error("the target broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The target rejected a PDU (§11.17), and the connection was closed: report it.
    #[error("the target rejected a PDU (reason {:#04x})", .0.0)]
    Rejected(RejectReason),
    /// The data of a read failed its digest, and the connection was closed: try again.
    #[error("the data digest differs")]
    DataDigest,
    /// The target refused the login; its status has the reason.
    #[error("login refused: {}", explain(*.0))]
    LoginRefused(LoginStatus),
    /// The target failed to authenticate itself, or requires authentication and no secret is configured: check the secrets.
    #[error("authentication failed: {0}")]
    Authentication(&'static str),
    /// The command had no answer in time and was aborted: its effect is unknown.
    #[error("timed out")]
    Timeout,
    /// The connection broke and could not be restored, or the command may not be sent twice: its effect is unknown.
    #[error("disconnected")]
    Disconnected,
    /// No connection could be made: try again later, or another address.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The target rejected the connection request over RDMA: try again later.
    #[error("the target rejected the connection request")]
    NotAccepted,
    /// This handle was closed: connect again.
    #[error("closed")]
    Closed,
}

impl From<Disconnected> for Error {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

/// How a target violated the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
pub enum ProtocolError {
    /// The bytes cannot be decoded, and so the rest of the stream cannot either.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Invalid text.
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
    /// More than was negotiated, or more than any correct target sends.
    #[error("{0}")]
    Limit(&'static str),
    /// A PDU that is not allowed in this state.
    #[error("{0}")]
    Unexpected(&'static str),
    /// The value of a key violates its result function (§13).
    #[error("the answer to {0} is not one that was offered")]
    Key(&'static str),
}

/// Describes the status of a login (§11.13.5).
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
