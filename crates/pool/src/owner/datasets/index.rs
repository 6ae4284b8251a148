//! The datasets of an open pool: indexes by number, name and lineage, and the sets of datasets that have work.
//!
//! **Owns** the indexes: names of volumes, names and births of snapshots by volume, clones by origin, datasets by
//! deadlist; and the sets: volumes that changed since the last checkpoint, volumes whose account is out of date,
//! datasets that ask for the owner. **Called by** the other parts of the owner, which reach a dataset only through
//! here. **Invariants**: each index agrees with the properties of the datasets, because indexed properties change only
//! through [`Datasets::set`]; a question costs the size of its answer, not the number of datasets.
//! `docs/decisions/0127`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::dataset::OpenDataset;
use crate::format::{Birth, Dataset, ListId, TreeId};
use io::sync::lock;

const FIRST_ID: TreeId = TreeId(0);
const LAST_ID: TreeId = TreeId(u64::MAX);
const LAST_BIRTH: Birth = Birth(u64::MAX);

/// See the module header.
#[derive(Default)]
pub(in crate::owner) struct Datasets {
    by_id: BTreeMap<TreeId, Arc<OpenDataset>>,
    /// Volumes without snapshots.
    volumes: BTreeMap<String, TreeId>,
    /// Snapshots by volume and name.
    snapshots: BTreeMap<(TreeId, String), TreeId>,
    /// Deadlists of snapshots, by volume and then in order of birth.
    lineage: BTreeMap<(TreeId, Birth, TreeId), ListId>,
    /// Clones by origin.
    clones: BTreeSet<(TreeId, TreeId)>,
    /// Datasets by deadlist.
    lists: BTreeMap<ListId, TreeId>,
    /// Volumes that the next checkpoint must visit: they, or snapshots of them, have layers or need a root.
    changed: BTreeSet<TreeId>,
    /// Volumes whose lineage or size on disk changed since their account was last updated.
    unaccounted: BTreeSet<TreeId>,
    /// Datasets with dirty records, zeroed ranges, or demands.
    asking: BTreeSet<TreeId>,
    /// Number of changes of `special_small_blocks` in effect.
    small_changes: u64,
    /// Number of datasets handed out, for tests.
    #[cfg(test)]
    visits: std::cell::Cell<u64>,
}

impl Datasets {
    pub(in crate::owner) fn insert(&mut self, volume: Arc<OpenDataset>) {
        let id = volume.id;
        self.index(id, &volume.dataset());
        self.by_id.insert(id, volume);
    }

    pub(in crate::owner) fn remove(&mut self, id: TreeId) {
        if let Some(volume) = self.by_id.remove(&id) {
            self.unindex(id, &volume.dataset());
            self.changed.remove(&id);
            self.unaccounted.remove(&id);
            self.asking.remove(&id);
        }
    }

    /// Sets the properties of a dataset. The caller has them in the journal.
    pub(in crate::owner) fn set(&mut self, id: TreeId, dataset: Dataset) {
        let Some(volume) = self.by_id.get(&id).cloned() else {
            return;
        };
        let before = volume.dataset();
        self.small_changes +=
            u64::from(before.special_small_blocks != dataset.special_small_blocks);
        self.unindex(id, &before);
        self.index(id, &dataset);
        volume.set_dataset(dataset);
    }

    /// Number of changes of `special_small_blocks` in effect since the pool was opened.
    pub(in crate::owner) fn small_changes(&self) -> u64 {
        self.small_changes
    }

    pub(in crate::owner) fn get(&self, id: TreeId) -> Option<&Arc<OpenDataset>> {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
        self.by_id.get(&id)
    }

