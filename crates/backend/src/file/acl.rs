//! NFSv4 access control lists. RFC 8881, section 6.2.1.

use std::ops::{BitAnd, BitOr};

use super::{FileError, FileResult};

/// Most entries of a list.
pub const ACES_MAX: usize = 256;
/// Most bytes of a Windows security identifier: 8 and 15 times 4.
pub const SID_MAX: usize = 68;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AceKind {
    /// Grants.
    Allow = 0,
    /// Denies.
    Deny = 1,
    /// Logs; kept, and without effect here.
    Audit = 2,
    /// Alarms; kept, and without effect here.
    Alarm = 3,
}

/// Flags of an entry (RFC 8881, section 6.2.1.4), except `IDENTIFIER_GROUP`, which [`Who`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AceFlags(pub u16);

impl AceFlags {
    /// New files inherit it.
    pub const FILE_INHERIT: Self = Self(0x01);
    /// New directories inherit it.
    pub const DIRECTORY_INHERIT: Self = Self(0x02);
    /// New directories inherit it, but hand it on no further.
    pub const NO_PROPAGATE: Self = Self(0x04);
    /// It has no effect on the directory itself.
    pub const INHERIT_ONLY: Self = Self(0x08);
    /// Log successful access.
    pub const SUCCESSFUL_ACCESS: Self = Self(0x10);
    /// Log refused access.
    pub const FAILED_ACCESS: Self = Self(0x20);
    /// It was inherited.
    pub const INHERITED: Self = Self(0x80);
    /// All flags that exist.
    pub const ALL: Self = Self(0xbf);

    /// Whether it has all flags of `other`.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Kinds of access of an entry (RFC 8881, section 6.2.1.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AceMask(pub u32);

impl AceMask {
    /// Read a file, list a directory.
    pub const READ_DATA: Self = Self(0x1);
    /// Write a file, add a file to a directory.
    pub const WRITE_DATA: Self = Self(0x2);
    /// Append to a file, add a directory to a directory.
    pub const APPEND_DATA: Self = Self(0x4);
    /// Read extended attributes.
    pub const READ_NAMED_ATTRS: Self = Self(0x8);
    /// Write extended attributes.
    pub const WRITE_NAMED_ATTRS: Self = Self(0x10);
    /// Execute a file, search a directory.
    pub const EXECUTE: Self = Self(0x20);
    /// Remove a name of a directory, also of a foreign object.
    pub const DELETE_CHILD: Self = Self(0x40);
    /// Read attributes.
    pub const READ_ATTRIBUTES: Self = Self(0x80);
    /// Set times.
    pub const WRITE_ATTRIBUTES: Self = Self(0x100);
    /// Remove the object's names.
    pub const DELETE: Self = Self(0x1_0000);
    /// Read the list.
    pub const READ_ACL: Self = Self(0x2_0000);
    /// Set list and mode.
    pub const WRITE_ACL: Self = Self(0x4_0000);
    /// Set owner and group.
    pub const WRITE_OWNER: Self = Self(0x8_0000);
    /// Use it locally with synchronous reads and writes; kept, and without effect here.
    pub const SYNCHRONIZE: Self = Self(0x10_0000);
    /// All kinds of access that exist.
    pub const ALL: Self = Self(0x1f_01ff);

    /// Whether it has all kinds of `other`.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for AceMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for AceMask {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The subject of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// The object's owner (`OWNER@`).
    Owner,
    /// The object's group (`GROUP@`).
    OwningGroup,
    /// All (`EVERYONE@`).
    Everyone,
    /// This user.
    User(u32),
    /// This group.
    Group(u32),
    /// A Windows security identifier, in its binary form: 1 to [`SID_MAX`] bytes. Kept, and matches nobody here.
    Sid(Box<[u8]>),
}

/// An access control entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ace {
    /// Its kind.
    pub kind: AceKind,
    /// Its flags.
    pub flags: AceFlags,
    /// The kinds of access that it is about.
    pub mask: AceMask,
    /// Its subject.
    pub who: Who,
}

/// An access control list: at most [`ACES_MAX`] entries, each with flags and masks that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl(Box<[Ace]>);

impl Acl {
    /// Checks a list. Errors: [`FileError::TooLarge`]; [`FileError::Invalid`] for unknown flags, masks or identifiers.
    pub fn new(aces: Vec<Ace>) -> FileResult<Self> {
        if aces.len() > ACES_MAX {
            return Err(FileError::TooLarge);
        }
        let is_known = |ace: &Ace| {
            let who = match &ace.who {
                Who::Sid(sid) => (1..=SID_MAX).contains(&sid.len()),
                Who::Owner | Who::OwningGroup | Who::Everyone | Who::User(_) | Who::Group(_) => {
                    true
                }
            };
            who && AceFlags::ALL.has(ace.flags) && AceMask::ALL.has(ace.mask)
        };
        match aces.iter().all(is_known) {
            true => Ok(Self(aces.into())),
            false => Err(FileError::Invalid),
        }
    }

    /// Its entries, in the order in which they are evaluated.
    #[must_use]
    pub fn aces(&self) -> &[Ace] {
        &self.0
    }
}
