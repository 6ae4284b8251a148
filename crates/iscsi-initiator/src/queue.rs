//! The queue of a session: submits tasks to the engine and sends them on the present connection. It outlives its connections.
//!
//! **Owns** the engine, the connection and the connection's two tasks. **Called by** recovery, which attaches connections,
//! and by the commands of users. **Invariants**: tasks that are submitted without a connection are parked and sent after the
//! next login, and so are unanswered tasks that may be sent twice; the engine changes only in synchronous code, never across
//! an `await`; nothing is sent on a connection after its end was decided.

use super::channel::Channel;
use super::engine::Engine;
use super::error::{Error, Result};
use super::limits::LOGOUT_TIMEOUT;
use super::login::LoggedIn;
use super::session::LinkInfo;
use super::tasks::{Ended, Entry, Finished, Task, Tasks};
use super::{receiver, sender};
use initiator::slots::{HasSlots, Waiting};
use io::net::TcpStream;
use io::sync::{Notify, Semaphore};
use io::{JoinHandle, spawn};
use iscsi::wire::decode::Rules;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// State of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No connection: tasks are parked.
    Down,
    /// Tasks are sent at once.
    Live,
    /// The end of the connection was decided, and its tasks are ending. SCSI tasks are parked.
    Breaking,
    /// Closed for good: tasks fail.
    Dead,
}

/// One logged-in connection.
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) rules: Rules,
    session: LoggedIn,
}

/// The connection and its tasks.
struct Attached {
    link: Rc<Link>,
    receiver: JoinHandle<()>,
    sender: JoinHandle<()>,
}

/// State that the queue shares with the connection's tasks.
pub(super) struct Shared {
    pub(super) engine: RefCell<Engine>,
    permits: Semaphore,
    depth: u16,
    mode: Cell<Mode>,
    attached: RefCell<Option<Attached>>,
    /// Why the present connection ended.
    cause: RefCell<Option<Error>>,
    pub(super) send_wanted: Notify,
    /// Notified when an event can be fetched.
    pub(super) event_ready: Notify,
    /// Notified when the connection breaks.
    broken: Rc<Notify>,
}

/// See the module header. Clones share its state.
#[derive(Clone)]
pub(super) struct Queue(Rc<Shared>);

impl Queue {
    /// Creates a queue without a connection, for at most `depth` outstanding tasks.
    pub(super) fn new(depth: u16, broken: Rc<Notify>) -> Self {
        Self(Rc::new(Shared {
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
        let link = &attached.as_ref()?.link;
        Some(LinkInfo {
            parameters: link.session.parameters,
            tsih: link.session.tsih,
            alias: link.session.alias.clone(),
            portal_group: link.session.portal_group,
            window: self.0.engine.borrow().window,
            portal: link.stream.peer_addr(),
            tcp: link.stream.info().unwrap_or_default(),
        })
    }

    /// Attaches a logged-in connection and sends parked tasks. New tasks are sent at once from here on.
    pub(super) fn attach(&self, channel: Channel, session: LoggedIn) {
        let q = &self.0;
        assert!(q.mode.get() == Mode::Down, "a session has one connection");
        q.cause.replace(None);
        q.mode.set(Mode::Live);
        self.with_engine(|e| e.begin(&session, channel.rules));
        let link = Rc::new(Link {
            stream: channel.stream,
            rules: channel.rules,
            session,
        });
        let receiver = spawn(receiver::run(q.clone(), link.clone(), channel.staging));
        let sender = spawn(sender::run(q.clone(), link.clone()));
        q.attached.replace(Some(Attached {
            link,
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
            attached.link.stream.shutdown();
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

impl Shared {
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
            attached.link.stream.shutdown();
        }
        self.broken.notify();
    }

    /// Wakes recovery if it may have to act.
    pub(super) fn attend(&self) {
        self.broken.notify();
    }
}

impl HasSlots for Shared {
    type Command = Entry;
    type Result = Result<Ended>;

    fn with_slots<T>(&self, f: impl FnOnce(&mut Tasks) -> T) -> T {
        f(&mut self.engine.borrow_mut().tasks)
    }
}
