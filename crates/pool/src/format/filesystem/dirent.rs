//! Directory entries.
//!
//! **Owns** their encoding. **Called by** the filesystem. **Invariants**: as for all formats, one value has one encoding.
//! `docs/format.md`, "Directory entries".

use backend::file::{FileKind, Name};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::OBJECT_END;
use super::inode::{kind_number, kind_of};
use crate::format::{Defect, ObjectId, layout};

const DIRENT_SIZE: usize = 18;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDirent {
    version: u8,
    kind: u8,
    object: U64,
    generation: U64,
}
layout!(RawDirent, DIRENT_SIZE, version @ 0, kind @ 1, object @ 2, generation @ 10);

/// An object, and the generation of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its number.
    pub object: ObjectId,
    /// The generation of the number.
    pub generation: u64,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirent {
    /// The object.
    pub target: ObjectRef,
    /// Its kind.
    pub kind: FileKind,
    /// Its name, as it was given: not folded.
    pub name: Name,
}

impl Dirent {
    /// Encodes the entry.
    ///
    /// # Panics
    /// If the object's number is not below [`OBJECT_END`].
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        assert!(self.target.object.0 < OBJECT_END, "{self:?}");
        let raw = RawDirent {
            version: 1,
            kind: kind_number(self.kind),
            object: U64::new(self.target.object.0),
            generation: U64::new(self.target.generation),
        };
        [raw.as_bytes(), self.name.as_bytes()].concat().into()
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// A wrong length, a malformed field, or a name that no entry may have.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let (raw, name) = RawDirent::read_from_prefix(bytes).map_err(|_| Defect::Length {
            what: "directory entry",
            got: bytes.len(),
            want: DIRENT_SIZE + 1,
        })?;
        let field = |field, value: u64| Defect::Field { field, value };
        if raw.version != 1 {
            let version = raw.version.into();
            return Err(field("version of a directory entry", version));
        }
        let object = raw.object.get();
        if object >= OBJECT_END {
            return Err(field("object of a directory entry", object));
        }
        let length = name.len() as u64;
        let name =
            Name::new(name).map_err(|_| field("length of a directory entry's name", length))?;
        Ok(Self {
            target: ObjectRef {
                object: ObjectId(object),
                generation: raw.generation.get(),
            },
            kind: kind_of(raw.kind, "kind of a directory entry")?,
            name,
        })
    }
}
