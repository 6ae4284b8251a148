//! Space of a raidz that is being expanded.
//!
//! **Owns** which regions have wide rows, which have narrow ones, and which are in transit: their rows are being moved, and nothing of
//! them is given out. **Called by** the pool's owner for the expansion, and by the opening. **Invariants**: the rows of a region
//! that may be given out have one width; a region in transit has no free sector; summaries that a checkpoint saves count the
//! rows that [`Space::summary_rows`] says. `docs/decisions/0166`.

use std::ops::Range;

use super::Space;
use super::narrow::NarrowRegions;
use super::sectors::sectors_of;
use super::summary::Summary;
use super::vdev::VdevRegions;
use crate::format::{REGION_SECTORS, SummaryRows, VdevId, VdevOffset};
use crate::vdev::{NarrowRows, VdevInfo};

impl VdevRegions {
    /// Sectors of a row in a region. A region in transit has narrow rows still.
    pub(super) fn row_in(&self, region: u32) -> u32 {
        match &self.narrow {
            Some(narrow) if region >= narrow.transit.start => narrow.row,
            _ => self.row,
        }
    }

    /// The regions whose rows are being moved.
    pub(super) fn in_transit(&self) -> Range<u32> {
        let narrow = self.narrow.as_ref();
        narrow.map_or(0..0, |narrow| narrow.transit.clone())
    }

    /// Whether rows of a region are being moved.
    pub(super) fn is_in_transit(&self, region: u32) -> bool {
        self.in_transit().contains(&region)
    }

    /// The sectors that can be given out if nothing is used, also of regions in transit.
    pub(super) fn all_in_rows(&self) -> u64 {
        if self.row == 1 {
            return self.space.end - self.space.start;
        }
        let rows = |region: u32| match self.inside(region) {
            inside if inside.is_empty() => 0,
            inside => u64::from(self.row_sectors(region, inside)),
        };
        (0..self.regions()).map(rows).sum()
    }

    /// The regions that an expansion has passed, by its position.
    pub(super) fn narrow_regions(&self, rows: &NarrowRows) -> NarrowRegions {
        let sector = self.sector();
        let (in_place, from) = (rows.in_place.0 / sector, rows.from.0 / sector);
        let start = self.space.start;
        let wide = u64::from(self.row);
        let is_wide = |region: &u32| {
            let end = sectors_of(*region).end.min(self.space.end).max(start);
            start + (end - start) / wide * wide <= in_place
        };
        let is_narrow = |region: &u32| from <= sectors_of(*region).start.max(start);
        let regions = self.regions();
        let first = (0..regions).find(|region| !is_wide(region));
        let first = first.unwrap_or(regions);
        let behind = (first..regions).find(is_narrow).unwrap_or(regions);
        NarrowRegions {
            row: rows.row,
            transit: first..behind,
        }
    }

    /// Changes which regions have which rows, and counts free sectors anew.
    fn set_narrow(&mut self, row: u32, narrow: Option<NarrowRegions>) {
        let old = std::mem::replace(&mut self.row, row);
        let had = std::mem::replace(&mut self.narrow, narrow);
        let row_before = |region: u32| match &had {
            Some(had) if region >= had.transit.start => had.row,
            _ => old,
        };
        let was_in_transit =
            |region: u32| had.as_ref().is_some_and(|h| h.transit.contains(&region));
        let is_changed = |vdev: &Self, region: &u32| {
            vdev.row_in(*region) != row_before(*region)
                || vdev.is_in_transit(*region) != was_in_transit(*region)
        };
        let changed: Vec<u32> = (0..self.fresh).filter(|r| is_changed(self, r)).collect();
        for region in changed {
            for cursor in self.cursors.iter_mut() {
                if cursor.is_some_and(|cursor| cursor.region == region) {
                    *cursor = None;
                }
            }
            let has_other_rows = self.row_in(region) != row_before(region);
            if self.loaded.contains_key(&region) {
                self.queue.retain(|(_, queued)| *queued != region);
                self.tired.remove(&region);
                self.queue.insert((self.free_of(region), region));
                let has_bitmap = self.loaded[&region].count > 0;
                if has_other_rows && has_bitmap {
                    self.unsaved.insert(region);
                }
            } else if !self.empty.contains(&region) {
                self.summaries[region as usize] = Summary::default();
                self.targets.remove(&region);
            }
        }
        let known: u64 = (0..self.fresh).map(|r| u64::from(self.free_of(r))).sum();
        self.free = known + self.free_from(self.fresh);
        self.in_rows = self.all_in_rows();
        self.short = None;
    }
}

impl Space {
    /// A raidz gets a member more, or its expansion went on or ended: regions have rows as the vdev says. Regions that are no longer in
    /// transit are loaded, or have no used sector; no checkpoint is being written.
    pub fn set_rows(&mut self, info: &VdevInfo) {
        let vdev = &mut self.vdevs[usize::from(info.id.0)];
        let narrow = info.narrow.as_ref().map(|rows| {
            let row = std::mem::replace(&mut vdev.row, info.row);
            let narrow = vdev.narrow_regions(rows);
            vdev.row = row;
            narrow
        });
        vdev.set_narrow(info.row, narrow);
        if info.narrow.is_none() {
            vdev.grow(VdevOffset(info.size));
        }
        self.measure();
    }

