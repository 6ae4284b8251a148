//! Further names of a file. The first one is in its inode.
//!
//! **Owns** their encoding. **Called by** the filesystem; an offline reader finds all names of a file by them.
//! **Invariants**: as for all formats, one value has one encoding. `docs/format.md`, "Further names".

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::OBJECT_END;
use crate::format::{Defect, Key, ObjectId, layout};

/// Length of a further name, bytes.
pub const LINK_SIZE: usize = 17;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLink {
    version: u8,
    parent: U64,
    entry: U64,
}
layout!(RawLink, LINK_SIZE, version @ 0, parent @ 1, entry @ 9);

/// A name of a file: the place of its directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The directory.
    pub parent: ObjectId,
    /// Offset of the directory entry.
    pub entry: u64,
}

impl Link {
    /// Encodes the name. The hash of these bytes is its place among the file's names.
    #[must_use]
    pub fn encode(&self) -> [u8; LINK_SIZE] {
        let raw = RawLink {
            version: 1,
            parent: U64::new(self.parent.0),
            entry: U64::new(self.entry),
        };
        let mut bytes = [0; LINK_SIZE];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Decodes a name.
    ///
    /// # Errors
    /// A wrong length or a malformed field.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let raw = RawLink::read_from_bytes(bytes).map_err(|_| Defect::Length {
            what: "further name of a file",
            got: bytes.len(),
            want: LINK_SIZE,
        })?;
        let (parent, entry) = (raw.parent.get(), raw.entry.get());
        let field = |field, value: u64| Err(Defect::Field { field, value });
        match raw.version {
            1 if parent >= OBJECT_END => field("directory of a file's name", parent),
            1 if entry >= Key::OFFSET_END => field("entry of a file's name", entry),
            1 => Ok(Self {
                parent: ObjectId(parent),
                entry,
            }),
            other => field("version of a file's name", other.into()),
        }
    }
}
