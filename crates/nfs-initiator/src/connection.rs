//! State that a session's connections share.
//!
//! **Owns** the decision that a session ends. **Called by** the session, its receivers and senders. **Invariants**: the first
//! cause of an end counts; nothing is sent after the end was decided.

use super::engine::{Answer, CallParts, Calls, Engine, Finished};
use super::error::{Error, Result};
use super::rdma::RdmaLink;
use initiator::LinkState;
use initiator::outbound::Outbox;
use initiator::slots::{Data, HasSlots, Waiting};
use io::SendBatch;
use io::net::TcpStream;
use io::sync::{Notify, Semaphore};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A connection of the session.
pub(super) enum AnyLink {
    /// A byte stream.
    Tcp(Rc<TcpStream>),
    /// A queue pair.
    Rdma(Rc<RdmaLink>),
}

impl AnyLink {
    fn end(&self) {
        match self {
            AnyLink::Tcp(stream) => stream.shutdown(),
            AnyLink::Rdma(link) => link.queue_pair().disconnect(),
        }
    }
}

/// See the module header.
pub(super) struct ConnectionShared {
    pub(super) engine: RefCell<Engine>,
    pub(super) permits: Semaphore,
    pub(super) state: Cell<LinkState>,
    /// Why the session ended.
    pub(super) cause: RefCell<Option<Error>>,
    pub(super) links: Vec<AnyLink>,
    /// Notified when a connection has something to send, by connection.
    pub(super) send_wanted: Vec<Notify>,
}

impl ConnectionShared {
    /// Whether the end of the session was decided.
    pub(super) fn is_ending(&self) -> bool {
        self.state.get() != LinkState::Live
    }

    /// Ends the session because of `cause`. The first cause counts.
    pub(super) fn end(&self, cause: Error) {
        if self.is_ending() {
            return;
        }
        let is_closed = cause == Error::Closed;
        if !is_closed {
            tracing::info!(%cause, "NFS session ends");
        }
        self.state.set(if is_closed {
            LinkState::Closed
        } else {
            LinkState::Lost
        });
        self.cause.replace(Some(cause.clone()));
        self.engine.borrow_mut().end(&cause);
        self.links.iter().for_each(AnyLink::end);
        self.send_wanted.iter().for_each(Notify::notify);
    }

    /// Executes a call, and waits for its end. Waits for a free slot first.
    pub(super) async fn execute(&self, entry: CallParts, data: Data) -> Finished {
        let permit = self.permits.acquire(1).await;
        if self.is_ending() {
            let cause = self.cause.borrow().clone();
            return Finished {
                result: Err(cause.unwrap_or(Error::Closed)),
                data,
                received: 0,
            };
        }
        let (index, connection) = self.engine.borrow_mut().submit(entry, data, permit);
        self.send_wanted[connection].notify();
        Waiting::new(self, index).await
    }
}

/// What one connection of a session has to send.
pub(super) struct Outgoing {
    pub(super) shared: Rc<ConnectionShared>,
    pub(super) connection: usize,
}

impl Outbox for Outgoing {
    fn wanted(&self) -> &Notify {
        &self.shared.send_wanted[self.connection]
    }

    fn is_ended(&self) -> bool {
        self.shared.is_ending()
    }

    fn swap(&self, batch: &mut SendBatch) -> bool {
        self.shared
            .engine
            .borrow_mut()
            .swap_batch(self.connection, batch)
    }

    fn fail(&self) {
        self.shared.end(Error::Disconnected);
    }
}

impl HasSlots for ConnectionShared {
    type Command = CallParts;
    type Result = Result<Answer>;

    fn with_slots<T>(&self, f: impl FnOnce(&mut Calls) -> T) -> T {
        f(&mut self.engine.borrow_mut().calls)
    }
}
