//! Promotions and renames of snapshots: the volumes that snapshots belong to, and their names.
//!
//! **Owns** these operations. **Called by** [`Pool`]'s users, and replay. **Invariants**: no two volumes, and no two
//! snapshots of one volume, have the same name; a deadlist stays with its pair of datasets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::snapshot::{StateChange, check_name};
use crate::dataset::OpenDataset;
use crate::format::{Dataset, Record, TreeId, dataset_key};
use crate::journal::Ticket;
use crate::owner::{Pool, State};
use crate::volume::Volume;
use crate::{Error, Result};

/// The properties that a promotion changes: the clone gets the snapshots up to its origin, and the volume that they
/// belonged to becomes a clone.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotAClone`], [`Error::Exists`] if the clone has a snapshot of the same name as one of
/// these.
pub(in crate::owner) fn promoted(
    datasets: &BTreeMap<TreeId, Dataset>,
    clone_id: TreeId,
) -> Result<Vec<(TreeId, Dataset)>> {
    let mut clone = datasets.get(&clone_id).ok_or(Error::NotFound)?.clone();
    let origin_id = clone.origin.ok_or(Error::NotAClone)?;
    let origin = datasets.get(&origin_id).ok_or(Error::NotFound)?;
    let volume_id = origin.of.ok_or(Error::NotFound)?;
    let mut volume = datasets.get(&volume_id).ok_or(Error::NotFound)?.clone();
    let own = datasets.values().filter(|d| d.of == Some(clone_id));
    let own: Vec<&str> = own.map(|d| d.name.as_str()).collect();
    let mut changed = Vec::new();
    for (id, dataset) in datasets {
        if dataset.of != Some(volume_id) || dataset.birth > origin.birth {
            continue;
        }
        if own.contains(&dataset.name.as_str()) {
            return Err(Error::Exists);
        }
        let mut dataset = dataset.clone();
        dataset.of = Some(clone_id);
        if *id == origin_id {
            dataset.list = clone.list;
        }
        changed.push((*id, dataset));
    }
    clone.list = volume.list;
    clone.origin = volume.origin;
    volume.list = origin.list;
    volume.origin = Some(origin_id);
    changed.extend([(clone_id, clone), (volume_id, volume)]);
    Ok(changed)
}

impl State {
    /// The datasets that a promotion of a clone may change: the clone, the volume of its origin, and the snapshots of
    /// both.
    fn relatives(&self, clone: &Arc<OpenDataset>) -> BTreeMap<TreeId, Dataset> {
        let dataset = clone.dataset();
        let origin = dataset.origin.and_then(|id| self.datasets.get(id));
        let of = origin.and_then(|origin| self.datasets.get(origin.dataset().of?));
        let volumes = of.into_iter().chain([clone]);
        let relatives = volumes.flat_map(|volume| {
            let snapshots = self.datasets.snapshots(volume.id);
            snapshots.chain([volume])
        });
        relatives.map(|v| (v.id, v.dataset())).collect()
    }

    /// Sets the properties of a dataset. The caller has them in the journal.
    fn set_dataset(&mut self, id: TreeId, dataset: Dataset) {
        self.pool_tree.put(dataset_key(id), Some(dataset.encode()));
        self.datasets.set(id, dataset);
        if let Some(volume) = self.datasets.get(id) {
            volume.changed();
        }
    }

    fn rename(&mut self, volume: &OpenDataset, name: &str) -> Result<Ticket> {
        let mut dataset = volume.dataset();
        name.clone_into(&mut dataset.name);
        let id = volume.id;
        let ticket = self.change(Vec::new(), vec![(dataset_key(id), Some(dataset.encode()))])?;
        self.datasets.set(id, dataset);
        Ok(ticket)
    }
}

impl Pool {
    /// Renames a snapshot. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::BadName`], [`Error::Device`].
    pub async fn rename_snapshot(&self, volume: &str, name: &str, new: &str) -> Result<()> {
        check_name(new)?;
        let rename = |state: &mut State| {
            let snapshot = state.find_snapshot(volume, name).ok_or(Error::NotFound)?;
            let of = state.datasets.volume(volume).map(|v| v.id);
            let is_pending = of.is_some_and(|of| state.pending_snapshots.is_named(of, new));
            if state.find_snapshot(volume, new).is_some() || is_pending {
                return Err(Error::Exists);
            }
            Ok(((), state.rename(&snapshot, new)?))
        };
        self.owner.change_durably(rename).await
    }

    /// Promotes a clone, without copying data: the snapshots up to its origin become its own, and the volume that they
    /// belonged to becomes a clone of the origin. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotAClone`], [`Error::Exists`] if it has a snapshot of the same name as one of
    /// those, [`Error::Busy`] while a snapshot of it is being taken, [`Error::Device`].
    pub async fn promote(&self, clone: &str) -> Result<()> {
        let promote = |state: &mut State| {
            let volume = state.datasets.volume(clone).ok_or(Error::NotFound)?;
            let id = volume.id;
            if state.pending_snapshots.has(id) {
                return Err(Error::Busy);
            }
            let changed = promoted(&state.relatives(volume), id)?;
            let record = Record::State(StateChange::Promote(id).encode());
            let ticket = state.change(vec![record], Vec::new())?;
            for (id, dataset) in changed {
                state.set_dataset(id, dataset);
            }
            Ok(((), ticket))
        };
        self.owner.change_durably(promote).await
    }

    /// The origin of a clone: its volume's name and its own name.
    #[must_use]
    pub fn origin(&self, volume: &Volume) -> Option<(String, String)> {
        let state = self.owner.state.borrow();
        let origin = state.datasets.get(volume.dataset().origin?)?.dataset();
        let of = state.datasets.get(origin.of?)?.dataset();
        debug_assert!(!of.kind.is_snapshot());
        Some((of.name, origin.name))
    }
}
