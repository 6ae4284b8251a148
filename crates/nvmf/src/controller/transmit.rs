//! What a connection sends: replies and data of many commands, gathered into one send.
//!
//! **Called by** every command that ends. **Invariants**: payload is sent from where it lies, and copied only to take a digest
//! of bytes that may change (TCP 3.3.1.1).

use super::connection::Core;
use super::counters::ConnectionState;
use super::status::Completion;
use super::transfer::bytes_of;
use crate::wire::command::{Sgl, Sqe};
use crate::wire::completion::Cqe;
use crate::wire::pdu::{DataPdu, HEADER_LEN_MAX, IcResp, PduError, PduType, R2t, encode};
use crate::wire::status::Status;
use io::Payload;
use session::digest::crc32c;
use session::output::stable;
use zerocopy::little_endian::U16;

/// SQHD when the host does not use it (Base 6.3.1).
const SQHD_UNUSED: u16 = 0xffff;
/// Bytes of the longest termination request.
const TERM_REQ_MAX: usize = 24 + 128;

impl Core {
    pub(super) fn put_term_req(&mut self, error: &PduError, header: &[u8]) {
        let mut out = [0; TERM_REQ_MAX];
        let n = encode::term_req(PduType::C2hTermReq, error.fes, error.fei, header, &mut out);
        self.link.output_mut().put(&out[..n]);
    }

    pub(super) fn put_ic_resp(&mut self, resp: &IcResp) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = encode::ic_resp(resp, &mut out);
        self.link.output_mut().put(&out[..n]);
    }

    /// Ends the command being worked on: its reply goes out with the next send.
    pub(super) fn complete(&mut self, done: Completion) {
        self.current.hold = None;
        if !done.status.is_success() {
            self.failed(&done);
        }
        self.account();
        self.reply(done);
    }

    fn failed(&mut self, done: &Completion) {
        self.link.tally().error();
        self.target().counters.error(done.status);
        if let Some(q) = &self.queue {
            if done.status.kind() == crate::wire::status::StatusType::MEDIA
                && let Some(s) = q.controller.subsystem()
            {
                s.totals
                    .media_errors
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            q.controller.state().log_error(
                q.qid,
                done.cid,
                done.status,
                crate::wire::command::Nsid::NONE,
            );
        }
    }

    /// Counts the command being worked on.
    fn account(&mut self) {
        self.link
            .command_ended(self.current.kind, self.current.started);
    }

    fn reply(&mut self, done: Completion) {
        if self.state() == ConnectionState::Terminating {
            // Nothing follows a termination request.
            return;
        }
        let mut cqe = Cqe::with_result(done.cid, done.status, done.result);
        cqe.sqhd = U16::new(match &self.queue {
            Some(q) if q.flow_control => q.head,
            _ => SQHD_UNUSED,
        });
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.capsule_resp(&cqe, &mut out);
        self.link.output_mut().put(&out[..n]);
        self.link.output_mut().count_reply();
    }

    /// Ends the command being worked on with data for the host and a zero result.
    ///
    /// Without SQ flow control nothing of the reply is needed, and the data says that the command succeeded
    /// (TCP 3.3.2.2, SUCCESS).
    pub(super) fn complete_with_data(&mut self, sqe: &Sqe, payload: Payload) {
        let cid = sqe.cid();
        let len = payload.len();
        if self.state() == ConnectionState::Terminating {
            return self.complete(Completion::success(cid));
        }
        let hold = self.current.hold.take();
        self.link.hold_until_sent(hold);
        let success = self.queue.as_ref().is_some_and(|q| !q.flow_control);
        let header = DataPdu {
            cccid: cid,
            ttag: 0,
            offset: 0,
            last: true,
            success,
        };
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.c2h_data(&header, len as u32, &mut out);
        self.link.output_mut().put(&out[..n]);
        if self.encoder.data_digest() {
            let stable = stable(self.link.pool(), payload);
            let digest = crc32c(bytes_of(&stable));
            self.link.output_mut().put_payload(stable);
            self.link.output_mut().put(&digest.to_le_bytes());
        } else {
            self.link.output_mut().put_payload(payload);
        }
        if success {
            self.account();
            self.link.output_mut().count_reply();
        } else {
            self.complete(Completion::success(cid));
        }
    }

    /// Ends an admin command with a data structure; the host's SGL must have room for it (Base 4.1.2).
    pub(super) fn send_structure(&mut self, sqe: &Sqe, payload: Payload) {
        let refused = match sqe.sgl.parse() {
            Sgl::Transport { length } if length as usize >= payload.len() => None,
            Sgl::Transport { .. } | Sgl::Empty => Some(Status::DATA_SGL_LENGTH_INVALID),
            Sgl::InCapsule { .. } | Sgl::Unsupported { .. } => Some(Status::SGL_TYPE_INVALID),
        };
        match refused {
            None => self.complete_with_data(sqe, payload),
            Some(status) => self.complete(Completion::failed(sqe.cid(), status.dnr())),
        }
    }

    /// Asks the host for data.
    pub(super) fn ready_to_transfer(&mut self, r2t: &R2t) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.r2t(r2t, &mut out);
        self.link.output_mut().put(&out[..n]);
    }
}
