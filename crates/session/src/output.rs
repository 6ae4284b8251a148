//! Output of one connection: replies and data of many commands, gathered into one send.
//!
//! **Owns** the batch that waits, and the account of the batch being sent. **Called by** every command that ends, and by
//! [`crate::turn`]. **Invariants**: one send is in flight at a time, and everything that becomes ready meanwhile goes out with the
//! next; payload is sent from where it lies.

use crate::rate;
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

/// The account of a batch.
#[derive(Default)]
struct Load {
    bytes: usize,
    payload: usize,
    replies: usize,
    /// Of the buffers that are sent.
    holds: Vec<Hold>,
}

impl Output {
    /// Whether nothing waits and nothing is being sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.sending.is_none()
    }

    /// Replies that the peer cannot have seen.
    #[must_use]
    pub fn replies(&self) -> usize {
        self.waiting.replies + self.sending.as_ref().map_or(0, |(_, l)| l.replies)
    }

    /// Bytes of payload that have not left.
    #[must_use]
    pub fn payload(&self) -> usize {
        self.waiting.payload + self.sending.as_ref().map_or(0, |(_, l)| l.payload)
    }

    /// When the send in flight has taken too long: `stall`, and the time that its size may take.
    #[must_use]
    pub fn deadline(&self, stall: Duration) -> Option<Instant> {
        let (since, load) = self.sending.as_ref()?;
        Some(rate::deadline(*since, stall, load.bytes))
    }

    /// Whether the send in flight has not ended within `stall`.
    #[must_use]
    pub fn is_stalled(&self, now: Instant, stall: Duration) -> bool {
        self.sending
            .as_ref()
            .is_some_and(|(since, _)| *since + stall <= now)
    }

    /// Adds bytes, which are copied.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.batch.put(bytes);
    }

    /// Adds a payload, which is not copied.
    #[inline]
    pub fn put_payload(&mut self, payload: Payload) {
        self.waiting.payload += payload.len();
        self.batch.put_payload(payload);
    }

    /// Counts a reply.
    #[inline]
    pub fn count_reply(&mut self) {
        self.waiting.replies += 1;
    }

    /// The buffers of the payload that is added next are held until it has left; the peer has to take them from `now` on.
    #[inline]
    pub fn hold_until_sent(&mut self, hold: Option<Hold>, now: Instant) {
        if let Some(mut hold) = hold {
            hold.to_peer(now);
            self.waiting.holds.push(hold);
        }
    }

    /// Takes everything that waits, leaving `spare` to be filled.
    pub(crate) fn take(&mut self, spare: &mut SendBatch, now: Instant) -> Option<SendBatch> {
        if self.batch.is_empty() {
            return None;
        }
        let mut load = std::mem::take(&mut self.waiting);
        load.bytes = self.batch.len();
        self.sending = Some((now, load));
        Some(std::mem::replace(&mut self.batch, std::mem::take(spare)))
    }

    /// The send in flight has ended. Returns its bytes.
    pub(crate) fn sent(&mut self, account: &Account, now: Instant) -> Option<usize> {
        let (_, mut load) = self.sending.take()?;
        account.sent(load.payload, now);
        load.holds.clear();
        if self.waiting.holds.is_empty() {
            // The list is used again.
            self.waiting.holds = load.holds;
        }
        Some(load.bytes)
    }
}

/// The same bytes where nobody changes them, so that a digest of them stays true.
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
