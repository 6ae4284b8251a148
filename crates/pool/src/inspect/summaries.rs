//! Summaries of space bitmaps.
//!
//! **Owns** the summaries of a checkpoint, and their comparison with its bitmaps. **Called by** verification. **Invariant**: each
//! summary is computed again from its bitmap, with code of its own. `docs/format.md`, "Space".

use std::collections::BTreeMap;

use super::disks::Image;
use super::space::Sectors;
use crate::format::{
    Defect, Key, PAGE_REGIONS, REGION_SECTORS, RegionBits, RegionSummary, SummaryPage, SummaryRows,
    VdevKind,
};

/// See the module header.
#[derive(Default)]
pub(super) struct Summaries {
    /// Whether the checkpoint says that it has summaries of all bitmaps.
    pub(super) are_kept: bool,
    regions: BTreeMap<(u16, u32), RegionSummary>,
    /// The rows that the summaries of a vdev count which was expanded.
    rows: BTreeMap<u16, SummaryRows>,
}

impl Summaries {
    /// Loads a page.
    pub(super) fn load(&mut self, image: &Image, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        let outside = |value| Defect::Field {
            field: "page of summaries",
            value,
        };
        let vdev = u16::try_from(key.object().0).map_err(|_| outside(key.object().0))?;
        if image.vdevs.get(usize::from(vdev)).is_none() {
            return Err(outside(vdev.into()));
        }
        let first = key.offset().checked_mul(PAGE_REGIONS.into());
        let first = first.and_then(|first| u32::try_from(first).ok());
        let first = first.ok_or(outside(key.offset()))?;
        let page = SummaryPage::decode(bytes)?;
        for (index, summary) in (0..).zip(page.0).filter(|(_, s)| s.used > 0) {
            let region = first.checked_add(index).ok_or(outside(first.into()))?;
            self.regions.insert((vdev, region), summary);
        }
        Ok(())
    }

    /// Loads the rows that the summaries of a vdev count.
    pub(super) fn load_rows(&mut self, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        let vdev = u16::try_from(key.object().0).map_err(|_| Defect::Field {
            field: "vdev of the rows of summaries",
            value: key.object().0,
        })?;
        self.rows.insert(vdev, SummaryRows::decode(bytes)?);
        Ok(())
    }

    /// Sectors of data of the rows that a region's summary counts.
    fn row(&self, image: &Image, vdev: u16, region: u32) -> u64 {
        let entry = &image.vdevs[usize::from(vdev)].entry;
        let VdevKind::Raidz { parity } = entry.kind else {
            return 1;
        };
        // all of a checkpoint from before the first expansion count the rows of the vdev as it was created
        let first = entry.journal_members().saturating_sub(parity.into());
        self.rows
            .get(&vdev)
            .map_or(first, |rows| rows.of(region))
            .max(1)
            .into()
    }

    /// Returns what is wrong, a sentence for each region.
    pub(super) fn compare(&self, image: &Image, saved: &Sectors) -> Vec<String> {
        if !self.are_kept {
            let is_there = !self.regions.is_empty();
            let told = is_there.then(|| "summaries, of which the pool does not know".to_owned());
            return told.into_iter().collect();
        }
        let mut wrong = Vec::new();
        for ((vdev, region), bits) in &saved.0 {
            let row = self.row(image, *vdev, *region);
            let is = summary(image, (*vdev, *region), bits, row);
            let said = self.regions.get(&(*vdev, *region));
            if said != Some(&is) {
                let text =
                    format!("region {region} of vdev {vdev}: {is:?}, its summary is {said:?}");
                wrong.push(text);
            }
        }
        let unknown = self.regions.keys().filter(|at| !saved.0.contains_key(at));
        wrong.extend(unknown.map(|(vdev, region)| {
            format!("region {region} of vdev {vdev} has a summary and no bitmap")
        }));
        wrong
    }
}

/// The summary of a bitmap, row by row.
fn summary(
    image: &Image,
    (vdev, region): (u16, u32),
    bits: &RegionBits,
    row: u64,
) -> RegionSummary {
    let known = &image.vdevs[usize::from(vdev)].entry;
    let sector = u64::from(known.sector());
    let first = u64::from(region) * u64::from(REGION_SECTORS);
    let end = first + u64::from(REGION_SECTORS);
    // rows are counted from the start of the space, also in front of it
    let start = image.label.journal_size(vdev.into()).div_ceil(sector);
    let mut at = first + (start % row + row - first % row) % row;
    let (mut free, mut run, mut longest) = (0, 0, 0);
    while at + row <= end {
        let is_free = !bits.any((at - first) as u32, row as u32);
        run = if is_free { run + row } else { 0 };
        free += if is_free { row } else { 0 };
        longest = longest.max(run);
        at += row;
    }
    RegionSummary {
        used: bits.count() as u16,
        free: free as u16,
        longest: longest as u16,
    }
}
