//! A controller: its queues, what it said about itself, its events.
//!
//! Owns the queues and the shared state that [`super::recovery`] drives. Called by users of the
//! initiator.
//!
//! Invariants: the queues are made once, at the first connect, and outlive connections. The
//! supervising task of [`super::recovery`] is the only one that attaches connections or takes them
//! down; it ends when the last handle is gone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use io::JoinHandle;
use io::sync::Notify;

use super::config::Config;
use super::error::{Error, Result};
use super::limits::{ADMIN_DEPTH, ADMIN_RESERVED, EVENTS_MAX};
use super::link::LinkInfo;
use super::queue::Queue;
use super::recovery;
use nvmf::wire::fabrics::Cap;
use nvmf::wire::features::AsyncEvent;
use nvmf::wire::identify::IdentifyController;

/// Where a controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The first connect has not ended.
    Connecting,
    /// All queues are connected.
    Live,
    /// A connection broke; commands wait while it is being restored.
    Reconnecting,
    /// It did not come back in time; every command fails.
    Lost,
    /// This side closed it.
    Closed,
}

/// What a controller said about itself when it was last connected.
#[derive(Debug, Clone)]
pub struct ControllerInfo {
    /// CNTLID.
    pub cntlid: u16,
    /// CAP.
    pub cap: Cap,
    /// VS.
    pub version: u32,
    /// Identify Controller.
    pub identify: Box<IdentifyController>,
}

impl ControllerInfo {
    /// CTRATT bit 6: any traffic counts as keep alive.
    #[must_use]
    pub fn traffic_based_keep_alive(&self) -> bool {
        self.identify.ctratt.get() & 1 << 6 != 0
    }
}

/// Counts since the first connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Connections restored.
    pub reconnects: u64,
    /// Keep Alive commands sent.
    pub keep_alives: u64,
    /// Events dropped because nobody fetched them.
    pub events_lost: u64,
    /// Commands answered on I/O queues.
    pub io_completed: u64,
}

/// The shared state of a controller's handles and its supervising task.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) state: Cell<State>,
    pub(crate) admin: Queue,
    pub(crate) io: RefCell<Vec<Queue>>,
    pub(crate) info: RefCell<Option<Rc<ControllerInfo>>>,
    pub(crate) stats: RefCell<Stats>,
    /// Told when a queue's connection breaks, and when this side closes.
    pub(crate) wake: Rc<Notify>,
    pub(crate) closing: Cell<bool>,
    events: RefCell<VecDeque<AsyncEvent>>,
    event_ready: Notify,
    next_queue: Cell<usize>,
}

impl Inner {
    /// The queue for the next I/O, round robin.
    pub(crate) fn io_queue(&self) -> Result<Queue> {
        let queues = self.io.borrow();
        let turn = self.next_queue.get();
        self.next_queue.set(turn.wrapping_add(1));
        if queues.is_empty() {
            return Err(Error::Invalid("the controller has no I/O queues"));
        }
        Ok(queues[turn % queues.len()].clone())
    }

    /// All queues, the admin queue first.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        let mut queues = vec![self.admin.clone()];
        queues.extend(self.io.borrow().iter().cloned());
        queues
    }

    /// What the controller said about itself.
    pub(crate) fn info(&self) -> Rc<ControllerInfo> {
        self.info
            .borrow()
            .clone()
            .expect("known since the first connect, without which there is no handle")
    }

    /// Keeps an event for whoever fetches events.
    pub(crate) fn push_event(&self, event: AsyncEvent) {
        let mut events = self.events.borrow_mut();
        if events.len() == EVENTS_MAX {
            events.pop_front();
            self.stats.borrow_mut().events_lost += 1;
        }
        events.push_back(event);
        self.event_ready.notify();
    }
}

/// A connected controller. Dropping it cuts its connections.
pub struct Controller {
    pub(crate) inner: Rc<Inner>,
    supervisor: Option<JoinHandle<()>>,
}

