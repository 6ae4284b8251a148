//! The end of a mount.
//!
//! **Owns** the state of one mount, and the steps after the kernel has closed the connection. **Called by** the mount's thread,
//! which changes it, and by all others that ask or wait. **Invariants**: a mount ends once; it has ended only after its last
//! request was answered, its open files were closed, and every change was made durable or reported as not durable.

use crate::mounted::Mounted;
use io::runtime::Shard;
use io::sync::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The reason of a mount's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// It was unmounted by [`crate::Mount::unmount`].
    Requested,
    /// Another program unmounted it, or aborted its connection.
    ByOthers,
    /// The connection to the kernel failed.
    Failed(String),
}

/// The end of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its reason.
    pub reason: EndReason,
    /// Why acknowledged changes could not be made durable; `None` if all are.
    pub not_durable: Option<String>,
}

#[derive(Default)]
struct Ending {
    is_requested: bool,
    ended: Option<Ended>,
}

/// Whether a mount has ended, and why. Clones share it.
#[derive(Clone, Default)]
pub(super) struct End(Arc<(Mutex<Ending>, Condvar)>);

impl End {
    /// The next end is requested, and not by others.
    pub(super) fn request(&self) {
        lock(&self.0.0).is_requested = true;
    }

    /// A requested end was refused.
    pub(super) fn withdraw(&self) {
        lock(&self.0.0).is_requested = false;
    }

    /// The end, if it has ended.
    pub(super) fn get(&self) -> Option<Ended> {
        lock(&self.0.0).ended.clone()
    }

    /// Waits for the end. Blocks the thread.
    pub(super) fn wait(&self) -> Ended {
        loop {
            if let Some(ended) = self.wait_for(Duration::from_secs(3600)) {
                return ended;
            }
        }
    }

    /// Waits for the end, at most this long. Blocks the thread.
    pub(super) fn wait_for(&self, at_most: Duration) -> Option<Ended> {
        let until = Instant::now() + at_most;
        let mut state = lock(&self.0.0);
        loop {
            if state.ended.is_some() {
                return state.ended.clone();
            }
            let left = until.checked_duration_since(Instant::now())?;
            let woken = self.0.1.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Finishes a mount whose connection was closed by the kernel.
    pub(super) fn finish(&self, mounted: &Arc<Mounted>, connection: std::io::Result<()>) {
        mounted.gate.drained();
        let not_durable = close_and_commit(mounted).err();
        let mut state = lock(&self.0.0);
        let reason = match connection {
            Err(e) if !state.is_requested => EndReason::Failed(e.to_string()),
            _ if state.is_requested => EndReason::Requested,
            _ => EndReason::ByOthers,
        };
        state.ended = Some(Ended {
            reason,
            not_durable,
        });
        self.0.1.notify_all();
    }
}

/// Closes all files and makes every change durable. Blocks the thread. The error is the reason.
fn close_and_commit(mounted: &Arc<Mounted>) -> Result<(), String> {
    let closing = mounted.clone();
    on_shard(mounted.shard(0).1, move || async move {
        drop(closing.opened.take_all());
    })?;
    commit_all(mounted)
}

/// Makes every acknowledged change durable. Blocks the thread. The error is the reason.
pub(super) fn commit_all(mounted: &Arc<Mounted>) -> Result<(), String> {
    if mounted.files.limits().is_read_only {
        return Ok(());
    }
    let committing = mounted.clone();
    on_shard(mounted.shard(0).1, move || async move {
        let done = committing.files.commit_all().await;
        done.map(drop).map_err(|e| e.to_string())
    })?
}

/// Runs a task on a shard and waits for it. Blocks the thread. Errors: the shard has ended.
fn on_shard<T: Send + 'static, F: Future<Output = T> + 'static>(
    shard: &Shard,
    make: impl FnOnce() -> F + Send + 'static,
) -> Result<T, String> {
    let (tx, rx) = mpsc::channel();
    shard
        .spawn(move || async move {
            let _ = tx.send(make().await);
        })
        .map_err(|e| format!("its shard: {e}"))?;
    rx.recv().map_err(|_| "its shard has ended".to_owned())
}
