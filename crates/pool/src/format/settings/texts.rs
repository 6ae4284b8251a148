//! Properties whose values are texts.
//!
//! **Owns** the table of these properties, and the encoding of a text: a setting whose value is the length of the text, and then
//! the text, padded with zeros to whole settings. **Called by** [`super::Settings`]. **Invariants**: a text has 1 to
//! [`TEXT_SIZE_MAX`] bytes and no control characters, so that a dataset's record stays within an inline value; numbers are above those of
//! other properties. A text that is in effect is searched when it is needed; no record has it. `docs/format.md`, "Settings".

use super::{RawSetting, SETTING_SIZE, Settings};
use crate::format::{DatasetKind, Defect};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// Longest text of a property, bytes.
pub const TEXT_SIZE_MAX: usize = 256;

/// A property whose value is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextProperty {
    /// How a filesystem is exported over NFS. The pool does not know the meaning.
    Sharenfs,
}

/// A text that a dataset has of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSetting {
    /// The text.
    pub text: String,
    /// Whether it came with a received stream; otherwise it was set here.
    pub is_received: bool,
}

impl TextProperty {
    /// All of them, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Sharenfs].into_iter()
    }

    /// The property of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|property| property.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sharenfs => "sharenfs",
        }
    }

    /// The text of a dataset if neither it nor a dataset above it has one.
    #[must_use]
    pub fn default_text(self) -> &'static str {
        match self {
            Self::Sharenfs => "off",
        }
    }

    /// Whether datasets of a kind have the property.
    #[must_use]
    pub fn is_of(self, kind: DatasetKind) -> bool {
        match self {
            Self::Sharenfs => kind == DatasetKind::Filesystem,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Sharenfs => 64,
        }
    }

    pub(super) fn numbered(number: u8) -> Option<Self> {
        Self::all().find(|property| property.number() == number)
    }

    /// Whether a property can have a text.
    #[must_use]
    pub fn is_text(text: &str) -> bool {
        (1..=TEXT_SIZE_MAX).contains(&text.len()) && !text.contains(char::is_control)
    }
}

/// Number of settings that take the space of a text's padded bytes.
fn units(len: usize) -> usize {
    len.div_ceil(SETTING_SIZE)
}

impl TextSetting {
    /// Number of settings that take its space.
    pub(super) fn count(&self) -> usize {
        1 + units(self.text.len())
    }

    /// Adds its encoding.
    ///
    /// # Panics
    /// If a property cannot have the text.
    pub(super) fn encode(&self, property: TextProperty, out: &mut Vec<u8>) {
        assert!(TextProperty::is_text(&self.text), "{self:?}");
        let raw = RawSetting {
            number: property.number(),
            source: if self.is_received { 2 } else { 1 },
            reserved: [0; 6],
            value: U64::new(self.text.len() as u64),
        };
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
        out.resize(out.len().next_multiple_of(SETTING_SIZE), 0);
    }
}

impl Settings {
    /// The dataset's own text of a property; `None` if the dataset inherits it.
    #[must_use]
    pub fn text(&self, property: TextProperty) -> Option<&TextSetting> {
        self.texts.get(&property)
    }

    /// Sets a text; with `None`, it is inherited from now on.
    pub fn put_text(&mut self, property: TextProperty, setting: Option<TextSetting>) {
        match setting {
            Some(setting) => drop(self.texts.insert(property, setting)),
            None => drop(self.texts.remove(&property)),
        }
    }

    /// Decodes a text of this length from the bytes behind its setting. Returns the bytes behind the text.
    ///
    /// # Errors
    /// A wrong order, a length that is not possible, padding that is not zero, or no text.
    pub(super) fn decode_text<'a>(
        &mut self,
        (property, is_received): (TextProperty, bool),
        len: u64,
        rest: &'a [u8],
    ) -> Result<&'a [u8], Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let last = self.texts.last_key_value();
        if last.is_some_and(|(last, _)| *last >= property) {
            return field("number of a setting", property.number().into());
        }
        let size = usize::try_from(len).ok().filter(|n| *n <= TEXT_SIZE_MAX);
        let split = size.and_then(|n| Some((n, rest.split_at_checked(units(n) * SETTING_SIZE)?)));
        let Some((size, (padded, rest))) = split else {
            return field("length of a setting's text", len);
        };
        let (text, padding) = padded.split_at(size);
        if padding.iter().any(|byte| *byte != 0) {
            return field("padding of a setting's text", len);
        }
        let text = std::str::from_utf8(text).ok();
        let Some(text) = text.filter(|text| TextProperty::is_text(text)) else {
            return field("text of a setting", len);
        };
        let text = text.to_owned();
        self.put_text(property, Some(TextSetting { text, is_received }));
        Ok(rest)
    }
}
