//! Pulls: calls whose parts are read from the client's memory (RFC 8166, section 3.4.5).
//!
//! **Owns** the calls of one connection that are being read. **Called by** the receiver, with each call that has read chunks and with each READ that
//! has ended. **Invariants**: a call has one READ under way, and its buffer belongs to that; a call is handed on when all its bytes are in
//! its buffer; the receive of its message is posted again then.

use super::memory::ReplyMemory;
use crate::rpc::rdma::assembly::Assembly;
use io::rdma::{Received, Remote, RemoteKey};
use io::time::Instant;
use io::{IoBuf, SharedBuf};
use session::Hold;
use session::rdma::chain::WorkChain;

/// A call whose parts are known.
pub(super) struct Arriving {
    pub(super) message: Received,
    /// Where the RPC message begins behind the header.
    pub(super) inline_at: usize,
    pub(super) assembly: Assembly,
    pub(super) memory: Box<ReplyMemory>,
}

/// A call that is whole.
pub(super) struct Pulled {
    pub(super) record: SharedBuf,
    /// The bytes of its buffer.
    pub(super) hold: Hold,
    pub(super) memory: Box<ReplyMemory>,
}

/// A call that is being read.
struct Pull {
    call: Arriving,
    hold: Hold,
    /// The number of the READ that is under way.
    reading: usize,
    /// When the call must be whole.
    due: Instant,
}

/// The calls of one connection that are being read.
#[derive(Default)]
pub(super) struct Pulls {
    slots: Vec<Option<Pull>>,
    /// Calls that are whole.
    whole: Vec<Pulled>,
}

impl Pull {
    /// Adds the READ whose turn it is.
    fn post(&self, slot: usize, mut buf: IoBuf, chain: &mut WorkChain) {
        let (at, segment) = self.call.assembly.reads[self.reading];
        buf.set_len(at + segment.len as usize);
        let from = Remote {
            address: segment.address,
            key: RemoteKey(segment.key),
        };
        chain.read(slot, (buf, at), from);
    }

    /// The call, with its parts from the message and its padding.
    fn whole(self, mut buf: IoBuf) -> Pulled {
        let assembly = &self.call.assembly;
        buf.set_len(assembly.len);
        let inline = &self.call.message[self.call.inline_at..];
        for part in &assembly.inline {
            buf[part.at..part.at + part.len]
                .copy_from_slice(&inline[part.from..part.from + part.len]);
        }
        for (at, len) in &assembly.pads {
            buf[*at..at + len].fill(0);
        }
        let mut hold = self.hold;
        hold.to_backend();
        Pulled {
            record: buf.into(),
            hold,
            memory: self.call.memory,
        }
    }
}

impl Pulls {
    /// Whether no call is being read.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// When the first call must be whole.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.slots.iter().flatten().map(|pull| pull.due).min()
    }

    /// Begins to read a call, which has read chunks, into `buf`, which has room for the whole call.
    pub(super) fn begin(
        &mut self,
        call: Arriving,
        (buf, hold): (IoBuf, Hold),
        due: Instant,
        chain: &mut WorkChain,
    ) {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let pull = Pull {
            call,
            hold,
            reading: 0,
            due,
        };
        pull.post(slot, buf, chain);
        self.slots[slot] = Some(pull);
    }

    /// The READ of the call in `slot` has ended. Returns its bytes.
    pub(super) fn read_ended(&mut self, slot: usize, buf: IoBuf, chain: &mut WorkChain) -> usize {
        let Some(mut pull) = self.slots.get_mut(slot).and_then(Option::take) else {
            return 0;
        };
        let (_, segment) = pull.call.assembly.reads[pull.reading];
        pull.reading += 1;
        if pull.reading < pull.call.assembly.reads.len() {
            pull.post(slot, buf, chain);
            self.slots[slot] = Some(pull);
        } else {
            self.whole.push(pull.whole(buf));
        }
        segment.len as usize
    }

    /// Takes the calls that are whole.
    pub(super) fn take_whole(&mut self) -> Vec<Pulled> {
        std::mem::take(&mut self.whole)
    }
}
