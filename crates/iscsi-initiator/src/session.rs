//! The handle of a session, and what it tells about itself.
//!
//! **Owns** the state that the handle shares with the task that keeps the session ([`super::recovery`]). **Called by**
//! users of the initiator. **Invariants**: the queue is made once and outlives connections; the supervising task is the
//! only one that attaches connections or takes them down, and it ends when the last handle is gone.

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

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The first login has not ended.
    Connecting,
    /// Logged in.
    Live,
    /// The connection broke; commands wait while the session is being restored.
    Reconnecting,
    /// It did not come back in time; every command fails.
    Lost,
    /// This side closed it.
    Closed,
}

/// What a target tells by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A unit attention: reset, capacity or mode parameters changed, LUNs changed.
    Attention(Lun, Sense),
    /// An asynchronous SCSI event.
    Scsi(Lun, Sense),
    /// The target asks to be left; the session logs out and comes back.
    LogoutRequested,
    /// The target drops the connection; the session comes back.
    Dropped,
    /// An asynchronous message of another kind.
    Other(u8),
}

/// Counts since the first login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Sessions restored.
    pub reconnects: u64,
    /// Unit attentions that told of a reset: what was not stable by then may be lost.
    pub resets: u64,
    /// Pings sent.
    pub pings: u64,
    /// Events dropped because nobody fetched them.
    pub events_lost: u64,
    /// Commands that the target ended.
    pub completed: u64,
}

/// What a session negotiated, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// What was agreed; `max_send_data` is what the target takes.
    pub parameters: Parameters,
    /// TSIH.
    pub tsih: u16,
    /// TargetAlias.
    pub alias: Option<String>,
    /// TargetPortalGroupTag.
    pub portal_group: Option<u16>,
    /// Commands that the target's window took, when it was widest.
    pub window: u32,
    /// The portal that is connected, after redirections.
    pub portal: SocketAddr,
    /// What the kernel knows about the connection.
    pub tcp: TcpInfo,
}

/// The state that handles and the supervising task share.
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) state: Cell<State>,
    pub(super) queue: Queue,
    pub(super) stats: Cell<Stats>,
    /// Told when the connection breaks, and when this side closes.
    pub(super) wake: Rc<Notify>,
    pub(super) closing: Cell<bool>,
}

impl Inner {
    /// Moves to a state, telling whoever waits for events.
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

    /// A unit had something to tell.
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
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Timeout`], [`Error::LoginRefused`], [`Error::Authentication`] and
    /// [`Error::Protocol`] by what failed. There is no retry: only a session that once was is restored.
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

    /// Where the session is.
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

    /// What was negotiated; none while there is no connection.
    #[must_use]
    pub fn link(&self) -> Option<LinkInfo> {
        self.inner.queue.link_info()
    }

    /// Commands that may be outstanding.
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
    /// [`Error::Closed`] or [`Error::Disconnected`] once no event can come any more.
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

    /// Logs out, closes the connection and waits for both. Commands outstanding fail with [`Error::Closed`].
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
