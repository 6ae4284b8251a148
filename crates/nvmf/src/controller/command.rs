//! Commands: a submission queue entry, parsed once, from its arrival to its reply.
//!
//! **Owns** [`Command`]. **Called by** the dispatcher, which parses, and by the handlers, which end it. **Invariants**: a command
//! ends once, because [`Command::end`] takes it by value; a command that is dropped with its reply still owed panics in builds
//! with debug assertions. Release builds have no such check and no code for it (decision 0312).

use super::request::{AdminRequest, FabricsRequest, IoRequest, Request};
use crate::wire::command::{Cid, Fuse, Nsid, Psdt, Sgl, Sqe};
use crate::wire::opcode::{self, io as nvm};
use io::stage::{Stage, Trail};
use io::time::Instant;
use session::Hold;
use session::latency::CommandKind;

/// The kind of queue that a command came on: it decides what an opcode means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueType {
    /// No queue yet: only fabrics commands may come (Base 6).
    None,
    /// Admin queue.
    Admin,
    /// I/O queue.
    Io,
}

/// A command without a reply.
pub(super) struct Command {
    cid: Cid,
    nsid: Nsid,
    opcode: u8,
    fuse: Fuse,
    psdt: Psdt,
    sgl: Sgl,
    request: Request,
    kind: CommandKind,
    trail: Trail,
    /// Bytes of the shard's buffers that the command holds.
    hold: Option<Hold>,
    owed: ReplyOwed,
}

/// A command that has ended: the parts that its reply and its counts need.
pub(super) struct Ended {
    pub(super) cid: Cid,
    pub(super) kind: CommandKind,
    pub(super) trail: Trail,
    pub(super) hold: Option<Hold>,
}

impl Command {
    /// Parses a command that came on a queue of this type in the turn that began at `now`.
    #[inline]
    pub(super) fn parse(sqe: &Sqe, queue: QueueType, now: Instant) -> Command {
        let (request, kind, fuse) = match (sqe.opcode, queue) {
            (opcode::FABRICS, _) => {
                let request = Request::Fabrics(FabricsRequest::from_sqe(sqe));
                (request, CommandKind::Other, Fuse::Normal)
            }
            (_, QueueType::Io) => {
                let io = IoRequest::from_sqe(sqe);
                (Request::Io(io), io.kind(), sqe.fuse())
            }
            (_, QueueType::Admin) => {
                let request = Request::Admin(AdminRequest::from_sqe(sqe));
                (request, CommandKind::Other, Fuse::Normal)
            }
            (_, QueueType::None) => (Request::BeforeConnect, CommandKind::Other, Fuse::Normal),
        };
        Command {
            cid: sqe.cid(),
            nsid: sqe.nsid(),
            opcode: sqe.opcode,
            fuse,
            psdt: sqe.psdt(),
            sgl: sqe.sgl.parse(),
            request,
            kind,
            trail: Trail::begin(now),
            hold: None,
            owed: ReplyOwed(()),
        }
    }

    /// Command identifier.
    #[inline]
    pub(super) fn cid(&self) -> Cid {
        self.cid
    }

    /// Namespace identifier.
    #[inline]
    pub(super) fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// Opcode, for counters.
    #[inline]
    pub(super) fn opcode(&self) -> u8 {
        self.opcode
    }

    /// Its part of a fused operation; always `Normal` on other queues than I/O queues.
    #[inline]
    pub(super) fn fuse(&self) -> Fuse {
        self.fuse
    }

    /// Whether the opcode is the one that its part of a fused operation needs: Compare first, Write second.
    #[inline]
    pub(super) fn is_fusable(&self) -> bool {
        match self.fuse {
            Fuse::Normal => true,
            Fuse::First => matches!(self.request, Request::Io(IoRequest::Compare(_))),
            Fuse::Second => matches!(self.request, Request::Io(IoRequest::Write(_))),
            Fuse::Reserved => false,
        }
    }

    /// Whether its data is named by an SGL, which fabrics needs (Base 3.3.3.1).
    #[inline]
    pub(super) fn has_sgl(&self) -> bool {
        self.psdt == Psdt::Sgl
    }

    /// The SGL that names its data.
    #[inline]
    pub(super) fn sgl(&self) -> Sgl {
        self.sgl
    }

    /// What it asks for.
    #[inline]
    pub(super) fn request(&self) -> Request {
        self.request
    }

    /// Whether its data is user data, whose length is exact (Base 4.1.2). A structure may lie in a larger buffer: Linux
    /// always sends room for 256 ranges with Dataset Management.
    #[inline]
    pub(super) fn has_user_data(&self) -> bool {
        takes_user_data(self.opcode)
    }

    /// Gives it bytes of the shard's buffers to hold until it ends.
    #[inline]
    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        self.hold = hold;
    }

    /// Takes the bytes that it holds.
    #[inline]
    pub(super) fn take_hold(&mut self) -> Option<Hold> {
        self.hold.take()
    }

    /// Takes the bytes that it holds, for the backend, which keeps its buffer also when the connection ends first.
    #[inline]
    pub(super) fn take_hold_for_backend(&mut self) -> Option<Hold> {
        self.hold_to_backend();
        self.hold.take()
    }

    /// From here on the backend has the bytes that it holds.
    #[inline]
    pub(super) fn hold_to_backend(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.to_backend();
        }
    }

    /// Its latency counts from `now`: an Async Event Request waits without limit.
    pub(super) fn restart(&mut self, now: Instant) {
        self.trail = Trail::begin(now);
    }

    /// From `now` on it waits in this stage.
    #[inline]
    pub(super) fn enter(&mut self, stage: Stage, now: Instant) {
        self.trail.enter(stage, now);
    }

    /// Its time by stage so far.
    #[inline]
    pub(super) fn trail(&self) -> Trail {
        self.trail
    }

    /// Sets its time by stage so far.
    #[inline]
    pub(super) fn set_trail(&mut self, trail: Trail) {
        self.trail = trail;
    }

    /// Ends the command: its reply is about to be sent.
    #[inline]
    pub(super) fn end(self) -> Ended {
        self.owed.paid();
        Ended {
            cid: self.cid,
            kind: self.kind,
            trail: self.trail,
            hold: self.hold,
        }
    }

    /// Ends the command without a reply: its connection ends, or the host has forgotten it.
    pub(super) fn abandon(self) {
        self.end();
    }
}

/// Whether in-capsule data of commands with this opcode goes into a buffer of the pool.
#[inline]
pub(super) fn takes_user_data(opcode: u8) -> bool {
    matches!(opcode, nvm::WRITE | nvm::COMPARE)
}

/// The reply that is owed for a command.
struct ReplyOwed(());

impl ReplyOwed {
    #[inline]
    fn paid(self) {
        std::mem::forget(self);
    }
}

#[cfg(debug_assertions)]
impl Drop for ReplyOwed {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking(),
            "a command was dropped without a reply"
        );
    }
}

#[cfg(test)]
#[path = "tests/command.rs"]
mod tests;
