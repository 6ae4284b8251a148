//! State of a queue, which its handles share with the tasks of its connection.
//!
//! **Owns** the queue's slots, the batch to be sent next and the connection. **Called by** the queue, and by the sender and the
//! receiver of its connection. **Invariants**: slots change only in synchronous code; once the end of a connection was decided,
//! nothing but one termination request is sent on it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use io::net::TcpInfo;
use io::sync::{Notify, Semaphore};
use io::{JoinHandle, SendBatch};

use super::slots::{Command, NvmeCommand, Replay, Slots, put_data};
use crate::error::{Error, Result};
use crate::limits::ADMIN_CAPSULE_DATA;
use crate::link::{Link, LinkInfo};
use crate::rdma::RdmaLink;
use initiator::outbound::Outbox;
use initiator::slots::HasSlots;
use nvmf::wire::command::{Sgl, SglDescriptor};
use nvmf::wire::completion::Cqe;
use nvmf::wire::features::AsyncEvent;
use nvmf::wire::opcode::FABRICS;
use nvmf::wire::opcode::admin::ASYNC_EVENT_REQUEST;
use nvmf::wire::pdu::{
    DATA_HEADER_LEN, Digests, HEADER_LEN_MAX, Pda, PduError, PduType, TERM_DATA_MAX, encode,
};

/// State of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// No connection: commands are parked.
    Down,
    /// Only the set-up commands of the controller are sent.
    Setup,
    /// Commands are sent at once.
    Live,
    /// The end of the connection was decided, and its tasks are ending. Commands are parked.
    Breaking,
    /// Closed for good: commands fail.
    Dead,
}

/// The connection of a queue.
pub(super) enum AnyLink {
    /// Over TCP.
    Tcp(Rc<Link>),
    /// Over RDMA.
    Rdma(Rc<RdmaLink>),
}

impl AnyLink {
    /// The negotiated parameters.
    pub(super) fn info(&self) -> LinkInfo {
        match self {
            AnyLink::Tcp(link) => link.info(),
            AnyLink::Rdma(link) => LinkInfo {
                digests: Digests::default(),
                cpda: Pda::DWORD,
                max_h2c_data: 0,
                tcp: TcpInfo::default(),
                rdma: Some(link.queue_pair().info()),
            },
        }
    }

    /// Ends the connection; its receiving task ends then.
    pub(super) fn shutdown(&self) {
        match self {
            AnyLink::Tcp(link) => link.stream.shutdown(),
            AnyLink::Rdma(link) => link.queue_pair().disconnect(),
        }
    }
}

/// The connection of a queue and its tasks.
pub(super) struct Attached {
    pub(super) link: AnyLink,
    /// The receiving task, and the sending task if there is one.
    pub(super) tasks: Vec<JoinHandle<()>>,
}

/// The state of one queue.
pub(super) struct QueueShared {
    pub(super) qid: u16,
    pub(super) slots: RefCell<Slots>,
    pub(super) permits: Semaphore,
    /// Reserved places for set-up commands, so that commands that wait for a connection cannot block its set-up.
    pub(super) reserved: Semaphore,
    pub(super) fusing: Semaphore,
    pub(super) depth: u16,
    pub(super) mode: Cell<Mode>,
    pub(super) attached: RefCell<Option<Attached>>,
    /// Why the present connection ended.
    pub(super) cause: RefCell<Option<Error>>,
    /// The batch to be sent next.
    pub(super) batch: RefCell<SendBatch>,
    /// Number of the batch to be sent next.
    pub(super) batch_number: Cell<u64>,
    pub(super) send_wanted: Notify,
    /// The batch ends with a termination request: the sender ends after it.
    pub(super) terminating: Cell<bool>,
    /// Most in-capsule data of an I/O command, bytes.
    pub(super) capsule_data: Cell<u32>,
    pub(super) tick: Cell<u32>,
    pub(super) completed: Cell<u64>,
    /// Asynchronous events, in the order in which they were reported.
    pub(super) events: RefCell<VecDeque<AsyncEvent>>,
    /// Notified when the connection breaks.
    pub(super) broken: Rc<Notify>,
}

impl QueueShared {
    /// Gives a command a slot, and sends it if the queue is in a state for it. Returns the slot.
    pub(super) fn submit(&self, command: Command, permit: io::sync::Permit) -> u16 {
        let setup = command.replay == Replay::Never;
        let index = self.slots.borrow_mut().insert(command.into(), permit);
        match self.mode.get() {
            Mode::Live => self.transmit(index),
            Mode::Setup if setup => self.transmit(index),
            Mode::Dead => {
                let error = self.cause.borrow().clone().unwrap_or(Error::Closed);
                // The caller does not wait yet.
                let _ = self.slots.borrow_mut().finish(index, Err(error));
            }
            Mode::Down | Mode::Breaking if setup => {
                let _ = self
                    .slots
                    .borrow_mut()
                    .finish(index, Err(Error::Disconnected));
            }
            Mode::Setup | Mode::Down | Mode::Breaking => {}
        }
        index
    }

