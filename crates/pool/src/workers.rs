//! Workers: shards that do for the owner what takes as long as the number of bytes.
//!
//! **Owns** the handles of these shards, and the backlog of each. **Called by** write-back: for the copying, parity and submission of
//! groups, and to compress and hash records that were assembled from parts. **Invariants**: small work stays on the owner's shard,
//! where it ends earlier; work that a shard refuses, or does not begin because it stops, is done by the owner. `docs/decisions/0172`.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use io::runtime::Shard;
use io::sync::{lock, oneshot};

/// Backlog of each worker from which the owner does the work itself, bytes.
const BACKLOG_MAX: u64 = 8 << 20;

/// A shard, and its backlog: bytes of work that it was sent and has not begun.
struct Worker {
    shard: Shard,
    backlog: Arc<AtomicU64>,
}

/// Work in the backlog of a worker, until it is dropped.
pub(crate) struct Backlogged {
    backlog: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Backlogged {
    fn drop(&mut self) {
        self.backlog.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The workers of a pool.
pub(crate) struct Workers {
    /// Least bytes of work that goes to another shard.
    least: u64,
    shards: Mutex<Vec<Worker>>,
    /// Bytes of the work that other shards ended.
    done: AtomicU64,
}

impl Workers {
    /// None yet. Work of fewer than `least` bytes will stay on the owner's shard.
    pub(crate) fn new(least: u64) -> Self {
        Self {
            least,
            shards: Mutex::default(),
            done: AtomicU64::new(0),
        }
    }

    /// Replaces the workers.
    pub(crate) fn set(&self, shards: Vec<Shard>) {
        let worker = |shard| Worker {
            shard,
            backlog: Arc::default(),
        };
        *lock(&self.shards) = shards.into_iter().map(worker).collect();
    }

    /// The worker with the shortest backlog; `None` if the owner should do this work of `bytes` bytes.
    fn choose(&self, bytes: u64) -> Option<(Shard, Backlogged)> {
        if bytes < self.least {
            return None;
        }
        let mut shards = lock(&self.shards);
        if shards.is_empty() {
            return None;
        }
        // the first one of several equal backlogs is taken
        shards.rotate_left(1);
        let shortest = |worker: &&Worker| worker.backlog.load(Ordering::Relaxed);
        let worker = shards.iter().min_by_key(shortest)?;
        if shortest(&worker) >= BACKLOG_MAX {
            return None;
        }
        worker.backlog.fetch_add(bytes, Ordering::Relaxed);
        let backlogged = Backlogged {
            backlog: worker.backlog.clone(),
            bytes,
        };
        Some((worker.shard.clone(), backlogged))
    }

    /// Bytes of the work that other shards ended.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether work of `bytes` bytes may go to another shard.
    pub(crate) fn takes(&self, bytes: u64) -> bool {
        bytes >= self.least && !lock(&self.shards).is_empty()
    }

    /// Frees the memory of something on a worker, or here. `bytes` is its size.
    pub(crate) fn free<T: Send + 'static>(&self, bytes: u64, memory: T) {
        if let Some((shard, backlogged)) = self.choose(bytes) {
            // a refusal frees it here
            let _is_sent = shard.spawn(move || async move { drop((memory, backlogged)) });
        }
    }

    /// Does work of `bytes` bytes on a worker, or on this shard. The work gets its place in the backlog, and drops it when it waits only
    /// for devices. `None` if a worker stopped after it had begun the work: then nobody knows which of its writes are still to come.
    pub(crate) async fn run<T, F>(
        &self,
        bytes: u64,
        work: impl FnOnce(Option<Backlogged>) -> F + Clone + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let Some((shard, backlogged)) = self.choose(bytes) else {
            return Some(work(None).await);
        };
        let (sender, receiver) = oneshot::channel();
        let has_begun = Arc::new(AtomicBool::new(false));
        let (remote, begins) = (work.clone(), has_begun.clone());
        // a refusal drops the sender
        let _is_sent = shard.spawn(move || async move {
            begins.store(true, Ordering::Release);
            sender.send(remote(Some(backlogged)).await);
        });
        match receiver.await {
            None if !has_begun.load(Ordering::Acquire) => Some(work(None).await),
            done => {
                self.done.fetch_add(bytes, Ordering::Relaxed);
                done
            }
        }
    }
}
