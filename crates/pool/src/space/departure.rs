//! Vdevs that leave the pool: nothing is given out on them.
//!
//! **Owns** whether a vdev gives out space. **Called by** the pool's owner for the removal of a vdev, and by the opening. **Invariants**: a
//! vdev that is not open has no free space, and no part in the pool's size but that of its blocks; the bitmaps of a removed vdev
//! still say which of its addresses block pointers have. `docs/decisions/0180`.

use super::Space;
use super::vdev::{Service, VdevRegions};
use crate::format::{Address, REGION_SECTORS, VdevId};

impl VdevRegions {
    /// Whether it gives out space.
    pub(super) fn is_open(&self) -> bool {
        self.service == Service::Open
    }

    /// Bytes of used sectors that are not freed.
    pub(super) fn used_bytes(&self) -> u64 {
        u64::try_from(self.used).unwrap_or(0)
    }

    /// Bytes of freed sectors that are not reusable yet.
    pub(super) fn pending_bytes(&self) -> u64 {
        u64::try_from(self.pending).unwrap_or(0)
    }
}

impl Space {
    /// The vdevs that give out space.
    pub(super) fn open(&self) -> impl Iterator<Item = &VdevRegions> {
        self.vdevs.iter().filter(|vdev| vdev.is_open())
    }

    /// The vdevs that blocks are on.
    pub(super) fn present(&self) -> impl Iterator<Item = &VdevRegions> {
        let is_present = |vdev: &&VdevRegions| vdev.service != Service::Removed;
        self.vdevs.iter().filter(is_present)
    }

    /// Bytes of the blocks on normal vdevs that are being removed.
    pub(super) fn leaving(&self) -> u64 {
        let leaving = self.present_normal().filter(|vdev| !vdev.is_open());
        let bytes = leaving.map(|vdev| vdev.used_bytes() + vdev.pending_bytes());
        bytes.sum()
    }

    /// Sets what a vdev does.
    pub fn serve(&mut self, vdev: VdevId, service: Service) {
        if let Some(vdev) = self.vdevs.get_mut(usize::from(vdev.0)) {
            vdev.service = service;
            vdev.short = None;
            self.measure();
        }
    }

    /// Bytes of used sectors of a vdev, freed or not.
    #[must_use]
    pub fn used_on(&self, vdev: VdevId) -> u64 {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.map_or(0, |vdev| vdev.used_bytes() + vdev.pending_bytes())
    }

    /// Free bytes of normal vdevs that movers may take if a vdev gave out no space.
    #[must_use]
    pub fn movable_without(&self, vdev: VdevId) -> u64 {
        let free = self.normal().filter(|other| other.id != vdev);
        let free: u64 = free.map(VdevRegions::free_bytes).sum();
        free.saturating_sub(self.kept_from_mover())
    }

    /// Whether nodes of the pool's own tree are on a vdev, freed or not.
    #[must_use]
    pub fn has_pool_nodes(&self, vdev: VdevId) -> bool {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.is_some_and(|vdev| vdev.pool.runs() > 0)
    }

    /// The used addresses of a loaded region that are not freed, without those of nodes of the pool's own tree: the address and bytes
    /// of each run. `None` if the region is not loaded.
    #[must_use]
    pub fn live_runs(&self, vdev: VdevId, region: u32) -> Option<Vec<(Address, u64)>> {
        let index = usize::from(vdev.0);
        let vdev = self.vdevs.get(index)?;
        let mut bits = vdev.loaded.get(&region)?.used.clone();
        bits.remove(&vdev.pool.bits(region));
        bits.remove(&self.frees.bits(index, region));
        let (mut runs, mut at) = (Vec::new(), 0);
        loop {
            let start = bits.next(at, REGION_SECTORS, true);
            if start >= REGION_SECTORS {
                return Some(runs);
            }
            at = bits.next(start, REGION_SECTORS, false);
            let bytes = u64::from(at - start) * vdev.sector();
            runs.push((vdev.address(region, start), bytes));
        }
    }

    /// The regions of a vdev that may have used sectors.
    #[must_use]
    pub fn used_regions(&self, vdev: VdevId) -> Vec<u32> {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        let known = vdev.into_iter().flat_map(|vdev| {
            let regions = 0..vdev.fresh;
            regions.filter(|region| !vdev.empty.contains(region))
        });
        known.collect()
    }
}
