//! Phases of a connection (TCP 3.4), each with the state that exists only in it.
//!
//! **Owns** [`Core`], the state of a connection, and the transitions between its phases. **Called by** the receiver, the turns
//! and the tasks of commands. **Invariants**: a connection waits for ICReq, then for Connect, then is the queue that its
//! Connect named, and stays that queue; it may be terminated from every phase. Commands without a reply are abandoned when
//! their phase ends.

use super::association::ControllerQueue;
use super::common::Common;
use super::config::Transport;
use super::counters::{CloseReason, ConnectionState};
use super::event_requests::EventRequests;
use super::exchange::Exchange;
use super::limits::COPIES_MAX;
use super::namespace_view::NamespaceViews;
use super::pairs::FusedPairs;
use crate::wire::pdu::PduError;
use io::sync::Semaphore;
use io::time::Instant;
use session::link::Link;
use std::cell::RefCell;
use std::mem;
use std::rc::{Rc, Weak};

/// A connection, which its commands may outlive.
pub(super) struct Connection {
    core: RefCell<Core>,
}

impl Connection {
    /// A connection that waits for ICReq.
    pub(super) fn new(common: Common) -> Rc<Connection> {
        Rc::new_cyclic(|me| Connection {
            core: RefCell::new(Core {
                me: me.clone(),
                common,
                phase: Phase::AwaitIcReq,
                is_draining: false,
            }),
        })
    }

    /// The state, which is borrowed only between awaits.
    pub(super) fn core(&self) -> &RefCell<Core> {
        &self.core
    }
}

/// Tells a command of several steps whether its connection still exists. After the end of the connection the command must
/// start no step: the host may have repeated the command, and written newer data.
pub(super) struct Lifeline(Weak<Connection>);

impl Lifeline {
    /// The lifeline of commands of this connection.
    pub(super) fn new(connection: &Weak<Connection>) -> Lifeline {
        Lifeline(connection.clone())
    }

    /// Errors: `Aborted` once the connection has ended.
    pub(super) fn check(&self) -> backend::Result<()> {
        match self.0.strong_count() {
            0 => Err(backend::StorageError::Aborted),
            _ => Ok(()),
        }
    }
}

/// The state of a connection.
pub(super) struct Core {
    me: Weak<Connection>,
    pub(super) common: Common,
    phase: Phase,
    /// Takes no further commands, and ends when the present commands are answered.
    is_draining: bool,
}

/// A phase of a connection.
pub(super) enum Phase {
    /// Only ICReq may come (TCP 3.4).
    AwaitIcReq,
    /// The first command must be Connect (Base 6.3).
    AwaitConnect(Box<Exchange>),
    /// A queue of a controller.
    Ready(Box<ReadyQueue>),
    /// A termination request was sent; waits for the host to close (TCP 3.5).
    Terminating(Terminating),
}

/// A connection that is a queue of a controller.
pub(super) struct ReadyQueue {
    exchange: Exchange,
    queue: ControllerQueue,
    views: NamespaceViews,
    kind: QueueKind,
}

/// The state that only admin queues or only I/O queues have.
pub(super) enum QueueKind {
    /// Admin queue.
    Admin(EventRequests),
    /// I/O queue.
    Io {
        /// Fused pairs that have not been executed.
        pairs: FusedPairs,
        /// Copies that may read and write.
        copies: Semaphore,
    },
}

impl QueueKind {
    /// Commands without a reply that wait outside of the command table.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        match self {
            QueueKind::Admin(requests) => requests.len(),
            QueueKind::Io { .. } => 0,
        }
    }

    fn new(is_admin: bool) -> QueueKind {
        if is_admin {
            QueueKind::Admin(EventRequests::default())
        } else {
            QueueKind::Io {
                pairs: FusedPairs::default(),
                copies: Semaphore::new(COPIES_MAX),
            }
        }
    }
}

