//! Handle of a connected controller: connection, state, information, events.
//!
//! **Owns** the supervising task. **Called by** users of the initiator. **Invariant**: only the supervising task, of
//! [`super::recovery`], attaches connections and takes them down; it ends when the handle is dropped.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use io::JoinHandle;
use io::sync::Notify;

use super::config::Config;
use super::error::{Error, Result};
use super::limits::{ADMIN_DEPTH, ADMIN_RESERVED};
use super::link::LinkInfo;
use super::queue::Queue;
use super::recovery;
use super::state::{ControllerInfo, Inner, Stats};
use initiator::LinkState;
use nvmf::wire::features::AsyncEvent;

/// A connected controller. Dropping it closes its connections.
pub struct Controller {
    pub(crate) inner: Rc<Inner>,
    supervisor: Option<JoinHandle<()>>,
}

impl Controller {
    /// Connects all queues and enables the controller. Makes one attempt; only an established connection is restored later.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Timeout`], [`Error::ConnectRefused`] or [`Error::Refused`].
    pub async fn connect(config: Config) -> Result<Self> {
        let config = config.clamped();
        let wake = Rc::new(Notify::new());
        let inner = Rc::new(Inner {
            config,
            state: Cell::new(LinkState::Connecting),
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

    /// The controller's state.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.inner.state.get()
    }

    /// Data that the controller returned when it was last connected.
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

    /// Number of I/O queues, and of the commands that each may have outstanding.
    #[must_use]
    pub fn io_queues(&self) -> (u16, u16) {
        let queues = self.inner.io.borrow();
        (queues.len() as u16, queues.first().map_or(0, Queue::depth))
    }

    /// Commands sent and not answered on the I/O queues.
    #[must_use]
    pub fn io_outstanding(&self) -> usize {
        self.inner.io.borrow().iter().map(Queue::outstanding).sum()
    }

    /// Negotiated parameters of the connections, the admin queue's first. Empty while they are down.
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
    /// [`Error::Closed`] or [`Error::Disconnected`] if no further event can arrive.
    pub async fn next_event(&self) -> Result<AsyncEvent> {
        loop {
            if let Some(event) = self.inner.events.borrow_mut().pop_front() {
                return Ok(event);
            }
            match self.state() {
                LinkState::Lost => return Err(Error::Disconnected),
                LinkState::Closed => return Err(Error::Closed),
                LinkState::Connecting | LinkState::Live | LinkState::Reconnecting => {}
            }
            self.inner.event_ready.notified().await;
        }
    }

    /// Shuts the controller down (CC.SHN) and closes its connections. Outstanding commands fail with [`Error::Closed`].
    pub async fn shutdown(mut self) {
        if self.state() == LinkState::Live {
            // A controller that does not answer is disconnected anyway.
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

/// A first connect in progress. Dropping it closes its connections.
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
