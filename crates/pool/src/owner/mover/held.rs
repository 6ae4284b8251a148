//! The second part of a walk of the region mover: blocks that its records' moves left in the regions are relocated.
//!
//! These are blocks that snapshots hold, nodes of datasets' trees and of deadlists, and records in fragments. Their pointers stay as
//! they are; the pool's own tree has their new addresses.
//!
//! **Owns** the choice of these blocks, and the entries of relocations. **Called by** the region mover. **Invariants**: the entry of a
//! relocation and the free of the old place are in one checkpoint; a block that was freed meanwhile gets no entry; nodes of the pool's own
//! tree, and blocks to which only layers point, are never relocated; nothing is relocated while a vdev is being removed.
//! `docs/decisions/0182`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::parts::PartEnd;
use super::state::Moves;
use super::walks::RegionWalk;
use crate::Result;
use crate::format::{
    Address, Autodefrag, Birth, BlockName, BlockPtr, FEATURE_RELOCATED_BLOCKS, Relocation, TreeId,
    VdevId, is_relocatable, relocation_key,
};
use crate::owner::block_copier::{BlockCopier, CopyGoal};
use crate::owner::destroy::deadlists::DEAD_TREE;
use crate::owner::sweep::blocks::Holds;
use crate::owner::sweep::position::{Sweep, SweepStage};
use crate::owner::{Owner, State};
use crate::shared::DESTROYED;
use crate::vdev::PlacedBlock;

/// Stored bytes of the blocks of one part of the walk, of which few are moved.
const PART_BYTES: u64 = 16 << 20;

/// Relocates the blocks of regions.
struct Empties<'a> {
    owner: &'a Owner,
    regions: &'a BTreeSet<(VdevId, u32)>,
    /// Blocks that may get a relocation before there are too many.
    left: Cell<usize>,
    is_full: Cell<bool>,
    /// The slowest rate of the datasets whose blocks were chosen.
    rate: Cell<Option<u64>>,
    moved: Cell<u64>,
}

impl Empties<'_> {
    /// Whether blocks of a tree may be moved.
    fn may_move(&self, tree: TreeId) -> bool {
        if tree == DEAD_TREE {
            return true;
        }
        let state = self.owner.state.borrow();
        let dataset = state.datasets.get(tree);
        let volume = dataset.and_then(|dataset| match dataset.dataset().of {
            Some(volume) => state.datasets.get(volume),
            None => Some(dataset),
        });
        let rate = volume.map(|volume| volume.settings.autodefrag());
        match rate {
            Some(Autodefrag::Rate(rate)) => {
                let slowest = self.rate.get().map_or(rate, |other| other.min(rate));
                self.rate.set(Some(slowest));
                true
            }
            Some(rate) => rate != Autodefrag::Off,
            None => false,
        }
    }
}

impl CopyGoal for Empties<'_> {
    fn wants(&self, tree: TreeId, ptr: &BlockPtr, holds: Holds) -> Option<PlacedBlock> {
        if tree == DESTROYED || holds == Holds::Layered || !is_relocatable(ptr.into()) {
            return None;
        }
        let vdevs = &self.owner.shared.vdevs;
        let region = {
            let state = self.owner.state.borrow();
            state.allocator.space().region_of(vdevs.address_of(ptr))
        };
        if !self.regions.contains(&region?) || !self.may_move(tree) {
            return None;
        }
        // a block of a removed vdev is read at the place of a copy, and stays there
        let [place] = vdevs.places_of(ptr)[..] else {
            return None;
        };
        place.since?;
        if vdevs.copies().relocations().find(ptr).is_none() {
            let Some(left) = self.left.get().checked_sub(1) else {
                self.is_full.set(true);
                return None;
            };
            self.left.set(left);
        }
        Some(place)
    }

    fn goes_on(&self) -> bool {
        self.owner.may_move() && self.owner.state.borrow().leaving().is_none()
    }

    fn note(&self, copies: &[(PlacedBlock, Address)]) {
        let moved = self.owner.state.borrow_mut().note_relocations(copies);
        self.moved.set(self.moved.get() + moved);
    }
}

