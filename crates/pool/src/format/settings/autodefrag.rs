//! The values of the property `autodefrag`.
//!
//! **Owns** their numbers and texts. **Called by** the table of properties, and the order mover. **Invariant**: numbers on disk
//! are 0 for off, 1 for on, and else bytes a second. `docs/format.md`, "Settings".

use std::fmt;
use std::str::FromStr;

/// Least rate, bytes a second.
const RATE_MIN: u64 = 64 << 10;

/// Whether records that clients read in order, and that lie apart, are written again together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autodefrag {
    /// They stay where they are.
    Off,
    /// They are moved while clients leave time for it.
    On,
    /// They are moved with at most this many bytes a second, with and without work of clients.
    Rate(u64),
}

impl Autodefrag {
    /// Its number on disk.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::On => 1,
            Self::Rate(bytes) => bytes,
        }
    }

    /// The value of a number; `None` if no value has it.
    pub(crate) const fn of_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::On),
            RATE_MIN.. => Some(Self::Rate(number)),
            _ => None,
        }
    }
}

impl fmt::Display for Autodefrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On => f.write_str("on"),
            Self::Rate(bytes) => bytes.fmt(f),
        }
    }
}

/// The text is not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAutodefrag;

impl FromStr for Autodefrag {
    type Err = NoAutodefrag;

    fn from_str(text: &str) -> Result<Self, NoAutodefrag> {
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            bytes => {
                let bytes = bytes.parse().map_err(|_| NoAutodefrag)?;
                let rate = Self::of_number(bytes).filter(|value| matches!(value, Self::Rate(_)));
                rate.ok_or(NoAutodefrag)
            }
        }
    }
}
