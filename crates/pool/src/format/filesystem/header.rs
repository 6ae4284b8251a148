//! The header of a filesystem, and the number of its files.
//!
//! **Owns** their encodings. **Called by** the creation and opening of a filesystem, and by the claim of object numbers.
//! **Invariants**: as for all formats, one value has one encoding. `docs/format.md`, "Header".

use std::borrow::Cow;

use unicase::UniCase;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CLAIMED_END, FIRST_OBJECT, HASH_KEY_SIZE, HEADER_OBJECT, KIND_HEADER};
use crate::format::{Defect, Key, ObjectId, layout};

const HEADER_SIZE: usize = 40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    version: u8,
    folding: u8,
    reserved: [u8; 6],
    next: U64,
    root: U64,
    hash_key: [u8; HASH_KEY_SIZE],
}
layout!(RawHeader, HEADER_SIZE, version @ 0, folding @ 1, reserved @ 2, next @ 8, root @ 16, hash_key @ 24);

/// How names are compared. It never changes, as the places of entries depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folding {
    /// By their bytes.
    None,
    /// By the full case folding of Unicode 18, without normalization. All names are UTF-8.
    Unicode18,
}

impl Folding {
    /// The form of a name that decides whether it is the same as another. `None` if only UTF-8 has such a form, and it is not.
    #[must_use]
    pub fn fold(self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Folding::None => Some(Cow::Borrowed(name)),
            Folding::Unicode18 => {
                let text = std::str::from_utf8(name).ok()?;
                Some(Cow::Owned(UniCase::new(text).to_folded_case().into_bytes()))
            }
        }
    }
}

/// What opening a filesystem needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// How names are compared.
    pub folding: Folding,
    /// No number from this one on was claimed.
    pub next: ObjectId,
    /// The root directory.
    pub root: ObjectId,
    /// Key of the hash of names: random and secret.
    pub hash_key: [u8; HASH_KEY_SIZE],
}

impl std::fmt::Debug for Header {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            folding,
            next,
            root,
            hash_key: _,
        } = self;
        write!(f, "Header({folding:?}, next {}, root {})", next.0, root.0)
    }
}

/// The key of the header.
#[must_use]
pub fn header_key() -> Key {
    Key::new(HEADER_OBJECT, KIND_HEADER, 0)
}

/// The key of the number of files.
#[must_use]
pub fn files_key() -> Key {
    Key::new(HEADER_OBJECT, KIND_HEADER, 1)
}

/// Encodes the number of objects that have an inode.
#[must_use]
pub fn encode_files(files: u64) -> Box<[u8]> {
    Box::new(files.to_le_bytes())
}

/// Decodes the number of objects that have an inode.
///
/// # Errors
/// A wrong length.
pub fn decode_files(bytes: &[u8]) -> Result<u64, Defect> {
    let array = bytes.try_into().map_err(|_| Defect::Length {
        what: "number of files",
        got: bytes.len(),
        want: 8,
    })?;
    Ok(u64::from_le_bytes(array))
}

impl Header {
    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let raw = RawHeader {
            version: 1,
            folding: match self.folding {
                Folding::None => 0,
                Folding::Unicode18 => 1,
            },
            reserved: [0; 6],
            next: U64::new(self.next.0),
            root: U64::new(self.root.0),
            hash_key: self.hash_key,
        };
        raw.as_bytes().into()
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// A wrong length, or the first field that is malformed, or reserved and not zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let raw = RawHeader::read_from_bytes(bytes).map_err(|_| Defect::Length {
            what: "header of a filesystem",
            got: bytes.len(),
            want: HEADER_SIZE,
        })?;
        let field = |field, value: u64| Err(Defect::Field { field, value });
        if raw.version != 1 {
            return field("version of a filesystem", raw.version.into());
        }
        let folding = match raw.folding {
            0 => Folding::None,
            1 => Folding::Unicode18,
            other => return field("folding of a filesystem", other.into()),
        };
        if raw.reserved != [0; 6] {
            return field("reserved bytes of a filesystem's header", 1);
        }
        let (next, root) = (raw.next.get(), raw.root.get());
        if !(FIRST_OBJECT.0..=CLAIMED_END).contains(&next) {
            return field("next object of a filesystem", next);
        }
        if root == HEADER_OBJECT.0 || root >= next {
            return field("root of a filesystem", root);
        }
        Ok(Self {
            folding,
            next: ObjectId(next),
            root: ObjectId(root),
            hash_key: raw.hash_key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn fold(text: &str) -> String {
        let bytes = Folding::Unicode18.fold(text.as_bytes()).expect("UTF-8");
        String::from_utf8(bytes.into_owned()).expect("UTF-8")
    }

    #[test]
    fn names_that_differ_in_case_are_the_same() {
        for (a, b) in [
            ("README", "readme"),
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ] {
            assert_eq!(fold(a), fold(b));
        }
        assert_ne!(fold("e\u{301}"), fold("\u{e9}"), "not normalized");
        assert_eq!(Folding::Unicode18.fold(b"a\xff"), None);
    }

    /// The places of stored names depend on the whole table. If an update of the library changes it, that is another folding,
    /// which needs a number of its own in the header.
    #[test]
    fn the_table_of_folding_never_changes() {
        let all: Vec<u8> = ('\0'..=char::MAX)
            .flat_map(|c| fold(&c.to_string()).into_bytes())
            .collect();
        assert_eq!(xxh3_64(&all), 9_276_541_882_054_888_880);
    }
}
