//! The second part of a walk of the region mover or the class mover: blocks that its records' moves left behind are relocated.
//!
//! These are blocks that snapshots hold, nodes of datasets' trees and of deadlists, and records in fragments. Their pointers stay as
//! they are; the pool's own tree has their new addresses.
//!
//! **Owns** the choice of these blocks, and the entries of relocations. **Called by** the region mover and the class mover. **Invariants**: the entry of a
//! relocation and the free of the old place are in one checkpoint; a block that was freed meanwhile gets no entry; nodes of the pool's own
//! tree, and blocks to which only layers point, are never relocated; nothing is relocated while a vdev is being removed.
//! `docs/decisions/0182`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use super::parts::PartEnd;
use super::state::Moves;
use super::walks::RegionWalk;
use crate::Result;
use crate::dataset::OpenDataset;
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
use crate::space::Targets;
use crate::vdev::PlacedBlock;

/// Stored bytes of the blocks of one part of the walk, of which few are moved.
const PART_BYTES: u64 = 16 << 20;

/// The blocks that are relocated.
#[derive(Clone, Copy)]
pub(super) enum LeftBehind<'a> {
    /// Those in these regions.
    Regions(&'a BTreeSet<(VdevId, u32)>),
    /// Nodes and small records on normal vdevs, as far as special vdevs have room.
    SmallOnNormal,
    /// Records above the threshold on special vdevs.
    LargeOnSpecial,
}

/// Relocates blocks.
struct Relocates<'a> {
    owner: &'a Owner,
    left_behind: LeftBehind<'a>,
    /// Blocks that may get a relocation before there are too many.
    left: Cell<usize>,
    is_full: Cell<bool>,
    /// The slowest rate of the datasets whose blocks were chosen.
    rate: Cell<Option<u64>>,
    moved: Cell<u64>,
}

impl Relocates<'_> {
    /// Whether a block is to be relocated.
    fn is_left_behind(&self, tree: TreeId, ptr: &BlockPtr, holds: Holds) -> bool {
        let vdevs = &self.owner.shared.vdevs;
        let at = vdevs.address_of(ptr);
        let state = self.owner.state.borrow();
        let space = state.allocator.space();
        let is_small = || {
            let small = state.volume_of(tree)?.settings.special_small_blocks();
            Some(vdevs.allocated(ptr) <= u64::from(small))
        };
        match self.left_behind {
            LeftBehind::Regions(regions) => {
                let region = space.region_of(at);
                region.is_some_and(|region| regions.contains(&region))
            }
            LeftBehind::SmallOnNormal if holds == Holds::Node => !vdevs.is_special(at.vdev),
            LeftBehind::SmallOnNormal => {
                !vdevs.is_special(at.vdev)
                    && is_small() == Some(true)
                    && space.takes_small_records()
            }
            LeftBehind::LargeOnSpecial => {
                vdevs.is_special(at.vdev) && holds != Holds::Node && is_small() == Some(false)
            }
        }
    }

    /// Whether blocks of a tree may be moved.
    fn may_move(&self, tree: TreeId) -> bool {
        if tree == DEAD_TREE {
            return true;
        }
        let state = self.owner.state.borrow();
        let rate = state.volume_of(tree);
        let rate = rate.map(|volume| volume.settings.autodefrag());
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

impl CopyGoal for Relocates<'_> {
    fn wants(&self, tree: TreeId, ptr: &BlockPtr, holds: Holds) -> Option<PlacedBlock> {
        if tree == DESTROYED || holds == Holds::Layered || !is_relocatable(ptr.into()) {
            return None;
        }
        let vdevs = &self.owner.shared.vdevs;
        if !self.is_left_behind(tree, ptr, holds) || !self.may_move(tree) {
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

    fn targets(&self) -> &[Targets] {
        match self.left_behind {
            LeftBehind::Regions(_) | LeftBehind::LargeOnSpecial => &[Targets::All],
            LeftBehind::SmallOnNormal => &[Targets::Special],
        }
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
    /// The volume that a tree belongs to, also as a snapshot. `None` if it is of no dataset.
    fn volume_of(&self, tree: TreeId) -> Option<&Arc<OpenDataset>> {
        let dataset = self.datasets.get(tree)?;
        match dataset.dataset().of {
            Some(volume) => self.datasets.get(volume),
            None => Some(dataset),
        }
    }

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
        if walk.chosen.is_empty() {
            return Ok(false);
        }
        walk.sweep = self.begin_sweep().await?;
        Ok(walk.sweep.is_some())
    }

    /// The begin of a sweep that relocates blocks. `None` while a vdev is being removed.
    ///
    /// # Errors
    /// Those of labels.
    pub(super) async fn begin_sweep(&self) -> Result<Option<Sweep>> {
        if self.state.borrow().leaving().is_some() {
            return Ok(None);
        }
        let vdevs = &self.shared.vdevs;
        vdevs.require(FEATURE_RELOCATED_BLOCKS).await?;
        self.mover.regions.is_full.set(false);
        Ok(Some(Sweep {
            stage: SweepStage::Dead,
            ..Sweep::new(Birth(0))
        }))
    }

    /// Relocates the blocks of the next part of a walk, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage.
    pub(super) async fn relocate_next_part(
        self: &Rc<Self>,
        position: &mut Option<Sweep>,
        left_behind: LeftBehind<'_>,
    ) -> Result<PartEnd> {
        let Some(sweep) = *position else {
            return Ok(PartEnd::Done);
        };
        let has_space = {
            // entries of relocations need space on normal vdevs
            let state = self.state.borrow();
            let movable = state.allocator.space().movable();
            self.shared.budget.left_for_moves(movable) > 0
        };
        if !has_space {
            return Ok(PartEnd::NoSpace);
        }
        let pace = self.begin_pace();
        let regions = &self.mover.regions;
        let known = self.shared.vdevs.copies().relocations().len();
        let goal = Relocates {
            owner: self,
            left_behind,
            left: Cell::new(regions.relocations_max.get().saturating_sub(known)),
            is_full: Cell::new(false),
            rate: Cell::new(None),
            moved: Cell::new(0),
        };
        let mut copier = BlockCopier::new(self, goal);
        let next = copier.copy_part(sweep, PART_BYTES).await?;
        let (done, goal) = (copier.walk(), copier.goal());
        let moved = goal.moved.get();
        match left_behind {
            LeftBehind::Regions(_) => {
                regions.relocated.set(regions.relocated.get() + moved);
                self.mover.count(Moves::Regions, moved);
            }
            _ => self.mover.count(Moves::Class, moved),
        }
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
                0 => PartEnd::NoSpace,
                _ => PartEnd::More,
            });
        }
        *position = next;
        self.keep_pace(pace, rate, moved).await;
        io::yield_now().await;
        Ok(match next {
            Some(_) => PartEnd::More,
            None => PartEnd::Done,
        })
    }
}
