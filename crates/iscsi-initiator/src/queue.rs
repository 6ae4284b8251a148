//! The session's tasks over whatever connection is under them.
//!
//! **Owns** the engine, the connection and its two tasks. **Called by** recovery, which attaches connections, and by
//! whoever submits tasks. **Invariants**: it outlives its connections; tasks submitted while there is none are parked and
//! sent when the next is logged in, and so are those that may be sent twice and had no answer; the engine changes only
//! in synchronous code, never across an `await`; nothing is sent on a connection after its end was decided.

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

/// What the queue does with tasks now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No connection: tasks are parked.
    Down,
    /// Tasks are sent as they come.
    Live,
    /// The connection's end was decided; its tasks are ending. SCSI tasks are parked.
    Breaking,
    /// There will be no connection any more: tasks fail.
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

/// The state that tasks of the session share.
pub(super) struct Shared {
    pub(super) engine: RefCell<Engine>,
    permits: Semaphore,
    depth: u16,
    mode: Cell<Mode>,
    attached: RefCell<Option<Attached>>,
    /// Why the present connection ended.
    cause: RefCell<Option<Error>>,
    pub(super) send_wanted: Notify,
    /// Told when an event can be fetched.
    pub(super) event_ready: Notify,
    /// Told when the connection breaks.
    broken: Rc<Notify>,
}

/// See the module header. Clones share it.
#[derive(Clone)]
pub(super) struct Queue(Rc<Shared>);

impl Queue {
    /// A queue without a connection, for at most `depth` outstanding tasks.
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

    /// Tasks that may be outstanding.
    pub(super) fn depth(&self) -> u16 {
        self.0.depth
    }

    /// Looks at, or changes, the engine; what it has to send then leaves.
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

    /// What the present connection negotiated.
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

    /// Puts a logged-in connection under the queue, sends what is parked, and from now on every task as it comes.
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

    /// Ends the connection, if there is one, and waits until its tasks are gone. SCSI tasks that may wait for the next
    /// connection do so with `keep`; the others fail.
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

    /// There will be no further connection: every task fails with `error`, now and later.
    pub(super) async fn kill(&self, error: Error) {
        self.0.mode.set(Mode::Dead);
        self.0.cause.replace(Some(error.clone()));
        self.down(false).await;
        self.0.cause.replace(Some(error));
    }

    /// Asks the target to close the session, and waits until it has, or has taken too long. Tasks that have no answer by
    /// then are not waited for.
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

    /// Whether the connection broke and was not yet taken down.
    pub(super) fn is_breaking(&self) -> bool {
        self.0.mode.get() == Mode::Breaking
    }

    /// Ends the connection because of `cause`.
    pub(super) fn fail(&self, cause: Error) {
        self.0.fail(cause);
    }

    /// Told when an event can be fetched, and when none will come any more.
    pub(super) fn events(&self) -> &Notify {
        &self.0.event_ready
    }

    /// Submits a task and waits for its end. Waits its turn while there are too many.
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

    /// Ends the connection because of `cause`; the first cause counts.
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

    /// Something happened that recovery may have to act upon.
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
