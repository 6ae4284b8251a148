//! iSCSI names (§4.2.7): `iqn.`, `eui.` and `naa.`. An underscore is allowed too: RFC 3722 has none, and hosts in the field use it.

use crate::limits::NAME_LEN_MAX;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A valid name, in lower case. Clones share the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IscsiName(Arc<str>);

/// Why a text is no iSCSI name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty or too long.
    #[error("an iSCSI name has 1 to {NAME_LEN_MAX} bytes")]
    Length,
    /// Not one of the three formats.
    #[error(
        "an iSCSI name is iqn.YYYY-MM.NAME, eui. and 16 hexadecimal digits, or naa. and 16 or 32 of them"
    )]
    Format,
    /// A character that no name has.
    #[error("an iSCSI name is made of letters, digits, '-', '.', ':' and '_'")]
    Character,
}

impl IscsiName {
    /// The name that `text` is, its letters made small (§4.2.7.2, RFC 3722). Errors: it is none.
    pub fn new(text: &str) -> Result<IscsiName, NameError> {
        if text.is_empty() || text.len() > NAME_LEN_MAX {
            return Err(NameError::Length);
        }
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':' | b'_');
        if !text.bytes().all(allowed) {
            return Err(NameError::Character);
        }
        let name = text.to_ascii_lowercase();
        let hex = |s: &str| s.bytes().all(|b| b.is_ascii_hexdigit());
        let valid = match name.split_at_checked(4) {
            Some(("iqn.", rest)) => is_dated(rest),
            Some(("eui.", rest)) => rest.len() == 16 && hex(rest),
            Some(("naa.", rest)) => matches!(rest.len(), 16 | 32) && hex(rest),
            _ => false,
        };
        if !valid {
            return Err(NameError::Format);
        }
        Ok(IscsiName(name.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether it is `YYYY-MM.` and something.
fn is_dated(rest: &str) -> bool {
    match rest.as_bytes() {
        [a, b, c, d, b'-', m, n, b'.', _, ..] => {
            [a, b, c, d, m, n].into_iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

impl FromStr for IscsiName {
    type Err = NameError;

    fn from_str(s: &str) -> Result<IscsiName, NameError> {
        IscsiName::new(s)
    }
}

impl fmt::Display for IscsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IscsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_formats_and_nothing_else() {
        for good in [
            "iqn.2026-11.net.wirepool:disk",
            "iqn.1991-05.com.microsoft:HOST",
            // Regression: hosts with such names could not log in.
            "iqn.1991-05.com.microsoft:web_01.example.org",
            "eui.02004567a425678d",
            "naa.52004567BA64678D",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(
                IscsiName::new(good).expect("valid").as_str(),
                good.to_lowercase()
            );
        }
        let long = format!("iqn.2026-11.a:{}", "x".repeat(NAME_LEN_MAX));
        for bad in [
            "",
            "iqn.",
            "iqn.2026-11.",
            "iqn.26-11.x",
            "eui.12",
            "naa.xyz",
            "disk",
            "iqn.2026-11.a b",
            &long,
        ] {
            assert!(IscsiName::new(bad).is_err(), "{bad}");
        }
    }
}
