//! Codes of compression, checksum and `sync` on disk.
//!
//! **Owns** these codes, and the words of `sync`. **Called by** datasets' records, and the table of properties. **Invariant**: a
//! code means one value, and each value has one code. `docs/format.md`, "Settings".

use std::fmt;
use std::str::FromStr;

use crate::format::{ChecksumKind, Packing, Sync};

/// The compression of a code; `None` for a code that none has.
pub(super) fn packing(value: u64) -> Option<Packing> {
    Packing::from_code(u8::try_from(value).ok()?)
}

/// The value of `sync` of a code; `None` for a code that none has.
pub(super) fn sync(value: u64) -> Option<Sync> {
    Sync::from_code(u8::try_from(value).ok()?)
}

/// The checksum of a code; `None` for a code that none has.
pub(super) fn checksum(value: u64) -> Option<ChecksumKind> {
    checksum_from_code(u8::try_from(value).ok()?)
}

/// The byte of a dataset's checksum.
pub(in crate::format) fn checksum_code(kind: ChecksumKind) -> u8 {
    match kind {
        ChecksumKind::Xxh3 | ChecksumKind::FoldedXxh3 => 0,
        ChecksumKind::Blake3 | ChecksumKind::FoldedBlake3 => 2,
    }
}

/// The checksum that a dataset's byte means.
pub(in crate::format) fn checksum_from_code(code: u8) -> Option<ChecksumKind> {
    match code {
        0 => Some(ChecksumKind::Xxh3),
        2 => Some(ChecksumKind::Blake3),
        _ => None,
    }
}

impl Sync {
    pub(in crate::format) fn code(self) -> u8 {
        match self {
            Sync::Standard => 0,
            Sync::Always => 1,
            Sync::Disabled => 2,
        }
    }

    pub(in crate::format) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Sync::Standard),
            1 => Some(Sync::Always),
            2 => Some(Sync::Disabled),
            _ => None,
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sync::Standard => "standard",
            Sync::Always => "always",
            Sync::Disabled => "disabled",
        })
    }
}

/// The text is not a value of `sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sync is standard, always or disabled")]
pub struct NoSync;

impl FromStr for Sync {
    type Err = NoSync;

    fn from_str(text: &str) -> Result<Self, NoSync> {
        let all = [Sync::Standard, Sync::Always, Sync::Disabled];
        all.into_iter()
            .find(|sync| sync.to_string() == text)
            .ok_or(NoSync)
    }
}
