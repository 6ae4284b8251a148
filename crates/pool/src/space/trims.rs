//! Freed sectors that are not trimmed yet.
//!
//! **Owns** these sectors, by checkpoint. **Called by** [`super::Space`]. **Invariant**: sectors are due for trim only if none of
//! the newest checkpoint and the [`KEPT`] before it holds them, so that trim does not keep the pool from being opened at these.
//! Reuse keeps no such distance. `docs/decisions/0112`.

use std::collections::VecDeque;

use super::sectors::{Sectors, sectors_of};
use super::vdev::region_of;
use crate::format::RegionBits;

/// Checkpoints before the newest one whose blocks are not trimmed. Their blocks may be reused.
pub const KEPT: usize = 2;

/// Freed sectors that are not trimmed.
#[derive(Default)]
pub(super) struct Trims {
    /// Whether freed sectors are recorded in `due`.
    is_kept: bool,
    /// Sectors released after each of the last checkpoints, oldest first.
    recent: VecDeque<Sectors>,
    /// Sectors released earlier, and not trimmed since.
    due: Sectors,
}

impl Trims {
    /// The sectors that a checkpoint freed are reusable.
    pub(super) fn released(&mut self, freed: Sectors) {
        self.recent.push_back(freed);
        while self.recent.len() > KEPT {
            let old = self.recent.pop_front().unwrap_or_default();
            if self.is_kept {
                self.due.add(&old);
            }
        }
    }

    /// Sets whether freed sectors are recorded from now on.
    pub(super) fn keep(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
        if !is_kept {
            self.due = Sectors::default();
        }
    }

    /// The vdev and the region of freed sectors that may be trimmed.
    pub(super) fn next_due(&self) -> Option<(usize, u32)> {
        let mut sets = self.due.all();
        sets.find_map(|(index, set)| Some((index, region_of(set.first()?))))
    }

    /// Removes the freed sectors of a region that may be trimmed. None if there are none.
    pub(super) fn take_due(&mut self, (index, region): (usize, u32)) -> Option<RegionBits> {
        let set = self.due.of_mut(index);
        let bits = set.bits(region);
        set.remove(sectors_of(region));
        (!bits.is_empty()).then_some(bits)
    }

    /// The sectors of a region that the newest checkpoint or one of the [`KEPT`] before it may hold.
    pub(super) fn recent(&self, (index, region): (usize, u32)) -> RegionBits {
        let mut bits = RegionBits::default();
        for set in self.recent.iter().filter_map(|freed| freed.of(index)) {
            set.each(region, |start, count| bits.set(start, count));
        }
        bits
    }

    /// The number of runs.
    pub(super) fn runs(&self) -> usize {
        self.recent.iter().map(Sectors::runs).sum::<usize>() + self.due.runs()
    }
}