impl State {
    /// Notes relocations whose blocks were written, and frees the old places. Blocks that were freed meanwhile get no entry, and their new
    /// places are freed. Returns the bytes of the others.
    fn note_relocations(&mut self, copies: &[(PlacedBlock, Address)]) -> u64 {
        let vdevs = self.shared.vdevs.clone();
        let epoch = self.journal.epoch();
        let mut moved = 0;
        for (block, to) in copies {
            let ptr = &block.ptr;
            let is_there = vdevs.address_of(ptr) == block.at;
            if !is_there || self.allocator.space().is_freed(block.at) {
                self.allocator.free_old_place(*to, ptr);
                continue;
            }
            let bytes = vdevs.allocated(ptr);
            let relocation = Relocation {
                of: BlockName::from(ptr),
                to: *to,
                bytes: bytes as u32,
                epoch,
            };
            let entry = Some(relocation.encode());
            self.pool_tree.put(relocation_key(relocation.of), entry);
            vdevs.copies().relocations().put(&relocation);
            self.allocator.free_old_place(block.at, ptr);
            moved += bytes;
        }
        moved
    }
}

impl Owner {
    /// Begins the second part of a walk. False if no region has used sectors.
    ///
    /// # Errors
    /// Those of a checkpoint.
    pub(super) async fn begin_relocating(&self, walk: &mut RegionWalk) -> Result<bool> {
        // the records that were moved have left their regions
        self.free_moved().await?;
        {
            let state = self.state.borrow();
            let space = state.allocator.space();
            walk.chosen
                .retain(|(vdev, region)| space.used_in(*vdev, *region) > 0);
        }
        if walk.chosen.is_empty() || self.state.borrow().leaving().is_some() {
            return Ok(false);
        }
        let vdevs = &self.shared.vdevs;
        vdevs.require(FEATURE_RELOCATED_BLOCKS).await?;
        self.mover.regions.is_full.set(false);
        walk.sweep = Some(Sweep {
            stage: SweepStage::Dead,
            ..Sweep::new(Birth(0))
        });
        Ok(true)
    }

    /// Relocates the blocks of the next part of a walk, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage.
    pub(super) async fn relocate_next_part(
        self: &Rc<Self>,
        walk: &mut RegionWalk,
    ) -> Result<PartEnd> {
        let Some(sweep) = walk.sweep else {
            return Ok(PartEnd::Done);
        };
        let pace = self.begin_pace();
        let regions = &self.mover.regions;
        let known = self.shared.vdevs.copies().relocations().len();
        let goal = Empties {
            owner: self,
            regions: &walk.chosen,
            left: Cell::new(regions.relocations_max.get().saturating_sub(known)),
            is_full: Cell::new(false),
            rate: Cell::new(None),
            moved: Cell::new(0),
        };
        let mut copier = BlockCopier::new(self, goal);
        let next = copier.copy_part(sweep, PART_BYTES).await?;
        let (done, goal) = (copier.walk(), copier.goal());
        let moved = goal.moved.get();
        regions.relocated.set(regions.relocated.get() + moved);
        self.mover.count(Moves::Regions, moved);
        regions
            .is_full
            .set(regions.is_full.get() || goal.is_full.get());
        let rate = goal.rate.get().map_or(Autodefrag::On, Autodefrag::Rate);
        if done.is_stopped {
            return Ok(PartEnd::Stopped);
        }
        if done.is_short {
            // the checkpoint makes the places reusable that the blocks left
            self.free_moved().await?;
            return Ok(match moved {
                0 => PartEnd::Done,
                _ => PartEnd::More,
            });
        }
        walk.sweep = next;
        self.keep_pace(pace, rate, moved).await;
        io::yield_now().await;
        Ok(match next {
            Some(_) => PartEnd::More,
            None => PartEnd::Done,
        })
    }
}
