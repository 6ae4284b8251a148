//! Output of one connection: gathers replies and data of many commands into one send.
//!
//! **Owns** the batch to be sent next, and the counts of the batch in flight. **Called by** every command that ends, and by
//! [`crate::turn`]. **Invariants**: one send is in flight at a time; replies that become ready meanwhile leave with the next
//! send; payload is sent from its own buffer, without a copy.

use crate::latency::CommandKind;
use crate::rate;
use crate::tally::Sends;
use crate::{Account, Hold};
use io::buf::BufPool;
use io::time::Instant;
use io::{Payload, SendBatch};
use std::time::Duration;

/// The output of one connection.
#[derive(Default)]
pub struct Output {
    batch: SendBatch,
    waiting: Load,
    sending: Option<(Instant, Load)>,
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
        self.batch.is_empty() && self.sending.is_none()
    }

    /// Number of replies that are in the next batch or in flight.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.waiting.replies + self.sending.as_ref().map_or(0, |(_, l)| l.replies)
    }

    /// Bytes of payload that are in the next batch or in flight.
    #[must_use]
    pub fn payload(&self) -> usize {
        self.waiting.payload + self.sending.as_ref().map_or(0, |(_, l)| l.payload)
    }

    /// Deadline of the send in flight: `stall`, plus the time for its bytes at the least rate. `None` if no send is in
    /// flight.
    #[must_use]
    pub fn deadline(&self, stall: Duration) -> Option<Instant> {
        let (since, load) = self.sending.as_ref()?;
        Some(rate::deadline(*since, stall, load.bytes))
    }

    /// Whether the send in flight has lasted for `stall`, be it short or long: the limit of a transport for unacknowledged bytes.
    #[must_use]
    pub fn is_stalled(&self, now: Instant, stall: Duration) -> bool {
        self.sending
            .as_ref()
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
        let mut load = std::mem::take(&mut self.waiting);
        load.bytes = self.batch.len();
        let longest = load
            .first_due
            .map_or(0, |at| now.since(at).as_nanos() as u64);
        for (count, ns) in &mut load.due {
            *ns = (u64::from(*count) * longest).saturating_sub(*ns);
        }
        self.sending = Some((now, load));
        Some(std::mem::replace(&mut self.batch, std::mem::take(spare)))
    }

    /// Ends the send in flight. Returns its bytes and replies; `None` if no send was in flight.
    pub(crate) fn sent(&mut self, account: &Account, now: Instant) -> Option<(usize, Sends)> {
        let (since, mut load) = self.sending.take()?;
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
