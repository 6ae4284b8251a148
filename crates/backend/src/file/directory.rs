//! Entries of directories.

use super::{Attributes, FileKind, Handle, Name};

/// A position in a directory: 0 is its start, every other value is behind the entry that has it. Stable for ever: an entry
/// keeps its cookie as long as its name exists. Below 2^63; entries never have 0, 1 or 2 (RFC 8881, section 18.23.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cookie(pub u64);

impl Cookie {
    /// The start of a directory.
    pub const START: Self = Self(0);
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Name,
    /// The position behind it.
    pub cookie: Cookie,
    /// The object.
    pub handle: Handle,
    /// The object's kind.
    pub kind: FileKind,
    /// The object's attributes, if they were requested and can be read.
    pub attributes: Option<Attributes>,
}

/// A part of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Entries, by cookie.
    pub entries: Vec<Entry>,
    /// Whether the directory ends with them.
    pub is_end: bool,
}
