//! One command from its CDB to its status.
//!
//! **Owns** [`Task`], which [`crate::Device::accept`] makes before any data moves. **Called by** transports.
//! **Invariants**: lengths are checked against limits before a transport asks for data; what can change while data
//! is waited for (size, reservations, write protection) is checked again before the backend hears of the command.

use crate::command::Command;
use crate::device::Device;
use crate::nexus::Nexus;
use crate::sense::Sense;
use crate::status::{Refusal, Residual, Status};
use crate::task_set::Place;
use crate::unit::Unit;
use io::{IoBuf, Payload};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Task attributes (SAM-5 8.9). Simple tasks run side by side; for the others see [`Task::poll_turn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum TaskAttribute {
    #[default]
    Simple,
    Ordered,
    HeadOfQueue,
    Aca,
}

/// What the initiator expects to move, bytes: iSCSI's Expected Data Transfer Length by its R and W bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectedLength {
    /// To the initiator.
    pub read: u32,
    /// From the initiator.
    pub write: u32,
}

/// The data that a command moves, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// None.
    None,
    /// To the initiator, at most so many.
    In(u32),
    /// From the initiator, exactly so many; never zero and never more than [`crate::limits::TRANSFER_BYTES_MAX`].
    Out(u32),
}

/// Given up: a command of several steps stops before its next one. Clones are the same command.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Gives the command up. It still ends with an outcome, which the transport drops.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was given up.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Errors: `Aborted` once given up.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.is_cancelled() {
            Err(backend::StorageError::Aborted.into())
        } else {
            Ok(())
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    /// The status code.
    pub status: Status,
    /// Sense data, encoded; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Data for the initiator: never more than it expected.
    pub data_in: Payload,
    /// How its expectation and the CDB differ.
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

/// Task management functions that reach a device (SAM-5 7). ABORT TASK and QUERY TASK are the transport's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskManagement {
    /// Every task of this nexus in the logical unit.
    AbortTaskSet,
    /// Every task of every nexus in the logical unit.
    ClearTaskSet,
    /// The logical unit is as after power on; reservations by RESERVE end, persistent ones stay.
    LogicalUnitReset,
    /// Every logical unit likewise.
    TargetReset,
}

/// A command that was accepted; it has reserved nothing and may be dropped.
pub struct Task {
    pub(crate) device: Arc<Device>,
    pub(crate) nexus: Arc<Nexus>,
    /// `None` for the few commands that a LUN without a logical unit answers.
    pub(crate) unit: Option<Arc<Unit>>,
    pub(crate) command: Command,
    pub(crate) expected: ExpectedLength,
    pub(crate) transfer: Transfer,
    /// Bytes from the initiator that the CDB asks for.
    pub(crate) wanted: u32,
    /// Among the unit's tasks; none without a unit.
    pub(crate) place: Option<Place>,
}

impl Task {
    /// Only the whole blocks that the initiator brings are written; it learns of the rest by the residual.
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

    /// Takes its place behind those that came before.
    pub(crate) fn placed(mut self, attribute: TaskAttribute) -> Task {
        let place = |unit| Place::take(unit, attribute);
        self.place = self.unit.as_ref().map(place);
        self
    }

    /// What moves. `Out` is to be brought to [`Task::execute`]; if the initiator expects to send more than that, the
    /// rest is not asked for and not looked at.
    #[must_use]
    pub fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether the task may begin: ORDERED tasks and those behind them wait for others of their logical unit (SAM-5 8.6).
    /// A transport asks before it asks for data, so that what waits holds nothing; once it may, it always may.
    pub fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.place.as_ref().map_or(Poll::Ready(()), |p| p.poll(cx))
    }

    /// Executes the command with its data: a buffer of exactly the length that [`Transfer::Out`] says, or none.
    /// Keep the future until it ends, even if `cancel` was used.
    pub async fn execute(self, data_out: Option<IoBuf>, cancel: Cancel) -> Outcome {
        let expected = self.expected;
        let wanted = u64::from(self.wanted);
        let descriptor = self.unit.as_ref().is_some_and(|u| u.descriptor_sense());
        let residual_of = |read: u64| match wanted {
            0 => Residual::of(read, expected.read.max(expected.write)),
            wanted => Residual::of(wanted, expected.write),
        };
        match crate::commands::execute(&self, data_out, &cancel).await {
            Ok(data) => {
                let residual = residual_of(data.len() as u64);
                let len = data.len().min(expected.read as usize);
                Outcome {
                    status: Status::Good,
                    sense: Vec::new(),
                    data_in: data.sub(0, len),
                    residual,
                }
            }
            Err(refusal) => Outcome::refused(refusal, descriptor, residual_of(0)),
        }
    }
}