    pub(in crate::owner) fn contains(&self, id: TreeId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Whether this is a dataset of the pool, and not one that was destroyed.
    pub(in crate::owner) fn is_open(&self, dataset: &Arc<OpenDataset>) -> bool {
        self.get(dataset.id)
            .is_some_and(|open| Arc::ptr_eq(open, dataset))
    }

    /// All volumes and snapshots, by number.
    pub(in crate::owner) fn all(&self) -> impl Iterator<Item = &Arc<OpenDataset>> {
        #[cfg(test)]
        self.visits
            .update(|visits| visits + self.by_id.len() as u64);
        self.by_id.values()
    }

    /// All volumes, without snapshots.
    pub(in crate::owner) fn volumes(&self) -> impl Iterator<Item = &Arc<OpenDataset>> {
        self.volumes.values().filter_map(|id| self.get(*id))
    }

    /// The next checkpoint must visit a volume.
    pub(in crate::owner) fn mark_changed(&mut self, volume: TreeId) {
        self.changed.insert(volume);
    }

    /// Volumes that the next checkpoint must visit, by number.
    pub(in crate::owner) fn changed(&self) -> impl Iterator<Item = &Arc<OpenDataset>> {
        self.changed.iter().filter_map(|id| self.get(*id))
    }

    /// Takes the volumes that the checkpoint which begins now must visit.
    pub(in crate::owner) fn take_changed(&mut self) -> Vec<Arc<OpenDataset>> {
        let changed = self.changed().cloned().collect();
        self.changed.clear();
        changed
    }

    /// The account of a volume is out of date.
    pub(in crate::owner) fn mark_unaccounted(&mut self, volume: TreeId) {
        self.unaccounted.insert(volume);
    }

    /// The account of the volume that owns the blocks on a deadlist is out of date.
    pub(in crate::owner) fn mark_list(&mut self, list: ListId) {
        let owner = self.lists.get(&list).and_then(|id| self.get(*id));
        if let Some(owner) = owner {
            let of = lock(&owner.state).dataset.of;
            let volume = of.unwrap_or(owner.id);
            self.mark_unaccounted(volume);
        }
    }

    /// Takes the volumes whose account is out of date. The caller updates the accounts.
    pub(in crate::owner) fn take_unaccounted(&mut self) -> Vec<Arc<OpenDataset>> {
        let ids = std::mem::take(&mut self.unaccounted);
        ids.iter().filter_map(|id| self.get(*id)).cloned().collect()
    }

    /// Datasets that ask for the owner, by number, including `new`.
    pub(in crate::owner) fn asking(&mut self, new: Vec<TreeId>) -> Vec<Arc<OpenDataset>> {
        self.asking.extend(new);
        self.asking
            .iter()
            .filter_map(|id| self.get(*id))
            .cloned()
            .collect()
    }

    /// Removes datasets without work from the set that asks for the owner.
    pub(in crate::owner) fn let_rest(&mut self, asking: &[Arc<OpenDataset>]) {
        for dataset in asking {
            let mut state = lock(&dataset.state);
            if state.is_at_rest() {
                state.demands.rest();
                self.asking.remove(&dataset.id);
            }
        }
    }

    /// The volume of this name.
    pub(in crate::owner) fn volume(&self, name: &str) -> Option<&Arc<OpenDataset>> {
        self.get(*self.volumes.get(name)?)
    }

    /// The volumes below a name, parents before their children.
    pub(in crate::owner) fn below(
        &self,
        name: &str,
    ) -> impl DoubleEndedIterator<Item = &Arc<OpenDataset>> {
        // '0' is the character after '/'
        let names = format!("{name}/")..format!("{name}0");
        let found = self.volumes.range(names);
        found.filter_map(|(_, id)| self.get(*id))
    }

    /// The snapshot of this name of a volume.
    pub(in crate::owner) fn snapshot(&self, of: TreeId, name: &str) -> Option<&Arc<OpenDataset>> {
        self.get(*self.snapshots.get(&(of, name.to_owned()))?)
    }

    /// The snapshots of a volume that were born within `births`, oldest first.
    pub(in crate::owner) fn born(
        &self,
        of: TreeId,
        births: RangeInclusive<Birth>,
    ) -> impl DoubleEndedIterator<Item = &Arc<OpenDataset>> {
        let from = (of, *births.start(), FIRST_ID);
        let found = self.lineage.range(from..=(of, *births.end(), LAST_ID));
        found.filter_map(|((.., id), _)| self.get(*id))
    }

    /// The snapshots of a volume, oldest first.
    pub(in crate::owner) fn snapshots(
        &self,
        of: TreeId,
    ) -> impl DoubleEndedIterator<Item = &Arc<OpenDataset>> {
        self.born(of, Birth(0)..=LAST_BIRTH)
    }

    /// The newest snapshot of a volume that is older than `birth`.
    pub(in crate::owner) fn snapshot_before(
        &self,
        of: TreeId,
        birth: Birth,
    ) -> Option<&Arc<OpenDataset>> {
        let older = self
            .lineage
            .range((of, Birth(0), FIRST_ID)..(of, birth, FIRST_ID));
        older
            .map(|((.., id), _)| *id)
            .next_back()
            .and_then(|id| self.get(id))
    }

    /// The deadlists of the snapshots of a volume, oldest first.
    pub(in crate::owner) fn snapshot_lists(&self, of: TreeId) -> impl Iterator<Item = ListId> {
        let of = (of, Birth(0), FIRST_ID)..=(of, LAST_BIRTH, LAST_ID);
        self.lineage.range(of).map(|(_, list)| *list)
    }

    /// The number of the newest snapshot of a volume.
    pub(in crate::owner) fn newest_snapshot(&self, of: TreeId) -> Option<TreeId> {
        let of = (of, Birth(0), FIRST_ID)..=(of, LAST_BIRTH, LAST_ID);
        self.lineage.range(of).next_back().map(|((.., id), _)| *id)
    }

    /// The clones of a snapshot, by number.
    pub(in crate::owner) fn clones(
        &self,
        origin: TreeId,
    ) -> impl Iterator<Item = &Arc<OpenDataset>> {
        let found = self.clones.range((origin, FIRST_ID)..=(origin, LAST_ID));
        found.filter_map(|(_, id)| self.get(*id))
    }

    fn index(&mut self, id: TreeId, dataset: &Dataset) {
        self.mark_unaccounted(dataset.of.unwrap_or(id));
        self.lists.insert(dataset.list, id);
        match dataset.of {
            Some(of) => {
                self.lineage.insert((of, dataset.birth, id), dataset.list);
                self.snapshots.insert((of, dataset.name.clone()), id);
            }
            None => drop(self.volumes.insert(dataset.name.clone(), id)),
        }
        self.clones
            .extend(dataset.origin.map(|origin| (origin, id)));
    }

    fn unindex(&mut self, id: TreeId, dataset: &Dataset) {
        self.mark_unaccounted(dataset.of.unwrap_or(id));
        // a promotion gives a deadlist to its new dataset before it takes it from the old one
        if self.lists.get(&dataset.list) == Some(&id) {
            self.lists.remove(&dataset.list);
        }
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

    /// Sentences about indexes that differ from the datasets' properties, and about work that is not marked. The
    /// caller keeps checkpoints from running.
    pub(in crate::owner) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut expect = |is_so: bool, id: TreeId, what: &str| {
            if !is_so {
                problems.push(format!("dataset {}: {what}", id.0));
            }
        };
        for volume in self.all() {
            let id = volume.id;
            let state = lock(&volume.state);
            let dataset = &state.dataset;
            let named = match dataset.of {
                Some(of) => self.snapshots.get(&(of, dataset.name.clone())),
                None => self.volumes.get(&dataset.name),
            };
            expect(named == Some(&id), id, "its name leads elsewhere");
            let list = self.lists.get(&dataset.list);
            expect(list == Some(&id), id, "its deadlist leads elsewhere");
            let of = dataset.of.unwrap_or(id);
            let born = self.lineage.get(&(of, dataset.birth, id)).copied();
            let is_born = born == dataset.of.map(|_| dataset.list);
            expect(is_born, id, "its lineage is wrong");
            let is_known = state.layers.is_merged() || self.changed.contains(&of);
            expect(is_known, id, "no checkpoint knows of its layers");
            let is_asking = state.is_at_rest() || state.demands.is_asking();
            expect(
                is_asking,
                id,
                "the owner does not know of its dirty records",
            );
        }
        let named = self.volumes.len() + self.snapshots.len();
        let counts = [named, self.lists.len()];
        if counts.iter().any(|count| *count != self.by_id.len()) {
            let datasets = self.by_id.len();
            problems.push(format!("{datasets} datasets, indexes have {counts:?}"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use backend::{BlockBackend, Lba};
    use io::disk::{Disk, OpenOptions};
    use io::sim::{DiskConfig, Node, Sim, SimConfig};

    use crate::format::Host;
    use crate::vdev::{PoolSpec, create};
    use crate::{NewVolume, Options, Pool, Volume};

    const BLOCK: usize = 4096;
    const WRITES: u64 = 10;

    async fn write(volume: &Volume, block: u64) {
        let mut data = io::pool().alloc(BLOCK).await;
        data.fill(block as u8 + 1);
        let written = volume.write_durable(Lba(block), data).await;
        let _proof = written.expect("written");
    }

    async fn make(volumes: u64, snapshots: u64) -> Pool {
        let config = DiskConfig {
            size: 2 << 30,
            ..DiskConfig::default()
        };
        Node::current().create_disk("disk", config);
        let disk = Disk::open("disk", OpenOptions::default()).await;
        let members = vec![vec![disk.expect("the disk is there")]];
        let spec = PoolSpec::new("tank", members, Host::new([1; 16], "here"));
        let opened = create(spec).await.expect("a pool");
        let pool = Pool::open(opened, Options::default()).await.expect("open");
        for n in 0..volumes {
            let name = format!("volume{n}");
            let volume = pool.create_volume(NewVolume::new(&name, 1 << 20)).await;
            write(&volume.expect("a volume"), 0).await;
            for n in 0..snapshots {
                let taken = pool.create_snapshot(&name, &n.to_string()).await;
                taken.expect("a snapshot");
            }
        }
        pool.checkpoint().await.expect("a checkpoint");
        pool
    }

    /// The number of datasets that the owner visited for writes to one volume, and for the checkpoint after them.
    async fn visits(volumes: u64, snapshots: u64) -> (u64, u64) {
        let pool = make(volumes, snapshots).await;
        let busy = pool.volume("volume0").expect("a volume");
        let visits = || pool.owner.state.borrow().datasets.visits.get();
        let begun = visits();
        for block in 0..WRITES {
            write(&busy, block).await;
        }
        let written = visits();
        pool.checkpoint().await.expect("a checkpoint");
        let found = (written - begun, visits() - written);
        assert_eq!(pool.owner.state.borrow().datasets.problems(), [""; 0]);
        pool.close().await.expect("closed");
        found
    }

    fn on_a_machine<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
        let sim = Sim::new(1, SimConfig::default());
        let done = sim.block_on(async move { Node::new().spawn(test).await });
        done.expect("it ran to its end")
    }

    /// Each write visited every volume, and each checkpoint visited every dataset once for each volume.
    #[test]
    fn writes_and_checkpoints_look_at_the_busy_volume_alone() {
        let (writes, checkpoint) = on_a_machine(visits(200, 50));
        assert!(
            (1..100).contains(&writes),
            "{writes} visits by {WRITES} writes"
        );
        assert!(
            (1..100).contains(&checkpoint),
            "{checkpoint} visits by a checkpoint"
        );
    }
}
