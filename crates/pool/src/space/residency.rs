//! Which regions of a vdev are loaded.
//!
//! **Owns** the summaries of regions that are not loaded, and the choice of regions to load and to evict. **Called by**
//! [`super::Space`]. **Invariants**: a region with sectors that no saved bitmap has, or whose bitmap is being written, is not
//! evicted; the free sectors of a vdev are the sum over loaded regions and summaries. A summary of a region that is not loaded
//! may say too little between the release of a checkpoint and the next load; it is exact again after each load.
//! `docs/decisions/0162`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sectors::{SectorSet, sectors_of};
use super::summary::{Released, Summary};
use super::vdev::{Region, VdevRegions};
use crate::format::{Address, Defect, REGION_SECTORS, RegionBits, RegionSummary};

/// The error for a bitmap with bits outside of the vdev's space.
fn outside(region: u32) -> Defect {
    Defect::Field {
        field: "region whose saved space reaches beyond its vdev",
        value: region.into(),
    }
}

/// The error for a block that overlaps another one.
fn overlap(value: u64) -> Defect {
    Defect::Field {
        field: "offset of a block that overlaps another",
        value,
    }
}

impl VdevRegions {
    /// The sectors that can be given out of a region that is not loaded.
    pub(super) fn free_unloaded(&self, region: u32) -> u32 {
        if region >= self.fresh || self.empty.contains(&region) {
            return self.all_free(region);
        }
        let loading = self.loading.get(&region);
        loading
            .unwrap_or(&self.summaries[region as usize])
            .free
            .into()
    }

    /// Changes the summary of a region that is not loaded.
    fn change_summary(&mut self, region: u32, change: impl FnOnce(&mut Summary)) {
        let summary = match self.loading.get_mut(&region) {
            Some(loading) => loading,
            None => &mut self.summaries[region as usize],
        };
        let before = summary.free;
        change(summary);
        let after = *summary;
        self.free = self.free + u64::from(after.free) - u64::from(before);
        self.best.raise(after);
    }

    /// The end of the vdev's space moved: a region that is not loaded has more free sectors.
    pub(super) fn summary_grows(&mut self, region: u32, sectors: u32) {
        let is_known = region < self.fresh && !self.empty.contains(&region);
        if is_known && !self.loaded.contains_key(&region) {
            let free = self.free;
            self.change_summary(region, |summary| {
                summary.free += sectors as u16;
                summary.longest += sectors as u16;
            });
            // the caller counts them
            self.free = free;
        }
    }

    /// The regions up to `region` are known: the others up to it are empty.
    pub(super) fn reach(&mut self, region: u32) {
        while self.fresh <= region {
            self.summaries.push(Summary::default());
            self.empty.insert(self.fresh);
            self.fresh += 1;
        }
    }

    /// A region has this saved summary. For the opening.
    ///
    /// # Errors
    /// The region does not exist, or was known.
    pub(super) fn know(&mut self, region: u32, saved: &RegionSummary) -> Result<(), Defect> {
        if self.inside(region).is_empty() {
            return Err(outside(region));
        }
        self.reach(region);
        if !self.empty.remove(&region) {
            return Err(overlap(region.into()));
        }
        let (free, longest) = self.summary_inside(region, saved);
        let summary = Summary {
            free: free as u16,
            longest: longest as u16,
        };
        self.summaries[region as usize] = summary;
        self.free -= u64::from(self.all_free(region) - free);
        self.best.raise(summary);
        Ok(())
    }

    /// Checks that a saved bitmap has no bits outside of the vdev's space.
    pub(super) fn check(&self, region: u32, bits: &RegionBits) -> Result<(), Defect> {
        let inside = self.inside(region);
        let mut beyond = bits.clone();
        beyond.clear(inside.start, inside.len() as u32);
        match inside.is_empty() || !beyond.is_empty() {
            true => Err(outside(region)),
            false => Ok(()),
        }
    }

