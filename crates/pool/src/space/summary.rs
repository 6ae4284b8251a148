//! The summary of a region in memory.
//!
//! **Owns** its numbers. **Called by** the allocator. **Invariant**: a summary never has more than the region.

use crate::format::RegionBits;

/// The summary of a region that is not loaded: free sectors, and a bound of the longest run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Sectors that can be given out.
    pub(super) free: u16,
    /// The longest run of them, at most.
    pub(super) longest: u16,
}

impl Summary {
    pub(super) fn of(free: &RegionBits) -> Self {
        Self {
            free: free.count() as u16,
            longest: free.longest() as u16,
        }
    }

    pub(super) fn raise(&mut self, other: Self) {
        self.free = self.free.max(other.free);
        self.longest = self.longest.max(other.longest);
    }
}

/// What a region is once the frees of a checkpoint are released.
#[derive(Debug, Clone, Copy)]
pub(super) struct Released {
    /// The checkpoint.
    pub(super) seal: u64,
    pub(super) summary: Summary,
    pub(super) is_empty: bool,
}
