//! Volumes and snapshots of an open pool, by number, by name, and by lineage.
//!
//! **Owns** the indexes: names of volumes, names and births of snapshots by volume, clones by
//! origin. **Called by** the other parts of the owner, which reach a dataset only through here. **Invariants**: each index agrees
//! with the properties of the datasets, because properties that are indexed change only through [`Datasets::set`]; a
//! question costs the size of its answer, not the number of datasets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::format::{Birth, Dataset, TreeId};
use crate::volume::Volume;

const FIRST_ID: TreeId = TreeId(0);
const LAST_ID: TreeId = TreeId(u64::MAX);
const LAST_BIRTH: Birth = Birth(u64::MAX);

/// See the module header.
#[derive(Default)]
pub(super) struct Datasets {
    by_id: BTreeMap<TreeId, Volume>,
    /// Volumes without snapshots.
    volumes: BTreeMap<String, TreeId>,
    /// By the volume that they are of, and their name.
    snapshots: BTreeMap<(TreeId, String), TreeId>,
    /// By the volume that they are of, then in order of birth.
    lineage: BTreeSet<(TreeId, Birth, TreeId)>,
    /// By origin.
    clones: BTreeSet<(TreeId, TreeId)>,
}

impl Datasets {
    pub(super) fn insert(&mut self, volume: Volume) {
        let id = volume.0.id;
        self.index(id, &volume.dataset());
        self.by_id.insert(id, volume);
    }

    pub(super) fn remove(&mut self, id: TreeId) {
        if let Some(volume) = self.by_id.remove(&id) {
            self.unindex(id, &volume.dataset());
        }
    }

    /// Gives a dataset other properties. The caller has them in the journal.
    pub(super) fn set(&mut self, id: TreeId, dataset: Dataset) {
        let Some(volume) = self.by_id.get(&id).cloned() else {
            return;
        };
        self.unindex(id, &volume.dataset());
        self.index(id, &dataset);
        volume.set_dataset(dataset);
    }

    pub(super) fn get(&self, id: TreeId) -> Option<&Volume> {
        self.by_id.get(&id)
    }

    pub(super) fn contains(&self, id: TreeId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// All volumes and snapshots, by number.
    pub(super) fn all(&self) -> impl Iterator<Item = &Volume> {
        self.by_id.values()
    }

    /// The volume of this name.
    pub(super) fn volume(&self, name: &str) -> Option<&Volume> {
        self.get(*self.volumes.get(name)?)
    }

    /// The snapshot of this name of a volume.
    pub(super) fn snapshot(&self, of: TreeId, name: &str) -> Option<&Volume> {
        self.get(*self.snapshots.get(&(of, name.to_owned()))?)
    }

    /// The snapshots of a volume that were born within `births`, oldest first.
    pub(super) fn born(
        &self,
        of: TreeId,
        births: RangeInclusive<Birth>,
    ) -> impl DoubleEndedIterator<Item = &Volume> {
        let from = (of, *births.start(), FIRST_ID);
        let found = self.lineage.range(from..=(of, *births.end(), LAST_ID));
        found.filter_map(|(.., id)| self.get(*id))
    }

    /// The snapshots of a volume, oldest first.
    pub(super) fn snapshots(&self, of: TreeId) -> impl DoubleEndedIterator<Item = &Volume> {
        self.born(of, Birth(0)..=LAST_BIRTH)
    }

    /// The number of the newest snapshot of a volume.
    pub(super) fn newest_snapshot(&self, of: TreeId) -> Option<TreeId> {
        self.snapshots(of).next_back().map(|v| v.0.id)
    }

    /// The clones of a snapshot, by number.
    pub(super) fn clones(&self, origin: TreeId) -> impl Iterator<Item = &Volume> {
        let found = self.clones.range((origin, FIRST_ID)..=(origin, LAST_ID));
        found.filter_map(|(_, id)| self.get(*id))
    }

    fn index(&mut self, id: TreeId, dataset: &Dataset) {
        match dataset.of {
            Some(of) => {
                self.lineage.insert((of, dataset.birth, id));
                self.snapshots.insert((of, dataset.name.clone()), id);
            }
            None => drop(self.volumes.insert(dataset.name.clone(), id)),
        }
        self.clones
            .extend(dataset.origin.map(|origin| (origin, id)));
    }

    fn unindex(&mut self, id: TreeId, dataset: &Dataset) {
        match dataset.of {
            Some(of) => {
                self.lineage.remove(&(of, dataset.birth, id));
                self.snapshots.remove(&(of, dataset.name.clone()));
            }
            None => drop(self.volumes.remove(&dataset.name)),
        }
        if let Some(origin) = dataset.origin {
            self.clones.remove(&(origin, id));
        }
    }
}
