//! Checksums of blocks: 128 bits, which depend on the block's address.
//!
//! **Owns** the kinds, and the use of the address by each. **Called by** block pointers and writers. **Invariants**: a block
//! found at another address than its own has a wrong checksum; the digest of a folded kind depends on the bytes alone, so that
//! a shard computes it before the owner chooses the address. `docs/format.md`, "Checksums"; `docs/decisions/0170`.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use super::{Address, Defect};

/// Kind of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// XXH3-128, seeded with the address. Detects damage, not forgery.
    Xxh3,
    /// The first 128 bits of BLAKE3, keyed with the address. No other block with the same checksum can be made.
    Blake3,
    /// XXH3-128 of the bytes alone, folded with address and length. Detects damage, not forgery.
    FoldedXxh3,
    /// The first 128 bits of BLAKE3 of the bytes alone, folded with address and length.
    FoldedBlake3,
}

impl fmt::Display for ChecksumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChecksumKind::Xxh3 | ChecksumKind::FoldedXxh3 => "xxh3",
            ChecksumKind::Blake3 | ChecksumKind::FoldedBlake3 => "blake3",
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
    /// The kind with the same hash, whose digest does not depend on the address.
    #[must_use]
    pub fn folded(self) -> Self {
        match self {
            ChecksumKind::Xxh3 | ChecksumKind::FoldedXxh3 => ChecksumKind::FoldedXxh3,
            ChecksumKind::Blake3 | ChecksumKind::FoldedBlake3 => ChecksumKind::FoldedBlake3,
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            ChecksumKind::Xxh3 => 1,
            ChecksumKind::Blake3 => 2,
            ChecksumKind::FoldedXxh3 => 3,
            ChecksumKind::FoldedBlake3 => 4,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Defect> {
        match code {
            1 => Ok(ChecksumKind::Xxh3),
            2 => Ok(ChecksumKind::Blake3),
            3 => Ok(ChecksumKind::FoldedXxh3),
            4 => Ok(ChecksumKind::FoldedBlake3),
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

/// The bytes that are folded into the hash of `len` bytes at an address.
pub(super) fn place_of(at: Address, len: usize) -> [u8; 16] {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&at.seed().to_le_bytes());
    place[8..].copy_from_slice(&(len as u64).to_le_bytes());
    place
}

/// The first 128 bits of a BLAKE3 hash.
fn first_bits(hash: &blake3::Hash) -> [u8; 16] {
    let (first, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
    *first
}

/// The part of a folded checksum that depends on the bytes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    kind: ChecksumKind,
    /// Number of the bytes.
    len: u32,
    hash: u128,
}

impl Digest {
    /// The digest of `bytes`, for checksums of the folded kind of `kind`.
    ///
    /// # Panics
    /// If there are 4 GiB or more.
    #[must_use]
    pub fn of(kind: ChecksumKind, bytes: &[u8]) -> Self {
        let kind = kind.folded();
        let hash = match kind {
            ChecksumKind::Xxh3 | ChecksumKind::FoldedXxh3 => xxh3_128(bytes),
            ChecksumKind::Blake3 | ChecksumKind::FoldedBlake3 => {
                u128::from_le_bytes(first_bits(&blake3::hash(bytes)))
            }
        };
        Self {
            kind,
            len: u32::try_from(bytes.len()).expect("blocks are shorter"),
            hash,
        }
    }

    /// The kind of the checksum that it becomes.
    #[must_use]
    pub fn kind(self) -> ChecksumKind {
        self.kind
    }

    /// Number of the bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.len
    }

    /// The checksum of these bytes if they are stored at `at`. Its time does not depend on their number.
    #[must_use]
    pub fn at(self, at: Address) -> Checksum {
        let place = xxh3_128(&place_of(at, self.len as usize));
        Checksum((self.hash ^ place).to_le_bytes())
    }

    /// The digest of the `len` bytes with this checksum at `at`. `None` if the kind is not a folded one.
    pub(super) fn of_checksum(
        kind: ChecksumKind,
        checksum: Checksum,
        at: Address,
        len: u32,
    ) -> Option<Self> {
        let place = xxh3_128(&place_of(at, len as usize));
        let hash = u128::from_le_bytes(checksum.0) ^ place;
        (kind == kind.folded()).then_some(Self { kind, len, hash })
    }
}

impl Checksum {
    /// Returns the checksum of `bytes` that are stored at `at`.
    #[must_use]
    pub fn of(kind: ChecksumKind, at: Address, bytes: &[u8]) -> Self {
        match kind {
            ChecksumKind::Xxh3 => Self(xxh3_128_with_seed(bytes, at.seed()).to_le_bytes()),
            ChecksumKind::Blake3 => {
                let mut key = [0; blake3::KEY_LEN];
                key[..8].copy_from_slice(&at.seed().to_le_bytes());
                Self(first_bits(&blake3::keyed_hash(&key, bytes)))
            }
            ChecksumKind::FoldedXxh3 | ChecksumKind::FoldedBlake3 => Digest::of(kind, bytes).at(at),
        }
    }
}
