//! The queue of a session: submits tasks to the engine and sends them on the present connection. It outlives its connections.
//!
//! **Owns** the engine, the connection and the connection's two tasks. **Called by** recovery, which attaches connections,
//! and by the commands of users. **Invariants**: tasks that are submitted without a connection are parked and sent after the
//! next login, and so are unanswered tasks that may be sent twice; the engine changes only in synchronous code, never across
//! an `await`; nothing is sent on a connection after its end was decided.

use super::channel::{Carrier, Channel};
use super::connection::{AnyLink, Attached, ConnectionShared, Link, Mode};
use super::engine::Engine;
use super::error::Error;
use super::iser_receiver;
use super::limits::LOGOUT_TIMEOUT;
use super::login::LoggedIn;
use super::outgoing::Outgoing;
use super::receiver;
use super::state::LinkInfo;
use super::tasks::{Finished, Task};
use initiator::outbound;
use initiator::slots::Waiting;
use io::net::TcpInfo;
use io::sync::{Notify, Semaphore};
use io::{SendBatch, spawn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// See the module header. Clones share its state.
#[derive(Clone)]
pub(super) struct Queue(Rc<ConnectionShared>);

impl Queue {
    /// Creates a queue without a connection, for at most `depth` outstanding tasks.
    pub(super) fn new(depth: u16, broken: Rc<Notify>) -> Self {
        Self(Rc::new(ConnectionShared {
            engine: RefCell::new(Engine::new(depth)),
            permits: Semaphore::new(usize::from(depth)),
            depth,
            mode: Cell::new(Mode::Down),
            attached: RefCell::new(None),
            cause: RefCell::new(None),
            send_wanted: Notify::new(),
            event_ready: Notify::new(),
            broken,
        }))
    }

    /// Number of tasks that may be outstanding.
    pub(super) fn depth(&self) -> u16 {
        self.0.depth
    }

    /// Calls `f` with the engine, and sends what `f` put into the batch.
    pub(super) fn with_engine<T>(&self, f: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.0.engine.borrow_mut();
        let result = f(&mut engine);
        let wanted = !engine.batch.is_empty();
        drop(engine);
        if wanted {
            self.0.send_wanted.notify();
        }
        result
    }

    /// The parameters that the present connection negotiated.
    pub(super) fn link_info(&self) -> Option<LinkInfo> {
        let attached = self.0.attached.borrow();
        let Attached { link, session, .. } = attached.as_ref()?;
        let (portal, tcp, rdma) = match link {
            AnyLink::Tcp(link) => {
                let tcp = link.stream.info().unwrap_or_default();
                (link.stream.peer_addr(), tcp, None)
            }
            AnyLink::Iser(link) => {
                let queue_pair = link.queue_pair();
                let rdma = Some(queue_pair.info());
                (queue_pair.peer_addr(), TcpInfo::default(), rdma)
            }
        };
        Some(LinkInfo {
            parameters: session.parameters,
            tsih: session.tsih,
            alias: session.alias.clone(),
            portal_group: session.portal_group,
            window: self.0.engine.borrow().window,
            portal,
            tcp,
            rdma,
        })
    }

    /// Attaches a logged-in connection and sends parked tasks. New tasks are sent at once from here on.
    pub(super) fn attach(&self, channel: Channel, session: LoggedIn) {
        let q = &self.0;
        assert!(q.mode.get() == Mode::Down, "a session has one connection");
        q.cause.replace(None);
        q.mode.set(Mode::Live);
        let rules = channel.rules;
        let (link, receiver, sender) = match channel.carrier {
            Carrier::Tcp(stream, staging) => {
                let batch = Outgoing::Stream(SendBatch::new(), rules);
                self.with_engine(|e| e.begin(&session, batch));
                let link = Rc::new(Link { stream, rules });
                let receiver = spawn(receiver::run(q.clone(), link.clone(), staging));
                let (outbox, stream) = (q.clone(), link.clone());
                let sender = spawn(async move { outbound::run(&*outbox, &stream.stream).await });
                (AnyLink::Tcp(link), receiver, sender)
            }
            Carrier::Iser(link) => {
                self.with_engine(|e| e.begin(&session, Outgoing::Messages(Vec::new())));
                let link = Rc::new(link);
                let receiver = spawn(iser_receiver::run(q.clone(), link.clone(), rules));
                let sender = spawn(iser_receiver::send(q.clone(), link.clone()));
                (AnyLink::Iser(link), receiver, sender)
            }
        };
        q.attached.replace(Some(Attached {
            link,
            session,
            receiver,
            sender,
        }));
    }

    /// Ends the connection, if there is one, and waits for its tasks. With `keep`, SCSI tasks that may be sent on another
    /// connection are parked; the others fail.
    pub(super) async fn down(&self, keep: bool) {
        let q = &self.0;
        if q.mode.get() != Mode::Dead {
            q.mode.set(Mode::Breaking);
        }
        let attached = q.attached.take();
        if let Some(attached) = attached {
            attached.link.shutdown();
            q.send_wanted.notify();
            attached.receiver.await;
            attached.sender.await;
        }
        let cause = q.cause.take().unwrap_or(Error::Disconnected);
        q.engine.borrow_mut().disconnect(&cause, keep);
        if q.mode.get() == Mode::Breaking {
            q.mode.set(Mode::Down);
        }
    }

    /// Closes the queue for good: every task fails with `error`.
    pub(super) async fn kill(&self, error: Error) {
        self.0.mode.set(Mode::Dead);
        self.0.cause.replace(Some(error.clone()));
        self.down(false).await;
        self.0.cause.replace(Some(error));
    }

    /// Logs out. Waits until the target has closed the session, or [`LOGOUT_TIMEOUT`] has passed. Does not wait for
    /// outstanding tasks.
    pub(super) async fn log_out(&self) {
        if self.0.mode.get() != Mode::Live {
            return;
        }
        self.with_engine(Engine::log_out);
        let closed = async {
            while !self.is_breaking() {
                self.0.broken.notified().await;
            }
        };
        let _ = io::timeout(LOGOUT_TIMEOUT, closed).await;
    }

    /// Whether the connection broke and was not taken down yet.
    pub(super) fn is_breaking(&self) -> bool {
        self.0.mode.get() == Mode::Breaking
    }

    /// Breaks the connection because of `cause`.
    pub(super) fn fail(&self, cause: Error) {
        self.0.fail(cause);
    }

    /// Notified when an event can be fetched, and when no further event can arrive.
    pub(super) fn events(&self) -> &Notify {
        &self.0.event_ready
    }

    /// Submits a task and waits for its end. Waits for a free place first.
    pub(super) async fn execute(&self, task: Task) -> Finished {
        let permit = self.0.permits.acquire(1).await;
        if self.0.mode.get() == Mode::Dead {
            return Finished {
                result: Err(self.0.cause.borrow().clone().unwrap_or(Error::Closed)),
                data: task.data,
                received: 0,
            };
        }
        let index = self.with_engine(|e| e.submit(task, permit));
        Waiting::new(&*self.0, index).await
    }
}
