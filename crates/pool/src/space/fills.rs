//! Row fills: how many sectors of the rows of a raidz are live.
//!
//! **Owns** the count, from the bitmaps of regions: nothing is kept per row. **Called by** the row mover, which chooses the
//! emptiest rows. **Invariants**: a sector that is freed, and waits for a checkpoint, is not live; a row without a live sector
//! is not counted, since it is free or about to be. A mirror has no rows. `docs/decisions/0165`.

use super::Space;
use super::vdev::Region;
use crate::format::{Address, VdevId};

/// Levels that fills of rows are counted in: a row whose sectors are all live has the last one. Rows of up to this number of
/// sectors have a level for each number of live sectors.
pub const FILL_LEVELS: usize = 64;

/// Live and dead bytes of some rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowFill {
    /// Bytes of live sectors.
    pub live: u64,
    /// Bytes of the other sectors.
    pub dead: u64,
}

impl RowFill {
    /// The level of this fill: 1 to [`FILL_LEVELS`], 0 if nothing is live.
    #[must_use]
    pub fn level(&self) -> usize {
        let all = u128::from(self.live + self.dead).max(1);
        let level = (u128::from(self.live) * FILL_LEVELS as u128).div_ceil(all) as usize;
        match self.dead {
            0 => level,
            _ => level.min(FILL_LEVELS - 1),
        }
    }

    fn add(&mut self, other: Self) {
        self.live += other.live;
        self.dead += other.dead;
    }
}

/// The rows with live sectors, by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFills([RowFill; FILL_LEVELS + 1]);

impl Default for RowFills {
    fn default() -> Self {
        Self([RowFill::default(); FILL_LEVELS + 1])
    }
}

impl RowFills {
    /// The rows of a level, 1 to [`FILL_LEVELS`].
    #[must_use]
    pub fn at(&self, level: usize) -> RowFill {
        self.0[level]
    }

    /// Adds rows.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            sum.add(more);
        }
    }

    /// The rows below a level.
    #[must_use]
    pub fn below(&self, level: usize) -> Self {
        let mut below = Self::default();
        let end = level.min(self.0.len());
        below.0[..end].copy_from_slice(&self.0[..end]);
        below
    }

    /// Of each level, the rows of this or of the other one, whichever are fewer.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        let mut least = self.clone();
        for (one, other) in least.0.iter_mut().zip(other.0) {
            if other.live < one.live {
                *one = other;
            }
        }
        least
    }
}

impl Space {
    /// The fill of a row of a loaded region.
    fn fill(&self, (index, number): (usize, u32), region: &Region, row: u32) -> RowFill {
        let vdev = &self.vdevs[index];
        let size = vdev.row_in(number);
        let used = region.used.count_in(row, size);
        let is_freed = |sector: u32, count: u32| {
            let at = vdev.address(number, sector);
            let bytes = u64::from(count) * vdev.sector();
            self.frees.any(index, vdev.range(at, bytes as u32))
        };
        let freed = match used > 0 && is_freed(row, size) {
            true => (row..row + size)
                .filter(|sector| is_freed(*sector, 1))
                .count(),
            false => 0,
        };
        let live = used.saturating_sub(freed as u32);
        RowFill {
            live: u64::from(live) * vdev.sector(),
            dead: u64::from(size - live) * vdev.sector(),
        }
    }

