//! Layouts of vdevs: how blocks lie on members, and how many members a vdev needs.
//!
//! **Owns** the rules that differ between a mirror and a raidz. **Called by** everything that asks how many members must have
//! a write. **Invariant**: the layout comes from the label of the vdev; it is not guessed from the number of members. `docs/format.md`, "Vdevs"; `docs/decisions/0150`.

use io::disk::Disk;

use crate::format::{VdevClass, VdevKind};

/// How the blocks of a vdev lie on its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Every member has every block. A plain disk is a mirror of one member.
    Mirror,
    /// Rows of units, one on each member, of which `parity` are parity. `docs/decisions/0152`.
    Raidz {
        /// Parity units of each row, 1 to 3.
        parity: u8,
    },
}

impl Layout {
    /// Number of the `members` members that must have a write for the vdev to have it. As many are in at any time, so that
    /// the vdev has all of its blocks.
    #[must_use]
    pub fn needed(self, members: usize) -> usize {
        self.kind(members).needed(members)
    }

    /// The kind that labels record for a vdev of `members` members.
    #[must_use]
    pub fn kind(self, members: usize) -> VdevKind {
        match (self, members) {
            (Self::Mirror, 1) => VdevKind::Disk,
            (Self::Mirror, _) => VdevKind::Mirror,
            (Self::Raidz { parity }, _) => VdevKind::Raidz { parity },
        }
    }
}

impl From<VdevKind> for Layout {
    fn from(kind: VdevKind) -> Self {
        match kind {
            VdevKind::Disk | VdevKind::Mirror => Self::Mirror,
            VdevKind::Raidz { parity } => Self::Raidz { parity },
        }
    }
}

/// A vdev to be created.
#[derive(Clone)]
pub struct VdevSpec {
    /// How blocks lie on its members.
    pub layout: Layout,
    /// The blocks that it takes.
    pub class: VdevClass,
    /// The disks of its members.
    pub members: Vec<Disk>,
}

impl VdevSpec {
    /// A vdev of the normal class.
    #[must_use]
    pub fn new(layout: Layout, members: Vec<Disk>) -> Self {
        Self {
            layout,
            class: VdevClass::Normal,
            members,
        }
    }

    /// A vdev for the journal: one disk, or a mirror.
    #[must_use]
    pub fn log(members: Vec<Disk>) -> Self {
        Self {
            class: VdevClass::Log,
            ..Self::new(Layout::Mirror, members)
        }
    }

    /// A vdev for nodes and small records: one disk, or a mirror.
    #[must_use]
    pub fn special(members: Vec<Disk>) -> Self {
        Self {
            class: VdevClass::Special,
            ..Self::new(Layout::Mirror, members)
        }
    }
}

impl From<Vec<Disk>> for VdevSpec {
    /// A mirror; with one disk, a plain disk.
    fn from(members: Vec<Disk>) -> Self {
        Self::new(Layout::Mirror, members)
    }
}