/// A connection that was sent a termination request.
pub(super) struct Terminating {
    since: Instant,
    /// The queue that the connection was, which ends with it.
    queue: Option<ControllerQueue>,
}

impl Terminating {
    /// When the termination request was sent.
    pub(super) fn since(&self) -> Instant {
        self.since
    }
}

/// The ready phase, borrowed by a handler.
pub(super) struct Ready<'a> {
    pub(super) me: &'a Weak<Connection>,
    pub(super) common: &'a mut Common,
    pub(super) exchange: &'a mut Exchange,
    pub(super) queue: &'a ControllerQueue,
    pub(super) views: &'a mut NamespaceViews,
    pub(super) kind: &'a mut QueueKind,
}

/// A phase in which commands may come, borrowed.
pub(super) enum Active<'a> {
    /// Before Connect.
    Connecting(&'a mut Common, &'a mut Exchange),
    /// A queue.
    Ready(Ready<'a>),
}

impl Core {
    /// The phase.
    #[inline]
    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The state that the connection is counted under.
    pub(super) fn state(&self) -> ConnectionState {
        match &self.phase {
            Phase::Terminating(_) => ConnectionState::Terminating,
            _ if self.is_draining => ConnectionState::Draining,
            Phase::AwaitIcReq => ConnectionState::AwaitIcReq,
            Phase::AwaitConnect(_) => ConnectionState::AwaitConnect,
            Phase::Ready(r) if !r.queue.is_admin() => ConnectionState::Io,
            Phase::Ready(r) => match r.queue.controller().subsystem() {
                Some(_) => ConnectionState::Admin,
                None => ConnectionState::Discovery,
            },
        }
    }

    /// Whether the connection takes no further commands.
    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether a termination request was sent.
    #[inline]
    pub(super) fn is_terminating(&self) -> bool {
        matches!(self.phase, Phase::Terminating(_))
    }

