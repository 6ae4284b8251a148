//! Initial pools of scenario `members`.
//!
//! **Owns** the layout, the class and the number of members of the vdev under test, and the number of members that it needs. **Called by** the world
//! and the search. **Invariant**: the rules are the model's own, so that it does not share a mistake with the pool.

use pool::format::{VdevClass, VdevId};
use pool::vdev::Layout;

/// Initial state of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Members of the vdev.
    pub members: usize,
    /// How blocks lie on them.
    pub layout: Layout,
    /// Whether the server remembers the epoch of its last labels outside of the disks.
    pub remembers: bool,
    /// Class of the vdev. A log or a special vdev is beside a disk for blocks.
    pub class: VdevClass,
    /// Whether the pool has a cache device, which fails from start to start.
    pub has_cache: bool,
}

impl Start {
    /// A mirror of `members` members.
    #[must_use]
    pub const fn new(members: usize, remembers: bool) -> Self {
        Self {
            members,
            layout: Layout::Mirror,
            remembers,
            class: VdevClass::Normal,
            has_cache: false,
        }
    }

    /// A raidz of `members` members.
    #[must_use]
    pub const fn raidz(members: usize, parity: u8, remembers: bool) -> Self {
        Self {
            layout: Layout::Raidz { parity },
            ..Self::new(members, remembers)
        }
    }

    /// The same vdev, of a class.
    #[must_use]
    pub const fn of_class(self, class: VdevClass) -> Self {
        Self { class, ..self }
    }

    /// The same pool, with a cache device.
    #[must_use]
    pub const fn cached(self) -> Self {
        Self {
            has_cache: true,
            ..self
        }
    }

    /// The vdev under test.
    pub(super) fn vdev(self) -> VdevId {
        VdevId(self.disks_beside() as u16)
    }

    /// Number of disks for blocks, beside the vdev under test.
    pub(super) fn disks_beside(self) -> usize {
        usize::from(self.class != VdevClass::Normal)
    }

    /// Number of `members` members that the vdev needs.
    pub(super) fn needed(self, members: usize) -> usize {
        match self.layout {
            Layout::Mirror => 1,
            Layout::Raidz { parity } => members - usize::from(parity),
        }
    }

    /// Whether members of the vdev can be detached, and can join it while others are not in.
    pub(super) fn is_mirror(self) -> bool {
        self.layout == Layout::Mirror
    }

    /// Whether larger disks give the vdev space.
    pub(super) fn can_grow(self) -> bool {
        self.class != VdevClass::Log
    }
}
