//! The shards, and the choice of a shard for each connection.
//!
//! **Owns** the shards and the count of connections on each. **Called by** the listeners and by requests for the
//! state of the shards. **Invariants**: a connection is counted from the moment at which it is handed over until it
//! is closed, also when its shard refuses it.

use crate::api::ShardStatus;
use crate::limits::SHARD_ANSWER_MAX;
use crate::protocols::protocol::Serve;
use crate::{Error, Result};
use io::runtime::{RuntimeConfig, Shard, ShardConfig};
use io::sync::oneshot;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The shards of a server. Clones are the same shards.
#[derive(Clone)]
pub struct Shards(Arc<[Slot]>);

struct Slot {
    shard: Shard,
    connections: AtomicUsize,
    /// Time without progress by the watchdog, ms.
    stalled_ms: AtomicU64,
}

/// One connection in its shard's count.
struct Counted {
    shards: Shards,
    index: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shards.0[self.index]
            .connections
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shards {
    /// Starts `count` threads, or one per processor if that is 0. Errors: `Start`.
    pub fn start(count: usize, runtime: RuntimeConfig) -> Result<Shards> {
        let count = match count {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let start = |index| {
            let name = format!("shard-{index}");
            Shard::start(ShardConfig {
                name,
                cpu: None,
                runtime,
            })
            .map_err(|source| Error::Start {
                what: "a shard (io_uring)",
                source,
            })
        };
        (0..count)
            .map(start)
            .collect::<Result<Vec<_>>>()
            .map(Shards::of)
    }

    /// These shards, at least one.
    #[must_use]
    pub fn of(shards: Vec<Shard>) -> Shards {
        assert!(!shards.is_empty(), "a server needs a shard");
        let slot = |shard| Slot {
            shard,
            connections: AtomicUsize::new(0),
            stalled_ms: AtomicU64::new(0),
        };
        Shards(shards.into_iter().map(slot).collect())
    }

    /// The shard that listens and changes the configuration.
    #[must_use]
    pub fn first(&self) -> &Shard {
        &self.0[0].shard
    }

    /// All but the first.
    #[must_use]
    pub fn others(&self) -> Vec<Shard> {
        self.0[1..].iter().map(|slot| slot.shard.clone()).collect()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Shard> {
        self.0.iter().map(|slot| slot.shard.clone()).collect()
    }

    /// Number of shards.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Hands a connection to the shard with the fewest; it is served there until it ends. Errors: those of
    /// [`Shard::spawn`]; the connection is closed.
    pub(crate) fn hand<T: Send + 'static>(&self, accepted: T, serve: &Serve<T>) -> io::Result<()> {
        let fewest = |i: &usize| self.0[*i].connections.load(Ordering::Relaxed);
        let index = (0..self.0.len()).min_by_key(fewest).unwrap_or(0);
        self.0[index].connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            shards: self.clone(),
            index,
        };
        let serve = serve.clone();
        self.0[index].shard.spawn(move || async move {
            let _counted = counted;
            serve(accepted).await;
        })
    }

    /// The state of every shard, each asked on its own thread. Called on a shard.
    pub async fn status(&self) -> Vec<ShardStatus> {
        let asked: Vec<_> = (0..self.0.len()).map(|i| self.ask(i)).collect();
        let mut out = Vec::new();
        for (shard, answer) in asked.into_iter().enumerate() {
            let answer = io::timeout(SHARD_ANSWER_MAX, answer)
                .await
                .ok()
                .flatten()
                .unwrap_or_default();
            let slot = &self.0[shard];
            out.push(ShardStatus {
                shard,
                connections: slot.connections.load(Ordering::Relaxed),
                stalled_ms: slot.stalled_ms.load(Ordering::Relaxed),
                ..answer
            });
        }
        out
    }

    /// Sets the time for which a shard has made no progress.
    pub(crate) fn set_stalled(&self, shard: usize, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0[shard].stalled_ms.store(ms, Ordering::Relaxed);
    }

    fn ask(&self, index: usize) -> oneshot::Receiver<ShardStatus> {
        let (tx, rx) = oneshot::channel();
        // A shard that takes no work drops the sender, which is an answer too.
        let _ = self.0[index].shard.spawn(move || async move {
            let buffers = io::pool().stats();
            tx.send(ShardStatus {
                answers: true,
                cpu_ms: u64::try_from(io::linux::thread_cpu_time().as_millis()).unwrap_or(u64::MAX),
                turns: io::runtime::turns(),
                buffer_limit: buffers.limit,
                buffer_used: buffers.used,
                buffer_idle: buffers.idle,
                buffer_waiting: buffers.waiting,
                ..ShardStatus::default()
            });
        });
        rx
    }

    /// Ends every thread, and drops its tasks. Called from outside of the shards.
    pub fn stop(&self) {
        self.0.iter().for_each(|s| s.shard.stop());
    }
}
