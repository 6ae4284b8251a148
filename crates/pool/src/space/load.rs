//! Loading, saving and evicting of regions, as the owner does it between waits.
//!
//! **Owns** how a saved bitmap and the changes since make a loaded region, and the memory budget. **Called by** the pool's owner.
//! **Invariant**: a loaded region has the bits that it had before it was evicted, but for sectors that were released meanwhile.
//! `docs/decisions/0162`.

use super::Space;
use super::sectors::{RUN_BYTES, SectorSet, sectors_of};
use super::vdev::{Region, VdevRegions};
use crate::format::{Defect, Key, PAGE_REGIONS, RegionBits, RegionSummary, SummaryPage, VdevId};

/// Bytes of memory of a loaded region, about.
const REGION_BYTES: u64 = size_of::<Region>() as u64 + 64;
/// Bytes of memory for each region of the pool: its summary, and its place among the empty regions.
const KNOWN_BYTES: u64 = 12;
/// Regions that may be loaded however small the budget is.
const LOADED_MIN: usize = 4;
/// Regions that are loaded at once, at most.
const LOAD_MAX: usize = 256;
/// Loaded regions of each vdev that are kept ahead of the writers, with about as much free space as there is in any region.
const STOCK: usize = 8;

/// A region that a checkpoint saves.
pub struct SavedRegion {
    /// Its vdev.
    pub vdev: VdevId,
    /// Its number.
    pub region: u32,
    /// Its used sectors; `None` if there are none.
    pub bits: Option<RegionBits>,
    /// Their summary.
    pub summary: RegionSummary,
}

/// The error for a key of a region or page that does not exist.
fn no_region(value: u64) -> Defect {
    Defect::Field {
        field: "region of the saved space",
        value,
    }
}

impl Space {
    fn keyed(&mut self, key: Key) -> Result<(&mut VdevRegions, u32), Defect> {
        let index = usize::try_from(key.object().0);
        let number = u32::try_from(key.offset());
        let vdev = index.ok().and_then(|index| self.vdevs.get_mut(index));
        match (vdev, number) {
            (Some(vdev), Ok(number)) => Ok((vdev, number)),
            _ => Err(no_region(key.offset())),
        }
    }

    /// Takes over a page of summaries, when the pool is opened.
    ///
    /// # Errors
    /// The page is malformed, or has regions that do not exist.
    pub fn know_page(&mut self, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        let page = SummaryPage::decode(bytes)?;
        let (vdev, number) = self.keyed(key)?;
        let first = u64::from(number) * u64::from(PAGE_REGIONS);
        let mut used = 0;
        for (region, summary) in (first..).zip(&page.0).filter(|(_, s)| s.used > 0) {
            let region = u32::try_from(region).map_err(|_| no_region(key.offset()))?;
            vdev.know(region, summary)?;
            used += u64::from(summary.used) * vdev.sector();
        }
        vdev.used += used as i64;
        Ok(())
    }

    /// Takes over the summary of a bitmap, when a pool is opened that has no pages of summaries. Returns it.
    ///
    /// # Errors
    /// The bitmap is malformed, its region does not exist, or bits are outside of its vdev's space.
    pub fn know_bitmap(&mut self, key: Key, bytes: &[u8]) -> Result<RegionSummary, Defect> {
        let (vdev, region) = self.keyed(key)?;
        let bits = RegionBits::decode(bytes)?;
        vdev.check(region, &bits)?;
        let summary = RegionSummary::of(&bits, vdev.grid(region));
        vdev.know(region, &summary)?;
        let used = u64::from(summary.used) * vdev.sector();
        vdev.used += used as i64;
        Ok(summary)
    }

