//! The rows of a vdev's regions.
//!
//! **Owns** where rows begin, and which of them are free. **Called by** the regions of a vdev. **Invariant**: a row that reaches
//! into another region is in none. A mirror has rows of one sector. `docs/decisions/0156`.

use std::borrow::Cow;

use super::vdev::VdevRegions;
use crate::format::{REGION_SECTORS, RegionBits};

/// Where rows begin in a region.
#[derive(Clone, Copy)]
pub(super) struct RowGrid {
    pub(super) row: u32,
    /// Sectors from the last row's begin before the region to the region.
    shift: u32,
}

impl RowGrid {
    /// The first sector from `sector` on where a row begins.
    pub(super) fn from(self, sector: u32) -> u32 {
        (sector + self.shift).next_multiple_of(self.row) - self.shift
    }
}

impl VdevRegions {
    /// The rows of a region.
    pub(super) fn grid(&self, region: u32) -> RowGrid {
        let (row, first) = (
            u64::from(self.row),
            u64::from(region) * u64::from(REGION_SECTORS),
        );
        let behind = row - self.space.start % row;
        RowGrid {
            row: self.row,
            shift: ((first + behind) % row) as u32,
        }
    }

    /// The rows of a region that are in the vdev's space and in no other region: the first sector of each.
    fn rows(&self, region: u32) -> impl Iterator<Item = u32> + use<> {
        let inside = self.inside(region);
        let row = self.row;
        let starts = self.grid(region).from(inside.start)..inside.end;
        let rows = starts.step_by(row as usize);
        rows.filter(move |start| start + row <= inside.end)
    }

    /// These sectors, and all others of their rows.
    pub(super) fn whole_rows<'a>(&self, region: u32, bits: &'a RegionBits) -> Cow<'a, RegionBits> {
        if self.row == 1 {
            return Cow::Borrowed(bits);
        }
        let mut whole = bits.clone();
        let touched = self.rows(region).filter(|row| bits.any(*row, self.row));
        touched.for_each(|row| whole.set(row, self.row));
        Cow::Owned(whole)
    }

    /// The sectors that can be given out in the regions from `region` on, none of which has a used sector.
    pub(super) fn free_from(&self, region: u32) -> u64 {
        let regions = region..self.regions();
        regions.map(|region| u64::from(self.free_of(region))).sum()
    }

    /// The sectors of a region that can be given out.
    pub(super) fn free_bits(&self, region: u32) -> RegionBits {
        let inside = self.inside(region);
        let mut bits = RegionBits::default();
        if self.row > 1 {
            let used = self.regions.get(&region).map(|r| &r.used);
            let is_free = |row: &u32| !used.is_some_and(|used| used.any(*row, self.row));
            let free = self.rows(region).filter(is_free);
            free.for_each(|row| bits.set(row, self.row));
            return bits;
        }
        if !inside.is_empty() {
            bits.set(inside.start, inside.len() as u32);
        }
        if let Some(region) = self.regions.get(&region) {
            bits.remove(&region.used);
        }
        bits
    }

    /// The number of sectors of a region that can be given out.
    pub(super) fn free_of(&self, region: u32) -> u32 {
        if self.row > 1 {
            return self.free_bits(region).count();
        }
        let used = self.regions.get(&region).map_or(0, |r| r.count);
        self.inside(region).len() as u32 - used
    }
}
