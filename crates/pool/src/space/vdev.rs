//! The regions of one vdev.
//!
//! **Owns** the bitmaps of the regions, and the region that each kind writes in. **Called by** [`super::Space`].
//! **Invariants**: a region that a kind writes in is in no queue; every other region is in exactly one; regions from
//! `fresh` on are all free; an extent begins with a row, and all rows that it reaches into were free as a whole, so that no
//! row with a live block is written. `docs/decisions/0152`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::format::{Address, Defect, REGION_SECTORS, RegionBits, VdevId, VdevOffset};
use crate::vdev::VdevInfo;

/// Regions that are searched for a run of the wanted length, before the search gives up.
const SEARCH_MAX: usize = 64;

/// The space of a vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdevSpace {
    /// The vdev.
    pub vdev: VdevId,
    /// The first byte that may be given out, a multiple of `sector`.
    pub start: VdevOffset,
    /// The byte behind the space.
    pub end: VdevOffset,
    /// Bytes of a sector.
    pub sector: u32,
    /// Sectors of a row: space is given out in whole rows. 1 on a mirror.
    pub row: u32,
}

impl From<&VdevInfo> for VdevSpace {
    fn from(info: &VdevInfo) -> Self {
        Self {
            vdev: info.id,
            start: info.first_free,
            end: VdevOffset(info.size),
            sector: info.sector,
            row: info.row,
        }
    }
}

/// The kind of a block. Blocks of one kind are freed at similar times, and so lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Records. They leave the reserve alone.
    Data,
    /// Nodes of datasets' trees.
    Tree,
    /// Nodes of the pool's own tree, which no saved bitmap shows.
    PoolTree,
}

#[derive(Default)]
pub(super) struct Region {
    /// Sectors that are used, or freed and not released.
    pub(super) used: RegionBits,
    /// The number of sectors in `used`.
    pub(super) count: u32,
    /// Sectors of `used` that are freed.
    freeing: RegionBits,
    /// Sectors of `used` with nodes of the pool's own tree.
    pool: RegionBits,
    changed: bool,
}

/// The place where a kind writes next.
#[derive(Clone, Copy)]
struct Cursor {
    region: u32,
    sector: u32,
}

pub(super) struct VdevRegions {
    id: VdevId,
    sector: u64,
    /// Sectors of a row.
    pub(super) row: u32,
    /// The sectors of the vdev's space.
    pub(super) space: Range<u64>,
    /// The number of sectors that can be given out: those of free rows.
    free: u64,
    pub(super) regions: BTreeMap<u32, Region>,
    /// Regions to write in next: number of free sectors, and number of the region.
    queue: BTreeSet<(u32, u32)>,
    /// Regions that had no run of the wanted length.
    tired: BTreeSet<u32>,
    /// Regions from here on are all free and in no queue.
    fresh: u32,
    cursors: [Option<Cursor>; 3],
    changed: Vec<u32>,
}

fn region_of(sector: u64) -> u32 {
    (sector / u64::from(REGION_SECTORS)) as u32
}

impl VdevRegions {
    pub(super) fn new(space: &VdevSpace) -> Self {
        let sector = u64::from(space.sector);
        let sectors = space.start.0.div_ceil(sector)..space.end.0 / sector;
        let mut vdev = Self {
            id: space.vdev,
            sector,
            row: space.row.max(1),
            free: 0,
            fresh: region_of(sectors.start),
            space: sectors,
            regions: BTreeMap::new(),
            queue: BTreeSet::new(),
            tired: BTreeSet::new(),
            cursors: [None; 3],
            changed: Vec::new(),
        };
        vdev.free = match vdev.row {
            1 => vdev.space.end.saturating_sub(vdev.space.start),
            _ => vdev.free_from(vdev.fresh),
        };
        vdev
    }

    pub(super) fn size(&self) -> u64 {
        (self.space.end - self.space.start) * self.sector
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free * self.sector
    }

    /// Bytes of data of a row; `None` on a mirror.
    pub(super) fn row_bytes(&self) -> Option<u64> {
        (self.row > 1).then_some(u64::from(self.row) * self.sector)
    }

