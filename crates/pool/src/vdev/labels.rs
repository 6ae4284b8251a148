//! Updates of labels: the description of the pool on every member, written before anything relies on it.
//!
//! **Owns** the time and contents of label updates. **Called by** `Vdevs` and by the opening of a pool. **Invariants**: one
//! task at a time writes labels; each round has its own epoch; a change of membership counts as recorded only when a member
//! of each vdev durably has a label with it and every member without one is out. `docs/decisions/0101`.

use std::sync::{Arc, PoisonError};

use super::leaf::Leaf;
use super::limits::LABEL_ROUNDS_MAX;
use super::member::Reach;
use super::top::TopVdev;
use super::witness::Witness;
use super::{Shared, Vdevs, area, on_leaves};
use crate::error::{Error, Result};
use crate::format::{
    GUID_NONE, Label, LabelEpoch, LabelHistory, MemberEntry, MemberGuid, PoolState,
};

impl Vdevs {
    /// Writes labels if they do not record the present membership yet.
    pub(super) async fn tell_labels(&self) -> Result<()> {
        if self.told() == self.changes.so_far() {
            return Ok(());
        }
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        if self.told() == self.changes.so_far() {
            return Ok(());
        }
        self.write_labels().await
    }

    /// Writes labels with the present state.
    pub(super) async fn relabel(&self) -> Result<()> {
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        self.write_labels().await
    }

    /// Records a feature on all members: a version that does not know it cannot open the pool from now on.
    ///
    /// # Errors
    /// [`Error::Device`] if no member of a vdev has the label. [`Error::ReadOnly`].
    pub(crate) async fn require(&self, feature: &str) -> Result<()> {
        self.require_all(&[feature]).await
    }

    /// As [`Vdevs::require`], with several features: the labels are written once.
    ///
    /// # Errors
    /// Those of [`Vdevs::require`].
    pub(crate) async fn require_all(&self, features: &[&str]) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let new = features
            .iter()
            .filter(|feature| self.shared().features.require(feature));
        match new.count() {
            0 => Ok(()),
            _ => self.relabel().await,
        }
    }

    /// Sets the witness, which records the epoch of all labels from now on, first that of the present ones.
    ///
    /// # Errors
    /// [`Error::Device`] if that failed.
    pub async fn set_witness(&self, witness: Arc<dyn Witness>) -> Result<()> {
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let durable = self.shared().durable;
        if !self.read_only && !witness.record(durable).await {
            return Err(Error::Device);
        }
        let _first_counts = self.witness.set(witness);
        Ok(())
    }

    fn told(&self) -> u64 {
        *self.labelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes labels. The caller has the turn to write labels.
    pub(super) async fn write_labels(&self) -> Result<()> {
        for _ in 0..LABEL_ROUNDS_MAX {
            let changes = self.changes.so_far();
            let labels = self.next_labels();
            let epoch = labels[0].epoch;
            let split = |top| {
                let (counting, stale) = TopVdev::targets_split(top);
                ((top, counting), (top, stale))
            };
            let (counting, stale): (Vec<_>, Vec<_>) = self.stripe.iter().map(split).unzip();
            let results = self.write_round(&labels, counting).await;
            results.into_iter().fold(Ok(()), Result::and)?;
            if changes != self.changes.so_far() {
                continue;
            }
            // A member that fails is recorded as having missed the write.
            let _written = self.write_round(&labels, stale).await;
            if let Some(witness) = self.witness.get()
                && !witness.record(epoch).await
            {
                return Err(Error::Device);
            }
            self.shared().durable = epoch;
            if changes == self.changes.so_far() {
                *self.labelled.lock().unwrap_or_else(PoisonError::into_inner) = changes;
                return Ok(());
            }
        }
        Err(Error::Device)
    }

    /// Writes labels to some members of each vdev. Members that are in come first: otherwise a label that only a stale member
    /// has could be newer than all valid ones, and record the stale member as in.
    async fn write_round(
        &self,
        labels: &[Label],
        members: Vec<(&TopVdev, Vec<Arc<Leaf>>)>,
    ) -> Vec<Result<()>> {
        let write = |top: &TopVdev, leaf: Arc<Leaf>| {
            let mut label = labels[usize::from(top.id().0)].clone();
            label.disk = leaf.guid();
            let scratch = self.scratch.clone();
            async move { area::write_label(&leaf, &label, &scratch).await }
        };
        // The rings of a disk that grew are copied to its end together with its label.
        let mut turn = self.ring_writes.enter(0..1);
        turn.come().await;
        on_leaves(members, Reach::All, write).await
    }

    /// Returns a label for each vdev, with a new epoch. Its disk is any member.
    fn next_labels(&self) -> Vec<Label> {
        let shared = {
            let mut shared = self.shared();
            shared.epoch = LabelEpoch(shared.epoch.0 + 1);
            shared.clone()
        };
        let tops: Vec<_> = self.stripe.all().collect();
        self.labels(shared, &tops)
    }

    /// Returns a label for each of these vdevs, which are all, by index. Its disk is any member. The one for a vdev that was removed is not
    /// written.
    pub(super) fn labels(&self, shared: Shared, tops: &[&TopVdev]) -> Vec<Label> {
        let members: Vec<_> = tops.iter().map(|m| m.member_entries()).collect();
        let vdevs: Vec<_> = tops.iter().map(|m| m.entry()).collect();
        let history = |top: &TopVdev| {
            let known = shared.histories.get(usize::from(top.id().0));
            known.map_or_else(|| shared.histories[0].on_new_vdev(), LabelHistory::clone)
        };
        let label = |(top, members): (&&TopVdev, Vec<MemberEntry>)| Label {
            pool: self.pool,
            name: shared.name.clone(),
            state: shared.state,
            host: shared.host.clone(),
            epoch: shared.epoch,
            disk: members.first().map_or(MemberGuid(GUID_NONE), |m| m.guid),
            vdev: top.id(),
            members,
            vdevs: vdevs.clone(),
            features: shared.features.clone(),
            node_size: self.node_size,
            journal: self.journal,
            rings: shared.rings.clone(),
            history: history(top),
        };
        tops.iter().zip(members).map(label).collect()
    }

    /// Marks the pool as exported. The caller must flush before, and may write nothing after.
    ///
    /// # Errors
    /// [`Error::Device`] if no member of a vdev has the label. [`Error::ReadOnly`].
    pub async fn export(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.shared().state = PoolState::Exported;
        self.relabel().await
    }

    /// Destroys the pool: wipes the labels of every open disk. The caller may write nothing after.
    ///
    /// # Errors
    /// [`Error::Device`] if a disk failed: its label may still name the pool. [`Error::ReadOnly`].
    pub async fn destroy(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let mut result = Ok(());
        for leaf in self.stripe.iter().flat_map(TopVdev::targets) {
            if let Some(disk) = leaf.disk()
                && area::wipe_labels(disk, leaf.size(), &self.scratch)
                    .await
                    .is_err()
            {
                result = Err(Error::Device);
            }
        }
        result
    }
}