    /// The phase if commands may come in it.
    #[inline]
    pub(super) fn active(&mut self) -> Option<Active<'_>> {
        match &mut self.phase {
            Phase::AwaitConnect(exchange) => {
                Some(Active::Connecting(&mut self.common, &mut *exchange))
            }
            Phase::Ready(r) => Some(Active::Ready(Ready {
                me: &self.me,
                common: &mut self.common,
                exchange: &mut r.exchange,
                queue: &r.queue,
                views: &mut r.views,
                kind: &mut r.kind,
            })),
            Phase::AwaitIcReq | Phase::Terminating(_) => None,
        }
    }

    /// The phase if the connection is a queue.
    #[inline]
    pub(super) fn ready(&mut self) -> Option<Ready<'_>> {
        match self.active()? {
            Active::Ready(ready) => Some(ready),
            Active::Connecting(..) => None,
        }
    }

    /// Commands, data and replies, in a phase that has them.
    #[inline]
    pub(super) fn exchange(&self) -> Option<&Exchange> {
        match &self.phase {
            Phase::AwaitConnect(exchange) => Some(exchange),
            Phase::Ready(r) => Some(&r.exchange),
            Phase::AwaitIcReq | Phase::Terminating(_) => None,
        }
    }

    /// Commands, data and replies, in a phase that has them, with what every phase has.
    #[inline]
    pub(super) fn exchange_mut(&mut self) -> Option<(&mut Exchange, &mut Common)> {
        match &mut self.phase {
            Phase::AwaitConnect(exchange) => Some((exchange, &mut self.common)),
            Phase::Ready(r) => Some((&mut r.exchange, &mut self.common)),
            Phase::AwaitIcReq | Phase::Terminating(_) => None,
        }
    }

    /// The queue that the connection is or was.
    #[inline]
    pub(super) fn queue(&self) -> Option<&ControllerQueue> {
        match &self.phase {
            Phase::Ready(r) => Some(&r.queue),
            Phase::Terminating(t) => t.queue.as_ref(),
            Phase::AwaitIcReq | Phase::AwaitConnect(_) => None,
        }
    }

    /// The queue that the connection is or was, with the link.
    pub(super) fn queue_and_link(&mut self) -> (Option<&ControllerQueue>, &mut Link<CloseReason>) {
        let queue = match &self.phase {
            Phase::Ready(r) => Some(&r.queue),
            Phase::Terminating(t) => t.queue.as_ref(),
            Phase::AwaitIcReq | Phase::AwaitConnect(_) => None,
        };
        (queue, &mut self.common.link)
    }

    /// Commands without a reply.
    pub(super) fn outstanding(&self) -> usize {
        match &self.phase {
            Phase::Ready(r) => r.exchange.table().len() + r.kind.waiting(),
            _ => self.exchange().map_or(0, |x| x.table().len()),
        }
    }

    /// Whether the queue has no entry for another command.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        match &self.phase {
            Phase::Ready(r) => r.exchange.is_full(r.kind.waiting()),
            _ => self.exchange().is_none_or(|x| x.is_full(0)),
        }
    }

    /// Whether the receiver holds back because too much lies unsent.
    #[inline]
    pub(super) fn is_congested(&self) -> bool {
        self.exchange()
            .is_some_and(|exchange| exchange.is_congested(&self.common))
    }

    /// ICReq was answered: commands may come.
    pub(super) fn await_connect(&mut self, exchange: Exchange) {
        self.counted(|core| core.phase = Phase::AwaitConnect(Box::new(exchange)));
    }

    /// Connect succeeded: the connection is this queue.
    pub(super) fn become_queue(&mut self, queue: ControllerQueue) {
        self.counted(|core| {
            // The phase is put back before any other code runs.
            core.phase = match mem::replace(&mut core.phase, Phase::AwaitIcReq) {
                Phase::AwaitConnect(exchange) => Phase::Ready(Box::new(ReadyQueue {
                    exchange: *exchange,
                    kind: QueueKind::new(queue.is_admin()),
                    queue,
                    views: NamespaceViews::default(),
                })),
                other => other,
            };
        });
    }

    /// The connection takes no further commands, and ends when its present commands are answered.
    pub(super) fn drain(&mut self) {
        self.counted(|core| core.is_draining = true);
    }

    /// Ends the connection because of bytes that the host sent: a termination request goes out, then the host has the linger
    /// time to close (TCP 3.5). Over RDMA the host is disconnected.
    pub(super) fn terminate(&mut self, error: PduError, header: &[u8]) {
        if self.is_terminating() {
            return;
        }
        self.common.complain(error);
        if self.common.transport() == Transport::Rdma {
            return self.end(CloseReason::Protocol);
        }
        self.common.put_term_req(&error, header);
        let since = self.common.now();
        self.counted(|core| {
            let terminating = Terminating { since, queue: None };
            let before = mem::replace(&mut core.phase, Phase::Terminating(terminating));
            if let (Phase::Ready(r), Phase::Terminating(t)) = (before, &mut core.phase) {
                t.queue = Some(r.queue);
            }
        });
        self.common.link.set_transfer_due(None);
        self.common.link.forget_request();
    }

    /// The connection has ended. Returns the queue that it was; its commands are abandoned.
    pub(super) fn dissolve(&mut self) -> Option<ControllerQueue> {
        self.common.link.forget_request();
        match mem::replace(&mut self.phase, Phase::AwaitIcReq) {
            Phase::Ready(r) => Some(r.queue),
            Phase::Terminating(t) => t.queue,
            Phase::AwaitIcReq | Phase::AwaitConnect(_) => None,
        }
    }

    /// Ends the connection; the first reason stays.
    pub(super) fn end(&mut self, why: CloseReason) {
        self.common.link.end(why);
    }

    /// Makes a change that may change the state that the connection is counted under.
    fn counted(&mut self, change: impl FnOnce(&mut Core)) {
        let before = self.state();
        change(self);
        let after = self.state();
        let counters = &self.common.target().connections.counters;
        counters.moved(Some(before), Some(after));
    }
}
