//! The present connection of a session, and the state that its two tasks share with the queue.
//!
//! **Owns** the decision that a connection ends. **Called by** the queue, the receiver and the sender. **Invariants**: the first
//! cause of an end counts; nothing is sent on a connection after its end was decided.

use super::engine::Engine;
use super::error::{Error, Result};
use super::iser::IserLink;
use super::login::LoggedIn;
use super::tasks::{Ended, ScsiTask, Tasks};
use initiator::outbound::Outbox;
use initiator::slots::HasSlots;
use io::net::TcpStream;
use io::sync::{Notify, Semaphore};
use io::{JoinHandle, SendBatch};
use iscsi::wire::Bhs;
use iscsi::wire::decode::Rules;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// State of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// No connection: tasks are parked.
    Down,
    /// Tasks are sent at once.
    Live,
    /// The end of the connection was decided, and its tasks are ending. SCSI tasks are parked.
    Breaking,
    /// Closed for good: tasks fail.
    Dead,
}

/// One logged-in connection over TCP.
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) rules: Rules,
}

/// One logged-in connection.
pub(super) enum AnyLink {
    /// Over TCP.
    Tcp(Rc<Link>),
    /// Over RDMA.
    Iser(Rc<IserLink>),
}

impl AnyLink {
    /// Ends the connection; its receiving task ends then.
    pub(super) fn shutdown(&self) {
        match self {
            AnyLink::Tcp(link) => link.stream.shutdown(),
            AnyLink::Iser(link) => link.queue_pair().disconnect(),
        }
    }
}

/// The connection and its tasks.
pub(super) struct Attached {
    pub(super) link: AnyLink,
    pub(super) session: LoggedIn,
    pub(super) receiver: JoinHandle<()>,
    pub(super) sender: JoinHandle<()>,
}

/// State that the queue shares with the connection's tasks.
pub(super) struct ConnectionShared {
    pub(super) engine: RefCell<Engine>,
    pub(super) permits: Semaphore,
    pub(super) depth: u16,
    pub(super) mode: Cell<Mode>,
    pub(super) attached: RefCell<Option<Attached>>,
    /// Why the present connection ended.
    pub(super) cause: RefCell<Option<Error>>,
    pub(super) send_wanted: Notify,
    /// Notified when an event can be fetched.
    pub(super) event_ready: Notify,
    /// Notified when the connection breaks.
    pub(super) broken: Rc<Notify>,
}

impl ConnectionShared {
    /// Whether the end of the connection was decided.
    pub(super) fn is_ending(&self) -> bool {
        self.mode.get() != Mode::Live
    }

    /// Breaks the connection because of `cause`. The first cause counts.
    pub(super) fn fail(&self, cause: Error) {
        if self.is_ending() {
            return;
        }
        tracing::info!(%cause, "session's connection ends");
        self.mode.set(Mode::Breaking);
        self.cause.replace(Some(cause));
        self.engine.borrow_mut().close();
        if let Some(attached) = self.attached.borrow().as_ref() {
            attached.link.shutdown();
        }
        self.broken.notify();
    }

    /// Wakes the sender if there is something to send.
    pub(super) fn send_if_wanted(&self) {
        if !self.engine.borrow().batch.is_empty() {
            self.send_wanted.notify();
        }
    }

    /// Has `handle` pass a PDU with its data to the engine, and wakes the tasks that wait for its effects.
    pub(super) fn control(
        &self,
        bhs: &Bhs,
        data: &[u8],
        handle: impl FnOnce(&mut Engine, &Bhs, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut engine = self.engine.borrow_mut();
        let told = engine.events.len() as u64 + engine.events_lost;
        let handled = handle(&mut engine, bhs, data);
        let tells = engine.events.len() as u64 + engine.events_lost != told;
        let leaving = engine.leave_within.is_some();
        drop(engine);
        if tells {
            self.event_ready.notify();
        }
        if leaving {
            self.attend();
        }
        handled
    }

    /// Wakes recovery if it may have to act.
    pub(super) fn attend(&self) {
        self.broken.notify();
    }
}

impl Outbox for ConnectionShared {
    fn wanted(&self) -> &Notify {
        &self.send_wanted
    }

    fn is_ended(&self) -> bool {
        self.is_ending()
    }

    fn swap(&self, batch: &mut SendBatch) -> bool {
        self.engine.borrow_mut().swap_batch(batch)
    }

    fn fail(&self) {
        ConnectionShared::fail(self, Error::Disconnected);
    }
}

impl HasSlots for ConnectionShared {
    type Command = ScsiTask;
    type Result = Result<Ended>;

    fn with_slots<T>(&self, f: impl FnOnce(&mut Tasks) -> T) -> T {
        f(&mut self.engine.borrow_mut().tasks)
    }
}
