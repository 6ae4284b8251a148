//! Checksums of blocks: 128 bits, made with the block's address.
//!
//! **Owns** the kinds and how each takes in the address. **Called by** block pointers and writers. **Invariant**: a
//! block found at another address than its own has a wrong checksum. `docs/format.md`, "Checksums".

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{Address, Defect, SECTOR_SIZE_MIN};

/// How a checksum is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// XXH3-128, seeded with the address.
    Xxh3,
}

impl ChecksumKind {
    pub(super) fn code(self) -> u8 {
        match self {
            ChecksumKind::Xxh3 => 1,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Defect> {
        match code {
            1 => Ok(ChecksumKind::Xxh3),
            other => Err(Defect::Field {
                field: "block pointer's kind of checksum",
                value: other.into(),
            }),
        }
    }
}

/// A checksum's 128 bits, as they lie on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum(pub [u8; 16]);

impl Checksum {
    /// The checksum of `bytes`, stored at `at`.
    #[must_use]
    pub fn of(kind: ChecksumKind, at: Address, bytes: &[u8]) -> Self {
        match kind {
            ChecksumKind::Xxh3 => {
                let seed = (u64::from(at.vdev.0) << 48) | (at.offset.0 / SECTOR_SIZE_MIN);
                Self(xxh3_128_with_seed(bytes, seed).to_le_bytes())
            }
        }
    }
}
