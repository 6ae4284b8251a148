//! What is free and may be given back to the disks.
//!
//! **Owns** how long what was freed is kept from them. **Called by** [`super::Space`]. **Invariants**: a sector is trimmed only
//! while nothing can be written there, and only if no checkpoint, from the newest to [`KEPT`] before it, holds it: so the
//! pool may be opened at those as far as trim is concerned. Reuse keeps no such distance.

use std::collections::VecDeque;

use super::{Frees, Space};
use crate::format::{Address, REGION_SECTORS, RegionBits, VdevId};

/// How many checkpoints before the newest one still have what they hold, but for what was reused.
pub const KEPT: usize = 2;
/// Runs that are shorter are left alone, bytes: telling a disk of them costs more than it gains.
const RUN_MIN: u64 = 32 << 10;

/// What was freed, on its way to the disks.
#[derive(Default)]
pub(super) struct Trims {
    /// Whether it is to be known what was freed.
    is_kept: bool,
    /// Released after one of the last checkpoints, the oldest first.
    recent: VecDeque<Frees>,
    /// Released before, and not trimmed since.
    due: Frees,
}

/// Which free space is to be trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of it.
    All,
    /// What was freed since it was trimmed.
    Freed,
}

/// Runs of free space that nobody is given until [`Space::trimmed`].
#[must_use = "it stays busy until it is trimmed"]
pub struct Trimming {
    index: usize,
    region: u32,
    bits: RegionBits,
    /// Where, and bytes.
    pub runs: Vec<(Address, u64)>,
}

impl Trimming {
    /// Bytes of all runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Trims {
    /// What a checkpoint freed may be used again.
    pub(super) fn released(&mut self, freed: Frees) {
        self.recent.push_back(freed);
        while self.recent.len() > KEPT {
            let old = self.recent.pop_front().unwrap_or_default();
            if self.is_kept {
                for (place, bits) in old {
                    self.due.entry(place).or_default().add(&bits);
                }
            }
        }
    }
}

impl Space {
    /// Has it known what is freed from now on, for [`Which::Freed`], or not.
    pub fn keep_freed(&mut self, is_kept: bool) {
        self.trims.is_kept = is_kept;
        if !is_kept {
            self.trims.due.clear();
        }
    }

    /// A region of which something was freed and is due.
    #[must_use]
    pub fn due(&self) -> Option<(VdevId, u32)> {
        let (index, region) = self.trims.due.keys().next()?;
        Some((VdevId(*index as u16), *region))
    }

    /// How many regions a vdev has; none if there is no such vdev.
    #[must_use]
    pub fn regions(&self, vdev: VdevId) -> Option<u32> {
        let vdev = self.vdevs.get(usize::from(vdev.0))?;
        Some(vdev.regions())
    }

    /// Takes what may be trimmed of a region out of what is given out.
    pub fn begin_trim(&mut self, vdev: VdevId, region: u32, which: Which) -> Option<Trimming> {
        let index = usize::from(vdev.0);
        let place = (index, region);
        let due = self.trims.due.remove(&place);
        let vdev = self.vdevs.get_mut(index)?;
        let mut bits = vdev.free_bits(region);
        if which == Which::Freed {
            bits.keep(&due?);
        }
        for recent in self.trims.recent.iter().filter_map(|r| r.get(&place)) {
            bits.remove(recent);
        }
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
        vdev.hold(region, &bits);
        let trimming = Trimming {
            index,
            region,
            bits,
            runs,
        };
        self.pending += trimming.bytes();
        Some(trimming)
    }

    /// It is trimmed, or was not to be: it is free again.
    pub fn trimmed(&mut self, trimming: Trimming) {
        self.pending -= trimming.bytes();
        self.vdevs[trimming.index].release(trimming.region, &trimming.bits);
    }
}
