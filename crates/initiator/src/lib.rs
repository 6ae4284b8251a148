//! What initiators of every protocol share: the table of outstanding commands, the retries of a broken connection.
//!
//! **Called by** the initiators of `nvmf` and `iscsi`. **Invariants**: knows no protocol.

#![forbid(unsafe_code)]

pub mod slots;

use io::net::TcpStream;
use io::sync::Notify;
use io::{JoinHandle, RecvBuf};
use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

/// Tasks that run while a connection is up, and are aborted with it.
pub struct LiveTasks(Vec<JoinHandle<()>>);

impl LiveTasks {
    /// These tasks.
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

/// How often a lost connection is tried again: after `first`, then twice as long each time up to `most`, for `limit` in all.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Delay before the first try.
    pub first: Duration,
    /// Longest delay.
    pub most: Duration,
    /// Time after which nothing is tried any more.
    pub limit: Duration,
}

/// Tries until `attempt` succeeds. `None` once the limit has passed, or `closing` is true; `wake` is notified when that
/// changes.
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

/// Waits for `future` at most `limit`; fails with `timeout` after that.
pub async fn within<T, E>(
    limit: Duration,
    timeout: E,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    io::timeout(limit, future).await.unwrap_or(Err(timeout))
}

/// The connection ended while something was awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnected;

/// Receives more bytes into `staging`, which has room for every header.
pub async fn receive(stream: &TcpStream, staging: &mut RecvBuf) -> Result<(), Disconnected> {
    let mut taken = std::mem::replace(staging, RecvBuf::new(0));
    let room = taken.make_room(taken.capacity());
    assert!(room > 0, "the staging area holds every header");
    let (result, back) = stream.recv(taken).await;
    *staging = back;
    match result {
        Ok(0) | Err(_) => Err(Disconnected),
        Ok(_) => Ok(()),
    }
}
