//! Adding a top-level vdev.
//!
//! **Owns** the steps that add a vdev to an open pool. **Called by** the pool's owner, one at a time. **Invariants**: every
//! disk of the new vdev durably has a label before a valid label names the vdev, so that a scan that finds the vdev's name
//! finds all its members; nothing is written to the vdev's data before. `docs/decisions/0111`.

use io::disk::Disk;

use super::create::{check_disks, guid, label_of};
use super::error::SetupError;
use super::leaf::Leaf;
use super::mirror::{Changes, Member, MemberState, Mirror};
use super::space_below::reserve;
use super::{VdevInfo, Vdevs, area, geometry};
use crate::format::{
    Birth, LabelEpoch, MEMBERS_MAX, MemberGuid, UBERBLOCK_SIZE, VDEVS_MAX, VdevEntry, VdevGuid,
    VdevId, VdevKind,
};

/// Epoch of labels that are older than any valid label of the pool.
const FIRST: LabelEpoch = LabelEpoch(1);

impl Vdevs {
    /// Adds a top-level vdev: a disk, or the members of a mirror. The labels name it when this returns.
    ///
    /// # Errors
    /// As for creating a pool, with nothing written. [`SetupError::Io`] and [`SetupError::Device`] if writing failed; after
    /// the second the vdev may belong to the pool.
    pub async fn add(&self, disks: Vec<Disk>, force: bool) -> Result<VdevInfo, SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        self.check_new(&disks, force).await?;
        for disk in &disks {
            // The vdev gets no part of the journal.
            reserve(disk, disk.info().size, 0).await?;
        }
        for disk in &disks {
            let wiped = area::wipe_labels(disk, disk.info().size, &self.scratch).await;
            wiped.map_err(|error| SetupError::Io {
                path: disk.info().path.clone(),
                error,
            })?;
        }
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        if self.mirrors.len() == VDEVS_MAX {
            return Err(SetupError::Shape { got: VDEVS_MAX + 1 });
        }
        let failed = SetupError::failed;
        if self.shared().durable <= FIRST {
            self.write_labels().await.map_err(failed)?;
        }
        let mirror = self.new_mirror(disks);
        self.announce(&mirror).await?;
        let info = self.info(&mirror);
        self.mirrors.push(mirror);
        self.write_labels().await.map_err(failed)?;
        Ok(info)
    }

    async fn check_new(&self, disks: &[Disk], force: bool) -> Result<(), SetupError> {
        if disks.is_empty() || disks.len() > MEMBERS_MAX {
            return Err(SetupError::Shape { got: disks.len() });
        }
        check_disks(disks.iter(), self.sector().min(UBERBLOCK_SIZE as u32))?;
        for disk in disks.iter().filter(|_| !force) {
            let Some(label) = label_of(disk, &self.scratch).await? else {
                continue;
            };
            // An interrupted addition left the disk labelled with this pool, but it is not a member.
            let is_member = |m: &Mirror| m.members().iter().any(|s| s.leaf.guid() == label.disk);
            if label.pool != self.pool || self.mirrors.iter().any(is_member) {
                let path = disk.info().path.clone();
                let name = label.name;
                return Err(SetupError::InUse { path, name });
            }
        }
        Ok(())
    }

    fn new_mirror(&self, disks: Vec<Disk>) -> Mirror {
        let size = disks
            .iter()
            .map(|disk| geometry::data_size(disk.info().size));
        let entry = VdevEntry {
            guid: VdevGuid(guid()),
            kind: match disks.len() {
                1 => VdevKind::Disk,
                _ => VdevKind::Mirror,
            },
            ashift: self.sector().ilog2() as u8,
            members: disks.len() as u16,
            data_size: size.min().unwrap_or(0),
        };
        let leaves = disks.into_iter().map(|d| Leaf::new(MemberGuid(guid()), d));
        let members = leaves.map(|leaf| Member::new(leaf, MemberState::Online, Birth(0)));
        let changes: Changes = self.changes.clone();
        let id = VdevId(self.mirrors.len() as u16);
        Mirror::new(id, entry, members.collect(), changes, self.below.clone())
    }

    /// Writes a label to each member of a new vdev, older than any valid label. The caller has the turn to write labels.
    async fn announce(&self, mirror: &Mirror) -> Result<(), SetupError> {
        let mut shared = self.shared().clone();
        shared.epoch = FIRST;
        let mirrors: Vec<_> = self.mirrors.iter().chain([mirror]).collect();
        let label = self.labels(shared, &mirrors).pop();
        let mut label = label.expect("there is one for each vdev");
        for leaf in mirror.targets() {
            label.disk = leaf.guid();
            if !area::write_label(&leaf, &label, &self.scratch).await {
                return Err(SetupError::Device);
            }
        }
        Ok(())
    }
}
