//! Snapshots, clones and rollbacks.
//!
//! A snapshot is the volume's root and layers as they are, kept. What was dirty when it was asked for leaves first and is
//! in it; writes that come meanwhile are not. The next checkpoint gives it a root of its own.
//!
//! **Owns** these operations. **Called by** [`Pool`]'s users, and the owner's loop, which finishes a snapshot once what
//! belongs to it has left. **Invariants**: the epoch ends with a snapshot, so that what is born later is not of it;
//! whatever an operation changes is in one batch of the journal.

use std::collections::BTreeMap;

use io::sync::oneshot;

use super::pool_tree::Changes;
use super::{Owner, Pool, State};
use crate::format::{
    Birth, Dataset, DatasetClass, Edge, ListId, NAME_SIZE_MAX, Record, TreeId, dataset_key,
    root_key,
};
use crate::journal::Ticket;
use crate::shared::lock;
use crate::volume::{self, Volume};
use crate::{Error, Result};

/// Answers a request for a snapshot.
type SnapshotRequest = oneshot::Sender<Result<(Volume, Ticket)>>;

/// A requested snapshot whose records are not all written.
struct PendingSnapshot {
    name: String,
    done: SnapshotRequest,
}

/// The pending snapshots, by volume: one for each at most.
#[derive(Default)]
pub(super) struct PendingSnapshots(BTreeMap<TreeId, PendingSnapshot>);

impl PendingSnapshots {
    /// Whether a volume has one.
    pub(super) fn has(&self, volume: TreeId) -> bool {
        self.0.contains_key(&volume)
    }

    /// Whether a volume has one of this name.
    pub(super) fn is_named(&self, volume: TreeId, name: &str) -> bool {
        self.0.get(&volume).is_some_and(|p| p.name == name)
    }

    fn add(&mut self, volume: TreeId, name: String, done: SnapshotRequest) {
        self.0.insert(volume, PendingSnapshot { name, done });
    }

    fn take(&mut self, volume: TreeId) -> Option<PendingSnapshot> {
        self.0.remove(&volume)
    }
}

/// The journal's words for a rollback: this byte, volume, snapshot.
const ROLLBACK: u8 = 1;
/// For a promotion: this byte, clone.
const PROMOTE: u8 = 2;

/// What a record of the pool's state says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateChange {
    /// The volume is again as the snapshot.
    Rollback(TreeId, TreeId),
    /// The clone has its origin's snapshots up to that, and its origin's volume is a clone.
    Promote(TreeId),
}

impl StateChange {
    pub(super) fn encode(self) -> Box<[u8]> {
        let (kind, ids) = match self {
            StateChange::Rollback(volume, snapshot) => (ROLLBACK, vec![volume, snapshot]),
            StateChange::Promote(clone) => (PROMOTE, vec![clone]),
        };
        let ids = ids.iter().flat_map(|id| id.0.to_le_bytes());
        std::iter::once(kind).chain(ids).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
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
    pub(super) fn find_snapshot(&self, volume: &str, name: &str) -> Option<Volume> {
        let of = self.datasets.volume(volume)?.0.id;
        self.datasets.snapshot(of, name).cloned()
    }

    /// Takes the snapshot of a volume of which nothing is aging any more.
    fn take_snapshot(
        &mut self,
        volume: &Volume,
        name: String,
        created: u64,
        guid: u64,
    ) -> Result<(Volume, Ticket)> {
        if let Some(trouble) = self.shared.trouble() {
            return Err(trouble);
        }
        let birth = self.journal.end_epoch();
        let of = volume.0.id;
        let previous = self.datasets.newest_snapshot(of);
        let mut changes = Changes::new();
        let id = self.pool_tree.claim_id(&mut changes);
        let mut state = lock(&volume.0.state);
        state.freeze(birth);
        let dataset = Dataset {
            name,
            class: DatasetClass::Snapshot,
            created,
            birth,
            of: Some(of),
            previous,
            origin: None,
            quota: 0,
            reservation: 0,
            guid,
            list: ListId(id.0),
            ..state.dataset.clone()
        };
        changes.push((dataset_key(id), Some(dataset.encode())));
        let ticket = self.change(vec![Record::Freeze(of, birth)], changes)?;
        let inner = snapshot_state(dataset, &state);
        drop(state);
        let snapshot = Volume::new(id, volume.0.shared.clone(), inner);
        self.datasets.insert(snapshot.clone());
        self.datasets.mark_changed(of);
        self.checkpointer.add_unsettled(id);
        self.shared.room.snapshot(of);
        Ok((snapshot, ticket))
    }
}

/// What a snapshot of `volume` holds.
pub(super) fn snapshot_state(dataset: Dataset, volume: &volume::State) -> volume::State {
    let mut state = volume::State::new(dataset, volume.held());
    state.frozen.clone_from(&volume.frozen);
    state
}

pub(super) fn check_name(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= NAME_SIZE_MAX;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if !fits || !name.chars().all(plain) {
        return Err(Error::BadName);
    }
    Ok(())
}

impl Owner {
    /// Takes a snapshot that waits, if all that belongs to it has left.
    pub(super) fn finish_snapshot(&self, volume: &Volume) {
        let aged = lock(&volume.0.state)
            .aging
            .as_ref()
            .map(crate::dirty::Dirty::is_empty);
        if aged != Some(true) {
            return;
        }
        lock(&volume.0.state).aging = None;
        let created = io::time::wall_clock_ms() * 1_000_000;
        let guid = io::rng::u64();
        let mut state = self.state.borrow_mut();
        let pending = state.pending_snapshots.take(volume.0.id);
        if let Some(PendingSnapshot { name, done }) = pending {
            done.send(state.take_snapshot(volume, name, created, guid));
        }
    }
}

impl Pool {
    /// The snapshot of this name.
    #[must_use]
    pub fn snapshot(&self, volume: &str, name: &str) -> Option<Volume> {
        self.owner.state.borrow().find_snapshot(volume, name)
    }

