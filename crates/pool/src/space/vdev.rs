//! The regions of one vdev: the loaded ones, and the choice of the next extent.
//!
//! **Owns** the bitmaps of loaded regions, and the region that each kind writes in. **Called by** [`super::Space`].
//! **Invariants**: extents are given out in loaded regions only; a loaded region that a kind writes in is in no queue, every
//! other loaded region is in exactly one unless it is closed; regions from `fresh` on are all free; an extent begins with a row, and all rows
//! that it reaches into were free as a whole, so that no row with a live block is written. `docs/decisions/0152`, `0162`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::narrow::NarrowRegions;
use super::sectors::SectorSet;
use super::summary::{Released, Summary};
use crate::format::{Address, REGION_SECTORS, RegionBits, VdevClass, VdevId, VdevOffset};
use crate::vdev::{NarrowRows, VdevInfo};

/// Regions that are searched for a run of the wanted length, before the search gives up.
const SEARCH_MAX: usize = 64;

/// The space of a vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdevSpace {
    /// The vdev.
    pub vdev: VdevId,
    /// Its class.
    pub class: VdevClass,
    /// The first byte that may be given out, a multiple of `sector`.
    pub start: VdevOffset,
    /// The byte behind the space.
    pub end: VdevOffset,
    /// Bytes of a sector.
    pub sector: u32,
    /// Sectors of a row: space is given out in whole rows. 1 on a mirror. During an expansion, of a wide row.
    pub row: u32,
    /// Sectors of a row at the creation of the vdev.
    pub first_row: u32,
    /// The rows that an expansion has not reached.
    pub narrow: Option<NarrowRows>,
}

impl From<&VdevInfo> for VdevSpace {
    fn from(info: &VdevInfo) -> Self {
        Self {
            vdev: info.id,
            class: info.class,
            start: info.first_free,
            end: VdevOffset(info.size),
            sector: info.sector,
            row: info.row,
            first_row: info.first_row,
            narrow: info.narrow,
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

/// What a vdev does for the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// It gives out space.
    Open,
    /// It is being removed: it gives out no space, and its blocks are on it.
    Leaving,
    /// It was removed: its addresses are in block pointers, and its blocks are elsewhere.
    Removed,
}

/// A loaded region.
#[derive(Default)]
pub(super) struct Region {
    /// Sectors that are used, or freed and not released.
    pub(super) used: RegionBits,
    /// The number of sectors in `used`.
    pub(super) count: u32,
    /// Whether sectors were given out that no saved bitmap has.
    pub(super) changed: bool,
    /// Whether its bitmap is being written.
    pub(super) is_saving: bool,
    /// Reasons to keep it loaded.
    pub(super) pins: u32,
}

/// The place where a kind writes next.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    pub(super) region: u32,
    sector: u32,
}

pub(super) struct VdevRegions {
    pub(super) id: VdevId,
    pub(super) class: VdevClass,
    pub(super) service: Service,
    /// Bytes of used sectors that are not freed.
    pub(super) used: i64,
    /// Bytes of freed sectors that are not reusable yet.
    pub(super) pending: i64,
    sector: u64,
    /// Sectors of a row. During an expansion, of a wide row.
    pub(super) row: u32,
    /// Sectors of a row at the creation of the vdev.
    pub(super) first_row: u32,
    /// The regions that an expansion has not passed.
    pub(super) narrow: Option<NarrowRegions>,
    /// The sectors of the vdev's space.
    pub(super) space: Range<u64>,
    /// The number of sectors that can be given out: those of free rows.
    pub(super) free: u64,
    /// The number of sectors that can be given out if nothing is used.
    pub(super) in_rows: u64,
    pub(super) loaded: BTreeMap<u32, Region>,
    /// By region, below `fresh`; zero for regions that are loaded, being loaded, unreadable, or in `empty`.
    pub(super) summaries: Vec<Summary>,
    /// Regions below `fresh` that are not loaded and have no used sector.
    pub(super) empty: BTreeSet<u32>,
    /// No summary is greater.
    pub(super) best: Summary,
    /// The longest run that was not found in loaded regions, while others may have one. Sectors.
    pub(super) short: Option<u32>,
    /// Regions that are being loaded, with their summaries.
    pub(super) loading: BTreeMap<u32, Summary>,
    /// Nodes of the pool's own tree.
    pub(super) pool: SectorSet,
    /// Blocks of the journal in regions that are not loaded.
    pub(super) marked: SectorSet,
    /// The number of loaded regions that have changed.
    pub(super) changed: usize,
    /// Regions whose bitmap the next checkpoint saves.
    pub(super) unsaved: BTreeSet<u32>,
    /// The state of regions that are not loaded once a checkpoint is released.
    pub(super) targets: BTreeMap<u32, Released>,
    /// Loaded regions to write in next: number of free sectors, and number of the region.
    pub(super) queue: BTreeSet<(u32, u32)>,
    /// Loaded regions that had no run of a wanted length, and a bound of their longest run.
    pub(super) tired: BTreeMap<u32, u32>,
    /// Regions in which nothing is given out.
    pub(super) closed: BTreeSet<u32>,
    /// Regions from here on are all free and not loaded.
    pub(super) fresh: u32,
    pub(super) cursors: [Option<Cursor>; 3],
}

pub(super) fn region_of(sector: u64) -> u32 {
    (sector / u64::from(REGION_SECTORS)) as u32
}

impl VdevRegions {
    pub(super) fn new(space: &VdevSpace) -> Self {
        let sector = u64::from(space.sector);
        let sectors = space.start.0.div_ceil(sector)..space.end.0 / sector;
        let fresh = region_of(sectors.start);
        let mut vdev = Self {
            id: space.vdev,
            class: space.class,
            service: Service::Open,
            used: 0,
            pending: 0,
            sector,
            row: space.row.max(1),
            first_row: space.first_row.max(1),
            narrow: None,
            free: 0,
            in_rows: 0,
            space: sectors,
            loaded: BTreeMap::new(),
            summaries: vec![Summary::default(); fresh as usize],
            empty: BTreeSet::new(),
            best: Summary::default(),
            short: None,
            loading: BTreeMap::new(),
            pool: SectorSet::default(),
            marked: SectorSet::default(),
            changed: 0,
            unsaved: BTreeSet::new(),
            targets: BTreeMap::new(),
            queue: BTreeSet::new(),
            tired: BTreeMap::new(),
            closed: BTreeSet::new(),
            fresh,
            cursors: [None; 3],
        };
        if let Some(narrow) = &space.narrow {
            vdev.narrow = Some(vdev.narrow_regions(narrow));
        }
        vdev.free = vdev.free_from(vdev.fresh);
        vdev.in_rows = vdev.all_in_rows();
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
        let whole = self.all_free(last);
        let before = self.free_of(last);
        self.space.end = self.space.end.max(end.0 / self.sector);
        self.summary_grows(last, self.all_free(last) - whole);
        let after = self.free_of(last);
        let more = u64::from(after - before) + self.free_from(last + 1);
        self.free += more;
        self.in_rows = self.all_in_rows();
        if self.queue.remove(&(before, last)) || self.tired.remove(&last).is_some() {
            self.queue.insert((after, last));
        }
    }

