//! The supervisor of a pool: opens it, repeatedly if necessary, and watches it while it is open.
//!
//! **Called by** the start and by changes of pools. **Invariants**: it ends with the pool's entry.

use super::creation::Unfinished;
use super::entry::SeenVdevs;
use super::filesystems::remove_leftovers;
use super::recover::open_configured;
use super::search::Changed;
use crate::limits::{DISK_REFRESH, DISK_RETRY};
use crate::server::Server;
use io::sync::Notify;
use io::time::Instant;
use pool::format::{CacheGuid, MemberGuid, VdevId};
use pool::vdev::MemberState;
use pool::{ExpansionWait, RemovalWait};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// State of a member at the last check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) state: MemberState,
    pub(super) errors: u64,
    pub(super) has_no_space: bool,
}

/// State of a pool's supervisor.
pub(super) struct Supervisor {
    pub(super) server: Rc<Server>,
    pub(super) name: String,
    pub(super) wake: Rc<Notify>,
    /// State of each member at the last check.
    pub(super) seen: RefCell<BTreeMap<MemberGuid, Seen>>,
    /// Number of times that each member was brought online after a fault.
    pub(super) returns: RefCell<BTreeMap<MemberGuid, u32>>,
    /// State of the search directories when a missing member was last looked for in them.
    pub(super) searched: RefCell<Option<Changed>>,
    /// Expansions at the last check, and whether each had to wait.
    pub(super) expanding: RefCell<BTreeMap<VdevId, Option<ExpansionWait>>>,
    /// The vdevs at the last check.
    pub(super) vdevs: SeenVdevs,
    /// The vdev whose removal waited at the last check, and the reason.
    pub(super) removal_waits: Cell<Option<(VdevId, RemovalWait)>>,
    /// Since when each member that failed has done so.
    pub(super) failed: RefCell<BTreeMap<MemberGuid, Instant>>,
    /// Bytes that the special class had no room for until the last check; and whether an event reported that, and it has had no room since.
    pub(super) spilled: Cell<(u64, bool)>,
    /// Cache devices that were out at the last check.
    pub(super) out: RefCell<BTreeSet<CacheGuid>>,
    /// When spares were last looked for, and the state of the search directories then.
    pub(super) looked: RefCell<Option<(Instant, Changed)>>,
}

impl Supervisor {
    /// Runs until the pool's entry is removed: opens the pool, then supervises it.
    pub(super) async fn run(self, opened: Rc<Notify>) {
        loop {
            if let Some(pool) = self.server.open_pool(&self.name) {
                opened.notify();
                if let Ok(notes) = self.server.notes_of(&self.name) {
                    self.round(&pool, &notes).await;
                }
                drop(pool);
                let _woken = io::timeout(DISK_REFRESH, self.wake.notified()).await;
                continue;
            }
            let (server, name) = (&self.server, &self.name);
            let Some(config) = server.state.borrow().file.config().pool(name).cloned() else {
                return;
            };
            let unfinished = server.forget_unfinished(&config).await;
            if let Unfinished::Forgotten = unfinished {
                opened.notify();
                // The entry owns this task, which another one ends.
                let (server, name) = (server.clone(), name.clone());
                drop(io::spawn(async move { drop(server.forget_pool(&name)) }));
                return;
            }
            let result = match open_configured(server, &config).await {
                Ok(pool) => {
                    if let Unfinished::LacksSpares(spares) = unfinished {
                        server.finish_spares(name, &pool, &spares).await;
                        server.end_creation(name).await;
                    }
                    let notes = server.load_notes(&pool).await;
                    remove_leftovers(&pool).await;
                    Ok((pool, notes))
                }
                Err(reason) => Err(reason),
            };
            let failed = result.is_err();
            server.pool_opened(name, result);
            server.update_holds();
            opened.notify();
            if failed {
                io::time::sleep(DISK_RETRY).await;
            }
        }
    }
}
