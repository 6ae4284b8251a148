//! Pools of the configuration, and their volumes as disks.
//!
//! **Owns** the state of each pool and its opening. **Called by** [`crate::server`] and the live changes of pools and
//! volumes. **Invariants**: a pool lives on the first shard; its volumes are disks named `POOL/VOLUME` while it is
//! open; a pool that cannot be opened holds back only the exports of its volumes, and is tried again.

mod caches;
mod change;
mod convert;
mod creation;
mod damage;
mod dependents;
pub(crate) mod entry;
pub(crate) mod events;
pub(crate) mod filesystems;
mod history;
mod import;
mod layout;
mod lineage;
mod members;
mod names;
mod new_disks;
mod notes;
pub(crate) mod open;
mod places;
mod properties;
mod rate;
mod recover;
pub(crate) mod registry;
mod removal;
mod resilver;
mod scrub;
mod search;
mod sizes;
mod snapshots;
mod spare_policy;
mod spares;
mod supervisor;
mod trim;
mod upkeep;
mod vdevs;
mod view;
mod volumes;
mod warnings;
mod witness;
mod writes;

pub(crate) use history::Change;
pub(crate) use notes::directory as notes_directory;

use crate::config::split_volume;
use crate::limits::FLUSH_MAX;
use crate::server::Server;
use crate::{Error, Result};
use io::sync::Notify;
use pool::Pool;
use pool::format::PoolGuid;
use pool::vdev::Witness;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use entry::{PoolEntry, PoolState, SeenVdevs, ShownDamage, full_name, volumes_of};
use notes::Notes;
use supervisor::Supervisor;
use witness::EpochFile;

/// Result of opening a pool: the pool with its stored notes, or the reason of the failure, for people.
type Opening = std::result::Result<(Pool, Rc<Notes>), String>;

impl Server {
    /// Starts the supervisor of a pool of the configuration, which opens it, repeatedly if necessary. The answer is
    /// notified after the first opening.
    pub(crate) fn keep_pool(self: &Rc<Self>, name: &str) -> Rc<Notify> {
        let opened = Rc::new(Notify::new());
        self.insert_pool(name, opened.clone());
        opened
    }

    /// Starts the supervisor of a pool that is open already.
    async fn keep_open_pool(self: &Rc<Self>, name: &str, pool: Pool) {
        let notes = self.load_notes(&pool).await;
        filesystems::remove_leftovers(&pool).await;
        self.insert_pool(name, Rc::new(Notify::new()));
        self.pool_opened(name, Ok((pool, notes)));
    }

    fn insert_pool(self: &Rc<Self>, name: &str, opened: Rc<Notify>) {
        let wake = Rc::new(Notify::new());
        let vdevs = SeenVdevs::default();
        let supervisor = Supervisor {
            server: self.clone(),
            name: name.to_owned(),
            wake: wake.clone(),
            seen: RefCell::default(),
            returns: RefCell::default(),
            searched: RefCell::default(),
            expanding: RefCell::default(),
            vdevs: vdevs.clone(),
            removal_waits: Cell::default(),
            failed: RefCell::default(),
            looked: RefCell::default(),
            spilled: Cell::default(),
            out: RefCell::default(),
        };
        let running = supervisor.run(opened);
        let entry = PoolEntry {
            state: PoolState::Opening,
            notes: None,
            wake,
            supervisor: io::spawn(running),
            scrub: None,
            trim: None,
            resilvering: None,
            damage: ShownDamage::default(),
            resilver: Rc::default(),
            vdevs,
            spares: entry::SparePlaces::default(),
            caches: BTreeMap::new(),
            spares_moved: false,
        };
        let mut state = self.state.borrow_mut();
        state.pools.insert(name, entry);
    }

    async fn load_notes(&self, pool: &Pool) -> Rc<Notes> {
        let dir = self.state_dir();
        Rc::new(Notes::load(dir.as_deref(), pool.vdevs().pool()).await)
    }