    /// Whether a vdev is a raidz.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.open().any(|vdev| vdev.row > 1)
    }

    /// The rows of a loaded region by their fill. `None` on a mirror, and if it is not loaded.
    #[must_use]
    pub fn row_fills(&self, vdev: VdevId, number: u32) -> Option<RowFills> {
        let index = usize::from(vdev.0);
        let vdev = self.vdevs.get(index);
        let vdev = vdev.filter(|vdev| vdev.row > 1 && vdev.is_open())?;
        let region = vdev.loaded.get(&number)?;
        let mut fills = RowFills::default();
        for row in vdev.rows(number) {
            let fill = self.fill((index, number), region, row);
            if fill.live > 0 {
                fills.0[fill.level()].add(fill);
            }
        }
        Some(fills)
    }

    /// The first row that a block of a loaded region lies in, and the fill of all of them. `None` on a mirror, and if the region is not
    /// loaded.
    #[must_use]
    pub fn row_fill(&self, at: Address, bytes: u32) -> Option<(Address, RowFill)> {
        let index = usize::from(at.vdev.0);
        let vdev = self.vdevs.get(index)?;
        let has_rows = vdev.row > 1 && vdev.is_open();
        let vdev = Some(vdev).filter(|v| has_rows && v.holds(at, bytes))?;
        let (number, start, count) = vdev.place(at, bytes);
        let region = vdev.loaded.get(&number)?;
        let end = vdev.inside(number).end;
        let size = vdev.row_in(number);
        let mut row = vdev.grid(number).before(start)?;
        let first = vdev.address(number, row);
        let mut sum = RowFill::default();
        while row < start + count {
            if row + size > end {
                return None;
            }
            sum.add(self.fill((index, number), region, row));
            row += size;
        }
        Some((first, sum))
    }

    /// Whether a vdev has rows and a region of it must be loaded before its rows can be counted.
    #[must_use]
    pub fn lacks_rows(&self, vdev: VdevId, region: u32) -> bool {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        let vdev = vdev.filter(|v| v.row > 1 && v.is_open());
        vdev.is_some_and(|v| region < v.fresh && !v.loaded.contains_key(&region))
    }

    /// Bytes of used rows that no block takes: what the row mover could gain at most.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        let all = self.normal().map(|vdev| vdev.in_rows * vdev.sector());
        let taken = self.used() + self.pending() + self.free_bytes();
        let taken = taken.saturating_sub(self.leaving());
        all.sum::<u64>().saturating_sub(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockKind, VdevSpace};
    use super::*;
    use crate::format::{VdevClass, VdevOffset};

    const SECTOR: u32 = 4096;

    fn space() -> Space {
        Space::new(&[VdevSpace {
            vdev: VdevId(0),
            class: VdevClass::Normal,
            start: VdevOffset(3 * u64::from(SECTOR)),
            end: VdevOffset(256 << 20),
            sector: SECTOR,
            row: 8,
            first_row: 8,
            narrow: None,
        }])
    }

    fn sectors(at: Address, first: u64) -> Address {
        let offset = VdevOffset(at.offset.0 + first * u64::from(SECTOR));
        Address { offset, ..at }
    }

    #[test]
    fn rows_are_counted_by_their_live_sectors() {
        let mut space = space();
        let allocated = space.allocate(3 * 8 * SECTOR, 3 * 8 * SECTOR, BlockKind::Data);
        let (at, _) = allocated.expect("space");
        // 8 live sectors, 3, and 1
        space.free(sectors(at, 9), 5 * SECTOR).expect("used");
        space.free(sectors(at, 17), 7 * SECTOR).expect("used");
        let bytes = |n: u64| n * u64::from(SECTOR);
        let fill = |live, dead| RowFill {
            live: bytes(live),
            dead: bytes(dead),
        };
        let fills = space.row_fills(VdevId(0), 0).expect("a region in use");
        assert_eq!(fills.at(FILL_LEVELS), fill(8, 0));
        assert_eq!(fills.at(3 * FILL_LEVELS / 8), fill(3, 5));
        assert_eq!(fills.at(FILL_LEVELS / 8), fill(1, 7));
        let row = sectors(at, 16);
        assert_eq!(space.row_fill(row, SECTOR), Some((row, fill(1, 7))));
        // a block of two rows
        let both = space.row_fill(sectors(at, 7), 2 * SECTOR);
        assert_eq!(both, Some((at, fill(11, 5))));
        assert!(space.has_rows());
        // freed sectors are used until the checkpoint is released
        let unused = space.dead_bytes();
        let sealed = space.seal();
        space.release(sealed);
        assert_eq!(space.dead_bytes(), unused + bytes(5 + 7));
    }

    #[test]
    fn a_mirror_has_no_rows() {
        let vdev = VdevSpace {
            vdev: VdevId(0),
            class: VdevClass::Normal,
            start: VdevOffset(0),
            end: VdevOffset(64 << 20),
            sector: SECTOR,
            row: 1,
            first_row: 1,
            narrow: None,
        };
        let mut space = Space::new(&[vdev]);
        let (at, _) = space
            .allocate(SECTOR, SECTOR, BlockKind::Data)
            .expect("space");
        assert_eq!(space.row_fill(at, SECTOR), None);
        assert_eq!(space.row_fills(VdevId(0), 0), None);
        assert_eq!((space.dead_bytes(), space.has_rows()), (0, false));
    }

    #[test]
    fn a_row_with_a_dead_sector_is_never_full() {
        let fill = |live, dead| RowFill { live, dead };
        assert_eq!(fill(0, 8).level(), 0);
        assert_eq!(fill(1, 200).level(), 1);
        assert_eq!(fill(200, 1).level(), FILL_LEVELS - 1);
        assert_eq!(fill(200, 0).level(), FILL_LEVELS);
    }
}