    /// Moves the end of the space.
    pub(super) fn grow(&mut self, end: VdevOffset) {
        let last = region_of(self.space.end.saturating_sub(1));
        let before = self.free_of(last);
        self.space.end = self.space.end.max(end.0 / self.sector);
        let after = self.free_of(last);
        self.free += u64::from(after - before) + self.free_from(last + 1);
        if self.queue.remove(&(before, last)) || self.tired.remove(&last) {
            self.queue.insert((after, last));
        }
    }

    pub(super) fn regions(&self) -> u32 {
        region_of(self.space.end.saturating_sub(1)) + 1
    }

    /// Takes free sectors out of use until they are released. Bitmaps that are saved meanwhile have them as free.
    pub(super) fn withhold(&mut self, number: u32, bits: &RegionBits) {
        self.change(number, |region| {
            region.used.add(bits);
            region.freeing.add(bits);
        });
    }

    pub(super) fn sector(&self) -> u64 {
        self.sector
    }

    /// The sectors of a region that are in the vdev's space.
    pub(super) fn inside(&self, region: u32) -> Range<u32> {
        let first = u64::from(region) * u64::from(REGION_SECTORS);
        let clamp = |sector: u64| (sector.max(first) - first).min(REGION_SECTORS.into()) as u32;
        clamp(self.space.start)..clamp(self.space.end)
    }

    /// The address of a sector of a region.
    pub(super) fn address(&self, region: u32, sector: u32) -> Address {
        let first = u64::from(region) * u64::from(REGION_SECTORS) + u64::from(sector);
        Address {
            vdev: self.id,
            offset: VdevOffset(first * self.sector),
        }
    }

    pub(super) fn place(&self, at: Address, bytes: u32) -> (u32, u32, u32) {
        let sector = at.offset.0 / self.sector;
        let count = u64::from(bytes).div_ceil(self.sector) as u32;
        let start = (sector % u64::from(REGION_SECTORS)) as u32;
        (region_of(sector), start, count)
    }

    /// Whether a block is in the vdev's space, and in one region.
    pub(super) fn holds(&self, at: Address, bytes: u32) -> bool {
        let (_, start, count) = self.place(at, bytes);
        let first = at.offset.0 / self.sector;
        at.offset.0.is_multiple_of(self.sector)
            && self.space.start <= first
            && first + u64::from(count) <= self.space.end
            && count > 0
            && start + count <= REGION_SECTORS
    }

    pub(super) fn is_used(&self, at: Address) -> bool {
        let (region, start, _) = self.place(at, 1);
        let region = self.regions.get(&region);
        region.is_some_and(|r| r.used.any(start, 1))
    }

    /// Whether a sector is freed, and not reusable yet.
    pub(super) fn is_freed(&self, at: Address) -> bool {
        let (region, start, _) = self.place(at, 1);
        let region = self.regions.get(&region);
        region.is_some_and(|r| r.freeing.any(start, 1))
    }

    /// Puts the regions up to `region` into the queue.
    fn reach(&mut self, region: u32) {
        while self.fresh <= region {
            let free = self.inside(self.fresh).len() as u32;
            self.queue.insert((free, self.fresh));
            self.fresh += 1;
        }
    }