    pub(super) fn regions(&self) -> u32 {
        region_of(self.space.end.saturating_sub(1)) + 1
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

    /// The region of a block, its first sector there, and its number of sectors.
    pub(super) fn place(&self, at: Address, bytes: u32) -> (u32, u32, u32) {
        let sector = at.offset.0 / self.sector;
        let count = u64::from(bytes).div_ceil(self.sector) as u32;
        let start = (sector % u64::from(REGION_SECTORS)) as u32;
        (region_of(sector), start, count)
    }

    /// The sectors of a block.
    pub(super) fn range(&self, at: Address, bytes: u32) -> Range<u64> {
        let first = at.offset.0 / self.sector;
        first..first + u64::from(bytes).div_ceil(self.sector)
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

    /// Changes a loaded region, and keeps it in the right queue.
    pub(super) fn change(&mut self, number: u32, change: impl FnOnce(&mut Region)) {
        let before = self.free_of(number);
        let region = self.loaded.get_mut(&number).expect("a loaded region");
        change(region);
        region.count = region.used.count();
        self.recount(number, before);
    }

    /// The number of free sectors of a loaded region was `before` and may have changed: corrects the sum of the vdev, and keeps the
    /// region in the right queue.
    fn recount(&mut self, number: u32, before: u32) {
        let after = self.free_of(number);
        self.free = self.free + u64::from(after) - u64::from(before);
        let mut is_rested = || after > before && self.tired.remove(&number).is_some();
        if self.queue.remove(&(before, number)) || is_rested() {
            self.queue.insert((after, number));
        }
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
            let Some(region) = self.next_region(unit) else {
                break;
            };
            let cursor = self.start_of(region);
            if let Some(found) = self.allocate_at(cursor, want, unit, kind) {
                return Some(found);
            }
            let longest = self.free_bits(region).longest();
            self.tired.insert(region, longest.min(unit - 1));
        }
        // few regions, or little space: use the regions of the other kinds
        let others: Vec<u32> = self.cursors.iter().flatten().map(|c| c.region).collect();
        let own = self.cursors[kind as usize];
        let found = others.into_iter().find_map(|region| {
            let cursor = self.start_of(region);
            self.allocate_at(cursor, want, unit, kind)
        });
        self.cursors[kind as usize] = own;
        if found.is_none() && self.may_load(unit) {
            self.short = self.short.max(Some(unit));
        }
        found
    }

    fn start_of(&self, region: u32) -> Cursor {
        Cursor {
            region,
            sector: self.inside(region).start,
        }
    }

    /// The first region without a used sector, known or not, of which something may be given out.
    fn next_empty(&self) -> Option<u32> {
        let transit = self.in_transit();
        let below = self.empty.range(..transit.start).next();
        let known = below.or_else(|| self.empty.range(transit.end..).next());
        let fresh = match transit.contains(&self.fresh) {
            true => transit.end,
            false => self.fresh,
        };
        known.copied().or((fresh < self.regions()).then_some(fresh))
    }

    /// Takes the emptiest loaded region with `unit` free sectors out of the queue. Regions that are known to be empty come first; last
    /// come regions that had no longer run, and may have this one.
    fn next_region(&mut self, unit: u32) -> Option<u32> {
        // a row that reaches into another region is not given out
        let most = REGION_SECTORS - 2 * (self.row - 1);
        let full = |(free, _): &(u32, u32)| *free >= most;
        if !self.queue.last().is_some_and(full)
            && let Some(region) = self.next_empty()
        {
            self.load_empty(region);
        }
        if self.queue.last().is_some_and(|(free, _)| *free >= unit) {
            return self.queue.pop_last().map(|(_, region)| region);
        }
        let mut tired = self.tired.iter();
        let region = *tired.find(|(_, longest)| **longest >= unit)?.0;
        self.tired.remove(&region);
        Some(region)
    }

    /// The blocks of `kind` leave a region, which goes into the queue.
    fn leave(&mut self, region: u32, kind: BlockKind) {
        self.cursors[kind as usize] = None;
        self.enqueue(region);
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
        if self.is_in_transit(cursor.region) {
            return None;
        }
        let before = if self.row > 1 {
            self.free_of(cursor.region)
        } else {
            0
        };
        let region = self.loaded.get_mut(&cursor.region);
        let region = region.expect("a region that blocks are written in is loaded");
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
        let at = self.address(cursor.region, start);
        let bytes = (u64::from(count) * self.sector) as u32;
        if kind == BlockKind::PoolTree {
            self.pool.insert(self.range(at, bytes));
        } else {
            self.set_changed(cursor.region);
        }
        self.free -= match self.row {
            1 => u64::from(count),
            _ => u64::from(before - self.free_of(cursor.region)),
        };
        self.cursors[kind as usize] = Some(Cursor {
            region: cursor.region,
            sector: start + count,
        });
        Some((at, bytes))
    }

    /// Sectors of a loaded region were given out: it stays loaded until a bitmap is saved that has them.
    pub(super) fn set_changed(&mut self, number: u32) {
        let region = self.loaded.get_mut(&number).expect("a loaded region");
        if !std::mem::replace(&mut region.changed, true) {
            self.changed += 1;
        }
        self.unsaved.insert(number);
    }

    /// Takes back the end of the last extent.
    pub(super) fn give_back(&mut self, at: Address, bytes: u32) {
        let (number, start, count) = self.place(at, bytes);
        let range = self.range(at, bytes);
        let is_of_pool = self.pool.any(range.clone());
        self.pool.remove(range.clone());
        if !self.loaded.contains_key(&number) {
            assert!(is_of_pool, "a region with new records stays loaded");
            return self.released_elsewhere(number, &[(start, count)]);
        }
        let before = self.free_of(number);
        let region = self.loaded.get_mut(&number);
        let region = region.filter(|r| r.used.all(start, count));
        let region = region.expect("it was just given out");
        region.used.clear(start, count);
        region.count -= count;
        // another kind, whose region it was, may have left it meanwhile
        self.recount(number, before);
        for cursor in self.cursors.iter_mut().flatten() {
            if (cursor.region, cursor.sector) == (number, start + count) {
                cursor.sector = start;
            }
        }
    }
}
