//! Places of the console's connections.
//!
//! **Owns** the table of connections. **Called by** [`super::listener`]. **Invariants**: at most a fixed number of connections; while all
//! places are taken, a new connection ends the oldest one that has not carried a request of a logged-in browser, so that strangers
//! take no places of users; if all have, it waits in the kernel's backlog.

use io::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// The place of one connection.
#[derive(Default)]
pub(crate) struct Place {
    known: AtomicBool,
    /// The connection has ended. Changes under the table's lock.
    ended: AtomicBool,
}

impl Place {
    /// The connection carries requests of a logged-in browser.
    pub(super) fn set_known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Table {
    next: u64,
    /// By number: the oldest first.
    all: BTreeMap<u64, (Arc<Place>, AbortHandle)>,
}

/// All connections.
pub(super) struct Connections {
    places: Arc<Semaphore>,
    table: Arc<Mutex<Table>>,
}

impl Connections {
    pub(super) fn new(max: usize) -> Connections {
        Connections {
            places: Arc::new(Semaphore::new(max)),
            table: Arc::default(),
        }
    }

    /// Waits for a place. A stranger's connection ends for it.
    pub(super) async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        if self.places.available_permits() == 0
            && let Some(stranger) = self.oldest_stranger()
        {
            stranger.abort();
        }
        // The semaphore is never closed.
        self.places.clone().acquire_owned().await.ok()
    }

    fn oldest_stranger(&self) -> Option<AbortHandle> {
        let table = lock(&self.table);
        let mut all = table.all.values();
        let (_, task) = all.find(|(place, _)| !place.known.load(Ordering::Relaxed))?;
        Some(task.clone())
    }

    /// Starts the task of a connection, which has its place until it ends.
    pub(super) fn start<F: Future<Output = ()> + Send + 'static>(
        &self,
        slot: Option<OwnedSemaphorePermit>,
        work: impl FnOnce(Arc<Place>) -> F,
    ) {
        let place = Arc::new(Place::default());
        let number = {
            let mut table = lock(&self.table);
            table.next += 1;
            table.next
        };
        let work = work(place.clone());
        let leave = Leave(self.table.clone(), number, place.clone());
        // The lock is free here: a runtime that ends drops the task, and its `Leave`, at once.
        let task = tokio::spawn(async move {
            let _slot = slot;
            let _leave = leave;
            work.await;
        });
        let mut table = lock(&self.table);
        if !place.ended.load(Ordering::Relaxed) {
            let handle = task.abort_handle();
            table.all.insert(number, (place, handle));
        }
    }
}

/// Removes a connection from the table, also when its task is aborted.
struct Leave(Arc<Mutex<Table>>, u64, Arc<Place>);

impl Drop for Leave {
    fn drop(&mut self) {
        let mut table = lock(&self.0);
        self.2.ended.store(true, Ordering::Relaxed);
        table.all.remove(&self.1);
    }
}