impl Controller {
    /// Connects all queues and enables the controller.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Timeout`], [`Error::ConnectRefused`] and [`Error::Refused`]
    /// by what failed. There is no retry: only a connection that once was is restored.
    pub async fn connect(config: Config) -> Result<Self> {
        let config = config.clamped();
        let wake = Rc::new(Notify::new());
        let inner = Rc::new(Inner {
            config,
            state: Cell::new(State::Connecting),
            admin: Queue::new(0, ADMIN_DEPTH, ADMIN_RESERVED, wake.clone()),
            io: RefCell::new(Vec::new()),
            info: RefCell::new(None),
            stats: RefCell::default(),
            wake,
            closing: Cell::new(false),
            events: RefCell::default(),
            event_ready: Notify::new(),
            next_queue: Cell::new(0),
        });
        let unfinished = Unfinished(Some(inner.clone()));
        let tasks = recovery::connect(&inner).await?;
        unfinished.finish();
        let supervisor = io::spawn(recovery::supervise(inner.clone(), tasks));
        Ok(Self {
            inner,
            supervisor: Some(supervisor),
        })
    }

    /// Where the controller is.
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.state.get()
    }

    /// What the controller said about itself when it was last connected.
    #[must_use]
    pub fn info(&self) -> Rc<ControllerInfo> {
        self.inner.info()
    }

    /// Counts since the first connect.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let io_completed = self.inner.io.borrow().iter().map(Queue::completed).sum();
        Stats {
            io_completed,
            ..*self.inner.stats.borrow()
        }
    }

    /// I/O queues, and the commands that each may have outstanding.
    #[must_use]
    pub fn io_queues(&self) -> (u16, u16) {
        let queues = self.inner.io.borrow();
        (queues.len() as u16, queues.first().map_or(0, Queue::depth))
    }

    /// Commands sent and not answered, on all queues but for event requests' queue.
    #[must_use]
    pub fn io_outstanding(&self) -> usize {
        self.inner.io.borrow().iter().map(Queue::outstanding).sum()
    }

    /// What the connections negotiated, the admin queue's first; empty while they are down.
    #[must_use]
    pub fn links(&self) -> Vec<LinkInfo> {
        self.inner
            .queues()
            .iter()
            .filter_map(Queue::link_info)
            .collect()
    }

    /// Waits for the next asynchronous event. One task at a time may wait.
    ///
    /// # Errors
    /// [`Error::Closed`] or [`Error::Disconnected`] once no event can come any more.
    pub async fn next_event(&self) -> Result<AsyncEvent> {
        loop {
            if let Some(event) = self.inner.events.borrow_mut().pop_front() {
                return Ok(event);
            }
            match self.state() {
                State::Lost => return Err(Error::Disconnected),
                State::Closed => return Err(Error::Closed),
                State::Connecting | State::Live | State::Reconnecting => {}
            }
            self.inner.event_ready.notified().await;
        }
    }

    /// Shuts the controller down in order (CC.SHN), closes its connections and waits for both.
    /// Commands outstanding fail with [`Error::Closed`].
    pub async fn shutdown(mut self) {
        if self.state() == State::Live {
            // A controller that does not answer is cut all the same.
            let _ = recovery::notify_shutdown(&self.inner).await;
        }
        self.close();
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.await;
        }
    }

    fn close(&self) {
        self.inner.closing.set(true);
        self.inner.wake.notify();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.close();
    }
}

/// A first connect in progress: if it is dropped, its connections end with it.
struct Unfinished(Option<Rc<Inner>>);

impl Unfinished {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(inner) = self.0.take() {
            drop(io::spawn(async move {
                for queue in inner.queues() {
                    queue.kill(Error::Closed).await;
                }
            }));
        }
    }
}

impl Inner {
    /// Moves to a state, telling whoever waits for events.
    pub(crate) fn enter(&self, state: State) {
        self.state.set(state);
        self.event_ready.notify();
    }
}
