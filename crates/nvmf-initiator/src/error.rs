//! What can go wrong for a caller of the initiator, by what the caller does next.

use initiator::Disconnected;
use thiserror::Error as ThisError;

use nvmf::wire::FormatError;
use nvmf::wire::fabrics::ConnectFault;
use nvmf::wire::pdu::PduError;
use nvmf::wire::status::Status;

/// Result of an initiator call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command, or a connection, failed.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The controller answered the command with this status: look at it. The connection is fine.
    #[error("the controller refused the command: {0}")]
    Refused(Status),
    /// The controller refused Connect because of one parameter: correct it.
    #[error("connect refused: invalid parameter at byte {} of the {}", .0.offset, if .0.in_data { "data" } else { "command" })]
    ConnectRefused(ConnectFault),
    /// The request cannot be sent to this controller as it is: correct it.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// The peer broke the PDU protocol; the connection was terminated: report the peer.
    #[error("the peer broke the protocol: {0}")]
    Protocol(PduError),
    /// The peer said that we broke the protocol, and terminated the connection: report it.
    #[error("the peer terminated the connection (fatal error status {fes}, information {fei:#x})")]
    Terminated {
        /// Fatal error status as sent.
        fes: u16,
        /// Fatal error information.
        fei: u32,
    },
    /// A data structure from the controller is malformed: report the peer.
    #[error("malformed answer: {0}")]
    Malformed(#[from] FormatError),
    /// Data that came with a read failed its digest; the connection was cut: try again.
    #[error("the data digest differs")]
    DataDigest,
    /// The command was sent and not answered in time: its effect is unknown.
    #[error("timed out")]
    Timeout,
    /// The connection broke and did not come back, or the command may not be sent twice: its
    /// effect is unknown.
    #[error("disconnected")]
    Disconnected,
    /// No connection could be made: try another address, or later.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The controller is not becoming ready, or has failed: reset or report it.
    #[error("the controller is not ready: {0}")]
    NotReady(&'static str),
    /// This handle was closed: connect anew.
    #[error("closed")]
    Closed,
}

impl From<Disconnected> for Error {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

impl From<PduError> for Error {
    fn from(e: PduError) -> Self {
        Self::Protocol(e)
    }
}
