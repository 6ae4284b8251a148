//! Removed vdevs: the places of their blocks, and the end of a removal.
//!
//! **Owns** the step after which a vdev is no part of the pool. **Called by** reads of blocks, and by the pool's owner. **Invariants**: the
//! labels of the other vdevs durably say that the vdev is removed before its own labels are wiped; before that, a durable
//! checkpoint has the place of each block of the vdev. `docs/decisions/0180`.

use std::sync::Arc;

use super::error::SetupError;
use super::{Copies, PlacedBlock, Vdevs, area};
use crate::error::{Error, Result};
use crate::format::{Address, BlockPtr, CopiedRun, Defect, Relocation, VDEVS_MAX, VdevId};

impl Vdevs {
    /// The copies of blocks of vdevs that are being removed, or were removed.
    pub(crate) fn copies(&self) -> &Arc<Copies> {
        &self.copies
    }

    /// Replaces all copies by those of the checkpoint at which the pool is opened.
    ///
    /// # Errors
    /// [`Error::Invalid`] if two of them are of the same block.
    pub(crate) fn know_copies(&self, runs: &[CopiedRun]) -> Result<()> {
        self.copies.clear();
        for run in runs {
            if !self.copies.insert(run) {
                return Err(Error::Invalid(Defect::Field {
                    field: "address of a run of copies, which overlaps another run",
                    value: run.from.offset.0,
                }));
            }
        }
        Ok(())
    }

    /// Whether a vdev was removed.
    pub(crate) fn is_removed(&self, vdev: VdevId) -> bool {
        self.top(vdev).is_some_and(|top| top.is_removed())
    }

    /// Replaces all relocations by those of the checkpoint at which the pool is opened.
    ///
    /// # Errors
    /// [`Error::Invalid`] if one of them is to a vdev that does not exist.
    pub(crate) fn know_relocations(&self, all: &[Relocation]) -> Result<()> {
        if let Some(one) = all.iter().find(|one| self.top(one.to.vdev).is_none()) {
            return Err(Error::Invalid(Defect::Field {
                field: "vdev of a relocation",
                value: one.to.vdev.0.into(),
            }));
        }
        self.copies.relocations().replace(all);
        Ok(())
    }

    /// The address of a block before copies of removals: that of its relocation, or of its pointer.
    pub(crate) fn address_of(&self, ptr: &BlockPtr) -> Address {
        self.copies.relocations().place_of(ptr).at
    }

    /// The address at which blocks are read whose pointers have adjacent addresses; `None` if their bytes are not adjacent.
    pub(super) fn place_of_run(&self, ptrs: &[BlockPtr]) -> Option<Address> {
        let start = self.address_of(ptrs.first()?);
        let mut end = start;
        for ptr in ptrs {
            if self.address_of(ptr) != end {
                return None;
            }
            end = end.behind(self.allocated(ptr) as usize);
        }
        self.place_of(start, end.offset.0 - start.offset.0)
    }

    /// The address at which a range of whole blocks is read; `None` if it is on a removed vdev, and was not copied as one piece.
    fn place_of(&self, mut at: Address, len: u64) -> Option<Address> {
        let mut steps = 0..VDEVS_MAX;
        while self.is_removed(at.vdev) {
            steps.next()?;
            at = self.copies.place_of(at, len)?;
        }
        Some(at)
    }

    /// A block at the address at which it is read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is on a removed vdev, and has no copy.
    pub(super) fn placed(&self, ptr: &BlockPtr) -> Result<PlacedBlock> {
        let len = self.allocated(ptr);
        let own = self.copies.relocations().place_of(ptr);
        let place = self.place_of(own.at, len);
        let at = place.filter(|at| self.holds(*at, len as usize));
        let at = at.ok_or(Error::Corrupt {
            at: ptr.address(),
            defect: Defect::Field {
                field: "offset of a block on a removed vdev, which has no copy",
                value: ptr.offset.0,
            },
        })?;
        let since = (at == own.at).then_some(own.since);
        Ok(PlacedBlock {
            ptr: *ptr,
            at,
            since,
        })
    }

    /// The block at each address on the pool's vdevs that has its bytes: one, or two while its vdev is being removed.
    pub(crate) fn places_of(&self, ptr: &BlockPtr) -> Vec<PlacedBlock> {
        let len = self.allocated(ptr);
        let mut places = Vec::with_capacity(1);
        let own = self.copies.relocations().place_of(ptr);
        let (mut next, mut since) = (Some(own.at), Some(own.since));
        for _ in 0..VDEVS_MAX {
            let Some(at) = next else { break };
            if !self.is_removed(at.vdev) {
                places.push(PlacedBlock {
                    ptr: *ptr,
                    at,
                    since,
                });
            }
            since = None;
            next = self.copies.place_of(at, len);
        }
        places
    }

    /// Takes a vdev out of the pool: labels record this when the call returns, and its disks have no labels any longer, unless it takes no writes. A durable checkpoint
    /// has a copy of each of its blocks, and no task writes to it.
    ///
    /// # Errors
    /// [`SetupError::Device`] if labels could not be written: the vdev may be in or out at the next opening.
    pub(crate) async fn remove(&self, vdev: VdevId) -> std::result::Result<(), SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let top = self.top(vdev).ok_or(SetupError::NoVdev { vdev })?;
        top.set_removed();
        self.write_labels().await.map_err(SetupError::failed)?;
        let members = std::mem::take(&mut *top.members());
        if top.is_gone() {
            return Ok(());
        }
        let mut rings = self.ring_writes.enter(0..1);
        rings.come().await;
        for member in members {
            let leaf = &member.leaf;
            let Some(disk) = leaf.disk() else { continue };
            let wiped = area::wipe_labels(disk, leaf.size(), &self.scratch).await;
            if let Err(error) = wiped {
                tracing::warn!(
                    path = %disk.info().path.display(), %error,
                    "the label of a disk that left the pool was not wiped: use -f to use the disk again"
                );
            }
        }
        Ok(())
    }
}