    /// Whether a region is loaded.
    pub(super) fn is_loaded(&self, region: u32) -> bool {
        self.loaded.contains_key(&region)
    }

    /// Loads a region that is known to have no used sector.
    pub(super) fn load_empty(&mut self, region: u32) -> bool {
        self.reach(region);
        let is_empty = self.empty.remove(&region);
        if is_empty {
            self.loaded.insert(region, Region::default());
            self.enqueue(region);
        }
        is_empty
    }

    /// Whether a run of `unit` sectors may be in a region that is not loaded.
    pub(super) fn may_load(&self, unit: u32) -> bool {
        u32::from(self.best.longest) >= unit
            || self.loading.values().any(|s| u32::from(s.longest) >= unit)
    }

    /// The regions to load next, at most `most`, if allocations lacked one, or if fewer loaded regions than a `stock` are
    /// about as empty as the emptiest that is not loaded.
    pub(super) fn wanted(&mut self, stock: Option<usize>, most: usize) -> Vec<u32> {
        let is_low = stock.is_some_and(|stock| {
            let nth = self.queue.iter().rev().nth(stock - 1);
            nth.is_none_or(|(free, _)| *free < u32::from(self.best.free) / 2)
        });
        let unit = match self.short.take() {
            Some(unit) => unit,
            None if is_low => 1,
            None => return Vec::new(),
        };
        if u32::from(self.best.longest) < unit {
            return Vec::new();
        }
        let mut found = BinaryHeap::new();
        let mut best = Summary::default();
        for (region, summary) in self.summaries.iter().enumerate() {
            best.raise(*summary);
            if summary.free == 0 || u32::from(summary.longest) < unit {
                continue;
            }
            found.push(Reverse((summary.free, region as u32)));
            if found.len() > most {
                found.pop();
            }
        }
        self.best = best;
        found.into_sorted_vec().iter().map(|r| r.0.1).collect()
    }

    /// A region is being loaded. False if it is loaded, being loaded, or known to be empty, in which case it is loaded.
    pub(super) fn begin_load(&mut self, region: u32) -> bool {
        if self.loaded.contains_key(&region)
            || self.loading.contains_key(&region)
            || self.load_empty(region)
        {
            return false;
        }
        let summary = std::mem::take(&mut self.summaries[region as usize]);
        self.loading.insert(region, summary);
        true
    }

    /// The load of a region failed: its free space is not used.
    pub(super) fn fail_load(&mut self, region: u32) {
        if let Some(summary) = self.loading.remove(&region) {
            self.free -= u64::from(summary.free);
        }
    }

    /// Ends the load of a region. `used` has everything but nodes of the pool's own tree.
    ///
    /// # Errors
    /// Such a node overlaps it.
    pub(super) fn end_load(&mut self, region: u32, mut used: RegionBits) -> Result<(), Defect> {
        let nodes = self.pool.bits(region);
        let mut both = nodes.clone();
        both.keep(&used);
        if !both.is_empty() {
            self.fail_load(region);
            let sector = both.next(0, REGION_SECTORS, true);
            return Err(overlap(self.address(region, sector).offset.0));
        }
        used.add(&nodes);
        let was_marked = self.marked.any(sectors_of(region));
        self.marked.remove(sectors_of(region));
        self.targets.remove(&region);
        let before = self.free_unloaded(region);
        self.loading.remove(&region);
        let count = used.count();
        let loaded = Region {
            used,
            count,
            ..Region::default()
        };
        self.loaded.insert(region, loaded);
        if was_marked {
            self.set_changed(region);
        }
        let after = self.free_of(region);
        self.free = self.free + u64::from(after) - u64::from(before);
        self.enqueue(region);
        Ok(())
    }

    /// Whether a region may be evicted.
    fn is_evictable(&self, number: u32) -> bool {
        let region = self.loaded.get(&number);
        let is_clean = region.is_some_and(|r| !r.changed && !r.is_saving && r.pins == 0);
        is_clean && !self.cursors.iter().flatten().any(|c| c.region == number)
    }

