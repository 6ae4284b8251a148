//! Snapshots, clones and rollbacks.
//!
//! **Owns** these operations but for the taking of snapshots ([`super::taking`]). **Called by** [`Pool`]'s users.
//! **Invariant**: all changes of an operation are in one batch of the journal.

use std::sync::Arc;

use crate::dataset::{self, OpenDataset};
use crate::files::{FileChange, FileStore};
use crate::format::{
    Birth, Dataset, DatasetKind, DatasetProperty, ListId, NAME_SIZE_MAX, PrevSnapshot, Record,
    TextProperty, TreeId, dataset_key, root_key,
};
use crate::journal::Ticket;
use crate::owner::pool_tree::Changes;
use crate::owner::{Pool, State};
use crate::volume::Volume;
use crate::{Error, Result};
use io::sync::lock;

/// Kind of a rollback in the journal. Volume and snapshot follow.
const ROLLBACK: u8 = 1;
/// Kind of a promotion in the journal. The clone follows.
const PROMOTE: u8 = 2;

/// A change of the pool's state, as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) enum StateChange {
    /// The volume is rolled back to the snapshot.
    Rollback(TreeId, TreeId),
    /// The clone is promoted.
    Promote(TreeId),
}

impl StateChange {
    pub(in crate::owner) fn encode(self) -> Box<[u8]> {
        let (kind, ids) = match self {
            StateChange::Rollback(volume, snapshot) => (ROLLBACK, vec![volume, snapshot]),
            StateChange::Promote(clone) => (PROMOTE, vec![clone]),
        };
        let ids = ids.iter().flat_map(|id| id.0.to_le_bytes());
        std::iter::once(kind).chain(ids).collect()
    }

    pub(in crate::owner) fn decode(bytes: &[u8]) -> Result<Self> {
        let (kind, ids) = bytes.split_first().ok_or(Error::Unknown)?;
        let (ids, rest) = ids.as_chunks::<8>();
        let id = |bytes: &[u8; 8]| TreeId(u64::from_le_bytes(*bytes));
        match (*kind, ids, rest) {
            (ROLLBACK, [volume, snapshot], []) => {
                Ok(StateChange::Rollback(id(volume), id(snapshot)))
            }
            (PROMOTE, [clone], []) => Ok(StateChange::Promote(id(clone))),
            _ => Err(Error::Unknown),
        }
    }
}

impl State {
    pub(super) fn find_snapshot(&self, volume: &str, name: &str) -> Option<Arc<OpenDataset>> {
        let of = self.datasets.volume(volume)?.id;
        self.datasets.snapshot(of, name).cloned()
    }
}

pub(in crate::owner) fn check_name(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= NAME_SIZE_MAX;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if !fits || !name.chars().all(plain) {
        return Err(Error::BadName);
    }
    Ok(())
}

impl Pool {
    /// The snapshot of this name.
    #[must_use]
    pub fn snapshot(&self, volume: &str, name: &str) -> Option<Volume> {
        let state = self.owner.state.borrow();
        state.find_snapshot(volume, name).map(Volume)
    }

    /// The snapshots of a volume, oldest first.
    #[must_use]
    pub fn snapshots(&self, volume: &str) -> Vec<Volume> {
        let state = self.owner.state.borrow();
        let Some(of) = state.datasets.volume(volume) else {
            return Vec::new();
        };
        state
            .datasets
            .snapshots(of.id)
            .cloned()
            .map(Volume)
            .collect()
    }

    /// Names of the clones of a snapshot.
    #[must_use]
    pub fn clones(&self, snapshot: &Volume) -> Vec<String> {
        let state = self.owner.state.borrow();
        let clones = state.datasets.clones(snapshot.0.id);
        clones.map(|clone| clone.dataset().name).collect()
    }

    /// The volume or filesystem of this name.
    fn dataset(&self, name: &str) -> Option<Arc<OpenDataset>> {
        self.owner.state.borrow().datasets.volume(name).cloned()
    }

    /// A snapshot, once it has a root of its own.
    async fn rooted(&self, volume: &str, name: &str) -> Result<Arc<OpenDataset>> {
        let Volume(snapshot) = self.snapshot(volume, name).ok_or(Error::NotFound)?;
        self.wait_for_root(&snapshot).await?;
        Ok(snapshot)
    }