    /// Whether an allocation found no run in loaded regions that another region may have.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.vdevs.iter().any(|vdev| vdev.short.is_some())
    }

    /// The regions to load next, so that allocations find space in loaded regions.
    pub fn wanted(&mut self) -> Vec<(VdevId, u32)> {
        let most = self.batch();
        // in a small budget, the stock of one vdev would evict that of another, without end
        let has_stock = self.loaded_max() >= 4 * STOCK * self.vdevs.len();
        let stock = has_stock.then_some(STOCK);
        let vdevs = self.vdevs.iter_mut().filter(|vdev| vdev.is_open());
        let wanted = vdevs.flat_map(|vdev| {
            let regions = vdev.wanted(stock, most.min(2 * STOCK));
            regions.into_iter().map(|region| (vdev.id, region))
        });
        wanted.take(LOAD_MAX).collect()
    }

    /// Keeps a loaded region loaded until [`Space::unpin`]. False if it is not loaded. A region that is known to be empty is
    /// loaded by this.
    pub fn pin(&mut self, vdev: VdevId, region: u32) -> bool {
        let vdev = self.vdevs.get_mut(usize::from(vdev.0));
        let vdev = vdev.filter(|vdev| region < vdev.regions());
        vdev.is_some_and(|vdev| {
            vdev.load_empty(region);
            let region = vdev.loaded.get_mut(&region);
            region.map(|region| region.pins += 1).is_some()
        })
    }

    /// Ends one [`Space::pin`].
    pub fn unpin(&mut self, vdev: VdevId, region: u32) {
        let vdev = &mut self.vdevs[usize::from(vdev.0)];
        let region = vdev.loaded.get_mut(&region);
        region.expect("a pinned region is loaded").pins -= 1;
    }

    /// Whether a region's bitmap is to be read now, and then given to [`Space::load`]. False if it is loaded, or being loaded.
    pub fn begin_load(&mut self, vdev: VdevId, region: u32) -> bool {
        let vdev = self.vdevs.get_mut(usize::from(vdev.0));
        vdev.is_some_and(|vdev| region < vdev.regions() && vdev.begin_load(region))
    }

    /// A region's bitmap could not be read. Its free space is not given out.
    pub fn fail_load(&mut self, vdev: VdevId, region: u32) {
        if let Some(vdev) = self.vdevs.get_mut(usize::from(vdev.0)) {
            vdev.fail_load(region);
        }
    }

    /// Loads a region from its saved bitmap: that of the newest checkpoint that saved the region. Returns the number of
    /// sectors that were freed and are not used; they are not freed any more.
    ///
    /// # Errors
    /// The bitmap has bits outside of its vdev's space, or claims a node of the pool's own tree. The region is not loaded.
    ///
    /// # Panics
    /// If the region is not being loaded.
    pub fn load(
        &mut self,
        vdev: VdevId,
        region: u32,
        saved: Option<RegionBits>,
    ) -> Result<u64, Defect> {
        let index = usize::from(vdev.0);
        let regions = &mut self.vdevs[index];
        assert!(regions.loading.contains_key(&region), "nobody loads it");
        let mut used = saved.unwrap_or_default();
        if let Err(defect) = regions
            .check(region, &used)
            .or_else(|e| match used.is_empty() {
                true => Ok(()),
                false => Err(e),
            })
        {
            regions.fail_load(region);
            return Err(defect);
        }
        let sector = regions.sector() as i64;
        let mut twice = used.clone();
        let marked = regions.marked.bits(region);
        twice.keep(&marked);
        regions.used -= i64::from(twice.count()) * sector;
        used.add(&marked);
        let mut wrong = 0;
        let is_sealed = self.saving.contains(&(index, region));
        let newest = self.frees.newest();
        let frees = &mut self.frees;
        let sealed = frees.sealed.iter_mut();
        let unsaved = sealed.filter(|(seal, _)| is_sealed && **seal == newest);
        let unsaved = unsaved.map(|(_, freed)| freed);
        let unsaved = unsaved.chain([&mut frees.current]).chain(&mut frees.young);
        for freed in unsaved {
            let set = freed.blocks.of_mut(index);
            let mut not_used = set.bits(region);
            not_used.remove(&used);
            wrong += u64::from(not_used.count());
            let first = sectors_of(region).start;
            let mut bad = SectorSet::default();
            bad.add_bits(region, &not_used);
            for run in bad.within(first..u64::MAX) {
                set.remove(run);
            }
        }
        let regions = &mut self.vdevs[index];
        regions.used += wrong as i64 * sector;
        regions.pending -= wrong as i64 * sector;
        for (seal, set) in self.frees.sealed_of(index) {
            if !(is_sealed && seal == newest) {
                set.each(region, |start, count| used.set(start, count));
            }
        }
        self.vdevs[index].end_load(region, used)?;
        Ok(wrong)
    }

    /// The next regions that the sealed checkpoint saves, at most `most`, in the order of their keys. All of them must be loaded
    /// before [`Space::save`].
    #[must_use]
    pub fn next_to_save(&self, most: usize) -> Vec<(VdevId, u32)> {
        let next = self.saving.iter().take(most);
        next.map(|(index, region)| (self.vdevs[*index].id, *region))
            .collect()
    }

    /// The bitmap of a loaded region that the sealed checkpoint saves: without freed sectors, nodes of the pool's own tree, and
    /// younger records. The region stays loaded until [`Space::saved`].
    pub fn save(&mut self, vdev: VdevId, region: u32) -> SavedRegion {
        let index = usize::from(vdev.0);
        self.saving.remove(&(index, region));
        let sealed = self.frees.sealed_of(index).map(|(_, set)| set);
        let others = sealed.chain(self.frees.withheld.of(index));
        let young = self.young.of(index);
        let (bits, summary) = self.vdevs[index].save(region, young, others);
        SavedRegion {
            vdev,
            region,
            bits,
            summary,
        }
    }

    /// The bitmap of a region is written to the tree from which regions are loaded.
    pub fn saved(&mut self, vdev: VdevId, region: u32) {
        if let Some(vdev) = self.vdevs.get_mut(usize::from(vdev.0)) {
            vdev.saved(region);
        }
    }

    /// All bitmaps of the sealed checkpoint are written.
    pub fn end_seal(&mut self) {
        assert!(self.saving.is_empty(), "a region was not saved");
        self.is_checkpointing = false;
        self.young = super::Sectors::default();
    }

    /// Evicts a region. False if it is not loaded, or must stay loaded.
    pub fn evict(&mut self, vdev: VdevId, region: u32) -> bool {
        let index = usize::from(vdev.0);
        let regions = self.vdevs.get_mut(index);
        let freed = self.frees.sealed_of(index);
        regions.is_some_and(|regions| regions.evict(region, freed))
    }

    /// Sets the bytes of memory for space.
    pub fn set_budget(&mut self, bytes: u64) {
        self.budget = bytes;
    }

    /// The number of regions that may be loaded.
    fn loaded_max(&self) -> usize {
        let fixed = self.memory() - self.loaded() as u64 * REGION_BYTES;
        let left = self.budget.saturating_sub(fixed) / REGION_BYTES;
        usize::try_from(left).unwrap_or(usize::MAX).max(LOADED_MIN)
    }

    /// The number of regions that may be loaded at once.
    #[must_use]
    pub fn batch(&self) -> usize {
        (self.loaded_max() / 4).clamp(1, LOAD_MAX)
    }

    /// Evicts regions so that `count` others can be loaded within the budget, as far as loaded ones may be evicted.
    pub fn make_room(&mut self, count: usize) {
        let loaded = self.loaded();
        let most = self.loaded_max().saturating_sub(count);
        if loaded <= most {
            return;
        }
        for (index, vdev) in self.vdevs.iter_mut().enumerate() {
            let share = most * vdev.loaded.len() / loaded;
            vdev.evict_to(share, || self.frees.sealed_of(index));
        }
    }

    /// The number of loaded regions.
    #[must_use]
    pub fn loaded(&self) -> usize {
        self.vdevs.iter().map(|vdev| vdev.loaded.len()).sum()
    }

    /// Whether half of the regions that fit have changed: a checkpoint is needed before others can be loaded.
    #[must_use]
    pub fn is_much_changed(&self) -> bool {
        let changed: usize = self.vdevs.iter().map(|vdev| vdev.changed).sum();
        changed > (self.loaded_max() / 2).max(2 * LOADED_MIN)
    }

    /// Bytes of memory for space, about: loaded regions, summaries, freed sectors, and nodes of the pool's own tree.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let known: u64 = self.vdevs.iter().map(|vdev| u64::from(vdev.fresh)).sum();
        let nodes: usize = self.vdevs.iter().map(|vdev| vdev.pool.runs()).sum();
        let runs = self.frees.runs() + self.young.runs() + self.trims.runs() + nodes;
        self.loaded() as u64 * REGION_BYTES + known * KNOWN_BYTES + runs as u64 * RUN_BYTES
    }
}

impl VdevRegions {
    /// Freed nodes of the pool's own tree are free from now on.
    pub(super) fn release_nodes(&mut self, number: u32, runs: &[(u32, u32)]) {
        let first = sectors_of(number).start;
        for (start, count) in runs {
            let start = first + u64::from(*start);
            self.pool.remove(start..start + u64::from(*count));
        }
        match self.loaded.contains_key(&number) {
            true => self.change(number, |region| {
                runs.iter()
                    .for_each(|(start, count)| region.used.clear(*start, *count));
            }),
            false => self.released_elsewhere(number, runs),
        }
    }
}
