//! The identity of a caller, and kinds of access.

use std::ops::{BitAnd, BitOr};
use std::sync::Arc;

/// Who checks permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedBy {
    /// The file system.
    Us,
    /// The client did, as the kernel does for a FUSE mount with `default_permissions`. The file system checks none.
    Client,
}

/// On whose behalf an operation runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// User; 0 is the superuser.
    pub uid: u32,
    /// Group of new files.
    pub gid: u32,
    /// Further groups.
    pub groups: Arc<[u32]>,
    /// Who checks its permissions.
    pub checked_by: CheckedBy,
}

impl Caller {
    /// A caller whose permissions the file system checks.
    #[must_use]
    pub fn new(uid: u32, gid: u32, groups: impl Into<Arc<[u32]>>) -> Self {
        Self {
            uid,
            gid,
            groups: groups.into(),
            checked_by: CheckedBy::Us,
        }
    }

    /// The superuser.
    #[must_use]
    pub fn root() -> Self {
        Self::new(0, 0, [])
    }

    /// Whether it is a member of a group.
    #[must_use]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// A set of kinds of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access(u8);

impl Access {
    /// None.
    pub const NONE: Self = Self(0);
    /// Execute a file, or search a directory.
    pub const EXECUTE: Self = Self(1);
    /// Write a file, or add and remove names of a directory.
    pub const WRITE: Self = Self(2);
    /// Read a file, or list a directory.
    pub const READ: Self = Self(4);

    /// Whether it has all kinds of `other`.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The permission bits 0o0 to 0o7 of a mode that stand for it.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0.into()
    }

    /// The kinds of access that three permission bits grant; other bits are ignored.
    #[must_use]
    pub fn from_bits(bits: u16) -> Self {
        Self((bits & 7) as u8)
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Access {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
