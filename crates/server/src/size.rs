//! Sizes in text form.
//!
//! **Called by** the configuration, the control API and the command line. **Invariants**: a unit is a power of 1024,
//! as in ZFS, LVM and QEMU; the full display of a [`ByteSize`] parses to the same value.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

const UNITS: [(char, u32); 5] = [('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50)];

/// A number of bytes. Parses `"512M"`, `"4G"`, `"4GiB"`, `"1.5T"`, `"65536"`; writes the shortest exact form. A fraction counts in the next
/// smaller unit and is rounded down there, so that `"1.1T"` is a whole number of gibibytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// The text is not a size; the message has the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a size such as \"512M\", \"4G\" or \"1.5T\" (powers of 1024), found {found:?}{hint}"
)]
pub struct SizeError {
    found: String,
    hint: &'static str,
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<ByteSize, SizeError> {
        let fail = |hint| SizeError {
            found: text.chars().take(64).collect(),
            hint,
        };
        let text_trimmed = text.trim();
        let digits = text_trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text_trimmed.split_at(digits);
        if number.is_empty() {
            return Err(fail(""));
        }
        let (fraction, unit) = match unit.strip_prefix('.') {
            None => ("", unit),
            Some(rest) => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                if digits == 0 {
                    return Err(fail("; digits are missing after the point"));
                }
                rest.split_at(digits)
            }
        };
        let number: u64 = number
            .parse()
            .map_err(|_| fail("; the number is too large"))?;
        let unit = unit.trim_start();
        let mut chars = unit.chars();
        let is_bytes = unit.is_empty() || unit.eq_ignore_ascii_case("b");
        if is_bytes && !fraction.is_empty() {
            return Err(fail("; a part of a byte is none: is the unit missing?"));
        }
        let Some(letter) = chars.next() else {
            return Ok(ByteSize(number));
        };
        let rest = chars.as_str();
        let Some((_, shift)) = UNITS
            .iter()
            .find(|(c, _)| *c == letter.to_ascii_uppercase())
        else {
            return if is_bytes {
                Ok(ByteSize(number))
            } else {
                Err(fail(""))
            };
        };
        match rest {
            "" | "i" | "iB" => {}
            "B" | "b" => return Err(fail("; units are powers of 1024: leave the B out")),
            _ => return Err(fail("")),
        }
        let bytes = number
            .checked_mul(1 << shift)
            .and_then(|bytes| bytes.checked_add(parts_of_1024(fraction) << (shift - 10)))
            .ok_or_else(|| fail("; the number is too large"))?;
        Ok(ByteSize(bytes))
    }
}

/// A decimal fraction in parts of 1024, rounded down. Digits after the ninth do not count.
fn parts_of_1024(digits: &str) -> u64 {
    let digits = &digits[..digits.len().min(9)];
    let value: u64 = digits.parse().unwrap_or(0);
    value * 1024 / 10_u64.pow(digits.len() as u32)
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, shift) in UNITS.iter().rev() {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{letter}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl ByteSize {
    /// Rounded to one decimal, for people: `4 GiB`, `1.5 GiB`, `700 B`.
    #[must_use]
    pub fn human(self) -> String {
        for (letter, shift) in UNITS.iter().rev() {
            if self.0 >= 1 << shift {
                let tenths = (u128::from(self.0) * 10 + (1 << (shift - 1))) >> shift;
                let (whole, tenth) = (tenths / 10, tenths % 10);
                return if tenth == 0 {
                    format!("{whole} {letter}iB")
                } else {
                    format!("{whole}.{tenth} {letter}iB")
                };
            }
        }
        format!("{} B", self.0)
    }
}

/// As in a request: bytes as a number, or text. Answers have plain numbers of bytes.
impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of bytes, or text with a unit of a power of 1024, such as \"4G\".",
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": "^\\s*([0-9]+\\s*[Bb]?|[0-9]+(\\.[0-9]+)?\\s*[KMGTPkmgtp](i|iB)?)\\s*$",
        })
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ByteSize, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"512M\" or \"4G\", or a number of bytes")
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<ByteSize, E> {
                v.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, v: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(v))
            }

            fn visit_i64<E: de::Error>(self, v: i64) -> Result<ByteSize, E> {
                u64::try_from(v)
                    .map(ByteSize)
                    .map_err(|_| E::custom("a size cannot be negative"))
            }
        }
        d.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_and_display_exactly() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4K", 4096),
            ("512M", 512 << 20),
            ("4g", 4 << 30),
            ("2TiB", 2 << 40),
            ("1 G", 1 << 30),
            ("1.5G", 1536 << 20),
            ("0.25 TiB", 256 << 30),
            ("1.1T", 1126 << 30),
            ("2.999999999999K", 3071),
            ("1.0M", 1 << 20),
        ] {
            let size: ByteSize = text.parse().expect(text);
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        assert_eq!(ByteSize(4 << 30).to_string(), "4G");
        assert_eq!(ByteSize((4 << 30) + 512).to_string(), "4294967808");
    }

    #[test]
    fn what_is_not_a_size_is_told() {
        for text in [
            "",
            "G",
            "4GB",
            "1.5",
            "1.5 B",
            "1.G",
            ".5G",
            "1.5.5G",
            "-1",
            "4Q",
            "99999999999999999999",
            "17179869184G",
            "4 G i",
        ] {
            let e = text.parse::<ByteSize>().expect_err(text).to_string();
            assert!(e.starts_with("expected a size such as"), "{e}");
        }
        assert!(
            "4GB"
                .parse::<ByteSize>()
                .expect_err("decimal")
                .to_string()
                .ends_with("leave the B out")
        );
    }

    #[test]
    fn people_get_short_sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (700, "700 B"),
            (1536, "1.5 KiB"),
            (4 << 30, "4 GiB"),
            ((4 << 30) - 1, "4 GiB"),
        ] {
            assert_eq!(ByteSize(bytes).human(), text);
        }
    }
}
