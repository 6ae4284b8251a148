//! Bytes as text.

use std::fmt::Write as _;

/// Bytes as hexadecimal text in groups of eight.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        let gap = if i > 0 && i % 8 == 0 { " " } else { "" };
        write!(text, "{gap}{byte:02x}").expect("a string takes all");
    }
    text
}
