//! Orphans: objects without names whose space is still to be freed.
//!
//! **Owns** their encoding. **Called by** removals, and by the freeing of orphans. **Invariants**: as for all formats, one
//! value has one encoding. `docs/format.md`, "Orphans".

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{Defect, layout};

const ORPHAN_SIZE: usize = 9;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawOrphan {
    version: u8,
    freed: U64,
}
layout!(RawOrphan, ORPHAN_SIZE, version @ 0, freed @ 1);

/// The progress of freeing an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orphan {
    /// Data before this byte is freed. Zero as long as the object may be open.
    pub freed: u64,
}

impl Orphan {
    /// Encodes the orphan.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let raw = RawOrphan {
            version: 1,
            freed: U64::new(self.freed),
        };
        raw.as_bytes().into()
    }

    /// Decodes an orphan.
    ///
    /// # Errors
    /// A wrong length or another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let raw = RawOrphan::read_from_bytes(bytes).map_err(|_| Defect::Length {
            what: "orphan",
            got: bytes.len(),
            want: ORPHAN_SIZE,
        })?;
        match raw.version {
            1 => Ok(Self {
                freed: raw.freed.get(),
            }),
            other => Err(Defect::Field {
                field: "version of an orphan",
                value: other.into(),
            }),
        }
    }
}
