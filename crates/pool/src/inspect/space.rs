//! Sets of used sectors, one bit per sector.
//!
//! **Owns** these sets. **Called by** verification. **Invariant**: marking a sector twice is reported.

use std::collections::BTreeMap;
use std::ops::Range;

use super::disks::Image;
use crate::format::{
    Address, BlockPtr, Defect, KIND_SPACE, Key, REGION_SECTORS, RegionBits, VdevId, VdevOffset,
};

/// Sets of sectors, by vdev and region.
#[derive(Default, Clone)]
pub(super) struct Sectors(pub(super) BTreeMap<(u16, u32), RegionBits>);

/// The place of a block: region, first sector, number of sectors. [`Image::space_of`] must accept the block.
fn place(image: &Image, at: Address, space: u64) -> ((u16, u32), u32, u32) {
    let sector = u64::from(image.vdevs[usize::from(at.vdev.0)].entry.sector());
    let first = at.offset.0 / sector;
    let region = u64::from(REGION_SECTORS);
    (
        (at.vdev.0, (first / region) as u32),
        (first % region) as u32,
        (space / sector) as u32,
    )
}

impl Sectors {
    /// Marks a block's sectors. Returns whether none of them was marked.
    pub(super) fn mark(&mut self, image: &Image, at: Address, space: u64) -> bool {
        let (region, start, count) = place(image, at, space);
        let bits = self.0.entry(region).or_default();
        let fresh = !bits.any(start, count);
        bits.set(start, count);
        fresh
    }

    pub(super) fn has_all(&self, image: &Image, ptr: &BlockPtr) -> bool {
        let Ok(space) = image.space_of(ptr) else {
            return false;
        };
        let (region, start, count) = place(image, image.address_of(ptr), space);
        let bits = self.0.get(&region);
        bits.is_some_and(|bits| bits.all(start, count))
    }

    pub(super) fn has_any(&self, image: &Image, at: Address, space: u64) -> bool {
        let (region, start, count) = place(image, at, space);
        let bits = self.0.get(&region);
        bits.is_some_and(|bits| bits.any(start, count))
    }

    /// Loads a saved bitmap.
    pub(super) fn load(&mut self, image: &Image, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        let outside = |value| Defect::Field {
            field: "region of the saved space",
            value,
        };
        assert_eq!(key.kind(), KIND_SPACE);
        let vdev = u16::try_from(key.object().0).map_err(|_| outside(key.object().0))?;
        let known = image.vdevs.get(usize::from(vdev));
        let known = known.ok_or(outside(vdev.into()))?;
        let region = u32::try_from(key.offset()).map_err(|_| outside(key.offset()))?;
        let mut bits = RegionBits::decode(bytes)?;
        let sector = u64::from(known.entry.sector());
        let first = u64::from(region) * u64::from(REGION_SECTORS);
        let inside = |at: u64| at.clamp(first, first + u64::from(REGION_SECTORS)) - first;
        let start = inside(image.label.journal_size(vdev.into()).div_ceil(sector)) as u32;
        let end = inside(image.end_of(known) / sector) as u32;
        self.0.insert((vdev, region), bits.clone());
        if end > start {
            bits.clear(start, end - start);
        }
        if bits.is_empty() {
            Ok(())
        } else {
            Err(outside(region.into()))
        }
    }

    /// Bytes of the marked sectors. Those of a removed vdev are addresses only, and take no space.
    pub(super) fn bytes(&self, image: &Image) -> u64 {
        let is_present = |((vdev, _), _): &(&(u16, u32), &RegionBits)| {
            let vdev = VdevId(*vdev);
            !image.is_removed(vdev)
        };
        let of = |((vdev, _), bits): (&(u16, u32), &RegionBits)| {
            u64::from(bits.count()) * sector(image, *vdev)
        };
        self.0.iter().filter(is_present).map(of).sum()
    }

    /// Sectors that are marked here and in none of `others`, as runs in bytes.
    pub(super) fn without(&self, image: &Image, others: &[&Self]) -> Vec<(Address, u64)> {
        let mut runs = Vec::new();
        for (&(vdev, region), bits) in &self.0 {
            let mut left = bits.clone();
            for other in others.iter().filter_map(|o| o.0.get(&(vdev, region))) {
                left.remove(other);
            }
            let sector = sector(image, vdev);
            for run in runs_of(&left) {
                let first = u64::from(region) * u64::from(REGION_SECTORS) + u64::from(run.start);
                let at = Address {
                    vdev: VdevId(vdev),
                    offset: VdevOffset(first * sector),
                };
                runs.push((at, u64::from(run.end - run.start) * sector));
            }
        }
        runs
    }
}

fn sector(image: &Image, vdev: u16) -> u64 {
    let vdev = image.vdevs.get(usize::from(vdev));
    vdev.map_or(0, |v| v.entry.sector().into())
}

fn runs_of(bits: &RegionBits) -> Vec<Range<u32>> {
    let mut runs = Vec::new();
    let mut at = 0;
    loop {
        let start = bits.next(at, REGION_SECTORS, true);
        if start >= REGION_SECTORS {
            return runs;
        }
        at = bits.next(start, REGION_SECTORS, false);
        runs.push(start..at);
    }
}
