//! What a connection sends: replies and data of many commands, gathered into one send.
//!
//! **Owns** the output of one connection. **Called by** [`super::connection`], which polls [`transmit`], and by every
//! command that ends. **Invariants**: one send is in flight at a time, and everything that became ready meanwhile
//! goes out with the next; payload is sent from where it lies, and copied only to take a digest of bytes that may
//! change (TCP 3.3.1.1).

use super::connection::{Connection, Core};
use super::counters::{CloseReason, ConnectionState};
use super::status::Completion;
use super::transfer::bytes_of;
use crate::wire::command::{Sgl, Sqe};
use crate::wire::completion::Cqe;
use crate::wire::pdu::{DataPdu, HEADER_LEN_MAX, IcResp, PduError, PduType, R2t, encode};
use crate::wire::status::Status;
use io::time::Instant;
use io::{Payload, SendBatch};
use session::digest::crc32c;
use session::{Hold, rate};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use zerocopy::little_endian::U16;

/// SQHD when the host does not use it (Base 6.3.1).
const SQHD_UNUSED: u16 = 0xffff;
/// Bytes of the longest termination request.
const TERM_REQ_MAX: usize = 24 + 128;

/// What waits to be sent, and what is being sent.
#[derive(Default)]
pub(super) struct Output {
    batch: SendBatch,
    waiting: Load,
    sending: Option<(Instant, Load)>,
}

/// What a batch stands for.
#[derive(Default)]
struct Load {
    bytes: usize,
    payload: usize,
    replies: usize,
    /// Of the buffers that are sent.
    holds: Vec<Hold>,
}

impl Output {
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.sending.is_none()
    }

    /// Replies that the host cannot have seen.
    pub(super) fn replies(&self) -> usize {
        self.waiting.replies + self.sending.as_ref().map_or(0, |(_, l)| l.replies)
    }

    /// Bytes of payload that have not left.
    pub(super) fn payload(&self) -> usize {
        self.waiting.payload + self.sending.as_ref().map_or(0, |(_, l)| l.payload)
    }

    /// When the send in flight has taken too long: `stall`, and the time that its size may take.
    pub(super) fn deadline(&self, stall: Duration) -> Option<Instant> {
        let (since, load) = self.sending.as_ref()?;
        Some(rate::deadline(*since, stall, load.bytes))
    }

    /// Whether the send in flight has made no end within `stall`.
    pub(super) fn stalled_since(&self, now: Instant, stall: Duration) -> bool {
        self.sending
            .as_ref()
            .is_some_and(|(since, _)| *since + stall <= now)
    }

    pub(super) fn term_req(&mut self, error: &PduError, header: &[u8]) {
        let mut out = [0; TERM_REQ_MAX];
        let n = encode::term_req(PduType::C2hTermReq, error.fes, error.fei, header, &mut out);
        self.batch.put(&out[..n]);
    }

    pub(super) fn ic_resp(&mut self, resp: &IcResp) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = encode::ic_resp(resp, &mut out);
        self.batch.put(&out[..n]);
    }
}

impl Core {
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
        self.tally.error();
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
        self.tally
            .ended(self.current.kind, self.current.started, self.turn);
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
        self.output.batch.put(&out[..n]);
        self.output.waiting.replies += 1;
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
        self.output.waiting.payload += len;
        if let Some(mut hold) = self.current.hold.take() {
            hold.to_peer(self.turn);
            self.output.waiting.holds.push(hold);
        }
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
        self.output.batch.put(&out[..n]);
        if self.encoder.data_digest() {
            let stable = self.stable(payload);
            let digest = crc32c(bytes_of(&stable));
            self.output.batch.put_payload(stable);
            self.output.batch.put(&digest.to_le_bytes());
        } else {
            self.output.batch.put_payload(payload);
        }
        if success {
            self.account();
            self.output.waiting.replies += 1;
        } else {
            self.complete(Completion::success(cid));
        }
    }

    /// The same bytes where nobody changes them.
    fn stable(&self, payload: Payload) -> Payload {
        if payload.as_slice().is_some() {
            return payload;
        }
        match self.pool.try_alloc(payload.len()) {
            Some(mut buf) => {
                payload.copy_to(&mut buf);
                Payload::from(buf)
            }
            None => {
                let mut copy = vec![0; payload.len()];
                payload.copy_to(&mut copy);
                Payload::from(copy)
            }
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
        self.output.batch.put(&out[..n]);
    }

    /// Takes everything that waits, leaving `spare` to be filled.
    fn take_batch(&mut self, spare: &mut SendBatch) -> Option<SendBatch> {
        if self.output.batch.is_empty() {
            return None;
        }
        let mut load = std::mem::take(&mut self.output.waiting);
        load.bytes = self.output.batch.len();
        self.output.sending = Some((self.now(), load));
        Some(std::mem::replace(
            &mut self.output.batch,
            std::mem::take(spare),
        ))
    }

    fn sent(&mut self) {
        let congested = self.is_congested();
        if let Some((_, mut load)) = self.output.sending.take() {
            self.account.sent(load.payload, self.turn);
            load.holds.clear();
            if self.output.waiting.holds.is_empty() {
                // The list is used again.
                self.output.waiting.holds = load.holds;
            }
            self.tally.sent(load.bytes);
        }
        if congested {
            // The receiver has had its poll of this turn: it needs another.
            self.waker.wake_by_ref();
        }
    }
}

/// Sends what becomes ready, until the socket fails. Polled in every turn of the connection, so an empty output needs
/// no waker.
pub(super) async fn transmit(conn: &Connection) -> CloseReason {
    let mut spare = SendBatch::new();
    loop {
        let batch = poll_fn(|_| match conn.core.borrow_mut().take_batch(&mut spare) {
            Some(batch) => Poll::Ready(batch),
            None => Poll::Pending,
        })
        .await;
        let (result, back) = conn.stream.send(batch).await;
        spare = back;
        match result {
            Ok(()) => conn.core.borrow_mut().sent(),
            Err(io::Error::TimedOut) => return CloseReason::SendStall,
            Err(_) => return CloseReason::Network,
        }
    }
}
