//! The second step of a scrub: rows of a raidz in which something other than the block that was read is wrong.
//!
//! **Owns** the search for all blocks of these rows. **Called by** scrub, when it has read all blocks. **Invariant**: a row is mended
//! only if every sector of it that is used belongs to a block that was found, and while no freed sector of it can be given out.
//! `docs/decisions/0159`.

use std::collections::BTreeMap;

use super::blocks::{Holds, Sweep, VisitedBlock, Visitor};
use crate::format::{Address, Birth, BlockPtr, TreeId};
use crate::owner::{Owner, Pool};
use crate::vdev::Vdevs;
use crate::{Error, Result};

/// Stored bytes of the blocks of one part of the search.
const PART_BYTES: u64 = 64 << 20;

/// Finds the blocks of rows.
struct Search<'a> {
    vdevs: &'a Vdevs,
    /// By row, its blocks by their address.
    blocks: BTreeMap<Address, BTreeMap<Address, BlockPtr>>,
}

impl Visitor for Search<'_> {
    async fn block(&mut self, _: TreeId, block: VisitedBlock<'_>, _: Holds) -> Result<u64> {
        let ptr = block.ptr;
        if let Some(rows) = self.vdevs.rows_of(ptr) {
            for (_, blocks) in self.blocks.range_mut(rows) {
                blocks.insert(ptr.address(), *ptr);
            }
        }
        Ok(u64::from(ptr.physical_size))
    }

    /// A row with blocks below a damaged node has used sectors of no block, and is not mended.
    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {}
}

impl Owner {
    /// Whether all used sectors of a row belong to these blocks, and there are some. The row's region is loaded.
    fn has_all(&self, row: Address, blocks: &BTreeMap<Address, BlockPtr>) -> bool {
        let vdevs = &self.shared.vdevs;
        let state = self.state.borrow();
        let space = state.allocator.space();
        let used: Vec<Address> = vdevs
            .units_of_row(row)
            .filter(|unit| space.is_used(*unit) == Some(true))
            .collect();
        let is_of_block = |unit: &Address| {
            let before = blocks.range(..=*unit).next_back();
            before.is_some_and(|(at, ptr)| {
                let end = at.offset.0 + vdevs.allocated(ptr);
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
        let mut search = Search {
            vdevs,
            blocks: rows.into_iter().map(|row| (row, BTreeMap::new())).collect(),
        };
        let mut next = Some(Sweep::new(Birth(0)));
        while let Some(sweep) = next {
            next = owner.sweep(sweep, PART_BYTES, &mut search).await?;
            io::yield_now().await;
        }
        let mut mended = 0;
        for (row, blocks) in &search.blocks {
            let _reader = owner.shared.readers.enter();
            let region = owner.state.borrow().allocator.space().region_of(*row);
            let region: Vec<_> = region.into_iter().collect();
            let _loaded = owner.load_regions(&region).await?;
            if owner.has_all(*row, blocks) {
                let blocks: Vec<BlockPtr> = blocks.values().copied().collect();
                mended += vdevs.mend_row(*row, &blocks).await as u64;
            }
        }
        Ok(mended)
    }
}
