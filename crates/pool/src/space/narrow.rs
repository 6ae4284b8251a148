//! The regions of a raidz that an expansion has not passed.
//!
//! **Owns** their description. **Called by** the regions of a vdev. **Invariant**: regions in transit lie between the ones with wide and
//! the ones with narrow rows. `docs/decisions/0166`.

use std::ops::Range;

/// The regions that an expansion has not passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NarrowRegions {
    /// Sectors of a narrow row.
    pub(super) row: u32,
    /// Regions whose rows are being moved. Those before them have wide rows, those behind them narrow ones.
    pub(super) transit: Range<u32>,
}
