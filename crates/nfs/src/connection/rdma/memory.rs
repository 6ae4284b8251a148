//! Memory of the client for one reply, and the order in which a reply fills it.
//!
//! **Owns** [`ReplyMemory`] and [`Placement`]. **Called by** the receiver, which finds the memory in a call, and by the reply. **Invariants**: no byte goes
//! beyond the end of a segment.

use crate::rpc::rdma::HEADER_MIN;
use crate::rpc::rdma::chunks::{Segment, len_of};
use io::Payload;
use io::rdma::{Remote, RemoteKey};

/// Bytes of a list item's marker, and of a chunk's number of segments.
const CHUNK_HEAD: usize = 8;
/// Bytes of a segment.
const SEGMENT_LEN: usize = 16;

/// Memory of the client for the reply to one call.
#[derive(Debug, Default)]
pub(in crate::connection) struct ReplyMemory {
    /// The call's transaction number.
    pub(super) xid: u32,
    /// Memory for the items that are placed apart, in their order.
    pub(super) writes: Vec<Vec<Segment>>,
    /// Memory for the reply itself, if it is too long for a message.
    pub(super) whole: Option<Vec<Segment>>,
    /// The key of all memory of the call, if there is one.
    pub(super) key: Option<u32>,
}

impl ReplyMemory {
    /// Bytes of the header of a reply.
    pub(super) fn header_len(&self) -> usize {
        let chunks = self.writes.iter().chain(&self.whole);
        let lens = chunks.map(|chunk| CHUNK_HEAD + SEGMENT_LEN * chunk.len());
        HEADER_MIN + lens.sum::<usize>()
    }

    /// Bytes of the memory for the reply itself.
    pub(super) fn whole_len(&self) -> usize {
        self.whole.as_deref().map_or(0, len_of)
    }
}

/// Bytes that go to the client's memory.
pub(super) struct Placement<'a> {
    segments: &'a [Segment],
    /// Bytes of the first segment that are taken.
    taken: usize,
    work: &'a mut Vec<(Payload, Remote)>,
}

impl<'a> Placement<'a> {
    /// The first bytes go to the begin of `segments`. The WRITEs are added to `work`.
    pub(super) fn new(segments: &'a [Segment], work: &'a mut Vec<(Payload, Remote)>) -> Self {
        Placement {
            segments,
            taken: 0,
            work,
        }
    }

    /// The payload goes behind the ones before it. The segments have room for it.
    pub(super) fn put(&mut self, mut payload: Payload) {
        let mut at = 0;
        while let Some((first, rest)) = self.segments.split_first() {
            let room = first.len as usize - self.taken;
            let len = room.min(payload.len() - at);
            if len > 0 {
                let to = Remote {
                    address: first.address.wrapping_add(self.taken as u64),
                    key: RemoteKey(first.key),
                };
                self.work.push((payload.fork().sub(at, len), to));
                (at, self.taken) = (at + len, self.taken + len);
            }
            if at == payload.len() {
                return;
            }
            (self.segments, self.taken) = (rest, 0);
        }
    }
}
