//! Sparse regions, and regions that are closed while a mover empties them.
//!
//! **Owns** the choice of sparse regions, and the closing. **Called by** the region mover. **Invariants**: a closed region is in no
//! queue, and no kind writes in it; [`Space::open_regions`] opens all, before a write is refused because of them;
//! a restart opens them. Regions of a raidz are never closed: its rows are freed one by one. `docs/decisions/0179`.

use super::Space;
use super::vdev::VdevRegions;
use crate::format::VdevId;

/// A region whose free sectors are not one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparseRegion {
    /// Its vdev.
    pub vdev: VdevId,
    /// Its number.
    pub region: u32,
    /// Bytes of used sectors, and of freed ones before their release.
    pub used: u64,
    /// Bytes of free sectors.
    pub free: u64,
}

impl VdevRegions {
    fn close(&mut self, region: u32) {
        let cursors = self.cursors.iter_mut();
        for cursor in cursors.filter(|c| c.is_some_and(|c| c.region == region)) {
            *cursor = None;
        }
        self.queue.retain(|(_, queued)| *queued != region);
        self.tired.remove(&region);
        self.closed.insert(region);
    }

    fn open_closed(&mut self) {
        let closed = std::mem::take(&mut self.closed);
        for region in &closed {
            self.enqueue(*region);
        }
    }

    /// Puts a loaded region that no kind writes in into the queue, unless it is closed.
    pub(super) fn enqueue(&mut self, region: u32) {
        if self.loaded.contains_key(&region) && !self.closed.contains(&region) {
            self.queue.insert((self.free_of(region), region));
        }
    }

    fn sparse(&self, region: u32) -> Option<SparseRegion> {
        let all = self.all_free(region);
        let free = self.free_of(region);
        (0 < free && free < all).then(|| SparseRegion {
            vdev: self.id,
            region,
            used: u64::from(all - free) * self.sector(),
            free: u64::from(free) * self.sector(),
        })
    }
}

impl Space {
    /// The regions of normal mirrors that have used and free sectors, the emptiest first.
    #[must_use]
    pub fn sparse_regions(&self) -> Vec<SparseRegion> {
        let mirrors = self.normal().filter(|vdev| vdev.row == 1);
        let regions = mirrors.flat_map(|vdev| (0..vdev.fresh).filter_map(|r| vdev.sparse(r)));
        let mut regions: Vec<SparseRegion> = regions.collect();
        regions.sort_by_key(|of| (of.used, of.vdev, of.region));
        regions
    }

    /// Gives nothing out in these regions until [`Space::open_regions`].
    pub fn close_regions(&mut self, regions: &[SparseRegion]) {
        for of in regions {
            self.vdevs[usize::from(of.vdev.0)].close(of.region);
        }
    }

    /// Opens all closed regions. False if none was closed.
    pub fn open_regions(&mut self) -> bool {
        let was_closed = self.has_closed_regions();
        self.vdevs.iter_mut().for_each(VdevRegions::open_closed);
        was_closed
    }

    /// Whether regions are closed.
    #[must_use]
    pub fn has_closed_regions(&self) -> bool {
        self.vdevs.iter().any(|vdev| !vdev.closed.is_empty())
    }

    /// Bytes of used sectors of a region, and of freed ones before their release.
    #[must_use]
    pub fn used_in(&self, vdev: VdevId, region: u32) -> u64 {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        let sparse = vdev.and_then(|vdev| vdev.sparse(region));
        sparse.map_or(0, |sparse| sparse.used)
    }
}
