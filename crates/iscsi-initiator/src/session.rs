//! The handle of a session: connect, state, counts, events.
//!
//! **Owns** the state that it shares with the session's supervising task (`super::recovery`). **Called by** users of the
//! initiator. **Invariants**: the queue is created once and outlives connections; only the supervising task attaches
//! connections and takes them down; it ends when the last handle is dropped.

use super::config::Config;
use super::engine::Engine;
use super::error::{Error, Result};
use super::queue::Queue;
use super::recovery;
use super::shared::Inner;
use super::state::{Event, LinkInfo, Stats};
use initiator::LinkState;
use io::JoinHandle;
use io::sync::Notify;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

/// A session with a target. Dropping it logs out without waiting.
pub struct Session {
    pub(super) inner: Rc<Inner>,
    supervisor: Option<JoinHandle<()>>,
}

impl Session {
    /// Connects and logs in. Makes one attempt; only an established session is restored later.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Timeout`], [`Error::LoginRefused`], [`Error::Authentication`] or [`Error::Protocol`].
    pub async fn connect(config: Config) -> Result<Session> {
        let config = config.clamped();
        let wake = Rc::new(Notify::new());
        let inner = Rc::new(Inner {
            state: Cell::new(LinkState::Connecting),
            queue: Queue::new(config.queue_depth, wake.clone()),
            config,
            stats: Cell::default(),
            wake,
            closing: Cell::new(false),
        });
        let tasks = recovery::connect(&inner).await?;
        let supervisor = io::spawn(recovery::supervise(inner.clone(), tasks));
        Ok(Session {
            inner,
            supervisor: Some(supervisor),
        })
    }

    /// The session's state.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.inner.state.get()
    }

    /// Counts since the first login.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.queue.with_engine(|e| Stats {
            events_lost: e.events_lost,
            completed: e.completed,
            ..self.inner.stats.get()
        })
    }

    /// The negotiated parameters; `None` while there is no connection.
    #[must_use]
    pub fn link(&self) -> Option<LinkInfo> {
        self.inner.queue.link_info()
    }

    /// Number of commands that may be outstanding.
    #[must_use]
    pub fn queue_depth(&self) -> u16 {
        self.inner.queue.depth()
    }

    /// Commands sent and not answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.inner.queue.with_engine(|e| e.tasks.outstanding())
    }

    /// Sends one NOP-Out and waits for the target's NOP-In, in addition to the automatic ones. Has no time limit.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection, or if it breaks; [`Error::Invalid`] while another ping has no answer.
    pub async fn ping(&self) -> Result<()> {
        self.inner.queue.with_engine(Engine::send_echo)?;
        poll_fn(|cx| self.inner.queue.with_engine(|e| e.echo().poll(cx.waker()))).await
    }

    /// Waits for the next event. One task at a time may wait.
    ///
    /// # Errors
    /// [`Error::Closed`] or [`Error::Disconnected`] if no further event can arrive.
    pub async fn next_event(&self) -> Result<Event> {
        loop {
            if let Some(event) = self.inner.queue.with_engine(|e| e.events.pop_front()) {
                return Ok(event);
            }
            match self.state() {
                LinkState::Lost => return Err(Error::Disconnected),
                LinkState::Closed => return Err(Error::Closed),
                LinkState::Connecting | LinkState::Live | LinkState::Reconnecting => {}
            }
            self.inner.queue.events().notified().await;
        }
    }

    /// Logs out and closes the connection. Outstanding commands fail with [`Error::Closed`].
    pub async fn log_out(mut self) {
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

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