    /// The snapshots of a volume, oldest first.
    #[must_use]
    pub fn snapshots(&self, volume: &str) -> Vec<Volume> {
        let state = self.owner.state.borrow();
        let Some(of) = state.datasets.volume(volume) else {
            return Vec::new();
        };
        state.datasets.snapshots(of.0.id).cloned().collect()
    }

    /// Names of the volumes that began as a snapshot is.
    #[must_use]
    pub fn clones(&self, snapshot: &Volume) -> Vec<String> {
        let state = self.owner.state.borrow();
        let clones = state.datasets.clones(snapshot.0.id);
        clones.map(|clone| clone.dataset().name).collect()
    }

    /// Keeps a volume as it is now, with all that was acknowledged; durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::BadName`], [`Error::Busy`] while another snapshot of the volume
    /// is being taken, [`Error::Device`].
    pub async fn create_snapshot(&self, volume: &str, name: &str) -> Result<Volume> {
        check_name(name)?;
        if let Some(trouble) = self.trouble() {
            return Err(trouble);
        }
        let of = self.volume(volume).ok_or(Error::NotFound)?.0.id;
        if !self.owner.shared.room.may_snapshot(of) {
            self.checkpoint().await?;
        }
        let receiver = {
            let mut state = self.owner.state.borrow_mut();
            let found = state
                .datasets
                .volume(volume)
                .cloned()
                .ok_or(Error::NotFound)?;
            if state.find_snapshot(volume, name).is_some() {
                return Err(Error::Exists);
            }
            if state.pending_snapshots.has(found.0.id) {
                return Err(Error::Busy);
            }
            let mut inner = lock(&found.0.state);
            let mut dirty = std::mem::take(&mut inner.dirty);
            dirty.hurry();
            inner.aging = Some(dirty);
            found.0.ask(&mut inner);
            drop(inner);
            let (done, receiver) = oneshot::channel();
            let name = name.to_owned();
            state.pending_snapshots.add(found.0.id, name, done);
            receiver
        };
        self.owner.shared.bell.ring();
        let (snapshot, ticket) = receiver.await.unwrap_or(Err(Error::Device))?;
        self.owner.durable(ticket).await?;
        Ok(snapshot)
    }

    /// A snapshot that has a root of its own.
    async fn settled(&self, volume: &str, name: &str) -> Result<Volume> {
        let snapshot = self.snapshot(volume, name).ok_or(Error::NotFound)?;
        let has_root = |id| self.owner.state.borrow().checkpointer.has_root(id);
        while !has_root(snapshot.0.id) {
            self.checkpoint().await?;
        }
        Ok(snapshot)
    }

    /// Takes a snapshot away; what was its alone is free after the next checkpoint.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Busy`] if it has a clone, [`Error::Device`].
    pub async fn destroy_snapshot(&self, volume: &str, name: &str) -> Result<()> {
        let snapshot = self.settled(volume, name).await?;
        let ticket = {
            let mut state = self.owner.state.borrow_mut();
            let id = snapshot.0.id;
            if !state.datasets.contains(id) {
                return Err(Error::NotFound);
            }
            if state.datasets.clones(id).next().is_some() {
                return Err(Error::Busy);
            }
            state.check_holds(id)?;
            let changes = vec![(dataset_key(id), None), (root_key(id), None)];
            let ticket = state.change(Vec::new(), changes)?;
            snapshot.end();
            let dataset = snapshot.dataset();
            let edge = state.edge_before(&dataset);
            state.destroy_snapshot(dataset.list, edge);
            state.datasets.remove(id);
            ticket
        };
        self.owner.durable(ticket).await
    }