    /// Takes the regions up to `end` out of use, whose rows are moved next.
    ///
    /// # Panics
    /// If some may have used sectors and are not loaded, or if the vdev is not being expanded.
    pub fn begin_transit(&mut self, vdev: VdevId, end: u32) {
        let vdev = &mut self.vdevs[usize::from(vdev.0)];
        let mut narrow = vdev.narrow.clone().expect("a vdev that is being expanded");
        narrow.transit.end = narrow.transit.end.max(end);
        let known = narrow.transit.start..narrow.transit.end.min(vdev.fresh);
        let are_loaded = known.into_iter().all(|region| vdev.is_loaded(region));
        assert!(are_loaded, "regions in transit are loaded");
        vdev.set_narrow(vdev.row, Some(narrow));
    }

    /// The regions of a vdev whose rows are being moved; the next ones to be moved begin at their end. `None` if the vdev is not being
    /// expanded.
    #[must_use]
    pub fn transit(&self, vdev: VdevId) -> Option<Range<u32>> {
        let vdev = self.vdevs.get(usize::from(vdev.0))?;
        vdev.narrow.as_ref().map(|narrow| narrow.transit.clone())
    }

    /// The first region behind which no region of a vdev has a used sector.
    #[must_use]
    pub fn fresh(&self, vdev: VdevId) -> u32 {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.map_or(0, |vdev| vdev.fresh)
    }

    /// The address at which a region of a vdev begins; at most that at which its space ends.
    #[must_use]
    pub fn address_of(&self, vdev: VdevId, region: u32) -> u64 {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.map_or(0, |vdev| {
            let start = sectors_of(region).start;
            start.min(vdev.space.end) * vdev.sector()
        })
    }

    /// Free bytes of a region.
    #[must_use]
    pub fn free_in(&self, vdev: VdevId, region: u32) -> u64 {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.map_or(0, |vdev| u64::from(vdev.free_of(region)) * vdev.sector())
    }

    /// The addresses of a loaded region that are used, or that one of the newest checkpoints may hold.
    #[must_use]
    pub fn kept_in(&self, vdev: VdevId, region: u32) -> Vec<Range<u64>> {
        let index = usize::from(vdev.0);
        let Some(vdev) = self.vdevs.get(index) else {
            return Vec::new();
        };
        let mut bits = self.trims.recent((index, region));
        if let Some(loaded) = vdev.loaded.get(&region) {
            bits.add(&loaded.used);
        }
        let start = sectors_of(region).start;
        let address = |sector: u32| (start + u64::from(sector)) * vdev.sector();
        let (mut kept, mut at) = (Vec::new(), 0);
        loop {
            let first = bits.next(at, REGION_SECTORS, true);
            if first >= REGION_SECTORS {
                return kept;
            }
            at = bits.next(first, REGION_SECTORS, false);
            kept.push(address(first)..address(at));
        }
    }

    /// The rows that the summaries of a vdev count which the next checkpoint saves; `None` if the vdev was never expanded.
    #[must_use]
    pub fn summary_rows(&self, vdev: VdevId) -> Option<SummaryRows> {
        let vdev = self.vdevs.get(usize::from(vdev.0))?;
        let was_expanded = vdev.narrow.is_some() || vdev.row != vdev.first_row;
        let narrow = vdev.narrow.as_ref();
        was_expanded.then(|| SummaryRows {
            below: vdev.row as u16,
            behind: narrow.map_or(vdev.row, |narrow| narrow.row) as u16,
            boundary: narrow.map_or(0, |narrow| narrow.transit.start),
        })
    }

    /// Takes summaries as unknown that count other rows than the vdev has there now. `saved` has the rows that the summaries
    /// of a vdev count. Returns the regions: until they are loaded, they have no free sectors, and the next checkpoint saves them.
    pub fn doubt_summaries(&mut self, vdev: VdevId, saved: Option<SummaryRows>) -> Vec<u32> {
        let Some(vdev) = self.vdevs.get_mut(usize::from(vdev.0)) else {
            return Vec::new();
        };
        let first = vdev.first_row;
        let counted = |region: u32| saved.map_or(first, |saved| saved.of(region).into());
        let is_known = |region: &u32| !vdev.empty.contains(region) && !vdev.is_loaded(*region);
        let doubted: Vec<u32> = (0..vdev.fresh)
            .filter(is_known)
            .filter(|region| {
                counted(*region) != vdev.row_in(*region) || vdev.is_in_transit(*region)
            })
            .collect();
        for region in &doubted {
            let known = std::mem::take(&mut vdev.summaries[*region as usize]);
            vdev.free -= u64::from(known.free);
            // the next checkpoint says that it counts the present rows
            vdev.unsaved.insert(*region);
        }
        doubted
    }
}
