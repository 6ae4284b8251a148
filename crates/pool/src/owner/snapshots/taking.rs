//! The taking of snapshots: of one dataset, or of a dataset and all below it in one epoch.
//!
//! A snapshot keeps the dataset's root and layers. Records that were dirty when it was requested are written first, and
//! belong to it; later writes do not. The next checkpoint gives the snapshot a root of its own. Snapshots of several
//! datasets are requested at one moment and taken at another: a dataset whose records are written waits for the others.
//!
//! **Owns** these steps. **Called by** [`Pool`]'s users, and by the owner's loop, which takes pending snapshots when all
//! their records are written. **Invariants**: a snapshot ends the epoch, so that younger blocks do not belong to it; all
//! snapshots of a request are in one batch of the journal; what one of them has was acknowledged before what another lacks.

use std::sync::Arc;

use io::sync::oneshot;

use super::pending_snapshots::{PendingSnapshot, Taken};
use super::snapshot::check_name;
use crate::dataset::OpenDataset;
use crate::dirty::Dirty;
use crate::format::{Dataset, ListId, Record, TreeId, dataset_key};
use crate::owner::pool_tree::Changes;
use crate::owner::{Owner, Pool, State};
use crate::shared::all;
use crate::volume::Volume;
use crate::{Error, Result};
use io::sync::lock;

impl State {
    /// Requests a snapshot of each of these datasets: all records that are dirty now are written first. `None` if a
    /// filesystem must be written before.
    fn request_snapshots(
        &mut self,
        of: &[Arc<OpenDataset>],
        name: &str,
    ) -> Result<Option<oneshot::Receiver<Taken>>> {
        for dataset in of {
            if self.datasets.snapshot(dataset.id, name).is_some() {
                return Err(Error::Exists);
            }
            if self.pending_snapshots.has(dataset.id) {
                return Err(Error::Busy);
            }
        }
        // under all locks, so that no write comes between two of the snapshots
        let mut states: Vec<_> = of.iter().map(|dataset| lock(&dataset.state)).collect();
        // the inodes of dirty files are not in any layer
        let is_unwritten = |(dataset, state): (&Arc<OpenDataset>, &_)| {
            let state: &crate::dataset::State = state;
            dataset.settings.has_files() && !state.is_written()
        };
        if of.iter().zip(states.iter().map(|s| &**s)).any(is_unwritten) {
            return Ok(None);
        }
        for (dataset, state) in of.iter().zip(&mut states) {
            let mut dirty = std::mem::take(&mut state.dirty);
            dirty.make_urgent();
            state.pending_snapshot = Some(dirty);
            dataset.ask(state);
        }
        drop(states);
        let (done, receiver) = oneshot::channel();
        self.pending_snapshots
            .add(name.to_owned(), of.to_vec(), done);
        Ok(Some(receiver))
    }

    /// Takes snapshots after all records that belong to them are written. Only the epoch has ended if it fails.
    fn take_snapshots(&mut self, of: &[Arc<OpenDataset>], name: &str) -> Taken {
        if let Some(trouble) = self.shared.trouble() {
            return Err(trouble);
        }
        let created = io::time::wall_clock_ms() * 1_000_000;
        let birth = self.journal.end_epoch();
        let mut changes = Changes::new();
        let ids: Vec<TreeId> = self.pool_tree.claim_ids(of.len(), &mut changes).collect();
        let mut new = Vec::with_capacity(of.len());
        for (volume, id) in of.iter().zip(ids) {
            let state = lock(&volume.state);
            let dataset = Dataset {
                name: name.to_owned(),
                kind: state.dataset.kind.of_snapshots(),
                created,
                birth,
                of: Some(volume.id),
                previous: self.datasets.newest_snapshot(volume.id),
                origin: None,
                quota: 0,
                reservation: 0,
                guid: io::rng::u64(),
                list: ListId(id.0),
                ..state.dataset.clone()
            };
            changes.push((dataset_key(id), Some(dataset.encode())));
            new.push((id, dataset));
        }
        let freeze = |volume: &Arc<OpenDataset>| Record::Freeze(volume.id, birth);
        let ticket = self.change(of.iter().map(freeze).collect(), changes)?;
        let mut taken = Vec::with_capacity(of.len());
        for (volume, (id, dataset)) in of.iter().zip(new) {
            let inner = {
                let mut state = lock(&volume.state);
                state.layers.freeze(birth);
                state.snapshot(dataset)
            };
            let snapshot = OpenDataset::new(id, volume.shared.clone(), inner);
            self.datasets.insert(snapshot.clone());
            self.datasets.mark_changed(volume.id);
            self.checkpointer.add_rootless(id);
            self.shared.budget.snapshot(volume.id);
            taken.push(snapshot);
        }
        Ok((taken, ticket))
    }
}

