//! The snapshots of an open filesystem, as its directory `.zfs/snapshot` needs them.
//!
//! **Owns** a list that any shard may read. **Called by** [`SnapshotDirectory`](pool::filesystem::SnapshotDirectory).
//! **Invariants**: the server renews the list after each change of snapshots, before the change is answered; a snapshot's number
//! in handles is its GUID, so that handles survive a restart.

use backend::file::{FileError, FileResult, Name, Timestamp};
use io::sync::lock;
use pool::filesystem::{FileSystem, SnapshotEntry, SnapshotVisibility, Snapshots};
use pool::format::{DatasetProperty, Switches};
use pool::{FileStore, Pool};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// The snapshots of one filesystem. Clones share the list.
#[derive(Clone)]
pub(crate) struct PoolSnapshots {
    live: FileStore,
    listed: Arc<Mutex<Listed>>,
}

#[derive(Default)]
struct Listed {
    /// Time of the last change, ns since 1970, or one more than the change before.
    change: u64,
    by_number: BTreeMap<u64, Listing>,
}

struct Listing {
    entry: SnapshotEntry,
    store: FileStore,
}

impl PoolSnapshots {
    /// An empty list of a filesystem's snapshots.
    pub(super) fn of(live: FileStore) -> Self {
        let listed = Arc::default();
        Self { live, listed }
    }

    /// The properties of the filesystem with two values.
    pub(super) fn switches(&self) -> Switches {
        self.live.switches()
    }

    /// Renews the list. `filesystem` is a name within the pool.
    pub(super) fn renew(&self, pool: &Pool, filesystem: &str) {
        let names = pool.snapshots(filesystem).into_iter();
        let listing = |name: String| {
            let store = pool.filesystem_snapshot(filesystem, &name)?;
            let (number, id) = (store.number(), store.dataset().guid);
            let name = Name::new(name.as_bytes()).ok()?;
            let entry = SnapshotEntry { name, id, number };
            Some((number, Listing { entry, store }))
        };
        let found: BTreeMap<u64, Listing> = names
            .filter_map(|snapshot| listing(snapshot.dataset().name))
            .collect();
        let entries = |of: &BTreeMap<u64, Listing>| -> Vec<SnapshotEntry> {
            of.values().map(|l| l.entry.clone()).collect()
        };
        let mut listed = lock(&self.listed);
        if listed.change == 0 || entries(&found) != entries(&listed.by_number) {
            let now = io::time::wall_clock_ms() * 1_000_000;
            listed.change = now.max(listed.change + 1);
            listed.by_number = found;
        }
    }
}

impl Snapshots for PoolSnapshots {
    type Files = FileSystem<FileStore>;

    fn visibility(&self) -> SnapshotVisibility {
        match self.switches().has(DatasetProperty::Snapdir) {
            true => SnapshotVisibility::Visible,
            false => SnapshotVisibility::Hidden,
        }
    }

    fn last_change(&self) -> (u64, Timestamp) {
        let change = lock(&self.listed).change;
        (change, Timestamp(change as i64))
    }

    fn list(&self, after: u64, max: usize) -> Vec<SnapshotEntry> {
        let listed = lock(&self.listed);
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let found = listed.by_number.range(behind).take(max);
        found.map(|(_, l)| l.entry.clone()).collect()
    }

    fn by_name(&self, name: &Name) -> Option<SnapshotEntry> {
        let listed = lock(&self.listed);
        let mut all = listed.by_number.values().map(|l| &l.entry);
        all.find(|e| e.name == *name).cloned()
    }

    fn exists(&self, id: u64) -> bool {
        let listed = lock(&self.listed);
        listed.by_number.values().any(|l| l.entry.id == id)
    }

    async fn open(&self, id: u64) -> FileResult<Self::Files> {
        let store = {
            let listed = lock(&self.listed);
            let found = listed.by_number.values().find(|l| l.entry.id == id);
            found.map(|l| l.store.clone())
        };
        FileSystem::open(store.ok_or(FileError::Stale)?, id).await
    }
}
