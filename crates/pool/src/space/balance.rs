//! How evenly the vdevs are filled.
//!
//! **Owns** the comparison of each vdev with all normal vdevs. Special vdevs are left as they are. **Called by** the balance mover, and by the allocator for what it moves.
//! **Invariant**: sectors that cannot be given out count as filled, also those of a raidz's rows without a block. Pure.
//! `docs/decisions/0178`.

use super::Space;
use super::vdev::VdevRegions;
use crate::format::VdevId;

/// A vdev that is fuller than the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surplus {
    /// The vdev.
    pub vdev: VdevId,
    /// Bytes that it has more than if all vdevs were equally full.
    pub bytes: u64,
    /// Its filled bytes.
    pub filled: u64,
    /// Its filled and its free bytes.
    pub size: u64,
}

/// The vdevs that an extent may be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// All normal vdevs.
    All,
    /// Normal vdevs that are emptier than the pool.
    Emptier,
    /// Special vdevs.
    Special,
}

/// Filled bytes, and all bytes.
#[derive(Clone, Copy)]
struct Fill {
    filled: u64,
    size: u64,
}

impl Fill {
    fn of(vdev: &VdevRegions) -> Self {
        let size = vdev.in_rows * vdev.sector();
        Self {
            filled: size.saturating_sub(vdev.free_bytes()),
            size,
        }
    }

    /// Filled bytes of `size` bytes that are as full as this.
    fn share(self, size: u64) -> u64 {
        let filled = u128::from(self.filled) * u128::from(size);
        filled.checked_div(self.size.into()).unwrap_or(0) as u64
    }
}

impl Space {
    fn fill_of_all(&self) -> Fill {
        let none = Fill { filled: 0, size: 0 };
        let fills = self.normal().map(Fill::of);
        fills.fold(none, |all, fill| Fill {
            filled: all.filled + fill.filled,
            size: all.size + fill.size,
        })
    }

    /// The normal vdevs that are fuller than the pool, in the order of their numbers.
    #[must_use]
    pub fn surpluses(&self) -> Vec<Surplus> {
        let all = self.fill_of_all();
        let surplus = |vdev: &VdevRegions| {
            let Fill { filled, size } = Fill::of(vdev);
            Surplus {
                vdev: vdev.id,
                bytes: filled.saturating_sub(all.share(size)),
                filled,
                size,
            }
        };
        let surpluses = self.normal().map(surplus);
        surpluses.filter(|surplus| surplus.bytes > 0).collect()
    }

    /// Whether extents may be on a vdev.
    pub(super) fn is_target(&self, index: usize, targets: Targets) -> bool {
        let is_emptier = || {
            let Fill { filled, size } = Fill::of(&self.vdevs[index]);
            filled < self.fill_of_all().share(size)
        };
        let vdev = &self.vdevs[index];
        match targets {
            Targets::All => vdev.is_open_normal(),
            Targets::Emptier => vdev.is_open_normal() && is_emptier(),
            Targets::Special => vdev.is_open() && vdev.is_special(),
        }
    }
}
