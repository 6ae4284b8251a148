//! Work requests of one connection: replies by SEND, data by WRITE before its reply, data of hosts by READ.
//!
//! **Owns** the chain that is posted next, and the READs that wait for others to end. **Called by** the exchange for everything that goes to
//! the host, and by receiver and sender. **Invariants**: at most as many READs are posted as the host serves, so that replies do not wait
//! behind them; all work of a turn is one chain, and its end is reported once; a key that the host wants to be invalidated is invalidated by
//! the reply to its command.

use super::accept::Offer;
use super::carrier::RdmaCarrier;
use crate::controller::table::Transfer;
use crate::wire::command::Sgl;
use crate::wire::completion::Cqe;
use io::rdma::{Remote, RemoteKey, Verb, WorkRequest};
use io::{IoBuf, Payload};
use session::output::Output;
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Tag of the last request of a chain with replies.
pub(super) const TAG_REPLIES: u64 = 1 << 32;
/// Tag of a READ, above the slot of its command.
const TAG_READ: u64 = 2 << 32;

/// The work of one connection.
pub(crate) struct Framing {
    /// The queue and the entries that the host asked for with its connection request.
    qid: u16,
    entries: u16,
    chain: Vec<WorkRequest>,
    /// READs that are not posted yet.
    reads: VecDeque<WorkRequest>,
    /// READs that are posted, and the most that may be.
    reads_posted: usize,
    reads_max: usize,
}

impl Framing {
    /// The framing of an accepted connection.
    pub(super) fn new(offer: &Offer, carrier: &RdmaCarrier) -> Framing {
        Framing {
            qid: offer.qid,
            entries: offer.entries,
            chain: Vec::new(),
            reads: VecDeque::new(),
            reads_posted: 0,
            reads_max: usize::from(carrier.queue_pair().info().reads_out).max(1),
        }
    }

    /// Whether a Connect for queue `qid` with `sqsize` (0's based) is the one that the connection request announced.
    pub(crate) fn announced(&self, qid: u16, sqsize: u16) -> bool {
        qid == self.qid && sqsize < self.entries
    }

    /// Adds a reply to the command that named its data by `sgl`.
    #[inline]
    pub(crate) fn put_reply(&mut self, output: &mut Output, cqe: &Cqe, sgl: Sgl) {
        let invalidate = match sgl {
            Sgl::Keyed {
                key,
                invalidate: true,
                ..
            } => Some(RemoteKey(key)),
            _ => None,
        };
        let head = cqe.as_bytes().to_vec();
        output.count_message(head.len(), 0);
        self.chain.push(WorkRequest {
            tag: None,
            work: Verb::Send {
                head,
                data: None,
                invalidate,
            },
        });
    }

    /// Adds all data of a command. The dispatcher has checked that the SGL names enough of the host's memory.
    #[inline]
    pub(crate) fn put_data(&mut self, output: &mut Output, sgl: Sgl, payload: Payload) {
        if payload.is_empty() {
            return;
        }
        output.count_message(payload.len(), payload.len());
        let to = memory(sgl);
        self.chain.push(WorkRequest {
            tag: None,
            work: Verb::Write { data: payload, to },
        });
    }

    /// Reads the data of the command in `slot` into its buffer.
    pub(crate) fn read(&mut self, slot: usize, sgl: Sgl, transfer: &mut Transfer) {
        let Some((into, _)) = transfer.lend() else {
            return;
        };
        let from = memory(sgl);
        self.reads.push_back(WorkRequest {
            tag: Some(TAG_READ | slot as u64),
            work: Verb::Read { into, from },
        });
    }

    /// Takes the work that is to be posted now into `chain`; `replies` tells whether there are replies or data in it.
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

    /// A READ has ended.
    pub(super) fn read_ended(&mut self) {
        self.reads_posted = self.reads_posted.saturating_sub(1);
    }
}

/// The slot of the READ with this tag.
pub(super) fn slot_of(tag: u64) -> Option<usize> {
    (tag & TAG_READ != 0).then_some((tag & u64::from(u32::MAX)) as usize)
}

/// The host's memory that an SGL names. An SGL without a key names none.
fn memory(sgl: Sgl) -> Remote {
    match sgl {
        Sgl::Keyed { address, key, .. } => Remote {
            address,
            key: RemoteKey(key),
        },
        _ => Remote::NOWHERE,
    }
}

/// The buffer of a READ as the transfer takes it back.
pub(super) fn whole(buf: IoBuf) -> (IoBuf, usize) {
    let len = buf.len();
    (buf, len)
}