impl Owner {
    /// Takes a dataset's pending snapshot, and the others of the same request, if all their records are written. Returns
    /// whether the dataset waits for others: nothing of it is written until then.
    pub(in crate::owner) fn finish_snapshot(&self, dataset: &OpenDataset) -> bool {
        {
            let dataset = lock(&dataset.state);
            let pending = dataset.pending_snapshot.as_ref();
            if !pending.is_some_and(Dirty::is_empty) || !dataset.journaled.is_empty() {
                return false;
            }
        }
        let mut state = self.state.borrow_mut();
        let Some(request) = state.pending_snapshots.written(dataset.id) else {
            return true;
        };
        let PendingSnapshot { name, of, done, .. } = request;
        for dataset in &of {
            lock(&dataset.state).pending_snapshot = None;
        }
        done.send(state.take_snapshots(&of, &name));
        if of.len() > 1 {
            // the others were passed over in this turn
            self.shared.bell.ring();
        }
        false
    }
}

impl Pool {
    /// Takes a snapshot of a volume or filesystem, with all acknowledged writes. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::BadName`], [`Error::Busy`] while another snapshot of the volume
    /// is being taken, [`Error::Device`].
    pub async fn create_snapshot(&self, volume: &str, name: &str) -> Result<Volume> {
        let find = |state: &State| {
            let found = state.datasets.volume(volume).cloned();
            Ok(vec![found.ok_or(Error::NotFound)?])
        };
        let mut taken = self.create_snapshots(find, name).await?;
        taken.pop().ok_or(Error::NotFound)
    }

    /// Takes snapshots of one name of a dataset and of all datasets below it (with an empty name: of all datasets), in one epoch: all of them, or none. Of writes to
    /// several datasets that were acknowledged one after the other, none is there without those before it. Durable when this
    /// returns. The first one is that of the dataset.
    ///
    /// # Errors
    /// As [`Pool::create_snapshot`], for each dataset; [`Error::BatchTooLarge`] for some thousands of datasets.
    pub async fn create_snapshot_tree(&self, top: &str, name: &str) -> Result<Vec<Volume>> {
        self.create_snapshots(|state| state.tree_or_all(top), name)
            .await
    }

    async fn create_snapshots(
        &self,
        find: impl Fn(&State) -> Result<Vec<Arc<OpenDataset>>>,
        name: &str,
    ) -> Result<Vec<Volume>> {
        check_name(name)?;
        let take = async || {
            if let Some(trouble) = self.trouble() {
                return Err(trouble);
            }
            let of = find(&self.owner.state.borrow())?;
            let budget = &self.owner.shared.budget;
            if !of.iter().all(|dataset| budget.may_snapshot(dataset.id)) {
                self.checkpoint().await?;
            }
            let files: Vec<_> = of.iter().filter(|d| d.settings.has_files()).collect();
            let gates = all(files.iter().map(|files| files.quiet())).await;
            let _gates: Vec<_> = gates.into_iter().collect::<Result<_>>()?;
            let requested = loop {
                let now = find(&self.owner.state.borrow())?;
                if !now.iter().map(|d| d.id).eq(of.iter().map(|d| d.id)) {
                    return Err(Error::Busy);
                }
                let request = |state: &mut State| state.request_snapshots(&of, name);
                let requested = request(&mut self.owner.state.borrow_mut())?;
                match requested {
                    Some(requested) => break requested,
                    None => {
                        let written = all(files.iter().map(|files| files.durable(true))).await;
                        let _proofs: Vec<_> = written.into_iter().collect::<Result<_>>()?;
                    }
                }
            };
            self.owner.shared.bell.ring();
            requested.await.unwrap_or(Err(Error::Device))
        };
        let (taken, ticket) = self.owner.with_room(take).await?;
        self.owner.durable(ticket).await?;
        Ok(taken.into_iter().map(Volume).collect())
    }
}
