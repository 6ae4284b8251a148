//! Work chain: the work requests of one connection that are posted with the next call.
//!
//! **Owns** the chain, and the READs that wait for others to end. **Called by** a protocol's framing for everything that goes to the host, and
//! by [`super::transmit`]. **Invariants**: at most as many READs are posted as the host serves, so that messages do not wait behind them; all
//! work of a turn is one chain, and its end is reported once.

use super::carrier::RdmaCarrier;
use crate::output::Output;
use io::rdma::{Remote, RemoteKey, Verb, WorkRequest};
use io::{IoBuf, Payload};
use std::collections::VecDeque;

/// Tag of the last request of a chain with messages or WRITEs.
const TAG_REPLIES: u64 = 1 << 32;
/// Tag of a READ, above the slot of its command.
const TAG_READ: u64 = 2 << 32;

/// The work of one connection that is not posted yet.
pub struct WorkChain {
    chain: Vec<WorkRequest>,
    /// READs that are not posted yet.
    reads: VecDeque<WorkRequest>,
    /// READs that are posted, and the most that may be.
    reads_posted: usize,
    reads_max: usize,
}

impl WorkChain {
    /// The chain of a connection that was just accepted.
    #[must_use]
    pub fn new(carrier: &RdmaCarrier) -> WorkChain {
        WorkChain {
            chain: Vec::new(),
            reads: VecDeque::new(),
            reads_posted: 0,
            reads_max: usize::from(carrier.queue_pair().info().reads_out).max(1),
        }
    }

    /// Adds a message. It withdraws the host's key `invalidate` on arrival.
    #[inline]
    pub fn send(&mut self, output: &mut Output, head: Vec<u8>, invalidate: Option<RemoteKey>) {
        output.count_message(head.len(), 0);
        self.push(Verb::Send {
            head,
            data: None,
            invalidate,
        });
    }

    /// Adds a WRITE of `payload` to the host's memory. An empty payload is no work.
    #[inline]
    pub fn write(&mut self, output: &mut Output, payload: Payload, to: Remote) {
        if payload.is_empty() {
            return;
        }
        output.count_message(payload.len(), payload.len());
        self.push(Verb::Write { data: payload, to });
    }

    /// Adds a READ of the host's memory into `into[at..]`, for the command in `slot`.
    pub fn read(&mut self, slot: usize, (into, at): (IoBuf, usize), from: Remote) {
        self.reads.push_back(WorkRequest {
            tag: Some(TAG_READ | slot as u64),
            work: Verb::Read { into, at, from },
        });
    }

    fn push(&mut self, work: Verb) {
        self.chain.push(WorkRequest { tag: None, work });
    }

    /// A READ has ended.
    pub fn read_ended(&mut self) {
        self.reads_posted = self.reads_posted.saturating_sub(1);
    }

    /// Takes the work that is to be posted now into `chain`; `replies` tells whether there are messages or WRITEs in it.
    pub(super) fn take(&mut self, chain: &mut Vec<WorkRequest>, replies: bool) {
        while self.reads_posted < self.reads_max
            && let Some(read) = self.reads.pop_front()
        {
            self.reads_posted += 1;
            chain.push(read);
        }
        chain.append(&mut self.chain);
        if replies && let Some(last) = chain.last_mut() {
            last.tag.get_or_insert(TAG_REPLIES);
        }
    }
}

/// The slot of the command whose READ has this tag; `None` for other requests.
pub(super) fn slot_of(tag: u64) -> Option<usize> {
    (tag & TAG_READ != 0).then_some((tag & u64::from(u32::MAX)) as usize)
}
