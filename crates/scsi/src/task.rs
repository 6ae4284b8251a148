//! One command from its CDB to its status.
//!
//! **Owns** [`Task`], which [`crate::Device::accept`] makes before any data moves. **Called by** transports.
//! **Invariants**: lengths are checked against limits before a transport requests data. Size, reservations and write
//! protection may change while a task waits for data, so they are checked again before the backend is called. A
//! transfer that is longer than a buffer moves in chunks, each like a command of its own: only COMPARE AND WRITE is
//! atomic as a whole.

use crate::command::Command;
use crate::device::Device;
use crate::limits::{PIECE_BYTES_MAX, READ_STEP_BYTES};
use crate::nexus::Nexus;
use crate::place::Place;
use crate::sense::Sense;
use crate::status::{Refusal, Residual, Status};
use crate::task_set::TaskAttribute;
use crate::unit::Unit;
use io::Payload;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Bytes that the initiator expects to transfer: iSCSI's Expected Data Transfer Length by its R and W bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectedLength {
    /// To the initiator.
    pub read: u32,
    /// From the initiator.
    pub write: u32,
}

/// The data transfer of a command, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// None.
    None,
    /// To the initiator, at most this many bytes.
    In(u32),
    /// From the initiator, exactly this many bytes; never zero and never more than
    /// [`crate::limits::TRANSFER_BYTES_MAX`].
    Out(u32),
}

/// Cancellation of a command: one of several steps stops before its next step. Clones are the same command.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the command. It still ends with an outcome, which the transport drops.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Errors: `Aborted` if it was cancelled.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.is_cancelled() {
            Err(backend::StorageError::Aborted.into())
        } else {
            Ok(())
        }
    }
}

/// Outcome of a command.
#[derive(Debug)]
pub struct Outcome {
    /// The status code.
    pub status: Status,
    /// Sense data, encoded; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Data for the initiator: never more bytes than it expected.
    pub data_in: Payload,
    /// Difference between the initiator's expectation and the CDB.
    pub residual: Residual,
}

impl Outcome {
    pub(crate) fn status(status: Status, residual: Residual) -> Outcome {
        Outcome {
            status,
            sense: Vec::new(),
            data_in: Payload::from(Vec::new()),
            residual,
        }
    }

    pub(crate) fn refused(refusal: Refusal, descriptor: bool, residual: Residual) -> Outcome {
        match refusal {
            Refusal::Sense(sense) => Outcome::check(&sense, descriptor, residual),
            Refusal::Conflict => Outcome::status(Status::ReservationConflict, residual),
            Refusal::Busy => Outcome::status(Status::Busy, residual),
        }
    }

    fn check(sense: &Sense, descriptor: bool, residual: Residual) -> Outcome {
        Outcome {
            sense: sense.encode(descriptor),
            ..Outcome::status(Status::CheckCondition, residual)
        }
    }
}

/// An accepted command; it holds no resources and may be dropped.
pub struct Task {
    pub(crate) device: Arc<Device>,
    pub(crate) nexus: Arc<Nexus>,
    /// `None` for commands that need no logical unit.
    pub(crate) unit: Option<Arc<Unit>>,
    pub(crate) command: Command,
    pub(crate) expected: ExpectedLength,
    pub(crate) transfer: Transfer,
    /// Bytes from the initiator that the CDB requires.
    pub(crate) wanted: u32,
    /// Bytes transferred by earlier chunks.
    pub(crate) done: u32,
    /// Place in the unit's task set; none without a unit.
    pub(crate) place: Option<Place>,
}

impl Task {
    /// Limits it to the whole blocks that the initiator sends; the residual reports the rest.
    pub(crate) fn cut(mut self, wanted: u32) -> Task {
        let block = self.unit.as_ref().map_or(1, |u| u.geometry().block_size);
        let blocks = self.expected.write / block;
        self.command.cut(blocks);
        self.transfer = match blocks {
            0 => Transfer::None,
            n => Transfer::Out(n * block),
        };
        self.wanted = wanted;
        self
    }

    /// Takes its place behind the earlier tasks.
    pub(crate) fn placed(mut self, attribute: TaskAttribute) -> Task {
        let place = |unit| Place::take(unit, attribute);
        self.place = self.unit.as_ref().map(place);
        self
    }

    /// The whole transfer. If the initiator expects to send more, the rest is not requested and ignored.
    #[must_use]
    pub fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// The transfer of the next [`Task::step`]: the whole transfer, or a chunk of one that is longer than
    /// [`PIECE_BYTES_MAX`].
    #[must_use]
    pub fn piece(&self) -> Transfer {
        let rest = |n: u32| (n - self.done).min(PIECE_BYTES_MAX);
        match self.transfer {
            Transfer::Out(n) => Transfer::Out(rest(n)),
            Transfer::In(n) if self.command.part(0, 0).is_some() => Transfer::In(rest(n)),
            other => other,
        }
    }

    /// Bytes of additional buffers for the next step: VERIFY and PRE-FETCH read the medium in steps.
    #[must_use]
    pub fn inner_bytes(&self) -> usize {
        let (Command::Verify(at, _) | Command::PreFetch { at, .. }) = self.command else {
            return 0;
        };
        let block = self.unit.as_ref().map_or(1, |u| u.geometry().block_size);
        (u64::from(at.count) * u64::from(block)).min(u64::from(READ_STEP_BYTES)) as usize
    }

    /// The command for the blocks of the next chunk.
    pub(crate) fn command_of_piece(&self) -> Command {
        let (Transfer::In(whole) | Transfer::Out(whole)) = self.transfer else {
            return self.command;
        };
        let (Transfer::In(len) | Transfer::Out(len)) = self.piece() else {
            return self.command;
        };
        if len == whole {
            return self.command;
        }
        let block = self.unit.as_ref().map_or(1, |u| u.geometry().block_size);
        let part = self.command.part(self.done / block, len / block);
        part.unwrap_or(self.command)
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether the task may begin: ORDERED tasks and those behind them wait for other tasks of their logical unit
    /// (SAM-5 8.6). A transport calls it before it requests data, so that a waiting task holds no buffer. Once true,
    /// it stays true.
    pub fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.place.as_ref().map_or(Poll::Ready(()), |p| p.poll(cx))
    }
}