    /// Directory of state stored outside of pools; none in a simulated server.
    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        let state = self.state.borrow();
        let dir = || state.file.config().server.state_dir.clone();
        state.file.is_stored().then(dir)
    }

    /// The record of the last labels of a pool.
    async fn witness(&self, pool: PoolGuid) -> Option<Arc<dyn Witness>> {
        let witness = EpochFile::of(self.state_dir().as_deref(), pool).await?;
        Some(witness)
    }

    /// Deletes the state stored for a removed pool.
    async fn forget_files(&self, pool: PoolGuid) {
        let Some(dir) = self.state_dir() else { return };
        let gone = io::blocking(move || notes::remove(&dir, pool)).await;
        if let Ok(Err(error)) = gone {
            tracing::warn!(%error, "saved state of a destroyed pool could not be deleted");
        }
    }

    /// The notes on an open pool. Errors: `NoPool`.
    fn notes_of(&self, name: &str) -> Result<Rc<Notes>> {
        let state = self.state.borrow();
        let notes = state.pools.get(name).and_then(|p| p.notes.clone());
        notes.ok_or_else(|| Error::NoPool(name.to_owned()))
    }

    /// Wakes the supervisor of a pool.
    fn wake_supervisor(&self, name: &str) {
        if let Some(entry) = self.state.borrow().pools.get(name) {
            entry.wake.notify();
        }
    }

    fn pool_opened(self: &Rc<Self>, name: &str, result: Opening) {
        let held = {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.pools.get_mut(name) else {
                return;
            };
            match result {
                Ok((pool, notes)) => {
                    pool.set_workers(self.shards.others());
                    damage::remember(&pool, &notes);
                    entry.notes = Some(notes);
                    entry.state = PoolState::Online(Rc::new(pool));
                    None
                }
                Err(reason) => {
                    let is_news = !matches!(&entry.state, PoolState::Held(old) if *old == reason);
                    entry.state = PoolState::Held(reason.clone());
                    Some((reason, is_news))
                }
            }
        };
        let reason = match held {
            Some((reason, is_news)) => {
                if is_news {
                    let text = format!("held back, with its exports: {reason}");
                    self.event(name, "pool.held", text);
                }
                format!("the pool {name:?} is held back: {reason}")
            }
            None => {
                self.event(name, "pool.open", "open".into());
                let pool = self.open_pool(name);
                if let Some(lost) = pool.as_ref().and_then(|pool| pool.lost_changes()) {
                    let lost = crate::api::LostChanges::from(lost);
                    self.event(name, "log.lost", lost.to_string());
                }
                for v in pool.iter().flat_map(|p| volumes_of(p)) {
                    let full = full_name(name, &v.dataset().name);
                    self.keep(&full, Some(Arc::new(v)));
                }
                self.start_scrub(name);
                self.start_trim(name);
                format!("the pool {name:?} has no such volume")
            }
        };
        self.hold_volumes(name, &reason);
        self.wake_mounts(name);
        self.wake_filesystem_exports(name);
        self.shares_changed();
    }

    /// Sets the reason for every exported volume of a pool that is not open.
    fn hold_volumes(&self, pool: &str, reason: &str) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let config = state.file.config();
        for disk in config.exported_disks() {
            let is_ours = split_volume(disk).is_some_and(|(p, _)| p == pool);
            if is_ours && state.disks.online(disk).is_none() {
                state.disks.hold_volume(disk, reason);
            }
        }
    }

    /// The pool of that name, if it is open.
    pub(crate) fn open_pool(&self, name: &str) -> Option<Rc<Pool>> {
        self.state.borrow().pools.open(name).cloned()
    }

    /// Removes a pool and its volumes from the state.
    fn forget_pool(&self, name: &str) -> Option<Rc<Pool>> {
        let pool = self.open_pool(name);
        let mut state = self.state.borrow_mut();
        state.pools.remove(name);
        state.disks.remove_volumes(name);
        pool
    }

    /// Closes every pool, after its users have ended. Returns the failures.
    pub(crate) async fn close_pools(&self) -> Vec<String> {
        let mut failures = Vec::new();
        // A change in progress holds its pool.
        let turn = io::timeout(FLUSH_MAX, self.changing.acquire(1)).await;
        let names = self.state.borrow().pools.names();
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
