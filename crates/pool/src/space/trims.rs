//! Freed sectors that are not trimmed yet.
//!
//! **Owns** these sectors, by checkpoint. **Called by** [`super::Space`]. **Invariant**: sectors are due for trim only if none of
//! the newest checkpoint and the [`KEPT`] before it holds them, so that trim does not keep the pool from being opened at these.
//! Reuse keeps no such distance. `docs/decisions/0112`.

use std::collections::{BTreeMap, VecDeque};

use crate::format::RegionBits;

/// Checkpoints before the newest one whose blocks are not trimmed. Their blocks may be reused.
pub const KEPT: usize = 2;

/// Freed sectors by vdev and region.
pub(super) type Frees = BTreeMap<(usize, u32), RegionBits>;

/// Freed sectors that are not trimmed.
#[derive(Default)]
pub(super) struct Trims {
    /// Whether freed sectors are recorded in `due`.
    is_kept: bool,
    /// Sectors released after each of the last checkpoints, oldest first.
    recent: VecDeque<Frees>,
    /// Sectors released earlier, and not trimmed since.
    due: Frees,
}

impl Trims {
    /// The sectors that a checkpoint freed are reusable.
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

    /// Sets whether freed sectors are recorded from now on.
    pub(super) fn keep(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
        if !is_kept {
            self.due.clear();
        }
    }

    /// The vdev and the region of freed sectors that may be trimmed.
    pub(super) fn next_due(&self) -> Option<(usize, u32)> {
        self.due.keys().next().copied()
    }

    /// Removes the freed sectors of a region that may be trimmed.
    pub(super) fn take_due(&mut self, place: (usize, u32)) -> Option<RegionBits> {
        self.due.remove(&place)
    }

    /// The sectors of a region that the newest checkpoint or one of the [`KEPT`] before it may hold.
    pub(super) fn recent(&self, place: (usize, u32)) -> impl Iterator<Item = &RegionBits> {
        self.recent
            .iter()
            .filter_map(move |freed| freed.get(&place))
    }
}
