//! Checksums of blocks: 128 bits, which depend on the block's address.
//!
//! **Owns** the kinds, and the use of the address by each. **Called by** block pointers and writers. **Invariant**: a block
//! found at another address than its own has a wrong checksum. `docs/format.md`, "Checksums".

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{Address, Defect};

/// Kind of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// XXH3-128, seeded with the address. Detects damage, not forgery.
    Xxh3,
    /// The first 128 bits of BLAKE3, keyed with the address. No other block with the same checksum can be made.
    Blake3,
}

impl fmt::Display for ChecksumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChecksumKind::Xxh3 => "xxh3",
            ChecksumKind::Blake3 => "blake3",
        })
    }
}

/// The byte is not a kind of checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("checksum is xxh3 or blake3")]
pub struct NoChecksum;

impl FromStr for ChecksumKind {
    type Err = NoChecksum;

    fn from_str(text: &str) -> Result<Self, NoChecksum> {
        match text {
            "xxh3" => Ok(ChecksumKind::Xxh3),
            "blake3" => Ok(ChecksumKind::Blake3),
            _ => Err(NoChecksum),
        }
    }
}

impl ChecksumKind {
    pub(super) fn code(self) -> u8 {
        match self {
            ChecksumKind::Xxh3 => 1,
            ChecksumKind::Blake3 => 2,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Defect> {
        match code {
            1 => Ok(ChecksumKind::Xxh3),
            2 => Ok(ChecksumKind::Blake3),
            other => Err(Defect::Field {
                field: "block pointer's kind of checksum",
                value: other.into(),
            }),
        }
    }
}

/// The 128 bits of a checksum, as on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum(pub [u8; 16]);

impl Checksum {
    /// Returns the checksum of `bytes` that are stored at `at`.
    #[must_use]
    pub fn of(kind: ChecksumKind, at: Address, bytes: &[u8]) -> Self {
        let seed = at.seed();
        match kind {
            ChecksumKind::Xxh3 => Self(xxh3_128_with_seed(bytes, seed).to_le_bytes()),
            ChecksumKind::Blake3 => {
                let mut key = [0; blake3::KEY_LEN];
                key[..8].copy_from_slice(&seed.to_le_bytes());
                let hash = blake3::keyed_hash(&key, bytes);
                let (first, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
                Self(*first)
            }
        }
    }
}
