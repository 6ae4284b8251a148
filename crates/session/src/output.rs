//! Output of one connection: gathers replies and data of many commands into one send.
//!
//! **Owns** the batch to be sent next, and the counts of the batch in flight. **Called by** every command that ends, and by
//! [`crate::turn`]. **Invariants**: over a byte stream, one send is in flight at a time, and replies that become ready meanwhile leave
//! with the next send; a transport of messages keeps the messages, and has them counted here; payload is sent from its own buffer, without
//! a copy.

use crate::latency::CommandKind;
use crate::rate;
use crate::tally::Sends;
use crate::{Account, Hold};
use io::buf::BufPool;
use io::time::Instant;
use io::{Payload, SendBatch};
use std::collections::VecDeque;
use std::time::Duration;

/// The output of one connection.
#[derive(Default)]
pub struct Output {
    batch: SendBatch,
    waiting: Load,
    /// Batches in flight, the oldest first: one over a byte stream, several over a transport of messages.
    sending: VecDeque<(Instant, Load)>,
    /// Replies and bytes of payload of the batches in flight.
    sending_replies: usize,
    sending_payload: usize,
}

/// Counts of one batch.
#[derive(Default)]
struct Load {
    bytes: usize,
    payload: usize,
    replies: usize,
    /// When the first of its requests ended; none before that.
    first_due: Option<Instant>,
    /// By kind: replies, and the sum of the times that they came due after the first. After the batch was taken: of the times
    /// that they had waited, ns.
    due: Sends,
    /// Ledger bytes of the buffers in this batch.
    holds: Vec<Hold>,
}

impl Output {
    /// Whether the next batch is empty and no send is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.waiting.bytes == 0 && self.sending.is_empty()
    }

    /// Number of replies that are in the next batch or in flight.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.waiting.replies + self.sending_replies
    }

    /// Bytes of payload that are in the next batch or in flight.
    #[must_use]
    pub fn payload(&self) -> usize {
        self.waiting.payload + self.sending_payload
    }

    /// Deadline of the oldest send in flight: `stall`, plus the time for its bytes at the least rate. `None` if no send is in
    /// flight.
    #[must_use]
    pub fn deadline(&self, stall: Duration) -> Option<Instant> {
        let (since, load) = self.sending.front()?;
        Some(rate::deadline(*since, stall, load.bytes))
    }

    /// Whether the send in flight has lasted for `stall`, be it short or long: the limit of a transport for unacknowledged bytes.
    #[must_use]
    pub fn is_stalled(&self, now: Instant, stall: Duration) -> bool {
        self.sending
            .front()
            .is_some_and(|(since, _)| *since + stall <= now)
    }

    /// Copies `bytes` into the next batch.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.batch.put(bytes);
    }

    /// Adds a payload to the next batch, without a copy.
    #[inline]
    pub fn put_payload(&mut self, payload: Payload) {
        self.waiting.payload += payload.len();
        self.batch.put_payload(payload);
    }

    /// The reply to a request that ended at `at` goes into the next batch.
    #[inline]
    pub(crate) fn reply_due(&mut self, kind: CommandKind, at: Instant) {
        let first = *self.waiting.first_due.get_or_insert(at);
        let due = &mut self.waiting.due[kind as usize];
        *due = (due.0 + 1, due.1 + at.since(first).as_nanos() as u64);
    }

    /// Counts one reply in the next batch.
    #[inline]
    pub fn count_reply(&mut self) {
        self.waiting.replies += 1;
    }

    /// Keeps `hold` until the next batch is sent, and charges it to the peer from `now` on. Called before the payload is
    /// added.
    #[inline]
    pub fn hold_until_sent(&mut self, hold: Option<Hold>, now: Instant) {
        if let Some(mut hold) = hold {
            hold.to_peer(now);
            self.waiting.holds.push(hold);
        }
    }

    /// Takes the next batch, and leaves the empty batch `spare` in its place. `None` if the next batch is empty.
    pub(crate) fn take(&mut self, spare: &mut SendBatch, now: Instant) -> Option<SendBatch> {
        if self.batch.is_empty() {
            return None;
        }
        self.waiting.bytes = self.batch.len();
        self.begin_sending(now);
        Some(std::mem::replace(&mut self.batch, std::mem::take(spare)))
    }

    /// A message with `bytes` bytes, of which `payload` are payload, lies with the transport and leaves with the next batch.
    #[inline]
    pub fn count_message(&mut self, bytes: usize, payload: usize) {
        self.waiting.bytes += bytes;
        self.waiting.payload += payload;
    }

    /// The transport sends the messages that were counted. False if there were none.
    pub(crate) fn take_messages(&mut self, now: Instant) -> bool {
        let has_messages = self.waiting.bytes > 0;
        if has_messages {
            self.begin_sending(now);
        }
        has_messages
    }

    /// What waited is in flight from `now` on.
    fn begin_sending(&mut self, now: Instant) {
        let mut load = std::mem::take(&mut self.waiting);
        let longest = load
            .first_due
            .map_or(0, |at| now.since(at).as_nanos() as u64);
        for (count, ns) in &mut load.due {
            *ns = (u64::from(*count) * longest).saturating_sub(*ns);
        }
        self.sending_replies += load.replies;
        self.sending_payload += load.payload;
        self.sending.push_back((now, load));
    }

    /// Ends the oldest send in flight. Returns its bytes and replies; `None` if no send was in flight.
    pub(crate) fn sent(&mut self, account: &Account, now: Instant) -> Option<(usize, Sends)> {
        let (since, mut load) = self.sending.pop_front()?;
        self.sending_replies -= load.replies;
        self.sending_payload -= load.payload;
        let sending = now.since(since).as_nanos() as u64;
        for (count, ns) in &mut load.due {
            *ns += u64::from(*count) * sending;
        }
        account.sent(load.payload, now);
        load.holds.clear();
        if self.waiting.holds.is_empty() {
            // Keeps the list's allocation.
            self.waiting.holds = load.holds;
        }
        Some((load.bytes, load.due))
    }
}

/// Returns a payload that other commands cannot change, so that its digest stays valid: `payload` itself, or a copy.
#[must_use]
pub fn stable(pool: &BufPool, payload: Payload) -> Payload {
    if payload.as_slice().is_some() {
        return payload;
    }
    match pool.try_alloc(payload.len()) {
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
