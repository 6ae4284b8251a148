//! Growth of a vdev whose disks became larger.
//!
//! **Owns** the steps by which a vdev uses the new space. **Called by** the pool's owner, while no uberblock is written.
//! **Invariants**: a vdev is as large as the smallest of its disks, all of which must be present; labels have the new size
//! before anything is written to the new space.

use super::error::SetupError;
use super::space_below::reserve;
use super::{VdevInfo, Vdevs};
use crate::format::VdevId;

use super::geometry::{self, data_size_max};

impl Vdevs {
    /// Reads the sizes of a vdev's disks, and uses the space that all of them gained. Returns `None` if there is none, if the
    /// vdev is being expanded, or if a disk is missing or offline: the labels at the ends of all disks move, so none may be left behind.
    ///
    /// # Errors
    /// [`SetupError::NoVdev`], [`SetupError::ReadOnly`]; [`SetupError::FileSystemFull`], with nothing changed, if there is no
    /// space for labels at the new ends; [`SetupError::Device`] if labels could not be written.
    pub async fn grow(&self, vdev: VdevId) -> Result<Option<VdevInfo>, SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let top = self.top(vdev).ok_or(SetupError::NoVdev { vdev })?;
        if top.is_log() {
            // the journal has the same size on each vdev
            return Ok(None);
        }
        if top.expansion().is_some() {
            // the place where the last row ends must stay until all rows are moved
            return Ok(None);
        }
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let leaves = top.targets();
        if leaves.len() != top.members().len() {
            return Ok(None);
        }
        let mut sizes = Vec::with_capacity(leaves.len());
        for leaf in &leaves {
            let size = match leaf.disk() {
                Some(disk) => disk.size().await.ok(),
                None => None,
            };
            let Some(size) = size else { return Ok(None) };
            sizes.push(size);
        }
        let room = sizes.iter().map(|size| geometry::data_size(*size)).min();
        let room = room.unwrap_or(0).min(data_size_max(top.entry().needed()));
        if room <= top.data_size() {
            return Ok(None);
        }
        for (leaf, size) in leaves.iter().zip(&sizes) {
            if let Some(disk) = leaf.disk() {
                reserve(disk, *size, self.journal_of(top)).await?;
            }
        }
        for (leaf, size) in leaves.iter().zip(sizes) {
            leaf.set_size(size);
        }
        top.set_data_size(room);
        let told = self.write_labels().await;
        told.map_err(SetupError::failed)?;
        Ok(Some(self.info(top)))
    }
}
