//! Adding a top-level vdev.
//!
//! **Owns** the steps that add a vdev to an open pool. **Called by** the pool's owner, one at a time. **Invariants**: every
//! disk of the new vdev durably has a label before a valid label names the vdev, so that a scan that finds the vdev's name
//! finds all its members; nothing is written to the vdev's data before. `docs/decisions/0111`.

use io::disk::Disk;

use super::cache_label::check_unlabelled;
use super::create::{check_disks, guid, label_of};
use super::error::SetupError;
use super::journal_rings::takes_area;
use super::layout::VdevSpec;
use super::leaf::Leaf;
use super::member::{Changes, Member, MemberState};
use super::space_below::reserve;
use super::top::TopVdev;
use super::{VdevInfo, Vdevs, area};
use crate::format::{Birth, LabelEpoch, MemberGuid, UBERBLOCK_SIZE, VDEVS_MAX, VdevEntry, VdevId};

/// Epoch of labels that are older than any valid label of the pool.
pub(super) const FIRST: LabelEpoch = LabelEpoch(1);

impl Vdevs {
    /// Adds a top-level vdev. The labels name it when this returns.
    ///
    /// # Errors
    /// As for creating a pool, with nothing written. [`SetupError::Io`] and [`SetupError::Device`] if writing failed; after
    /// the second the vdev may belong to the pool.
    pub async fn add(
        &self,
        spec: impl Into<VdevSpec>,
        force: bool,
    ) -> Result<VdevInfo, SetupError> {
        let spec = spec.into();
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        spec.check()?;
        self.check_new(&spec.members, force).await?;
        let entry = self.new_entry(&spec)?;
        let area = self.journal.size_on_member(&entry);
        for disk in &spec.members {
            reserve(disk, disk.info().size, area).await?;
        }
        for disk in &spec.members {
            let wiped = area::wipe_labels(disk, disk.info().size, &self.scratch).await;
            wiped.map_err(|error| SetupError::Io {
                path: disk.info().path.clone(),
                error,
            })?;
        }
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        if self.stripe.len() == VDEVS_MAX {
            return Err(SetupError::Shape { got: VDEVS_MAX + 1 });
        }
        let failed = SetupError::failed;
        if self.shared().durable <= FIRST {
            self.write_labels().await.map_err(failed)?;
        }
        let top = self.new_vdev(spec, entry);
        self.announce(&top).await?;
        let info = self.info(&top);
        self.stripe.push(top);
        self.write_labels().await.map_err(failed)?;
        Ok(info)
    }

    /// Refuses disks that cannot be new in the pool. With force, they may belong to another pool.
    pub(super) async fn check_new(&self, disks: &[Disk], force: bool) -> Result<(), SetupError> {
        check_disks(disks.iter(), self.sector().min(UBERBLOCK_SIZE as u32))?;
        for disk in disks.iter().filter(|_| !force) {
            let Some(label) = label_of(disk, &self.scratch).await? else {
                check_unlabelled(disk, &self.scratch).await?;
                continue;
            };
            // An interrupted addition left the disk labelled with this pool, but it is not a member.
            let is_member = |m: &TopVdev| m.members().iter().any(|s| s.leaf.guid() == label.disk);
            if label.pool != self.pool || self.stripe.iter().any(is_member) {
                let path = disk.info().path.clone();
                let name = label.name;
                return Err(SetupError::InUse { path, name });
            }
        }
        Ok(())
    }

    /// The entry of a new vdev in labels. The journal may move to it, unless it is small.
    fn new_entry(&self, spec: &VdevSpec) -> Result<VdevEntry, SetupError> {
        let mut entry = spec.entry(self.sector().ilog2() as u8, false);
        entry.has_journal = takes_area(self.journal, &entry);
        entry.fitted(self.journal)
    }

    fn new_vdev(&self, spec: VdevSpec, entry: VdevEntry) -> TopVdev {
        let leaves = spec
            .members
            .into_iter()
            .map(|d| Leaf::new(MemberGuid(guid()), d));
        let members = leaves.map(|leaf| Member::new(leaf, MemberState::Online, Birth(0)));
        let changes: Changes = self.changes.clone();
        let id = VdevId(self.stripe.len() as u16);
        let members = members.collect();
        TopVdev::new(
            id,
            entry,
            self.journal,
            members,
            changes,
            self.below.clone(),
        )
    }

    /// Writes a label to each member of a new vdev, older than any valid label. The caller has the turn to write labels.
    async fn announce(&self, top: &TopVdev) -> Result<(), SetupError> {
        let mut shared = self.shared().clone();
        shared.epoch = FIRST;
        let tops: Vec<_> = self.stripe.all().chain([top]).collect();
        let label = self.labels(shared, &tops).pop();
        let mut label = label.expect("there is one for each vdev");
        for leaf in top.targets() {
            label.disk = leaf.guid();
            if !area::write_label(&leaf, &label, &self.scratch).await {
                return Err(SetupError::Device);
            }
        }
        Ok(())
    }
}
