//! The walk that copies the blocks of a vdev that is being removed.
//!
//! **Owns** the choice of these blocks, and the map's entries for their copies. **Called by** the remover. **Invariants**: a block that is
//! freed before its copy is noted gets no entry; runs of copies do not reach over the ends of regions. `docs/decisions/0180`.

use std::rc::Rc;

use crate::Result;
use crate::format::{
    Address, Birth, BlockPtr, CopiedRun, REGION_SECTORS, RemovalEntry, RemovalStep, TreeId, VdevId,
    copy_key,
};
use crate::owner::block_copier::{BlockCopier, CopyGoal, CopyWalk};
use crate::owner::sweep::blocks::Holds;
use crate::owner::sweep::position::Sweep;
use crate::owner::{Owner, State};
use crate::space::Targets;
use crate::vdev::PlacedBlock;

/// Stored bytes of the blocks of one part of the walk.
const PART_BYTES: u64 = 64 << 20;

/// Copies all blocks of a vdev.
struct Leaves<'a> {
    owner: &'a Owner,
    vdev: VdevId,
}

impl CopyGoal for Leaves<'_> {
    fn wants(&self, _: TreeId, ptr: &BlockPtr, _: Holds) -> Option<PlacedBlock> {
        // a block with a copy has a second place
        match self.owner.shared.vdevs.places_of(ptr)[..] {
            [place] if place.at.vdev == self.vdev => Some(place),
            _ => None,
        }
    }

    fn goes_on(&self) -> bool {
        self.owner.may_remove() && self.owner.state.borrow().copies_from(self.vdev)
    }

    fn targets(&self) -> &[Targets] {
        match self.owner.shared.vdevs.is_special(self.vdev) {
            true => &[Targets::Special, Targets::All],
            false => &[Targets::All],
        }
    }

    fn note(&self, copies: &[(PlacedBlock, Address)]) {
        let noted = self.owner.state.borrow_mut().note_copies(copies);
        let copied = &self.owner.remover.copied;
        copied.set(copied.get() + noted);
    }
}

impl State {
    /// Whether blocks are copied from a vdev.
    fn copies_from(&self, vdev: VdevId) -> bool {
        let leaving = self.leaving();
        leaving.is_some_and(|(of, entry)| of == vdev && entry.step != RemovalStep::Stopping)
    }

    /// Notes copies that were written. Blocks that were freed meanwhile get no entry, and their copies are freed. Returns the bytes of all.
    fn note_copies(&mut self, copies: &[(PlacedBlock, Address)]) -> u64 {
        let vdevs = self.shared.vdevs.clone();
        let mut runs: Vec<CopiedRun> = Vec::new();
        let mut copied = 0;
        for (block, to) in copies {
            let bytes = vdevs.allocated(&block.ptr);
            copied += bytes;
            let space = self.allocator.space_mut();
            if space.is_freed(block.at) {
                let freed = space.free(*to, block.ptr.physical_size);
                freed.expect("a copy that was just written is used");
                continue;
            }
            let region = u64::from(REGION_SECTORS) * u64::from(vdevs.sector());
            match runs.last_mut() {
                Some(run)
                    if run.from.behind(run.bytes as usize) == block.at
                        && run.to.behind(run.bytes as usize) == *to
                        && !block.at.offset.0.is_multiple_of(region) =>
                {
                    run.bytes += bytes;
                }
                _ => runs.push(CopiedRun {
                    from: block.at,
                    to: *to,
                    bytes,
                }),
            }
        }
        let Some(vdev) = runs.first().map(|run| run.from.vdev) else {
            return copied;
        };
        for run in &runs {
            assert!(vdevs.copies().insert(run), "{run:?} was copied twice");
            self.pool_tree.put(copy_key(run.from), Some(run.encode()));
        }
        // it may have been given up while the copies were written
        if let Some((_, entry)) = self.leaving() {
            let up_to = self.journal.epoch();
            self.pool_tree
                .note_removal(vdev, RemovalEntry { up_to, ..entry });
        }
        copied
    }
}

impl Owner {
    /// Copies all blocks of a vdev that have no copy, as far as they are right and free space lasts. `rest` is called after each part.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    pub(super) async fn copy_blocks(
        self: &Rc<Self>,
        vdev: VdevId,
        rest: impl AsyncFn(),
    ) -> Result<CopyWalk> {
        let mut copier = BlockCopier::new(self, Leaves { owner: self, vdev });
        let mut next = Some(Sweep::new(Birth(0)));
        while let Some(sweep) = next {
            next = copier.copy_part(sweep, PART_BYTES).await?;
            let walk = copier.walk();
            if !walk.is_short && !walk.is_stopped {
                rest().await;
            }
        }
        Ok(copier.walk())
    }
}
