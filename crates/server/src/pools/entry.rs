//! State of a pool in the server.
//!
//! **Owns** the tasks of a pool: dropped with its entry, they end. **Called by** the server and the changes of pools.

use super::notes::Notes;
use crate::api;
use io::JoinHandle;
use io::sync::Notify;
use pool::Pool;
use pool::format::{DatasetKind, SpareGuid, VdevId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// The shown list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownDamage {
    pub(crate) damage: Vec<api::Damage>,
    pub(crate) more: bool,
}

/// Shown state of a running resilver.
pub(crate) type ShownResilver = Rc<RefCell<Option<api::Resilver>>>;

/// The disk of a spare, when it was last looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparePlace {
    /// Its path; `None` if it was not found.
    pub(crate) path: Option<PathBuf>,
    /// Why it is not available, though it was found or another pool has it.
    pub(crate) reason: Option<String>,
    /// The pool that uses it, if it is another one.
    pub(crate) in_pool: Option<String>,
}

/// The places of a pool's spares.
pub(crate) type SparePlaces = BTreeMap<SpareGuid, SparePlace>;

/// State of a pool.
pub(crate) enum PoolState {
    /// It is being opened for the first time.
    Opening,
    /// It is open.
    Online(Rc<Pool>),
    /// It could not be opened, for this reason; the server tries again periodically.
    Held(String),
}

/// A vdev, as upkeep saw it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenVdev {
    pub(super) name: String,
    pub(super) disks: Vec<PathBuf>,
}

/// The vdevs of a pool, as they were seen last.
pub(super) type SeenVdevs = Rc<RefCell<BTreeMap<VdevId, SeenVdev>>>;

/// A pool and its supervisor task.
pub(crate) struct PoolEntry {
    pub(crate) state: PoolState,
    /// While it is open.
    pub(crate) notes: Option<Rc<Notes>>,
    /// Wakes the supervisor.
    pub(super) wake: Rc<Notify>,
    pub(super) supervisor: JoinHandle<()>,
    pub(super) scrub: Option<JoinHandle<()>>,
    pub(super) trim: Option<JoinHandle<()>>,
    pub(super) resilvering: Option<JoinHandle<()>>,
    /// Unreadable ranges.
    pub(crate) damage: ShownDamage,
    /// The member that is being resilvered.
    pub(crate) resilver: ShownResilver,
    /// Its vdevs, as they were seen last.
    pub(super) vdevs: SeenVdevs,
    /// Where its spares are.
    pub(crate) spares: SparePlaces,
    /// Why cache devices of the configuration are not open, by path.
    pub(crate) caches: BTreeMap<PathBuf, String>,
    /// Whether a spare was taken or given back since its spares were looked for.
    pub(crate) spares_moved: bool,
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        self.supervisor.abort();
        let tasks = [&self.scrub, &self.trim, &self.resilvering];
        for task in tasks.into_iter().flatten() {
            task.abort();
        }
    }
}

/// The name of a volume among the disks.
pub(crate) fn full_name(pool: &str, volume: &str) -> String {
    format!("{pool}/{volume}")
}

/// The volumes of a pool, then its filesystems, without snapshots.
pub(crate) fn datasets_of(pool: &Pool) -> impl Iterator<Item = pool::Volume> {
    volumes_of(pool).into_iter().chain(filesystems_of(pool))
}

/// The filesystems of a pool, without snapshots.
pub(crate) fn filesystems_of(pool: &Pool) -> Vec<pool::Volume> {
    let mut filesystems = pool.volumes();
    filesystems.retain(|f| f.dataset().kind == DatasetKind::Filesystem);
    filesystems
}

/// The volumes of a pool, without snapshots.
pub(crate) fn volumes_of(pool: &Pool) -> Vec<pool::Volume> {
    let mut volumes = pool.volumes();
    volumes.retain(|v| v.dataset().kind == DatasetKind::Volume);
    volumes
}
