//! Freed sectors that are not reusable yet.
//!
//! **Owns** the steps from a free to its release. **Called by** [`super::Space`]. **Invariants**: a sector is in one set
//! at most; a freed sector counts as used until its checkpoint is released. Regions with freed sectors need not be loaded before
//! their checkpoint saves them.

use super::Space;
use super::freed::{Freed, Frees, Sealed};
use super::vdev::VdevRegions;
use crate::format::{Address, Defect, RegionBits, VdevId};

impl VdevRegions {
    /// Notes that a block is freed. Returns whether it is a node of the pool's own tree. A block of a region that is not loaded is
    /// compared with the bitmap when the region is loaded.
    fn free_block(&mut self, at: Address, bytes: u32) -> Result<bool, Defect> {
        let (number, start, count) = self.place(at, bytes);
        let is_node = self.pool.any(self.range(at, bytes));
        let is_used = match self.loaded.get(&number) {
            Some(region) => region.used.all(start, count),
            None => number < self.fresh && !self.empty.contains(&number),
        };
        if !is_used {
            return Err(not_used(at));
        }
        if !is_node {
            self.unsaved.insert(number);
        }
        Ok(is_node)
    }
}

/// The error for a block that is freed without being used.
fn not_used(at: Address) -> Defect {
    Defect::Field {
        field: "offset of a block that is freed and was not used",
        value: at.offset.0,
    }
}

impl Space {
    /// Frees a block. Its sectors are reusable after the next checkpoint.
    ///
    /// # Errors
    /// The block is outside its vdev's space, not used, or already freed. Nothing is changed. A block of a region that is not
    /// loaded is taken as used; [`Space::load`] finds out.
    pub fn free(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        self.free_into(at, bytes, |frees| &mut frees.current)
    }

    /// As [`Space::free`] for a block that was born after the current checkpoint began. Replay after that checkpoint
    /// puts the block and frees it, so its sectors are reusable only after the next one.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub fn free_young(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        self.free_into(at, bytes, |frees| match &mut frees.young {
            Some(young) => young,
            None => &mut frees.current,
        })
    }

    /// Frees a node of the pool's own tree together with what `sealed` frees.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub fn free_with(&mut self, sealed: &Sealed, at: Address, bytes: u32) -> Result<(), Defect> {
        let number = sealed.0;
        self.free_into(at, bytes, |frees| frees.sealed.entry(number).or_default())
    }

    fn free_into(
        &mut self,
        at: Address,
        bytes: u32,
        choose: impl FnOnce(&mut Frees) -> &mut Freed,
    ) -> Result<(), Defect> {
        let (vdev, index) = self.vdev(at, bytes)?;
        let range = vdev.range(at, bytes);
        let sectors = (range.end - range.start) as i64 * vdev.sector() as i64;
        if self.frees.any(index, range.clone()) {
            return Err(not_used(at));
        }
        let is_node = self.vdevs[index].free_block(at, bytes)?;
        let freed = choose(&mut self.frees);
        let set = if is_node {
            &mut freed.nodes
        } else {
            &mut freed.blocks
        };
        set.of_mut(index).insert(range);
        let vdev = &mut self.vdevs[index];
        vdev.used -= sectors;
        vdev.pending += sectors;
        Ok(())
    }

    /// A checkpoint begins. It holds all blocks born until now.
    pub fn begin_checkpoint(&mut self) {
        self.is_checkpointing = true;
        self.frees.young = Some(Freed::default());
    }

    /// Seals the current checkpoint: from now on it frees no more blocks. Its regions are to be saved:
    /// [`Space::next_to_save`].
    pub fn seal(&mut self) -> Sealed {
        for (index, vdev) in self.vdevs.iter_mut().enumerate() {
            let unsaved = std::mem::take(&mut vdev.unsaved);
            self.saving.extend(unsaved.into_iter().map(|r| (index, r)));
        }
        self.frees.seal()
    }

    /// Makes the sectors reusable that a checkpoint freed. It is durable, and no reader can come to them.
    pub fn release(&mut self, sealed: Sealed) {
        let freed = self.frees.sealed.remove(&sealed.0).unwrap_or_default();
        let oldest = self.frees.sealed.keys().next();
        let seal = (sealed.0, oldest.is_none_or(|oldest| *oldest > sealed.0));
        let (is_node, is_block) = (true, false);
        for (sectors, is_node) in [(&freed.blocks, is_block), (&freed.nodes, is_node)] {
            for (index, set) in sectors.all() {
                let vdev = &mut self.vdevs[index];
                for (region, runs) in set.regions() {
                    let count: u64 = runs.iter().map(|(_, count)| u64::from(*count)).sum();
                    vdev.pending -= (count * vdev.sector()) as i64;
                    match is_node {
                        true => vdev.release_nodes(region, &runs),
                        false => vdev.release(region, &runs, seal),
                    }
                }
            }
        }
        let mut all = freed.blocks;
        all.add(&freed.nodes);
        self.trims.released(all);
    }

    /// The sectors that a checkpoint frees on a vdev, by region.
    pub(crate) fn freed_on(
        &self,
        sealed: &Sealed,
        vdev: VdevId,
    ) -> impl Iterator<Item = (u32, RegionBits)> {
        let index = usize::from(vdev.0);
        let freed = self.frees.sealed.get(&sealed.0);
        let sets = freed.into_iter().flat_map(move |freed| {
            let (blocks, nodes) = (freed.blocks.of(index), freed.nodes.of(index));
            blocks.into_iter().chain(nodes)
        });
        sets.flat_map(|set| {
            set.regions().map(|(region, runs)| {
                let mut bits = RegionBits::default();
                runs.iter()
                    .for_each(|(start, count)| bits.set(*start, *count));
                (region, bits)
            })
        })
    }
}
