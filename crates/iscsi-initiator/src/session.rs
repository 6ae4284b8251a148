//! The handle of a session: connect, state, counts, events.
//!
//! **Owns** the state that it shares with the session's supervising task (`super::recovery`). **Called by** users of the
//! initiator. **Invariants**: the queue is created once and outlives connections; only the supervising task attaches
//! connections and takes them down; it ends when the last handle is dropped.

use super::config::Config;
use super::error::{Error, Result};
use super::queue::Queue;
use super::recovery;
use super::sense::Sense;
use io::JoinHandle;
use io::net::TcpInfo;
use io::sync::Notify;
use iscsi::login::Parameters;
use iscsi::wire::Lun;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The first login is in progress.
    Connecting,
    /// Logged in.
    Live,
    /// The connection broke; commands wait while the session is restored.
    Reconnecting,
    /// The session could not be restored in time; every command fails.
    Lost,
    /// Closed by this side.
    Closed,
}

/// An event that the target reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A unit attention: reset, capacity or mode parameters changed, LUNs changed.
    Attention(Lun, Sense),
    /// An asynchronous SCSI event.
    Scsi(Lun, Sense),
    /// The target asked for a logout. The session logs out and reconnects.
    LogoutRequested,
    /// The target drops the connection. The session reconnects.
    Dropped,
    /// An asynchronous message of another kind.
    Other(u8),
}

/// Counts since the first login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Sessions restored.
    pub reconnects: u64,
    /// Unit attentions that reported a reset: writes that were not stable then may be lost.
    pub resets: u64,
    /// Pings sent.
    pub pings: u64,
    /// Events dropped because they were not fetched.
    pub events_lost: u64,
    /// Commands that the target ended.
    pub completed: u64,
}

/// Negotiated parameters of a session, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// Negotiated parameters; `max_send_data` is the target's limit.
    pub parameters: Parameters,
    /// TSIH.
    pub tsih: u16,
    /// TargetAlias.
    pub alias: Option<String>,
    /// TargetPortalGroupTag.
    pub portal_group: Option<u16>,
    /// The target's largest window, commands.
    pub window: u32,
    /// The portal that is connected, after redirections.
    pub portal: SocketAddr,
    /// TCP statistics of the kernel.
    pub tcp: TcpInfo,
}

/// State that the handles share with the supervising task.
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) state: Cell<State>,
    pub(super) queue: Queue,
    pub(super) stats: Cell<Stats>,
    /// Notified when the connection breaks, and when this side closes.
    pub(super) wake: Rc<Notify>,
    pub(super) closing: Cell<bool>,
}

impl Inner {
    /// Changes the state, and wakes tasks that wait for events.
    pub(super) fn enter(&self, state: State) {
        self.state.set(state);
        self.queue.events().notify();
    }

    /// Changes the counts.
    pub(super) fn count(&self, f: impl FnOnce(&mut Stats)) {
        let mut stats = self.stats.get();
        f(&mut stats);
        self.stats.set(stats);
    }

    /// Counts and stores a unit attention.
    pub(super) fn attention(&self, lun: Lun, sense: Sense) {
        if sense.is_reset() {
            self.count(|s| s.resets += 1);
        }
        self.queue
            .with_engine(|e| e.tell(Event::Attention(lun, sense)));
        self.queue.events().notify();
    }
}

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
            state: Cell::new(State::Connecting),
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
    pub fn state(&self) -> State {
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
                State::Lost => return Err(Error::Disconnected),
                State::Closed => return Err(Error::Closed),
                State::Connecting | State::Live | State::Reconnecting => {}
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
