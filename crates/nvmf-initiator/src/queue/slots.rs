//! Outstanding commands of one queue, by command identifier.
//!
//! **Owns** the NVMe part of the table of outstanding commands ([`initiator::slots`]). **Called by** [`super`].
//! **Invariants**: a CID is a slot's index with the slot's generation above it.

use io::{Payload, SendBatch};

use crate::error::Result;
use crate::limits::{ADMIN_DEPTH, ADMIN_RESERVED, IO_RESERVED, QUEUE_DEPTH_MAX};
use initiator::slots::{self, Request, SLOTS_MAX};
pub(crate) use initiator::slots::{Data, Replay};
use nvmf::wire::command::{Cid, Nsid, Sqe};
use nvmf::wire::completion::Cqe;
use nvmf::wire::pdu::PduError;
use session::digest::crc32c;

/// Bits of a CID that are the slot's generation.
const GENERATION_BITS: u32 = 6;
const _: () = assert!(SLOTS_MAX as u32 <= 1 << (16 - GENERATION_BITS));
const _: () = assert!(QUEUE_DEPTH_MAX + IO_RESERVED <= SLOTS_MAX);
const _: () = assert!(ADMIN_DEPTH + ADMIN_RESERVED <= SLOTS_MAX);

/// A command to submit.
#[derive(Debug)]
pub(crate) struct Command {
    /// The submission queue entry. The queue sets CID and SGL.
    pub(crate) sqe: Sqe,
    /// Its data.
    pub(crate) data: Data,
    /// What happens when the connection breaks.
    pub(crate) replay: Replay,
    /// Whether the command has no time limit.
    pub(crate) untimed: bool,
    /// Whether success with less data than asked for is an error.
    pub(crate) whole: bool,
}

/// The NVMe part of a slot.
pub(crate) struct NvmeCommand {
    /// The submission queue entry.
    pub(crate) sqe: Sqe,
    pub(crate) untimed: bool,
}

impl Default for NvmeCommand {
    fn default() -> NvmeCommand {
        NvmeCommand {
            sqe: Sqe::new(0, Nsid::NONE),
            untimed: false,
        }
    }
}

impl From<Command> for Request<NvmeCommand> {
    fn from(c: Command) -> Request<NvmeCommand> {
        Request {
            command: NvmeCommand {
                sqe: c.sqe,
                untimed: c.untimed,
            },
            data: c.data,
            replay: c.replay,
            whole: c.whole,
        }
    }
}

/// A command that has ended: with a completion of any status, or with the reason why there is none.
pub(crate) type Finished = slots::Finished<Result<Cqe>>;

/// All slots of a queue.
pub(crate) type Slots = slots::Slots<NvmeCommand, Result<Cqe>>;

/// Creates `depth` free slots.
pub(crate) fn new_slots(depth: u16) -> Slots {
    Slots::new(depth, GENERATION_BITS)
}

/// Returns the slot of the outstanding command `cid`. Any other CID is a sequence error.
pub(crate) fn find(slots: &Slots, cid: Cid) -> std::result::Result<u16, PduError> {
    slots.find(u32::from(cid.0)).ok_or(PduError::sequence(
        "answer to a command that is not outstanding",
    ))
}

/// Appends `len` bytes of outgoing data from `offset` on, and with `digest` their digest.
pub(super) fn put_data(batch: &mut SendBatch, data: &Data, offset: u32, len: u32, digest: bool) {
    let (offset, len) = (offset as usize, len as usize);
    let Some(bytes) = data.outgoing().map(|all| &all[offset..offset + len]) else {
        return;
    };
    match data {
        Data::Out(buf) => batch.put_payload(Payload::shared(buf.clone()).sub(offset, len)),
        _ => batch.put(bytes),
    }
    if digest {
        batch.put(&crc32c(bytes).to_le_bytes());
    }
}
