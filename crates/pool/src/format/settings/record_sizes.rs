//! The values of the properties `recordsize` and `special_small_blocks`.
//!
//! **Owns** the conversion of their values. **Called by** the table of properties. **Invariant**: a value is the size of
//! a record that a dataset may have; or 0, for no record. `docs/format.md`, "Settings".

use crate::format::{RECORD_SIZE_MAX, RECORD_SIZE_MIN};

/// Bytes of a record of files where nothing else is set.
pub const FILE_RECORD_SIZE: u32 = 128 << 10;

/// The value that a text means.
pub(super) fn parse(text: &str) -> Option<u64> {
    text.parse().ok().filter(|bytes| is_possible(*bytes))
}

/// The text of a value.
pub(super) fn show(bytes: u64) -> Option<String> {
    is_possible(bytes).then(|| bytes.to_string())
}

/// The values of `special_small_blocks`.
pub(super) mod small {
    /// The value that a text means.
    pub(in super::super) fn parse(text: &str) -> Option<u64> {
        match text {
            "0" => Some(0),
            size => super::parse(size),
        }
    }

    /// The text of a value.
    pub(in super::super) fn show(bytes: u64) -> Option<String> {
        match bytes {
            0 => Some("0".to_owned()),
            bytes => super::show(bytes),
        }
    }
}

fn is_possible(bytes: u64) -> bool {
    let range = u64::from(RECORD_SIZE_MIN)..=u64::from(RECORD_SIZE_MAX);
    bytes.is_power_of_two() && range.contains(&bytes)
}
