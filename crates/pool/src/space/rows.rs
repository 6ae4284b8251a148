//! The rows of a vdev's regions.
//!
//! **Owns** where rows begin, and which of them are free. **Called by** the regions of a vdev. **Invariant**: a row that reaches
//! into another region is in none. A mirror has rows of one sector. `docs/decisions/0156`.

use std::borrow::Cow;
use std::ops::Range;

use super::vdev::VdevRegions;
use crate::format::{REGION_SECTORS, RegionBits, RegionSummary, RowGrid};

impl VdevRegions {
    /// The rows of a region.
    pub(super) fn grid(&self, region: u32) -> RowGrid {
        RowGrid::new(self.row_in(region), self.space.start, region)
    }

    /// The rows of a region that are in the vdev's space and in no other region: the first sector of each.
    pub(super) fn rows(&self, region: u32) -> impl Iterator<Item = u32> + use<> {
        self.grid(region).rows(self.inside(region))
    }

    /// The number of sectors of a region's rows in `inside`.
    pub(super) fn row_sectors(&self, region: u32, inside: Range<u32>) -> u32 {
        let grid = self.grid(region);
        let first = grid.from(inside.start);
        inside.end.saturating_sub(first) / grid.row * grid.row
    }

    /// The number of sectors that can be given out of a region without used sectors.
    pub(super) fn all_free(&self, region: u32) -> u32 {
        let inside = self.inside(region);
        match inside.is_empty() || self.is_in_transit(region) {
            true => 0,
            false => self.row_sectors(region, inside),
        }
    }

    /// These sectors, and all others of their rows.
    pub(super) fn whole_rows<'a>(&self, region: u32, bits: &'a RegionBits) -> Cow<'a, RegionBits> {
        if self.row == 1 {
            return Cow::Borrowed(bits);
        }
        let mut whole = bits.clone();
        let row_size = self.row_in(region);
        let touched = self.rows(region).filter(|row| bits.any(*row, row_size));
        touched.for_each(|row| whole.set(row, row_size));
        Cow::Owned(whole)
    }

    /// The sectors that can be given out in the regions from `region` on, none of which has a used sector.
    pub(super) fn free_from(&self, region: u32) -> u64 {
        if self.row == 1 {
            let first = u64::from(region) * u64::from(REGION_SECTORS);
            let start = first.max(self.space.start);
            return self.space.end.saturating_sub(start);
        }
        let regions = region..self.regions();
        regions.map(|region| u64::from(self.all_free(region))).sum()
    }

    /// The sectors of a region that can be given out if these are used.
    pub(super) fn free_without(&self, region: u32, used: &RegionBits) -> RegionBits {
        if self.is_in_transit(region) {
            return RegionBits::default();
        }
        self.grid(region).free(self.inside(region), used)
    }

    /// The sectors of a loaded region that can be given out.
    pub(super) fn free_bits(&self, region: u32) -> RegionBits {
        let none = RegionBits::default();
        let used = self.loaded.get(&region).map_or(&none, |r| &r.used);
        self.free_without(region, used)
    }

    /// The number of sectors of a region that can be given out.
    pub(super) fn free_of(&self, region: u32) -> u32 {
        match self.loaded.get(&region) {
            Some(loaded) if self.row == 1 => self.inside(region).len() as u32 - loaded.count,
            Some(_) => self.free_bits(region).count(),
            None => self.free_unloaded(region),
        }
    }

    /// What a saved summary says of the vdev's space in the region: free sectors, and a bound of the longest run.
    pub(super) fn summary_inside(&self, region: u32, saved: &RegionSummary) -> (u32, u32) {
        let inside = self.inside(region);
        let most = inside.len() as u32;
        let outside =
            self.row_sectors(region, 0..REGION_SECTORS) - self.row_sectors(region, inside);
        let free = u32::from(saved.free).saturating_sub(outside).min(most);
        let free = free.min(self.all_free(region));
        (free, u32::from(saved.longest).min(most).min(free))
    }
}
