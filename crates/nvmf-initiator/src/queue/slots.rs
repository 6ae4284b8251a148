//! The commands of one queue, by command identifier.
//!
//! **Owns** the NVMe part of the table of outstanding commands ([`initiator::slots`]). **Called by** [`super`].
//! **Invariants**: a CID is a slot's index with the slot's generation above it.

use crate::error::Result;
use crate::limits::{ADMIN_DEPTH, ADMIN_RESERVED, IO_RESERVED, QUEUE_DEPTH_MAX};
use initiator::slots::{self, Request, SLOTS_MAX};
pub(crate) use initiator::slots::{Data, Replay};
use nvmf::wire::command::{Cid, Nsid, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::pdu::PduError;

/// Bits of a CID that are the slot's generation.
const GENERATION_BITS: u32 = 6;
const _: () = assert!(SLOTS_MAX as u32 <= 1 << (16 - GENERATION_BITS));
const _: () = assert!(QUEUE_DEPTH_MAX + IO_RESERVED <= SLOTS_MAX);
const _: () = assert!(ADMIN_DEPTH + ADMIN_RESERVED <= SLOTS_MAX);

/// A command to submit.
#[derive(Debug)]
pub(crate) struct Command {
    /// The entry; CID and SGL are set by the queue.
    pub(crate) sqe: Sqe,
    /// Its data.
    pub(crate) data: Data,
    /// What a broken connection does to it.
    pub(crate) replay: Replay,
    /// Whether the controller may take as long as it likes.
    pub(crate) untimed: bool,
    /// Whether success with less data than asked for is an error.
    pub(crate) whole: bool,
}

/// What a slot knows of its command.
pub(crate) struct Entry {
    /// The entry as submitted.
    pub(crate) sqe: Sqe,
    pub(crate) untimed: bool,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry {
            sqe: Sqe::new(0, Nsid::NONE),
            untimed: false,
        }
    }
}

impl From<Command> for Request<Entry> {
    fn from(c: Command) -> Request<Entry> {
        Request {
            command: Entry {
                sqe: c.sqe,
                untimed: c.untimed,
            },
            data: c.data,
            replay: c.replay,
            whole: c.whole,
        }
    }
}

/// A command that has ended: with a completion, whatever its status, or without one.
pub(crate) type Finished = slots::Finished<Result<Cqe>>;

/// All slots of a queue.
pub(crate) type Slots = slots::Slots<Entry, Result<Cqe>>;

/// Free slots for `depth` commands.
pub(crate) fn new_slots(depth: u16) -> Slots {
    Slots::new(depth, GENERATION_BITS)
}

/// The slot of a command that is on its way. Errors: a sequence error for any other CID.
pub(crate) fn find(slots: &Slots, cid: Cid) -> std::result::Result<u16, PduError> {
    slots.find(u32::from(cid.0)).ok_or(PduError::sequence(
        "answer to a command that is not outstanding",
    ))
}