    /// Returns when a snapshot has a root of its own.
    async fn wait_for_root(&self, snapshot: &OpenDataset) -> Result<()> {
        let has_root = |id| self.owner.state.borrow().checkpointer.has_root(id);
        while !has_root(snapshot.id) {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// The changes of a filesystem's files from a snapshot to a newer one, in the order of the objects' numbers. `None` if there
    /// are more than `max`. What both share is not read.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`] and [`Error::Corrupt`] for damage, [`Error::Device`].
    pub async fn diff(
        &self,
        filesystem: &str,
        (old, new): (&str, &str),
        max: usize,
    ) -> Result<Option<Vec<FileChange>>> {
        let old = FileStore(self.rooted(filesystem, old).await?);
        let new = FileStore(self.rooted(filesystem, new).await?);
        if !old.0.settings.has_files() {
            return Err(Error::NotFound);
        }
        old.changes_to(&new, max).await
    }

    /// Destroys a snapshot. The blocks that it held alone are free after the next checkpoints.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Busy`] if it has a clone, [`Error::Held`], [`Error::Device`].
    pub async fn destroy_snapshot(&self, volume: &str, name: &str) -> Result<()> {
        let snapshot = self.snapshot(volume, name).ok_or(Error::NotFound)?;
        self.destroy_snapshots(&[snapshot.0]).await
    }

    /// Destroys the snapshots of this name of a dataset and of all datasets below it: all of them, or none.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, [`Error::Busy`] if one has a clone, [`Error::Held`],
    /// [`Error::BatchTooLarge`] for some thousands of snapshots, [`Error::Device`].
    pub async fn destroy_snapshot_tree(&self, top: &str, name: &str) -> Result<()> {
        let found: Vec<_> = {
            let state = self.owner.state.borrow();
            let tree = state.tree_or_all(top)?;
            let found = tree
                .iter()
                .filter_map(|d| state.datasets.snapshot(d.id, name));
            found.cloned().collect()
        };
        match found.is_empty() {
            true => Err(Error::NotFound),
            false => self.destroy_snapshots(&found).await,
        }
    }

    /// Destroys snapshots of different datasets in one batch of the journal.
    async fn destroy_snapshots(&self, snapshots: &[Arc<OpenDataset>]) -> Result<()> {
        for snapshot in snapshots {
            self.wait_for_root(snapshot).await?;
        }
        let destroy = |state: &mut State| {
            let mut changes = Changes::new();
            for snapshot in snapshots {
                let id = snapshot.id;
                if !state.datasets.contains(id) {
                    return Err(Error::NotFound);
                }
                if state.datasets.clones(id).next().is_some() {
                    return Err(Error::Busy);
                }
                state.check_holds(id)?;
                changes.extend([(dataset_key(id), None), (root_key(id), None)]);
            }
            let ticket = state.change(Vec::new(), changes)?;
            for snapshot in snapshots {
                snapshot.end();
                let dataset = snapshot.dataset();
                let prev = state.prev_of(&dataset);
                state.destroy_snapshot(dataset.list, prev);
                state.datasets.remove(snapshot.id);
            }
            Ok(((), ticket))
        };
        self.owner.change_durably(destroy).await
    }

    /// Creates a clone of a snapshot, with the own settings of its volume. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::BadName`], [`Error::NoParent`], [`Error::NotAParent`],
    /// [`Error::Device`].
    pub async fn clone_snapshot(&self, volume: &str, name: &str, clone: &str) -> Result<Volume> {
        self.prepare_name(clone).await?;
        let snapshot = self.rooted(volume, name).await?;
        let created = io::time::wall_clock_ms() * 1_000_000;
        let guid = io::rng::u64();
        let create = |state: &mut State| {
            state.check_new_name(clone)?;
            if !state.datasets.contains(snapshot.id) {
                return Err(Error::NotFound);
            }
            let inner = lock(&snapshot.state);
            let mut dataset = Dataset {
                name: clone.to_owned(),
                kind: inner.dataset.kind.of_clones(),
                created,
                birth: state.journal.epoch(),
                of: None,
                previous: None,
                origin: Some(snapshot.id),
                quota: 0,
                reservation: 0,
                guid,
                list: ListId(state.pool_tree.next_dataset()),
                ..inner.dataset.clone()
            };
            dataset.settings.put(DatasetProperty::Refquota, None);
            // a clone is exported as the datasets above it are, not as its origin
            dataset.settings.put_text(TextProperty::Sharenfs, None);
            state.inherit(&mut dataset);
            dataset.check().map_err(Error::Invalid)?;
            let mut changes = Changes::new();
            let id = state.pool_tree.claim_id(&mut changes);
            changes.push((dataset_key(id), Some(dataset.encode())));
            let ticket = state.change(Vec::new(), changes)?;
            let inner = dataset::State::new(dataset, inner.layers.held());
            let clone = OpenDataset::new(id, self.owner.shared.clone(), inner);
            state.datasets.insert(clone.clone());
            state.datasets.mark_changed(id);
            state.open_account(&clone, crate::owner::capacity::usage::Owned::of_a_clone());
            state.checkpointer.add_rootless(id);
            Ok((Volume(clone), ticket))
        };
        self.owner.change_durably(create).await
    }

    /// Rolls a volume back to its newest snapshot; later writes are lost. The caller keeps clients from using it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Busy`] if there is a newer snapshot, or a pending one, [`Error::Device`].
    pub async fn roll_back(&self, volume: &str, name: &str) -> Result<()> {
        let snapshot = self.rooted(volume, name).await?;
        // its groups in flight would keep the volume busy
        let _pause = self.owner.pause_mover().await;
        let back = async || {
            let found = self.dataset(volume).ok_or(Error::NotFound)?;
            if !lock(&found.state).in_flight.is_empty() {
                // groups of earlier writes may still be in flight
                let _proof = found.durable(true).await?;
            }
            let mut state = self.owner.state.borrow_mut();
            state.roll_volume_back(volume, &snapshot)
        };
        let ticket = self.owner.with_room(back).await?;
        self.owner.durable(ticket).await
    }
}

impl State {
    /// Rolls a volume back to its newest snapshot, if none of its groups is in flight.
    fn roll_volume_back(&mut self, volume: &str, snapshot: &OpenDataset) -> Result<Ticket> {
        let found = self.datasets.volume(volume).cloned();
        let found = found.ok_or(Error::NotFound)?;
        let newest = self.datasets.newest_snapshot(found.id);
        let writing = !lock(&found.state).in_flight.is_empty();
        if newest != Some(snapshot.id) || writing || self.pending_snapshots.has(found.id) {
            return Err(Error::Busy);
        }
        let mut inner = lock(&found.state);
        let back = lock(&snapshot.state);
        let mut dataset = inner.dataset.clone();
        dataset.size = back.dataset.size;
        // The batch is of an epoch of its own, which `change` of all objects begins with from now on.
        self.journal.end_epoch();
        let change = StateChange::Rollback(found.id, snapshot.id);
        let changes = vec![(dataset_key(found.id), Some(dataset.encode()))];
        let ticket = self.change(vec![Record::State(change.encode())], changes)?;
        let dirty = std::mem::take(&mut inner.dirty);
        let journaled = std::mem::take(&mut inner.journaled);
        let budget = &self.shared.budget;
        let staged = inner.staged.forget();
        inner.tails.clear();
        inner.charges.forget();
        budget.replaced(
            found.id,
            (dirty.all_bytes() + journaled.bytes()) as u64 + staged,
        );
        budget.resized(found.id, back.dataset.size);
        self.roll_back(&mut inner, &back);
        found.settings.publish(&inner.dataset);
        if inner.dataset.kind == DatasetKind::Filesystem {
            found.settings.raise_changes(self.journal.epoch());
        }
        self.checkpointer.add_rootless(found.id);
        self.datasets.mark_changed(found.id);
        self.datasets.mark_unaccounted(found.id);
        drop(back);
        drop(inner);
        found.changed();
        Ok(ticket)
    }

    /// The origin of a volume: the snapshot before its oldest one.
    pub(in crate::owner) fn origin(&self, dataset: &Dataset) -> PrevSnapshot {
        let origin = dataset.origin.and_then(|id| self.datasets.get(id));
        let birth = origin.map(|v| lock(&v.state).dataset.birth);
        after_origin(dataset, birth)
    }

    /// The snapshot before a snapshot.
    pub(in crate::owner) fn prev_of(&self, snapshot: &Dataset) -> PrevSnapshot {
        let of = snapshot.of.expect("a snapshot is of a volume");
        let volume = self.datasets.get(of);
        let volume = volume.expect("a volume outlives its snapshots");
        self.prev_at(of, &volume.dataset(), snapshot.birth)
    }

    /// The snapshot before the first snapshot of a volume that was born at `birth` or later.
    pub(in crate::owner) fn prev_at(
        &self,
        id: TreeId,
        volume: &Dataset,
        birth: Birth,
    ) -> PrevSnapshot {
        match self.datasets.snapshot_before(id, birth) {
            Some(before) => after_snapshot(&before.dataset()),
            None => self.origin(volume),
        }
    }
}

/// A snapshot is the previous one: blocks born up to its birth go to its deadlist.
pub(in crate::owner) fn after_snapshot(before: &Dataset) -> PrevSnapshot {
    PrevSnapshot {
        floor: before.birth,
        list: Some(before.list),
    }
}

/// The origin, born at `origin`, is the previous snapshot; or there is none.
pub(in crate::owner) fn after_origin(volume: &Dataset, origin: Option<Birth>) -> PrevSnapshot {
    PrevSnapshot {
        floor: origin.unwrap_or(Birth(0)),
        list: origin.map(|_| volume.list),
    }
}