    /// Evicts a region. `freed` has the sets of freed sectors that saved bitmaps do not have, by checkpoint. False if it is not
    /// loaded, or must stay.
    pub(super) fn evict<'a>(
        &mut self,
        number: u32,
        freed: impl Iterator<Item = (u64, &'a SectorSet)>,
    ) -> bool {
        if !self.is_evictable(number) {
            return false;
        }
        let free = self.free_bits(number);
        let region = self.loaded.remove(&number).expect("it is loaded");
        let mut later = region.used;
        let mut seal = None;
        for (id, set) in freed {
            if set.any(sectors_of(number)) {
                set.each(number, |start, count| later.clear(start, count));
                seal = seal.max(Some(id));
            }
        }
        if let Some(seal) = seal {
            let released = Released {
                seal,
                summary: Summary::of(&self.free_without(number, &later)),
                is_empty: later.is_empty(),
            };
            self.targets.insert(number, released);
        }
        let summary = Summary::of(&free);
        self.queue.remove(&(summary.free.into(), number));
        self.tired.remove(&number);
        if region.count == 0 {
            self.empty.insert(number);
        } else {
            self.summaries[number as usize] = summary;
            self.best.raise(summary);
        }
        true
    }

    /// Evicts regions, the fullest first, until `most` are loaded or the others must stay.
    pub(super) fn evict_to<'a, I: Iterator<Item = (u64, &'a SectorSet)>>(
        &mut self,
        most: usize,
        freed: impl Fn() -> I,
    ) {
        let surplus = self.loaded.len().saturating_sub(most);
        if surplus == 0 {
            return;
        }
        let waiting = self
            .tired
            .keys()
            .chain(self.queue.iter().map(|(_, region)| region));
        let evictable = waiting.filter(|region| self.is_evictable(**region));
        let evicted: Vec<u32> = evictable.take(surplus).copied().collect();
        for region in evicted {
            self.evict(region, freed());
        }
    }

    /// Sectors of a region that is not loaded are free from now on: `runs` of it.
    pub(super) fn released_elsewhere(&mut self, region: u32, runs: &[(u32, u32)]) {
        let (grid, inside) = (self.grid(region), self.inside(region));
        let (mut free, mut longest) = (0, 0);
        for (start, count) in runs {
            let first = grid.from(*start);
            let end = (start + count).min(inside.end);
            let rows = end.saturating_sub(first) / grid.row * grid.row;
            free += rows;
            longest = longest.max(rows);
        }
        let most = self.all_free(region);
        self.change_summary(region, |summary| {
            summary.free = (u32::from(summary.free) + free).min(most) as u16;
            summary.longest = u32::from(summary.longest).max(longest) as u16;
        });
    }

    /// The frees `seal` of a region are released. `is_oldest` if no older ones wait.
    pub(super) fn release(
        &mut self,
        number: u32,
        runs: &[(u32, u32)],
        (seal, is_oldest): (u64, bool),
    ) {
        if self.loaded.contains_key(&number) {
            return self.change(number, |region| {
                runs.iter()
                    .for_each(|(start, count)| region.used.clear(*start, *count));
            });
        }
        match self.targets.get(&number).copied() {
            Some(target)
                if is_oldest && target.seal == seal && !self.loading.contains_key(&number) =>
            {
                self.targets.remove(&number);
                if target.is_empty {
                    self.free -= u64::from(self.summaries[number as usize].free);
                    self.summaries[number as usize] = Summary::default();
                    self.empty.insert(number);
                    self.free += u64::from(self.all_free(number));
                } else {
                    self.change_summary(number, |summary| *summary = target.summary);
                }
            }
            _ => self.released_elsewhere(number, runs),
        }
    }

    /// Marks a node of the pool's own tree as used. Returns its sectors.
    pub(super) fn mark_node(&mut self, at: Address, bytes: u32) -> Result<u64, Defect> {
        let (number, start, count) = self.place(at, bytes);
        let range = self.range(at, bytes);
        self.reach(number);
        let is_used = |r: &Region| r.used.any(start, count);
        let is_loaded_used = self.loaded.get(&number).is_some_and(is_used);
        if self.pool.any(range.clone()) || self.marked.any(range.clone()) || is_loaded_used {
            return Err(overlap(at.offset.0));
        }
        self.pool.insert(range);
        if self.loaded.contains_key(&number) {
            self.change(number, |region| region.used.set(start, count));
        } else {
            self.take_elsewhere(number, start, count);
        }
        Ok(count.into())
    }

    /// Marks a block of the journal as used. Returns the sectors that were free before; sectors of the saved bitmap of a region that is
    /// not loaded are counted until it is loaded.
    pub(super) fn mark_replayed(&mut self, at: Address, bytes: u32) -> Result<u64, Defect> {
        let (number, start, count) = self.place(at, bytes);
        let range = self.range(at, bytes);
        if self.pool.any(range.clone()) {
            return Err(overlap(at.offset.0));
        }
        self.load_empty(number);
        if let Some(region) = self.loaded.get(&number) {
            let before = region.count;
            self.change(number, |region| region.used.set(start, count));
            self.set_changed(number);
            return Ok(u64::from(self.loaded[&number].count - before));
        }
        let known: u64 = self
            .marked
            .within(range.clone())
            .map(|r| r.end - r.start)
            .sum();
        self.marked.insert(range);
        self.unsaved.insert(number);
        self.take_elsewhere(number, start, count);
        Ok(u64::from(count) - known)
    }

    /// Sectors of a region that is not loaded are used from now on.
    fn take_elsewhere(&mut self, number: u32, start: u32, count: u32) {
        if self.empty.remove(&number) {
            let all = self.all_free(number) as u16;
            self.summaries[number as usize] = Summary {
                free: all,
                longest: all,
            };
        }
        let grid = self.grid(number);
        let first = (start + 1).saturating_sub(grid.row);
        let first = grid.from(first).min(start);
        let rows = (start + count - first).next_multiple_of(grid.row);
        self.change_summary(number, |summary| {
            summary.free = u32::from(summary.free).saturating_sub(rows) as u16;
            summary.longest = summary.longest.min(summary.free);
        });
    }

    /// The bitmap that a checkpoint saves of a loaded region, without the sectors of `others`, nodes of the pool's own tree and
    /// young sectors; and its summary. With young sectors, the region counts as changed for the next checkpoint.
    pub(super) fn save<'a>(
        &mut self,
        number: u32,
        young: Option<&SectorSet>,
        others: impl Iterator<Item = &'a SectorSet>,
    ) -> (Option<RegionBits>, RegionSummary) {
        let grid = self.grid(number);
        let region = self.loaded.get_mut(&number).expect("a loaded region");
        let mut bits = region.used.clone();
        let mut clear = |set: &SectorSet| set.each(number, |start, count| bits.clear(start, count));
        others.for_each(&mut clear);
        young.into_iter().for_each(&mut clear);
        clear(&self.pool);
        region.is_saving = true;
        // young records keep it from being evicted until the next checkpoint saves them
        let is_young = young.is_some_and(|young| young.any(sectors_of(number)));
        let was_changed = std::mem::replace(&mut region.changed, is_young);
        self.changed = self.changed + usize::from(is_young) - usize::from(was_changed);
        if is_young {
            self.unsaved.insert(number);
        }
        let summary = RegionSummary::of(&bits, grid);
        ((!bits.is_empty()).then_some(bits), summary)
    }

    /// The bitmap of a region is written.
    pub(super) fn saved(&mut self, number: u32) {
        if let Some(region) = self.loaded.get_mut(&number) {
            region.is_saving = false;
        }
    }
}
