//! Errors of the initiator, by what the caller does next.

use initiator::Disconnected;
use nfs::rpc::Reply;
use nfs::rpc::record::RecordError;
use nfs::wire::{Status, operation};
use nfs::xdr::XdrError;
use thiserror::Error as ThisError;

/// Result of an initiator call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call or a connection failed.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// An operation failed: correct the request, or try again later, as the status says.
    #[error("{}: {}", operation::name(*.operation), explain(*.status))]
    Status {
        /// The operation's number.
        operation: u32,
        /// Its status.
        status: Status,
    },
    /// An operation failed with a status of no specification that is known here: report it.
    #[error("{}: unknown status {code}", operation::name(*.operation))]
    UnknownStatus {
        /// The operation's number.
        operation: u32,
        /// Its status.
        code: u32,
    },
    /// RPC refused the call: the server does not have this version, or does not accept the caller.
    #[error("RPC refused the call: {}", refusal(.0))]
    Refused(Reply),
    /// This file or session cannot take the request: correct it.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// The server violated the protocol: report it. If the stream of replies cannot go on, the session was ended.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The call had no answer in time, and the session was ended: its effect is unknown.
    #[error("timed out")]
    Timeout,
    /// A connection broke, and the session with it: its effect is unknown.
    #[error("disconnected")]
    Disconnected,
    /// No connection could be made: try again later, or another address.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The server rejected a connection over RDMA: it has too many, or too few resources.
    #[error("the server rejected the connection")]
    NotAccepted,
    /// This session was closed: connect again.
    #[error("closed")]
    Closed,
}

impl Error {
    /// The status of an operation, if it is the reason.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl From<Disconnected> for Error {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

impl From<XdrError> for Error {
    fn from(error: XdrError) -> Self {
        Self::Protocol(error.into())
    }
}

/// How a server violated the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ThisError)]
pub enum ProtocolError {
    /// A reply that cannot be decoded.
    #[error("a reply cannot be decoded: {0}")]
    Xdr(#[from] XdrError),
    /// The rest of the stream cannot be received.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A reply to a call that is not outstanding.
    #[error("a reply to a call that is not outstanding")]
    NoCall,
    /// The result of SEQUENCE is of another session, slot or request.
    #[error("the result of SEQUENCE is not of this request")]
    Sequence,
    /// The result of another operation than the next one.
    #[error("the result of {} instead of {}", operation::name(*.0), operation::name(*.1))]
    Operation(u32, u32),
    /// Data that does not fit its call.
    #[error("{0}")]
    Transfer(&'static str),
    /// More than any correct server sends.
    #[error("{0}")]
    Limit(&'static str),
}

fn explain(status: Status) -> String {
    let text = match status {
        Status::Noent => "no such file or directory",
        Status::Access | Status::Perm => "permission denied",
        Status::Exist => "it exists already",
        Status::Notdir => "not a directory",
        Status::Isdir => "is a directory",
        Status::Nospc => "no space left",
        Status::Dquot => "quota exceeded",
        Status::Rofs => "the file system or the export is read-only",
        Status::Stale => "the file is gone, or is exported no more",
        Status::Notempty => "the directory is not empty",
        Status::Grace => "the server is in its grace period: try again later",
        Status::Delay => "the server asked too often to try again later",
        Status::ShareDenied => "the file is open elsewhere",
        Status::Wrongsec => "the export requires another security flavour",
        Status::MinorVersMismatch => "the server does not have this minor version",
        Status::Badsession | Status::StaleClientid => {
            "the server does not know the session: it was restarted"
        }
        other => return format!("{other:?}"),
    };
    format!("{text} ({status:?})")
}

fn refusal(reply: &Reply) -> String {
    match reply {
        Reply::ProgramUnavailable => "the server has no NFS".into(),
        Reply::ProgramMismatch(low, high) => {
            format!("the server has versions {low} to {high} of NFS, not 4")
        }
        Reply::AuthError(why) => format!("it does not accept the caller ({why:?})"),
        other => format!("{other:?}"),
    }
}