    /// Changes a region, and keeps it in the right queue.
    fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut Region) -> T) -> T {
        self.reach(number);
        let before = self.free_of(number);
        let region = self.regions.entry(number).or_default();
        let was_changed = region.changed;
        let result = change(region);
        region.count = region.used.count();
        if region.changed && !was_changed {
            self.changed.push(number);
        }
        self.recount(number, before);
        result
    }

    /// The number of free sectors of a region was `before` and may have changed: corrects the sum of the vdev, and keeps the region in
    /// the right queue.
    fn recount(&mut self, number: u32, before: u32) {
        let after = self.free_of(number);
        self.free = self.free + u64::from(after) - u64::from(before);
        if self.queue.remove(&(before, number)) || (after > before && self.tired.remove(&number)) {
            self.queue.insert((after, number));
        }
    }

    pub(super) fn load(&mut self, number: u32, bits: RegionBits) -> Result<u64, Defect> {
        let inside = self.inside(number);
        let mut outside = bits.clone();
        outside.clear(inside.start, inside.len() as u32);
        if inside.is_empty() || !outside.is_empty() {
            return Err(Defect::Field {
                field: "region whose saved space reaches beyond its vdev",
                value: number.into(),
            });
        }
        let count = bits.count();
        self.change(number, |region| region.used = bits);
        Ok(u64::from(count) * self.sector)
    }

    /// Marks a block as used. Returns the bytes that were free before.
    pub(super) fn mark(&mut self, at: Address, bytes: u32, kind: BlockKind) -> Result<u64, Defect> {
        let (number, start, count) = self.place(at, bytes);
        let overlap = Err(Defect::Field {
            field: "offset of a block that overlaps another",
            value: at.offset.0,
        });
        let used = |vdev: &Self| vdev.regions.get(&number).map_or(0, |region| region.count);
        let before = used(self);
        self.change(number, |region| {
            if kind == BlockKind::PoolTree {
                if region.used.any(start, count) {
                    return overlap;
                }
                region.pool.set(start, count);
            } else {
                if region.pool.any(start, count) {
                    return overlap;
                }
                region.changed = true;
            }
            region.used.set(start, count);
            Ok(())
        })?;
        Ok(u64::from(used(self) - before) * self.sector)
    }

    pub(super) fn allocate(
        &mut self,
        want: u32,
        least: u32,
        kind: BlockKind,
    ) -> Option<(Address, u32)> {
        let unit = u64::from(least).div_ceil(self.sector) as u32;
        let want = ((u64::from(want) / self.sector) as u32 / unit).max(1) * unit;
        if let Some(cursor) = self.cursors[kind as usize] {
            if let Some(found) = self.allocate_at(cursor, want, unit, kind) {
                return Some(found);
            }
            self.leave(cursor.region, kind);
        }
        for _ in 0..SEARCH_MAX {
            let Some(region) = self.next_region() else {
                break;
            };
            let cursor = self.start_of(region);
            if let Some(found) = self.allocate_at(cursor, want, unit, kind) {
                return Some(found);
            }
            self.tired.insert(region);
        }
        // few regions, or little space: use the regions of the other kinds
        let others: Vec<u32> = self.cursors.iter().flatten().map(|c| c.region).collect();
        let own = self.cursors[kind as usize];
        let found = others.into_iter().find_map(|region| {
            let cursor = self.start_of(region);
            self.allocate_at(cursor, want, unit, kind)
        });
        self.cursors[kind as usize] = own;
        found
    }

    fn start_of(&self, region: u32) -> Cursor {
        Cursor {
            region,
            sector: self.inside(region).start,
        }
    }

    /// Takes the emptiest region out of the queue; tired regions come last.
    fn next_region(&mut self) -> Option<u32> {
        let end = region_of(self.space.end.saturating_sub(1)) + 1;
        // a row that reaches into another region is not given out
        let most = REGION_SECTORS - 2 * (self.row - 1);
        let full = |(free, _): &(u32, u32)| *free >= most;
        if !self.queue.last().is_some_and(full) && self.fresh < end {
            self.reach(self.fresh);
        }
        match self.queue.pop_last() {
            Some((free, region)) if free > 0 => Some(region),
            Some(none) => {
                self.queue.insert(none);
                self.tired.pop_first()
            }
            None => self.tired.pop_first(),
        }
    }

    /// The blocks of `kind` leave a region, which goes into the queue.
    fn leave(&mut self, region: u32, kind: BlockKind) {
        self.cursors[kind as usize] = None;
        self.queue.insert((self.free_of(region), region));
    }

    /// Takes the first run of free rows with at least `unit` sectors from the cursor on. The end of the last row stays free,
    /// and is not given out before the row is free as a whole.
    fn allocate_at(
        &mut self,
        cursor: Cursor,
        want: u32,
        unit: u32,
        kind: BlockKind,
    ) -> Option<(Address, u32)> {
        let end = self.inside(cursor.region).end;
        let grid = self.grid(cursor.region);
        let before = if self.row > 1 {
            self.free_of(cursor.region)
        } else {
            0
        };
        let region = self.regions.entry(cursor.region).or_default();
        let mut start = cursor.sector;
        let (start, count) = loop {
            start = grid.from(region.used.next(start, end, false));
            if start >= end {
                return None;
            }
            let most = end.min(start + want.next_multiple_of(grid.row));
            let run = region.used.next(start, most, true) - start;
            let count = (run / grid.row * grid.row).min(want) / unit * unit;
            if count > 0 {
                break (start, count);
            }
            start += run.max(1);
        };
        region.used.set(start, count);
        region.count += count;
        if kind == BlockKind::PoolTree {
            region.pool.set(start, count);
        } else if !region.changed {
            region.changed = true;
            self.changed.push(cursor.region);
        }
        self.free -= match self.row {
            1 => u64::from(count),
            _ => u64::from(before - self.free_of(cursor.region)),
        };
        self.cursors[kind as usize] = Some(Cursor {
            region: cursor.region,
            sector: start + count,
        });
        Some((
            self.address(cursor.region, start),
            (u64::from(count) * self.sector) as u32,
        ))
    }

    /// Takes back the end of an extent. Returns its region, its first sector there, and its number of sectors.
    pub(super) fn give_back(&mut self, at: Address, bytes: u32) -> (u32, u32, u32) {
        let (number, start, count) = self.place(at, bytes);
        let before = self.free_of(number);
        let region = self.regions.get_mut(&number);
        let region = region.filter(|r| r.used.all(start, count));
        let region = region.expect("it was just given out");
        region.used.clear(start, count);
        region.pool.clear(start, count);
        region.count -= count;
        // another kind, whose region it was, may have left it meanwhile
        self.recount(number, before);
        for cursor in self.cursors.iter_mut().flatten() {
            if (cursor.region, cursor.sector) == (number, start + count) {
                cursor.sector = start;
            }
        }
        (number, start, count)
    }

    /// Frees a block. Returns its region, its first sector there, and its number of sectors.
    pub(super) fn free(&mut self, at: Address, bytes: u32) -> Result<(u32, u32, u32), Defect> {
        let (number, start, count) = self.place(at, bytes);
        let region = self.regions.get_mut(&number);
        let region = region.filter(|r| r.used.all(start, count) && !r.freeing.any(start, count));
        let Some(region) = region else {
            return Err(Defect::Field {
                field: "offset of a block that is freed and was not used",
                value: at.offset.0,
            });
        };
        region.freeing.set(start, count);
        if !region.pool.any(start, count) && !region.changed {
            region.changed = true;
            self.changed.push(number);
        }
        Ok((number, start, count))
    }

    pub(super) fn release(&mut self, number: u32, bits: &RegionBits) {
        self.change(number, |region| {
            let all = region.used.0.iter_mut().zip(&mut region.freeing.0);
            for (((used, freeing), pool), freed) in all.zip(&mut region.pool.0).zip(bits.0) {
                *used &= !freed;
                *freeing &= !freed;
                *pool &= !freed;
            }
        });
        if self.regions[&number].used.is_empty() && !self.regions[&number].changed {
            self.regions.remove(&number);
        }
    }

    /// Takes the changed regions, with bitmaps of their used sectors: without freed ones, the pool's own tree, and
    /// `young` ones. Regions with young sectors count as changed for the next checkpoint.
    pub(super) fn take_changed<'a>(
        &mut self,
        young: impl Fn(u32) -> Option<&'a RegionBits>,
    ) -> Vec<(VdevId, u32, Option<RegionBits>)> {
        let changed = std::mem::take(&mut self.changed);
        let mut saved = Vec::with_capacity(changed.len());
        for number in changed {
            let region = self.regions.entry(number).or_default();
            region.changed = false;
            let mut bits = region.used.clone();
            let others = region.freeing.0.iter().zip(&region.pool.0);
            for (bits, (freeing, pool)) in bits.0.iter_mut().zip(others) {
                *bits &= !(freeing | pool);
            }
            if let Some(young) = young(number) {
                bits.remove(young);
                region.changed = true;
                self.changed.push(number);
            }
            let bits = (!bits.is_empty()).then_some(bits);
            saved.push((self.id, number, bits));
        }
        saved
    }
}
