//! Framing: the form that replies, data and requests for data have on a connection's transport.
//!
//! **Owns** the choice of the transport for one connection. **Called by** the exchange, which asks it for each of three things: a reply, data
//! with a reply, a request for data. **Invariants**: the choice is made once, when the exchange begins.

use super::command::Command;
use super::counters::CloseReason;
use super::rdma::Framing as RdmaFraming;
use super::table::Transfer;
use super::tcp::Framing as TcpFraming;
use crate::wire::command::Sgl;
use crate::wire::completion::Cqe;
use crate::wire::pdu::{DataPdu, Digests, R2t};
use crate::wire::status::Status;
use io::Payload;
use session::link::Link;
use session::output::Output;

/// The form of one connection.
pub(super) enum AnyFraming {
    /// PDUs (NVMe/TCP).
    Tcp(TcpFraming),
    /// Messages and remote memory (NVMe/RDMA).
    Rdma(RdmaFraming),
}

impl AnyFraming {
    /// The queue is an I/O queue of `size` entries, with at most `in_capsule` bytes of in-capsule data.
    pub(super) fn become_io_queue(&mut self, size: u16, in_capsule: u32) {
        match self {
            AnyFraming::Tcp(tcp) => tcp.become_io_queue(size, in_capsule),
            // Receives have room for in-capsule data from the beginning.
            AnyFraming::Rdma(_) => {}
        }
    }

    /// The digests in use. RDMA has none: its own checksums cover each packet.
    pub(super) fn digests(&self) -> Digests {
        match self {
            AnyFraming::Tcp(tcp) => tcp.digests(),
            AnyFraming::Rdma(_) => Digests::default(),
        }
    }

    /// Bytes of the host's memory that an SGL names. Errors: the status for an SGL that names none on this transport.
    #[inline]
    pub(super) fn host_memory(&self, sgl: Sgl) -> Result<u32, Status> {
        match (self, sgl) {
            (AnyFraming::Tcp(_), Sgl::Transport { length }) => Ok(length),
            (AnyFraming::Rdma(_), Sgl::Keyed { length, .. }) => Ok(length),
            (_, Sgl::Empty) => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
            _ => Err(Status::SGL_TYPE_INVALID.dnr()),
        }
    }

    /// Whether data can say that its command succeeded, so that no reply is needed (TCP 3.3.2.2, SUCCESS).
    #[inline]
    pub(super) fn has_success_flag(&self) -> bool {
        matches!(self, AnyFraming::Tcp(_))
    }

    /// Adds a reply to the command that named its data by `sgl`.
    #[inline]
    pub(super) fn put_reply(&mut self, output: &mut Output, cqe: &Cqe, sgl: Sgl) {
        match self {
            AnyFraming::Tcp(tcp) => tcp.put_reply(output, cqe),
            AnyFraming::Rdma(rdma) => rdma.put_reply(output, cqe, sgl),
        }
    }

    /// Adds all data of a command; with `success`, the data is its reply as well.
    #[inline]
    pub(super) fn put_data(
        &mut self,
        link: &mut Link<CloseReason>,
        command: &Command,
        success: bool,
        payload: Payload,
    ) {
        match self {
            AnyFraming::Tcp(tcp) => {
                let header = DataPdu {
                    cccid: command.cid(),
                    ttag: 0,
                    offset: 0,
                    last: true,
                    success,
                };
                let (output, pool) = link.output_and_pool();
                tcp.put_data(output, pool, &header, payload);
            }
            AnyFraming::Rdma(rdma) => rdma.put_data(link.output_mut(), command.sgl(), payload),
        }
    }

    /// Asks the host for the data of the command in `slot`, `len` bytes for the buffer of `transfer`.
    pub(super) fn ask_for_data(
        &mut self,
        output: &mut Output,
        (slot, command): (usize, &Command),
        transfer: &mut Transfer,
    ) {
        match self {
            AnyFraming::Tcp(tcp) => {
                let r2t = R2t {
                    cccid: command.cid(),
                    ttag: slot as u16,
                    offset: 0,
                    length: transfer.len() as u32,
                };
                tcp.put_r2t(output, &r2t);
            }
            AnyFraming::Rdma(rdma) => rdma.read(slot, command.sgl(), transfer),
        }
    }
}
