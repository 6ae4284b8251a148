//! key=value pairs (§6.1), and the binary values among them.
//!
//! **Called by** login, text requests and initiators. **Invariants**: sizes and counts are checked before anything is
//! kept; a key appears once.

use crate::limits::{KEY_LEN_MAX, TEXT_KEYS_MAX, TEXT_LEN_MAX, VALUE_LEN_MAX};

/// Why a text was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Longer than the limit.
    #[error("a text of more than {TEXT_LEN_MAX} bytes")]
    TooLong,
    /// More keys than the limit.
    #[error("a text of more than {TEXT_KEYS_MAX} keys")]
    TooManyKeys,
    /// No `=`, an empty or a long key, characters that no key has.
    #[error("not a key=value pair")]
    Malformed,
    /// A key that occurs twice (§6.2).
    #[error("a key is there twice")]
    Twice,
    /// A value that is too long.
    #[error("a value of more than {VALUE_LEN_MAX} bytes")]
    ValueTooLong,
}

/// The pairs of one text, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Parses a whole text: pairs that each end with a zero byte.
    pub fn parse(text: &[u8]) -> Result<Pairs, TextError> {
        if text.len() > TEXT_LEN_MAX {
            return Err(TextError::TooLong);
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split(|b| *b == 0).filter(|p| !p.is_empty()) {
            let pair = std::str::from_utf8(pair).map_err(|_| TextError::Malformed)?;
            let (key, value) = pair.split_once('=').ok_or(TextError::Malformed)?;
            let named = |b: u8| b.is_ascii_alphanumeric() || b".-+@_#".contains(&b);
            if key.is_empty() || key.len() > KEY_LEN_MAX || !key.bytes().all(named) {
                return Err(TextError::Malformed);
            }
            if value.len() > VALUE_LEN_MAX {
                return Err(TextError::ValueTooLong);
            }
            if pairs.len() == TEXT_KEYS_MAX {
                return Err(TextError::TooManyKeys);
            }
            if pairs.iter().any(|(k, _)| k == key) {
                return Err(TextError::Twice);
            }
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(Pairs(pairs))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// All pairs in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A text being written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(Vec<u8>);

impl Text {
    /// An empty one.
    #[must_use]
    pub fn new() -> Text {
        Text::default()
    }

    /// Appends a pair.
    pub fn put(&mut self, key: &str, value: &str) {
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(0);
    }

    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Bytes so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was put.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A numerical value (§6.1): decimal, or hexadecimal after `0x`.
#[must_use]
pub fn number(value: &str) -> Option<u64> {
    let (digits, radix) = match value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
    {
        Some(hex) => (hex, 16),
        None => (value, 10),
    };
    // `from_str_radix` would take a sign.
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// A binary value (§6.1): hexadecimal after `0x`, base64 after `0b`; at most `max` bytes.
#[must_use]
pub fn binary(value: &str, max: usize) -> Option<Vec<u8>> {
    let (prefix, digits) = value.split_at_checked(2)?;
    match prefix {
        "0x" | "0X" if digits.len().div_ceil(2) <= max => hexadecimal(digits),
        "0b" | "0B" if digits.len() / 4 * 3 <= max + 2 => base64(digits).filter(|b| b.len() <= max),
        _ => None,
    }
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let value = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
    let digits = digits.as_bytes();
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let mut out = Vec::with_capacity(digits.len().div_ceil(2));
    for first in odd {
        out.push(value(first)?);
    }
    for pair in pairs.chunks_exact(2) {
        out.push(value(&pair[0])? << 4 | value(&pair[1])?);
    }
    Some(out)
}

fn base64(digits: &str) -> Option<Vec<u8>> {
    let text = digits.trim_end_matches('=');
    if !digits.len().is_multiple_of(4) || digits.len() - text.len() > 2 || text.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut have) = (0u32, 0);
    for b in text.bytes() {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    Some(out)
}

/// Bytes as a hexadecimal value.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut s = String::with_capacity(2 + 2 * bytes.len());
    s.push_str("0x");
    for b in bytes {
        let _ = write!(s, "{b:02x}");
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_lies_refused() {
        let p = Pairs::parse(b"A=1\0B=\0C=x=y\0").expect("good");
        assert_eq!(
            (p.get("A"), p.get("B"), p.get("C")),
            (Some("1"), Some(""), Some("x=y"))
        );
        let long_key = [vec![b'k'; 64], b"=1\0".to_vec()].concat();
        let long_value = [b"k=".to_vec(), vec![b'v'; VALUE_LEN_MAX + 1]].concat();
        let many: Vec<u8> = (0..=TEXT_KEYS_MAX)
            .flat_map(|i| format!("k{i}=1\0").into_bytes())
            .collect();
        for (bad, why) in [
            (b"A\0".to_vec(), TextError::Malformed),
            (b"=1\0".to_vec(), TextError::Malformed),
            (b"A b=1\0".to_vec(), TextError::Malformed),
            (b"A=\xff\0".to_vec(), TextError::Malformed),
            (b"A=1\0A=1\0".to_vec(), TextError::Twice),
            (long_key, TextError::Malformed),
            (long_value, TextError::ValueTooLong),
            (many, TextError::TooManyKeys),
            (vec![b'x'; 100_000], TextError::TooLong),
        ] {
            assert_eq!(Pairs::parse(&bad), Err(why));
        }
    }

    #[test]
    fn values() {
        assert_eq!(number("262144"), Some(262_144));
        assert_eq!(number("0x40"), Some(64));
        for bad in ["", "-1", "+1", "1k", "0x", "99999999999999999999", "a"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(binary("0x1ff", 8), Some(vec![1, 0xff]));
        assert_eq!(binary("0bAf8=", 8), Some(vec![1, 0xff]));
        assert_eq!(binary("0bAf8=", 1), None);
        assert_eq!(binary("0x010203", 2), None);
        for bad in ["", "0", "ff", "0xzz", "0bAf8", "0b!!!!", "0b===="] {
            assert_eq!(binary(bad, 64), None, "{bad}");
        }
        assert_eq!(to_hex(&[0, 0xab]), "0x00ab");
    }
}
