//! Words for programs.

use std::fmt;

/// A variant's name as a word for programs: `KeepAlive` is `keep_alive`.
pub(crate) fn word(variant: impl fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
