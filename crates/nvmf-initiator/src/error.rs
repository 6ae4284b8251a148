//! Errors of the initiator, by what the caller does next.

use initiator::Disconnected;
use thiserror::Error as ThisError;

use nvmf::wire::FormatError;
use nvmf::wire::fabrics::ConnectFault;
use nvmf::wire::pdu::PduError;
use nvmf::wire::rdma::RejectStatus;
use nvmf::wire::status::Status;

/// Result of an initiator call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command, or a connection, failed.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The controller answered the command with this status; the connection is intact: handle the status.
    #[error("the controller refused the command: {0}")]
    Refused(Status),
    /// The controller refused Connect because of one parameter: correct it.
    #[error("connect refused: invalid parameter at byte {} of the {}", .0.offset, if .0.in_data { "data" } else { "command" })]
    ConnectRefused(ConnectFault),
    /// This controller cannot take the request: correct it.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// The controller violated the PDU protocol, and the connection was terminated: report the controller.
    #[error("the peer broke the protocol: {0}")]
    Protocol(PduError),
    /// The controller reported that we violated the protocol, and terminated the connection: report it.
    #[error("the peer terminated the connection (fatal error status {fes}, information {fei:#x})")]
    Terminated {
        /// Fatal error status.
        fes: u16,
        /// Fatal error information.
        fei: u32,
    },
    /// A data structure from the controller is malformed: report the controller.
    #[error("malformed answer: {0}")]
    Malformed(#[from] FormatError),
    /// The data of a read failed its digest, and the connection was closed: try again.
    #[error("the data digest differs")]
    DataDigest,
    /// The command was not answered in time: its effect is unknown.
    #[error("timed out")]
    Timeout,
    /// The connection broke and could not be restored, or the command may not be sent twice: its effect is unknown.
    #[error("disconnected")]
    Disconnected,
    /// No connection could be made: try again later, or another address.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The controller rejected the connection request over RDMA, with this status if it gave one: correct the request, or try again later.
    #[error("the connection request was rejected: {0:?}")]
    Rejected(Option<RejectStatus>),
    /// The controller does not become ready, or has failed: reset or report it.
    #[error("the controller is not ready: {0}")]
    NotReady(&'static str),
    /// This handle was closed: connect again.
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
