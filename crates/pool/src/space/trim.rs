//! Trim: takes free space out of use while it is discarded on the disks.
//!
//! **Owns** the choice of the runs. **Called by** [`Space`]'s users. **Invariant**: a sector is trimmed only while it cannot be
//! given out, and only if [`super::trims`] allows it. `docs/decisions/0112`.

use super::Space;
use super::sectors::sectors_of;
use crate::format::{Address, REGION_SECTORS, RegionBits, VdevId};

/// Shorter runs, in bytes, are not trimmed: telling a disk of them costs more than it gains.
const RUN_MIN: u64 = 32 << 10;

/// Which free space is to be trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All free space.
    All,
    /// Sectors freed since they were last trimmed.
    Freed,
}

/// Runs of free sectors, which are not given out before [`Space::trimmed`].
#[must_use = "it stays busy until it is trimmed"]
pub struct Trimming {
    index: usize,
    region: u32,
    bits: RegionBits,
    /// Address and bytes of each run.
    pub runs: Vec<(Address, u64)>,
}

impl Trimming {
    /// Bytes of all runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Space {
    /// Sets whether freed sectors are recorded from now on, for [`Which::Freed`].
    pub fn keep_freed(&mut self, is_kept: bool) {
        self.trims.keep(is_kept);
    }

    /// A region with freed sectors that may be trimmed.
    #[must_use]
    pub fn due(&self) -> Option<(VdevId, u32)> {
        let (index, region) = self.trims.next_due()?;
        Some((VdevId(index as u16), region))
    }

    /// The number of a vdev's regions. None if there is no such vdev.
    #[must_use]
    pub fn regions(&self, vdev: VdevId) -> Option<u32> {
        let vdev = self.vdevs.get(usize::from(vdev.0))?;
        Some(vdev.regions())
    }

    /// Takes the free runs of a loaded region that may be trimmed out of use. None if there are none, or if the region is not
    /// loaded.
    pub fn begin_trim(&mut self, vdev: VdevId, region: u32, which: Which) -> Option<Trimming> {
        let index = usize::from(vdev.0);
        let place = (index, region);
        let vdev = self.vdevs.get_mut(index)?;
        if !vdev.is_loaded(region) {
            return None;
        }
        let due = self.trims.take_due(place);
        if !vdev.is_open() {
            return None;
        }
        let mut bits = vdev.free_bits(region);
        if which == Which::Freed {
            bits.keep(&vdev.whole_rows(region, &due?));
        }
        bits.remove(&vdev.whole_rows(region, &self.trims.recent(place)));
        let sector = vdev.sector();
        let mut runs = Vec::new();
        let mut at = 0;
        loop {
            let start = bits.next(at, REGION_SECTORS, true);
            if start >= REGION_SECTORS {
                break;
            }
            at = bits.next(start, REGION_SECTORS, false);
            let bytes = u64::from(at - start) * sector;
            if bytes < RUN_MIN {
                bits.clear(start, at - start);
                continue;
            }
            runs.push((vdev.address(region, start), bytes));
        }
        if runs.is_empty() {
            return None;
        }
        // bitmaps that are saved meanwhile have them as free
        vdev.change(region, |region| {
            region.used.add(&bits);
            region.pins += 1;
        });
        self.frees.withheld.of_mut(index).add_bits(region, &bits);
        let trimming = Trimming {
            index,
            region,
            bits,
            runs,
        };
        self.vdevs[index].pending += trimming.bytes() as i64;
        Some(trimming)
    }

    /// Whether runs are out of use because they are being trimmed.
    #[must_use]
    pub fn is_trimming(&self) -> bool {
        self.frees.withheld.runs() > 0
    }

    /// Ends a trim: its sectors are free again.
    pub fn trimmed(&mut self, trimming: Trimming) {
        self.vdevs[trimming.index].pending -= trimming.bytes() as i64;
        let withheld = self.frees.withheld.of_mut(trimming.index);
        let first = sectors_of(trimming.region).start;
        let mut end = 0;
        while let start = trimming.bits.next(end, REGION_SECTORS, true)
            && start < REGION_SECTORS
        {
            end = trimming.bits.next(start, REGION_SECTORS, false);
            withheld.remove(first + u64::from(start)..first + u64::from(end));
        }
        self.vdevs[trimming.index].change(trimming.region, |region| {
            region.used.remove(&trimming.bits);
            region.pins -= 1;
        });
    }
}
