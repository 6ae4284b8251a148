//! Pools of the configuration, open, and their volumes as disks.
//!
//! **Owns** the state of each pool and its opening. **Called by** [`crate::server`] and the live changes of pools and
//! volumes. **Invariants**: a pool lives on the first shard; its volumes are disks named `POOL/VOLUME` from when it is
//! open; a pool that cannot be opened holds back the exports of its volumes alone, and is tried again.

mod change;
mod lineage;
mod open;
mod snapshots;
mod view;
mod volumes;

pub(crate) use open::host;

use crate::disks::DiskState;
use crate::limits::{DISK_REFRESH, DISK_RETRY, FLUSH_MAX};
use crate::server::{DiskEntry, Server};
use io::JoinHandle;
use io::sync::Notify;
use pool::Pool;
use pool::format::DatasetClass;
use std::rc::Rc;
use std::sync::Arc;

/// Where a pool is in its life.
pub(crate) enum PoolState {
    /// Its first opening is under way.
    Opening,
    /// It is open.
    Online(Rc<Pool>),
    /// It could not be opened, for this reason; it is tried again from time to time.
    Held(String),
}

/// A pool and the task that keeps it.
pub(crate) struct PoolEntry {
    pub(crate) state: PoolState,
    keeper: JoinHandle<()>,
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// The name of a volume among the disks.
pub(crate) fn full_name(pool: &str, volume: &str) -> String {
    format!("{pool}/{volume}")
}

/// The volumes of a pool, without snapshots.
pub(crate) fn volumes_of(pool: &Pool) -> Vec<pool::Volume> {
    let mut volumes = pool.volumes();
    volumes.retain(|v| v.dataset().class == DatasetClass::Volume);
    volumes
}

impl Server {
    /// Starts to keep a pool of the configuration: to open it, again and again if need be. The answer is notified
    /// after the first opening.
    pub(crate) fn keep_pool(self: &Rc<Self>, name: &str) -> Rc<Notify> {
        let opened = Rc::new(Notify::new());
        let keeper = io::spawn(keep_pool(self.clone(), name.to_owned(), opened.clone()));
        let state = PoolState::Opening;
        let entry = PoolEntry { state, keeper };
        self.state.borrow_mut().pools.insert(name.to_owned(), entry);
        opened
    }

    /// Keeps a pool that is open already.
    pub(crate) fn keep_open_pool(self: &Rc<Self>, name: &str, pool: Pool) {
        let opened = Rc::new(Notify::new());
        let keeper = io::spawn(keep_pool(self.clone(), name.to_owned(), opened));
        let state = PoolState::Opening;
        let entry = PoolEntry { state, keeper };
        self.state.borrow_mut().pools.insert(name.to_owned(), entry);
        self.pool_opened(name, Ok(pool));
    }

    fn pool_opened(self: &Rc<Self>, name: &str, result: Result<Pool, String>) {
        let held = {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.pools.get_mut(name) else {
                return;
            };
            match result {
                Ok(pool) => {
                    tracing::info!(pool = name, "open");
                    entry.state = PoolState::Online(Rc::new(pool));
                    None
                }
                Err(reason) => {
                    if !matches!(&entry.state, PoolState::Held(old) if *old == reason) {
                        tracing::warn!(
                            pool = name,
                            reason,
                            "held back, with its exports; tried again from time to time"
                        );
                    }
                    entry.state = PoolState::Held(reason.clone());
                    Some(reason)
                }
            }
        };
        let reason = match held {
            Some(reason) => format!("the pool {name:?} is held back: {reason}"),
            None => {
                let pool = self.open_pool(name);
                for v in pool.iter().flat_map(|p| volumes_of(p)) {
                    let full = full_name(name, &v.dataset().name);
                    self.keep(&full, Some(Arc::new(v)));
                }
                format!("the pool {name:?} has no such volume")
            }
        };
        self.hold_volumes(name, &reason);
    }

    /// Gives every exported volume of a pool that is not there its reason.
    fn hold_volumes(&self, pool: &str, reason: &str) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let subsystems = &state.file.config().subsystems;
        let exported = subsystems.iter().flat_map(|s| &s.namespaces);
        for n in exported {
            let ours = n.disk.split_once('/').is_some_and(|(p, _)| p == pool);
            let online = state
                .disks
                .get(&n.disk)
                .is_some_and(|d| matches!(d.state, DiskState::Online(_)));
            if ours && !online {
                let state_of = DiskState::Held(reason.to_owned());
                let entry = DiskEntry {
                    state: state_of,
                    keeper: None,
                };
                state.disks.insert(n.disk.clone(), entry);
            }
        }
    }

    /// The pool of that name, if it is open.
    pub(crate) fn open_pool(&self, name: &str) -> Option<Rc<Pool>> {
        match &self.state.borrow().pools.get(name)?.state {
            PoolState::Online(pool) => Some(pool.clone()),
            _ => None,
        }
    }

    /// Takes a pool from those that are kept, with its volumes.
    fn forget_pool(&self, name: &str) -> Option<Rc<Pool>> {
        let pool = self.open_pool(name);
        let mut state = self.state.borrow_mut();
        state.pools.remove(name);
        state
            .disks
            .retain(|disk, _| disk.split_once('/').is_none_or(|(p, _)| p != name));
        pool
    }

    /// Closes every pool, after what used them has ended. What did not end well.
    pub(crate) async fn close_pools(&self) -> Vec<String> {
        let mut failures = Vec::new();
        // A change under way has its pool in hand.
        let turn = io::timeout(FLUSH_MAX, self.changing.acquire(1)).await;
        let names: Vec<String> = self.state.borrow().pools.keys().cloned().collect();
        for name in names {
            let Some(pool) = self.forget_pool(&name) else {
                continue;
            };
            let closed = match Rc::try_unwrap(pool) {
                Ok(pool) => io::timeout(FLUSH_MAX, pool.close()).await,
                Err(_) => {
                    failures.push(format!("the pool {name:?} is in use and was not closed"));
                    continue;
                }
            };
            match closed {
                Ok(Ok(())) => tracing::info!(pool = name, "closed"),
                Ok(Err(e)) => failures.push(format!("the pool {name:?} could not be closed: {e}")),
                Err(_) => failures.push(format!("the pool {name:?} was not closed in time")),
            }
        }
        drop(turn);
        failures
    }
}

/// Brings sides that missed something, and are there, up to date.
async fn resilver(name: &str, pool: &Pool) {
    if pool.vdevs().stale_sides().is_empty() {
        return;
    }
    tracing::info!(pool = name, "resilvering");
    match pool.resilver().await {
        Ok(copied) => tracing::info!(pool = name, copied, "resilvered"),
        Err(error) => tracing::warn!(pool = name, %error, "not resilvered; tried again"),
    }
}

/// The life of one pool: opened; it ends with its entry.
async fn keep_pool(server: Rc<Server>, name: String, opened: Rc<Notify>) {
    loop {
        if let Some(pool) = server.open_pool(&name) {
            opened.notify();
            resilver(&name, &pool).await;
            drop(pool);
            io::time::sleep(DISK_REFRESH).await;
            continue;
        }
        let Some(config) = server.state.borrow().file.config().pool(&name).cloned() else {
            return;
        };
        let result = open::open_configured(&config, &server.host).await;
        let failed = result.is_err();
        server.pool_opened(&name, result);
        opened.notify();
        if failed {
            io::time::sleep(DISK_RETRY).await;
        }
    }
}
