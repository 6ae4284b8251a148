//! Compression property of volumes.
//!
//! **Owns** its byte on disk and its names. **Called by** datasets. **Invariant**: each value has one byte and one name.
//! `docs/format.md`, "Compression" and "Datasets".

use std::fmt;
use std::str::FromStr;

/// Highest Zstandard level of a volume; the lowest is 1.
pub const ZSTD_LEVEL_MAX: u8 = 19;
/// Byte of Zstandard at level 0; the level is added.
const ZSTD: u8 = 0x80;

/// Compression of a volume's new records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// None.
    Off,
    /// LZ4.
    Lz4,
    /// Zstandard, at a level from 1 to [`ZSTD_LEVEL_MAX`].
    Zstd(u8),
}

impl Packing {
    pub(crate) fn code(self) -> u8 {
        match self {
            Packing::Off => 0,
            Packing::Lz4 => 1,
            Packing::Zstd(level) => ZSTD + level,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Packing::Off),
            1 => Some(Packing::Lz4),
            _ => Packing::zstd(code.checked_sub(ZSTD)?),
        }
    }

    /// Zstandard at a level; `None` if the level is out of range.
    #[must_use]
    pub fn zstd(level: u8) -> Option<Self> {
        (1..=ZSTD_LEVEL_MAX)
            .contains(&level)
            .then_some(Packing::Zstd(level))
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packing::Off => write!(f, "off"),
            Packing::Lz4 => write!(f, "lz4"),
            Packing::Zstd(level) => write!(f, "zstd-{level}"),
        }
    }
}

/// The byte or name is not a compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("compression is off, lz4 or zstd-1 to zstd-19")]
pub struct NoPacking;

impl FromStr for Packing {
    type Err = NoPacking;

    fn from_str(text: &str) -> Result<Self, NoPacking> {
        match text {
            "off" => Ok(Packing::Off),
            "lz4" => Ok(Packing::Lz4),
            _ => {
                let level = text.strip_prefix("zstd-").and_then(|l| l.parse().ok());
                let packing = level.and_then(Packing::zstd);
                packing.filter(|p| p.to_string() == text).ok_or(NoPacking)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compression_has_one_byte_and_one_name() {
        for packing in ["off", "lz4", "zstd-1", "zstd-19"] {
            let parsed: Packing = packing.parse().expect("one of them");
            assert_eq!(parsed.to_string(), packing);
            assert_eq!(Packing::from_code(parsed.code()), Some(parsed));
        }
        for other in ["on", "zstd", "zstd-0", "zstd-20", "zstd-01", "zstd-+1", ""] {
            assert_eq!(other.parse::<Packing>(), Err(NoPacking));
        }
        for code in [2, 0x7f, 0x80, 0x80 + 20, 0xff] {
            assert_eq!(Packing::from_code(code), None);
        }
    }
}
