//! What a connection sends: responses and data of many commands, gathered into one send.
//!
//! **Owns** the output of one connection, and StatSN. **Called by** [`super::connection`], which polls [`transmit`], and
//! by every command that ends. **Invariants**: one send is in flight at a time, and everything that became ready
//! meanwhile goes out with the next; payload is sent from where it lies, and copied only to take a digest of bytes that
//! may change; StatSN grows by one with each PDU that carries a status (§4.2.2.2) and with nothing else.

use super::connection::{Connection, Core};
use super::counters::{CloseReason, ConnectionState};
use crate::wire::Bhs;
use crate::wire::bhs::padding;
use crate::wire::response::{RejectReason, reject};
use io::time::Instant;
use io::{Payload, SendBatch};
use session::digest::{Crc32c, crc32c};
use session::{Hold, rate};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

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

    /// Replies that the initiator cannot have seen.
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
}

impl Core {
    /// Stamps a PDU with the next StatSN, which it uses up.
    pub(super) fn stamp_status(&mut self, bhs: &mut Bhs) {
        bhs.set_stat_sn(self.stat_sn);
        self.stat_sn = self.stat_sn.next();
        self.stamp_window(bhs);
    }

    /// Stamps a PDU with the next StatSN, which stays the next one (R2T, NOP-In that asks).
    pub(super) fn stamp_next(&mut self, bhs: &mut Bhs) {
        bhs.set_stat_sn(self.stat_sn);
        self.stamp_window(bhs);
    }

    pub(super) fn stamp_window(&self, bhs: &mut Bhs) {
        let (exp, max) = match &self.member {
            Some(m) => m.session.edges(),
            None => self.login_window,
        };
        bhs.set_window(exp, max);
    }

    fn put_header(&mut self, bhs: &Bhs) {
        self.output.batch.put(&bhs.0);
        if self.rules.header_digest {
            self.output.batch.put(&crc32c(&bhs.0).to_le_bytes());
        }
    }

    /// Sends a PDU with a short data segment.
    pub(super) fn send(&mut self, mut bhs: Bhs, data: &[u8]) {
        bhs.set_data_len(data.len() as u32);
        self.put_header(&bhs);
        self.output.waiting.replies += 1;
        if data.is_empty() {
            return;
        }
        let pad = &[0; 3][..padding(data.len() as u32)];
        self.output.batch.put(data);
        self.output.batch.put(pad);
        if self.rules.data_digest {
            let mut digest = Crc32c::new();
            digest.update(data);
            digest.update(pad);
            self.output.batch.put(&digest.value().to_le_bytes());
        }
    }

    /// What is put into the output next is held until it has left.
    pub(super) fn holds_until_sent(&mut self, hold: Option<Hold>) {
        if let Some(mut hold) = hold {
            hold.to_peer(self.turn);
            self.output.waiting.holds.push(hold);
        }
    }

    /// Sends a PDU whose data is a payload. The header has its length.
    pub(super) fn send_payload(&mut self, bhs: &Bhs, payload: Payload) {
        let len = payload.len();
        self.put_header(bhs);
        self.output.waiting.replies += 1;
        self.output.waiting.payload += len;
        let pad = &[0; 3][..padding(len as u32)];
        if self.rules.data_digest && len > 0 {
            let stable = self.stable(payload);
            let mut digest = Crc32c::new();
            digest.update(stable.as_slice().unwrap_or_default());
            digest.update(pad);
            self.output.batch.put_payload(stable);
            self.output.batch.put(pad);
            self.output.batch.put(&digest.value().to_le_bytes());
        } else {
            self.output.batch.put_payload(payload);
            self.output.batch.put(pad);
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

    /// Refuses a PDU (§11.17); the header goes back to its sender.
    pub(super) fn reject(&mut self, reason: RejectReason, bad: &Bhs) {
        self.target().counters.rejected(reason);
        let mut bhs = reject(reason);
        self.stamp_status(&mut bhs);
        self.send_status(bhs, &bad.0);
    }

    /// Refuses a PDU and ends the connection.
    pub(super) fn reject_and_close(&mut self, reason: RejectReason, bad: &Bhs, why: CloseReason) {
        self.reject(reason, bad);
        self.close_after_output(why);
    }

    /// Lets what waits go out, then ends the connection.
    pub(super) fn close_after_output(&mut self, why: CloseReason) {
        if self.state() != ConnectionState::Closing {
            self.closing = Some((why, self.now()));
            self.enter(ConnectionState::Closing);
        }
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
