//! Durable records of clients with state (§8.4.2.1, §8.4.3).
//!
//! **Owns** [`Records`]: changes of the records that are not on stable storage yet. **Called by** the operations that grant state,
//! and whenever a client loses its state. **Invariants**: changes reach the store in their order. An operation that granted state
//! settles the records before it is answered: the record of its own client is on stable storage then, and the records of clients
//! that lost their state before are gone, so that after a restart no client reclaims state that another client had in between.

use crate::wire::Status;
use io::sync::lock;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Keeps the owners of clients that have state across restarts. Calls block.
pub trait ClientStore: Send + Sync + fmt::Debug {
    /// Stores a client owner durably; it may be there already.
    fn keep(&self, owner: &[u8]) -> std::io::Result<()>;

    /// Removes a client owner durably; it may be gone already.
    fn forget(&self, owner: &[u8]) -> std::io::Result<()>;
}

/// Keeps nothing: after a restart no client reclaims its state.
#[derive(Debug)]
pub struct NoClientStore;

impl ClientStore for NoClientStore {
    fn keep(&self, _owner: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn forget(&self, _owner: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

/// A change of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordChange {
    /// This client owner has state.
    Keep(Vec<u8>),
    /// This client owner has none any more.
    Forget(Vec<u8>),
}

/// The records.
pub(crate) struct Records {
    store: Arc<dyn ClientStore>,
    queue: Mutex<VecDeque<RecordChange>>,
    /// Changes that are not on stable storage.
    unsettled: AtomicUsize,
    applying: Mutex<()>,
}

impl Records {
    pub(crate) fn new(store: Arc<dyn ClientStore>) -> Self {
        Self {
            store,
            queue: Mutex::default(),
            unsettled: AtomicUsize::new(0),
            applying: Mutex::default(),
        }
    }

    /// A change is to be stored.
    pub(crate) fn push(&self, change: RecordChange) {
        let mut queue = lock(&self.queue);
        queue.push_back(change);
        self.unsettled.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until all changes are on stable storage. Errors: `Delay` if that fails; the changes are tried again next time.
    pub(crate) async fn store(self: &Arc<Self>) -> Result<(), Status> {
        if self.unsettled.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let records = self.clone();
        let applied = io::blocking(move || records.apply()).await;
        let reason = match applied {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(e)) => e.to_string(),
            Err(e) => e.to_string(),
        };
        tracing::error!(reason, "NFS clients wait: their records cannot be stored");
        Err(Status::Delay)
    }

    fn apply(&self) -> std::io::Result<()> {
        let _one_at_a_time = lock(&self.applying);
        loop {
            let Some(next) = lock(&self.queue).front().cloned() else {
                return Ok(());
            };
            match &next {
                RecordChange::Keep(owner) => self.store.keep(owner)?,
                RecordChange::Forget(owner) => self.store.forget(owner)?,
            }
            lock(&self.queue).pop_front();
            self.unsettled.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
