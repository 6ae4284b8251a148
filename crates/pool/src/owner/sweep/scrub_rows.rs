//! The second step of a scrub: rows of a raidz in which something other than the block that was read is wrong.
//!
//! **Owns** the search for all blocks of these rows. **Called by** scrub, when it has read all blocks. **Invariant**: a row is mended
//! only if every sector of it that is used belongs to a block that was found, and while no freed sector of it can be given out.
//! `docs/decisions/0159`.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::{Holds, VisitedBlock, Visitor};
use super::position::Sweep;
use crate::format::{Address, Birth, TreeId, VdevOffset};
use crate::lost::LostBlock;
use crate::owner::{Owner, Pool};
use crate::vdev::limits::RUN_SIZE_MAX;
use crate::vdev::{PlacedBlock, Vdevs};
use crate::{Error, Result};

/// Stored bytes of the blocks of one part of the search.
const PART_BYTES: u64 = 64 << 20;

/// A block in a row: its place, and the dataset in which it was found.
pub(in crate::owner) struct FoundBlock {
    pub(in crate::owner) placed: PlacedBlock,
    pub(in crate::owner) tree: TreeId,
    pub(in crate::owner) lost: LostBlock,
}

/// Blocks by the address at which they are read: their own, or that of their copy.
pub(in crate::owner) type FoundBlocks = BTreeMap<Address, FoundBlock>;

/// Finds the blocks of rows.
struct Search<'a> {
    vdevs: &'a Vdevs,
    rows: &'a BTreeSet<Address>,
    blocks: FoundBlocks,
}

impl Visitor for Search<'_> {
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64> {
        for placed in self.vdevs.places_of(block.ptr) {
            if let Some(rows) = self.vdevs.rows_of(placed)
                && self.rows.range(rows).next().is_some()
            {
                let lost = block.lost(tree, holds);
                let found = FoundBlock { placed, tree, lost };
                self.blocks.insert(placed.at, found);
            }
        }
        Ok(u64::from(block.ptr.physical_size))
    }

    /// A row with blocks below a damaged node has used sectors of no block, and is not mended.
    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {}
}

/// The blocks that reach into a row, by the address at which they are read.
pub(in crate::owner) fn of_row(
    vdevs: &Vdevs,
    row: Address,
    blocks: &FoundBlocks,
) -> BTreeMap<Address, PlacedBlock> {
    let is_in = |block: &PlacedBlock| {
        vdevs
            .rows_of(*block)
            .is_some_and(|rows| rows.contains(&row))
    };
    // a block that reaches into the row begins before its end, and not much before its begin
    let last = vdevs.units_of_row(row).last().unwrap_or(row);
    let first = Address {
        offset: VdevOffset(row.offset.0.saturating_sub(RUN_SIZE_MAX as u64)),
        ..row
    };
    let near = blocks.range(first..=last);
    let blocks = near.map(|(_, found)| found.placed);
    blocks
        .filter(is_in)
        .map(|block| (block.at, block))
        .collect()
}

impl Owner {
    /// Walks all trees for the blocks that reach into these rows.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(in crate::owner) async fn blocks_of_rows(
        &self,
        rows: &BTreeSet<Address>,
    ) -> Result<FoundBlocks> {
        let mut search = Search {
            vdevs: &self.shared.vdevs,
            rows,
            blocks: BTreeMap::new(),
        };
        let mut next = Some(Sweep::new(Birth(0)));
        while let Some(sweep) = next {
            next = self.sweep(sweep, PART_BYTES, &mut search).await?;
            io::yield_now().await;
        }
        Ok(search.blocks)
    }

    /// Whether all used sectors of a row belong to these blocks, and there are some. The row's region is loaded.
    pub(in crate::owner) fn has_all(
        &self,
        row: Address,
        blocks: &BTreeMap<Address, PlacedBlock>,
    ) -> bool {
        let vdevs = &self.shared.vdevs;
        let state = self.state.borrow();
        let space = state.allocator.space();
        let used: Vec<Address> = vdevs
            .units_of_row(row)
            .filter(|unit| space.is_used(*unit) == Some(true))
            .collect();
        let is_of_block = |unit: &Address| {
            let before = blocks.range(..=*unit).next_back();
            before.is_some_and(|(at, block)| {
                let end = at.offset.0 + vdevs.allocated(&block.ptr);
                unit.offset.0 < end
            })
        };
        !used.is_empty() && used.iter().all(is_of_block)
    }
}

impl Pool {
    /// Mends the rows on the list. Returns the number of units that were wrong.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(super) async fn mend_doubtful_rows(&self) -> Result<u64> {
        let owner = &self.owner;
        let rows = owner.doubtful_rows.borrow_mut().take();
        if rows.is_empty() {
            return Ok(0);
        }
        // What the scrub repaired in these rows is durable then, and trees point to all blocks of the rows.
        self.checkpoint().await?;
        let vdevs = &owner.shared.vdevs;
        let blocks = owner.blocks_of_rows(&rows).await?;
        let mut mended = 0;
        for row in &rows {
            // an expansion moves no row between the comparison with the allocator and the repair
            let _hold = vdevs.hold_places(row.vdev).await;
            let _reader = owner.shared.readers.enter();
            // a row that an expansion moved may reach into the next region
            let regions: BTreeSet<_> = {
                let state = owner.state.borrow();
                let space = state.allocator.space();
                let units = vdevs.units_of_row(*row);
                units.filter_map(|unit| space.region_of(unit)).collect()
            };
            let regions: Vec<_> = regions.into_iter().collect();
            let _loaded = owner.load_regions(&regions).await?;
            let of_row = of_row(vdevs, *row, &blocks);
            if owner.has_all(*row, &of_row) {
                let of_row: Vec<PlacedBlock> = of_row.into_values().collect();
                mended += vdevs.mend_row(*row, &of_row).await as u64;
            }
        }
        Ok(mended)
    }
}
