//! The blocks that a resilver copies next: the due blocks with the lowest addresses behind its position.
//!
//! **Owns** these blocks, sorted by address, and their limit. **Called by** the resilver, which fills a window by a sweep over all
//! trees and then empties it in the order of addresses, and by checkpoints, which take freed blocks out. **Invariants**: a
//! window has no block whose space was given out again; it has all blocks that the sweep visited between its start and its end,
//! but no freed ones; it ends with a row. `docs/decisions/0160`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use crate::format::{Birth, BlockPtr, REGION_SECTORS, ResilverPosition, VdevId};
use crate::space::{Sealed, Space};
use crate::vdev::{PlacedBlock, Vdevs};

/// Least number of blocks of a window: more than a row has.
const BLOCKS_MIN: usize = 64;

/// The blocks that a member may lack.
#[derive(Debug, Clone, Copy)]
pub(in crate::owner) struct Due {
    pub(in crate::owner) vdev: VdevId,
    /// The member has all blocks placed up to this epoch.
    pub(in crate::owner) held: Birth,
    /// Younger blocks may be in flight to all members.
    pub(in crate::owner) up_to: Birth,
    /// Where an earlier resilver of the member was interrupted.
    pub(in crate::owner) position: Option<ResilverPosition>,
    /// No copy of a block of another vdev is younger; zero without copies.
    pub(in crate::owner) copies: Birth,
    /// No relocation to the vdev is younger; zero without relocated blocks.
    pub(in crate::owner) relocations: Birth,
}

impl Due {
    /// Whether the member may lack a block. A copy may be as young as the youngest one.
    pub(in crate::owner) fn has(&self, block: &PlacedBlock) -> bool {
        let placed = block.since.unwrap_or(self.copies);
        let is_young = placed > self.up_to && !block.is_copy();
        let at = (placed, block.at.offset);
        let is_copied = |position: ResilverPosition| position.has(self.held, at);
        block.at.vdev == self.vdev
            && placed > self.held
            && !is_young
            && !self.position.is_some_and(is_copied)
    }

    /// The places of a block that the member may lack.
    pub(in crate::owner) fn lacking(&self, ptr: &BlockPtr, vdevs: &Vdevs) -> Vec<PlacedBlock> {
        let mut places = vdevs.places_of(ptr);
        places.retain(|block| self.has(block));
        places
    }

    /// The member has all blocks placed up to this epoch, the copies, and the relocated blocks.
    pub(in crate::owner) fn since(&self) -> Birth {
        match self.copies.max(self.relocations) > self.held {
            true => Birth(0),
            false => self.held,
        }
    }
}

/// The offset of the row in which a block begins; on a mirror, of the block.
fn start_of_row(block: &PlacedBlock, vdevs: &Vdevs) -> u64 {
    let row = vdevs.rows_of(*block).map(|rows| rows.start().offset.0);
    row.unwrap_or(block.at.offset.0)
}

/// See the module header.
pub(in crate::owner) struct ResilverWindow {
    due: Due,
    /// The most blocks.
    most: usize,
    start: u64,
    /// Exclusive; `u64::MAX` if all blocks behind the start fit.
    end: u64,
    blocks: BTreeMap<u64, PlacedBlock>,
}

impl ResilverWindow {
    /// The address at which the next window starts; `None` if this is the last one.
    pub(super) fn next_start(&self) -> Option<u64> {
        (self.end < u64::MAX).then_some(self.end)
    }

    /// The address below which all blocks were taken; the start of a row of a raidz.
    pub(in crate::owner) fn position(&self, vdevs: &Vdevs) -> u64 {
        let first = self.blocks.first_key_value();
        first.map_or(self.end, |(_, block)| start_of_row(block, vdevs))
    }

    /// Adds a block that the member may lack. Blocks with higher addresses leave if there are too many.
    pub(in crate::owner) fn add(&mut self, ptr: &BlockPtr, vdevs: &Vdevs) {
        for block in self.due.lacking(ptr, vdevs) {
            self.add_place(block, vdevs);
        }
    }

    fn add_place(&mut self, block: PlacedBlock, vdevs: &Vdevs) {
        if !(self.start..self.end).contains(&block.at.offset.0) {
            return;
        }
        self.blocks.insert(block.at.offset.0, block);
        if self.blocks.len() > self.most
            && let Some((_, last)) = self.blocks.pop_last()
        {
            // the next window has all blocks of a row, or none
            self.end = start_of_row(&last, vdevs);
            drop(self.blocks.split_off(&self.end));
        }
    }

    /// Takes the blocks of the first run. Blocks that a checkpoint in progress frees are left out. Returns the run, and the bytes
    /// of all blocks that were taken; `None` at the end of the window.
    ///
    /// The caller registers as a reader in the same step: until then, no other checkpoint frees a block of the run.
    pub(super) fn take_run(
        &mut self,
        vdevs: &Vdevs,
        space: &Space,
    ) -> Option<(Vec<PlacedBlock>, u64)> {
        let used = self.blocks.values();
        let run = vdevs.first_run(used.filter(|block| !space.is_freed(block.at)));
        let last = run.last().map_or(u64::MAX, |block| block.at.offset.0);
        let mut bytes = 0;
        while let Some(first) = self.blocks.first_entry().filter(|e| *e.key() <= last) {
            bytes += u64::from(first.remove().ptr.physical_size);
        }
        (bytes > 0).then_some((run, bytes))
    }

    /// Takes out the blocks whose space may be given out from now on.
    fn forget(&mut self, space: &Space, sealed: &Sealed, sector: u64) {
        let size = u64::from(REGION_SECTORS) * sector;
        for (region, bits) in space.freed_on(sealed, self.due.vdev) {
            let start = u64::from(region) * size;
            let blocks = self.blocks.range(start..start + size);
            let is_freed = |offset: &&u64| bits.any(((*offset - start) / sector) as u32, 1);
            let freed: Vec<u64> = blocks.map(|(o, _)| o).filter(is_freed).copied().collect();
            for offset in freed {
                self.blocks.remove(&offset);
            }
        }
    }
}

/// The windows of the resilvers in progress.
pub(in crate::owner) struct ResilverWindows {
    most: usize,
    open: RefCell<Vec<Weak<RefCell<ResilverWindow>>>>,
}

impl ResilverWindows {
    /// Windows of at most `most` blocks.
    pub(in crate::owner) fn new(most: usize) -> Self {
        Self {
            most: most.max(BLOCKS_MIN),
            open: RefCell::default(),
        }
    }

    /// An empty window, for the blocks from an address on.
    pub(in crate::owner) fn open(&self, due: Due, start: u64) -> Rc<RefCell<ResilverWindow>> {
        let window = Rc::new(RefCell::new(ResilverWindow {
            due,
            most: self.most,
            start,
            end: u64::MAX,
            blocks: BTreeMap::new(),
        }));
        let mut open = self.open.borrow_mut();
        open.retain(|window| window.strong_count() > 0);
        open.push(Rc::downgrade(&window));
        window
    }

    /// Takes the blocks that a checkpoint freed out of all windows. Called in the step in which their space becomes reusable.
    pub(in crate::owner) fn forget(&self, space: &Space, sealed: &Sealed, sector: u64) {
        for window in self.open.borrow().iter().filter_map(Weak::upgrade) {
            window.borrow_mut().forget(space, sealed, sector);
        }
    }
}
