//! Work requests of a queue pair, their ends, and memory that peers may use.
//!
//! **Called by** users of queue pairs and by both drivers. **Invariants**: a request owns its memory until it has ended.

use super::Received;
use super::error::{Ending, WorkError};
use crate::buf::{IoBuf, Payload};

/// A key by which a peer gives access to its memory (R_Key).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteKey(pub u32);

/// A place in a peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Address in the peer's terms.
    pub address: u64,
    /// The key that gives access to it.
    pub key: RemoteKey,
}

impl Remote {
    /// A place to which no key gives access: the peer's device refuses a request for bytes there.
    pub const NOWHERE: Remote = Remote {
        address: 0,
        key: RemoteKey(0),
    };
}

/// Memory that a peer may use.
#[derive(Debug)]
pub enum Memory {
    /// The peer may write to it.
    Writable(IoBuf),
    /// The peer may read from it.
    Readable(Payload),
}

impl Memory {
    /// Length, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Memory::Writable(buf) => buf.len(),
            Memory::Readable(payload) => payload.len(),
        }
    }

    /// Whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory to which the peer has access: the values that the peer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exposed {
    /// Where it begins.
    pub at: Remote,
    /// Length, bytes.
    pub len: u32,
    /// Whether the peer may invalidate the key by a message. If not, only a withdrawal ends the access.
    pub can_invalidate: bool,
}

/// One work request.
#[derive(Debug)]
pub enum Verb {
    /// Sends `head` and then `data` as one message, and has the peer's access to its key withdrawn on arrival.
    Send {
        /// First bytes; copied when they are posted.
        head: Vec<u8>,
        /// Bytes that follow, sent from where they lie.
        data: Option<Payload>,
        /// A key of the peer that is no longer needed (Send with Invalidate).
        invalidate: Option<RemoteKey>,
    },
    /// Writes to the peer's memory. Without bytes nothing is written, and no key is checked: the peer's device only answers.
    Write {
        /// The bytes.
        data: Payload,
        /// Where they go.
        to: Remote,
    },
    /// Reads `into.len() - at` bytes of the peer's memory.
    Read {
        /// The buffer that they go to.
        into: IoBuf,
        /// Offset of the first of them in the buffer, at most its length; the bytes before it stay.
        at: usize,
        /// Where they come from.
        from: Remote,
    },
    /// Withdraws the peer's access to memory (Local Invalidate). The memory comes back with the end of the request.
    Withdraw {
        /// The key that was exposed.
        key: RemoteKey,
    },
}

/// A work request with the name of its end.
#[derive(Debug)]
pub struct WorkRequest {
    /// The caller's name for it, returned with its end. `None`: its success is not reported (selective signalling), its failure is,
    /// with tag 0.
    pub tag: Option<u64>,
    /// The work.
    pub work: Verb,
}

/// Memory that comes back with the end of a request.
#[derive(Debug)]
pub enum Returned {
    /// None.
    Nothing,
    /// The buffer of a READ; after an error it may have a part of the bytes.
    Buffer(IoBuf),
    /// Memory that was exposed.
    Memory(Memory),
}

/// An event of a queue pair.
#[derive(Debug)]
pub enum QueuePairEvent {
    /// A message came.
    Received(Received),
    /// A request ended.
    Done {
        /// The request's tag; 0 for a failed request without one.
        tag: u64,
        /// Whether it was carried out.
        result: Result<(), WorkError>,
        /// Its memory, if it is given back.
        returned: Returned,
    },
    /// Memory that was exposed comes back, because the queue pair ended.
    Released {
        /// The key that it had.
        key: RemoteKey,
        /// The memory.
        memory: Memory,
    },
    /// The queue pair ended; all its requests ended before.
    Ended(Ending),
}
