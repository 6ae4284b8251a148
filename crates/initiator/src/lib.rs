//! Code that the initiators of all protocols share: the table of outstanding commands, received and sent bytes, memory
//! that is exposed over RDMA, states, and reconnection.
//!
//! **Called by** `nvmf-initiator`, `iscsi-initiator` and `nfs-initiator`. **Invariants**: it knows no protocol.

#![forbid(unsafe_code)]

pub mod inbound;
pub mod outbound;
pub mod rdma;
pub mod slots;

use io::JoinHandle;
use io::sync::Notify;
use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

/// State of an NVMe controller or an iSCSI session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// The first connect or login is in progress.
    Connecting,
    /// All queues are connected, or the session is logged in.
    Live,
    /// A connection broke; commands wait while it is restored.
    Reconnecting,
    /// The connection could not be restored in time; every command fails.
    Lost,
    /// Closed by this side.
    Closed,
}

/// Tasks of one connection. They are aborted when this is dropped.
pub struct LiveTasks(Vec<JoinHandle<()>>);

impl LiveTasks {
    /// Takes ownership of `tasks`.
    #[must_use]
    pub fn new(tasks: Vec<JoinHandle<()>>) -> LiveTasks {
        LiveTasks(tasks)
    }
}

impl Drop for LiveTasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Intervals of reconnection: after `first`, then twice as long each time up to `most`, for `limit` in all.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Delay before the first attempt.
    pub first: Duration,
    /// Longest delay.
    pub most: Duration,
    /// Time after which the initiator gives up.
    pub limit: Duration,
}

/// Repeats `attempt` until it succeeds. Returns `None` when the limit has passed or `closing` is true; `wake` is notified
/// when `closing` changes.
pub async fn retry<T>(
    backoff: Backoff,
    closing: &Cell<bool>,
    wake: &Notify,
    mut attempt: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let broke_at = io::time::now();
    let mut delay = backoff.first;
    while broke_at.elapsed() < backoff.limit {
        let left = backoff.limit.saturating_sub(broke_at.elapsed());
        let closed = async {
            while !closing.get() {
                wake.notified().await;
            }
        };
        let _ = io::timeout(delay.min(left), closed).await;
        if closing.get() {
            return None;
        }
        if let Some(done) = attempt().await {
            return Some(done);
        }
        delay = (delay * 2).min(backoff.most);
    }
    None
}

/// Returns the result of `future`, or `timeout` if `limit` passes first.
pub async fn within<T, E>(
    limit: Duration,
    timeout: E,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    io::timeout(limit, future).await.unwrap_or(Err(timeout))
}

/// The connection ended during a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnected;
