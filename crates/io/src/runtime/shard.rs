//! Shards: threads with a runtime each, to which other threads can send work.
//!
//! **Called by** the server, which distributes connections over shards, and by the lab's jobs.
//! **Invariants**: a shard ends when its last [`Shard`] handle is dropped or when it is stopped; work sent after that is
//! refused with an error.

use super::{Polled, Remote, Runtime, RuntimeConfig, current, spawn};
use crate::sync::mailbox::{self, Mailbox};
use crate::{Error, Result};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

/// Most pieces of work in the queue of one shard.
const WORK_MAX: usize = 65_536;

/// Configuration of a shard.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// The thread's name (15 bytes are shown).
    pub name: String,
    /// The processor to pin the thread to; `None` for no pinning.
    pub cpu: Option<usize>,
    /// Configuration of its runtime.
    pub runtime: RuntimeConfig,
}

/// A handle to a thread with a runtime. Clones share it.
#[derive(Clone)]
pub struct Shard {
    work: mailbox::Sender<Work>,
    thread: Arc<Mutex<Option<thread::JoinHandle<()>>>>,
    remote: Arc<Remote>,
}

impl Shard {
    /// Starts a thread with a runtime. Errors: those of [`Runtime::new`].
    pub fn start(config: ShardConfig) -> Result<Shard> {
        let (tx, rx) = mailbox::channel::<Work>(WORK_MAX);
        let (ready_tx, ready_rx) = std::sync::mpsc::channel();
        let thread = thread::Builder::new()
            .name(config.name.clone())
            .spawn(move || {
                if let Some(cpu) = config.cpu {
                    crate::linux::pin_to(cpu);
                }
                match Runtime::new(config.runtime) {
                    Ok(rt) => {
                        let _ = ready_tx.send(Ok(rt.shared.tasks.remote()));
                        rt.block_on(serve(rx));
                    }
                    Err(e) => {
                        let _ = ready_tx.send(Err(e));
                    }
                }
            })?;
        let remote = ready_rx.recv().map_err(|_| Error::Cancelled)??;
        Ok(Shard {
            work: tx,
            thread: Arc::new(Mutex::new(Some(thread))),
            remote,
        })
    }

    /// A shard handle of the present runtime: work is spawned on it. Used by the simulator.
    #[must_use]
    pub fn here() -> Shard {
        let (tx, rx) = mailbox::channel::<Work>(WORK_MAX);
        drop(spawn(serve(rx)));
        Shard {
            work: tx,
            thread: Arc::default(),
            remote: current().tasks.remote(),
        }
    }

    /// Creates a shard of a simulated machine.
    #[cfg(feature = "sim")]
    pub(crate) fn simulated(node: super::NodeId) -> Shard {
        let (tx, rx) = mailbox::channel::<Work>(WORK_MAX);
        drop(current().tasks.spawn_on_new_shard(node, serve(rx)));
        Shard {
            work: tx,
            thread: Arc::default(),
            remote: current().tasks.remote(),
        }
    }

    /// Starts a task on the shard: `make` is sent to it and creates the future there. Errors: `Cancelled` if the shard has
    /// ended, `Exhausted` if its queue is full.
    pub fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<()> {
        self.work.send(Box::new(move || drop(spawn(make()))))
    }

    /// What the shard's runtime had done just now. Called on any thread, also while the shard hangs.
    #[must_use]
    pub fn progress(&self) -> Polled {
        self.remote.progress()
    }

    /// Refuses further work, drops the shard's tasks and waits for its thread.
    pub fn stop(&self) {
        self.work.close();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(t) = thread {
            // A panic aborts the process, so a join cannot fail.
            let _ = t.join();
        }
    }
}

async fn serve(work: Mailbox<Work>) {
    while let Some(w) = work.recv().await {
        w();
    }
}