    /// Puts the capsule of a parked command into the batch.
    pub(super) fn transmit(&self, index: u16) {
        let attached = self.attached.borrow();
        let Some(Attached { link, .. }) = attached.as_ref() else {
            return;
        };
        let mut slots = self.slots.borrow_mut();
        let Some(cid) = slots.send(index, self.tick.get()) else {
            return;
        };
        let slot = slots.get_mut(index);
        let mut sqe = slot.command.sqe;
        sqe.cid = (cid as u16).into();
        let link = match link {
            AnyLink::Tcp(link) => link,
            AnyLink::Rdma(link) => {
                return link.submit(&mut slots, index, sqe, self.capsule_data.get());
            }
        };
        let len = slot.data_len;
        let in_capsule = slot.data.outgoing().is_some() && len <= self.capsule_limit(sqe.opcode);
        let sgl = match (len, in_capsule) {
            (0, _) => Sgl::Transport { length: 0 },
            (length, true) => Sgl::InCapsule { offset: 0, length },
            (length, false) => Sgl::Transport { length },
        };
        sqe.sgl = SglDescriptor::new(sgl);
        let carried = if in_capsule { len } else { 0 };
        let mut header = [0; HEADER_LEN_MAX];
        let n = link.encoder.capsule_cmd(&sqe, carried, &mut header);
        let mut batch = self.batch.borrow_mut();
        batch.put(&header[..n]);
        if carried > 0 {
            slot.moved = len;
            put_data(&mut batch, &slot.data, 0, len, link.encoder.data_digest());
        }
        self.send_wanted.notify();
    }

    /// Whether the end of the connection was decided.
    pub(super) fn is_ending(&self) -> bool {
        !matches!(self.mode.get(), Mode::Setup | Mode::Live)
    }

    fn capsule_limit(&self, opcode: u8) -> u32 {
        if self.qid == 0 || opcode == FABRICS {
            return ADMIN_CAPSULE_DATA;
        }
        self.capsule_data.get()
    }

    /// Ends a command with its completion.
    ///
    /// # Errors
    /// Success without all of the command's data.
    pub(super) fn finish(&self, index: u16, cqe: Cqe) -> std::result::Result<(), PduError> {
        let mut slots = self.slots.borrow_mut();
        if !slots.get(index).is_setup() {
            self.completed.set(self.completed.get() + 1);
        }
        if slots.get(index).command.sqe.opcode == ASYNC_EVENT_REQUEST
            && self.qid == 0
            && cqe.status().is_success()
        {
            // The number of events is bounded by the outstanding requests: the next request is sent after these events were
            // taken.
            self.events
                .borrow_mut()
                .push_back(AsyncEvent::from_dword(cqe.dw0.get()));
        }
        if cqe.status().is_success() && slots.get(index).is_short() {
            return Err(PduError::out_of_range(
                "success without all of the command's data",
            ));
        }
        let waker = slots.finish(index, Ok(cqe));
        drop(slots);
        if let Some(w) = waker {
            w.wake();
        }
        Ok(())
    }

    /// Breaks the connection because of `cause`. The first cause counts.
    pub(super) fn fail(&self, cause: Error) {
        if self.is_ending() {
            return;
        }
        tracing::info!(queue = self.qid, %cause, "connection ends");
        self.mode.set(Mode::Breaking);
        self.cause.replace(Some(cause));
        if !self.terminating.get()
            && let Some(Attached { link, .. }) = self.attached.borrow().as_ref()
        {
            link.shutdown();
        }
        self.broken.notify();
    }

    /// Breaks the connection because the controller violated the protocol, and sends a termination request (TCP 3.5).
    pub(super) fn terminate(&self, error: PduError, offender: &[u8]) {
        let mut pdu = [0; DATA_HEADER_LEN + TERM_DATA_MAX];
        let len = encode::term_req(
            PduType::H2cTermReq,
            error.fes,
            error.fei,
            offender,
            &mut pdu,
        );
        let mut batch = self.batch.borrow_mut();
        batch.clear();
        batch.put(&pdu[..len]);
        drop(batch);
        self.terminating.set(true);
        self.send_wanted.notify();
        self.fail(Error::Protocol(error));
    }
}

impl Outbox for QueueShared {
    fn wanted(&self) -> &Notify {
        &self.send_wanted
    }

    /// A termination request is sent after the end was decided.
    fn is_ended(&self) -> bool {
        let terminates = self.terminating.get() && !self.batch.borrow().is_empty();
        self.is_ending() && !terminates
    }

    fn swap(&self, batch: &mut SendBatch) -> bool {
        if self.batch.borrow().is_empty() {
            return false;
        }
        std::mem::swap(&mut *self.batch.borrow_mut(), batch);
        self.batch_number.set(self.batch_number.get() + 1);
        true
    }

    fn fail(&self) {
        QueueShared::fail(self, Error::Disconnected);
    }
}

impl HasSlots for QueueShared {
    type Command = NvmeCommand;
    type Result = Result<Cqe>;

    fn with_slots<T>(&self, f: impl FnOnce(&mut Slots) -> T) -> T {
        f(&mut self.slots.borrow_mut())
    }
}

/// Why the receiver ended.
pub(super) enum End {
    /// The controller violated the protocol. Has the head of the offending PDU, for the termination request.
    Violation(PduError, Vec<u8>),
    /// Any other error.
    Cause(Error),
}

impl From<PduError> for End {
    fn from(error: PduError) -> Self {
        Self::Violation(error, Vec::new())
    }
}