    /// Makes a volume that begins as a snapshot is; durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::BadName`], [`Error::Device`].
    pub async fn clone_snapshot(&self, volume: &str, name: &str, clone: &str) -> Result<Volume> {
        let snapshot = self.settled(volume, name).await?;
        let created = io::time::wall_clock_ms() * 1_000_000;
        let guid = io::rng::u64();
        let (clone, ticket) = {
            let mut state = self.owner.state.borrow_mut();
            if state.datasets.volume(clone).is_some() {
                return Err(Error::Exists);
            }
            if !state.datasets.contains(snapshot.0.id) {
                return Err(Error::NotFound);
            }
            let inner = lock(&snapshot.0.state);
            let dataset = Dataset {
                name: clone.to_owned(),
                class: DatasetClass::Volume,
                created,
                birth: state.journal.epoch(),
                of: None,
                previous: None,
                origin: Some(snapshot.0.id),
                quota: 0,
                reservation: 0,
                guid,
                list: ListId(state.pool_tree.next_dataset()),
                ..inner.dataset.clone()
            };
            dataset.check().map_err(Error::Invalid)?;
            let mut changes = Changes::new();
            let id = state.pool_tree.claim_id(&mut changes);
            changes.push((dataset_key(id), Some(dataset.encode())));
            let ticket = state.change(Vec::new(), changes)?;
            let inner = volume::State::new(dataset, inner.held());
            let clone = Volume::new(id, self.owner.shared.clone(), inner);
            state.datasets.insert(clone.clone());
            state.datasets.mark_changed(id);
            state.open_account(&clone, super::usage::Owned::of_a_clone());
            state.checkpointer.add_unsettled(id);
            (clone, ticket)
        };
        self.owner.durable(ticket).await?;
        Ok(clone)
    }

    /// Makes a volume what its newest snapshot is; what was written since is lost. Nobody may use it meanwhile.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Busy`] if there is a newer snapshot, or one is being taken, [`Error::Device`].
    pub async fn roll_back(&self, volume: &str, name: &str) -> Result<()> {
        let snapshot = self.settled(volume, name).await?;
        let found = self.volume(volume).ok_or(Error::NotFound)?;
        if !lock(&found.0.state).writing.is_empty() {
            // the pool itself writes back what its user wrote before
            let _proof = found.flush_all().await?;
        }
        let ticket = {
            let mut state = self.owner.state.borrow_mut();
            let found = state
                .datasets
                .volume(volume)
                .cloned()
                .ok_or(Error::NotFound)?;
            let newest = state.datasets.newest_snapshot(found.0.id);
            let writing = !lock(&found.0.state).writing.is_empty();
            if newest != Some(snapshot.0.id) || writing || state.pending_snapshots.has(found.0.id) {
                return Err(Error::Busy);
            }
            let mut inner = lock(&found.0.state);
            let back = lock(&snapshot.0.state);
            let mut dataset = inner.dataset.clone();
            dataset.size = back.dataset.size;
            let change = StateChange::Rollback(found.0.id, snapshot.0.id);
            let changes = vec![(dataset_key(found.0.id), Some(dataset.encode()))];
            let ticket = state.change(vec![Record::State(change.encode())], changes)?;
            let dirty = std::mem::take(&mut inner.dirty);
            let room = &self.owner.shared.room;
            room.replaced(found.0.id, dirty.all_bytes() as u64);
            room.resized(found.0.id, back.dataset.size);
            state.roll_back(&mut inner, &back);
            found.0.settings.publish(&inner.dataset);
            state.checkpointer.add_unsettled(found.0.id);
            state.datasets.mark_changed(found.0.id);
            state.datasets.mark_unaccounted(found.0.id);
            drop(back);
            drop(inner);
            found.changed();
            ticket
        };
        self.owner.durable(ticket).await
    }
}

impl State {
    /// What lies before a volume's oldest snapshot: what it is a clone of.
    pub(super) fn origin(&self, dataset: &Dataset) -> Edge {
        let origin = dataset.origin.and_then(|id| self.datasets.get(id));
        let birth = origin.map(|v| lock(&v.0.state).dataset.birth);
        origin_edge(dataset, birth)
    }

    /// What lies before a snapshot.
    fn edge_before(&self, snapshot: &Dataset) -> Edge {
        let of = snapshot.of.expect("a snapshot is of a volume");
        let volume = self.datasets.get(of);
        let volume = volume.expect("a volume outlives its snapshots");
        self.edge_at(of, &volume.dataset(), snapshot.birth)
    }

    /// What lies before the first snapshot of a volume that was born at `birth` or later.
    pub(super) fn edge_at(&self, id: TreeId, volume: &Dataset, birth: Birth) -> Edge {
        match self.datasets.snapshot_before(id, birth) {
            Some(before) => snapshot_edge(&before.dataset()),
            None => self.origin(volume),
        }
    }
}

/// A snapshot lies before.
pub(super) fn snapshot_edge(before: &Dataset) -> Edge {
    Edge {
        floor: before.birth,
        list: Some(before.list),
    }
}

/// A volume's origin, born then, lies before, or nothing does.
pub(super) fn origin_edge(volume: &Dataset, origin: Option<Birth>) -> Edge {
    Edge {
        floor: origin.unwrap_or(Birth(0)),
        list: origin.map(|_| volume.list),
    }
}
