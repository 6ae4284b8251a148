//! Settings: properties that datasets inherit from the datasets above them, and the values that a dataset has of its own.
//!
//! **Owns** the names of these properties, and the encoding of a dataset's own values. **Called by** datasets' records, the
//! pool's own tree, and requests that name a property. **Invariants**: a property has one number, one name and one default;
//! its own value in a record and the value in effect agree. `docs/format.md`, "Settings".

mod autodefrag;
mod codes;
mod record_sizes;
mod switches;
mod table;
mod texts;

use std::collections::BTreeMap;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Dataset, DatasetKind, Defect, Key, Kind, ObjectId, layout};
use table::{Row, TABLE};

pub use autodefrag::Autodefrag;
pub use codes::NoSync;
pub(super) use codes::{checksum_code, checksum_from_code};
pub use record_sizes::FILE_RECORD_SIZE;
pub use switches::Switches;
pub use table::DatasetProperty;
pub use texts::{TEXT_SIZE_MAX, TextProperty, TextSetting};

/// Kind of the key of the pool's settings. Object and offset are 0.
pub const KIND_SETTINGS: Kind = Kind(9);

/// Bytes of an encoded setting.
pub(super) const SETTING_SIZE: usize = 16;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSetting {
    number: u8,
    source: u8,
    reserved: [u8; 6],
    value: U64,
}
layout!(RawSetting, SETTING_SIZE, number @ 0, source @ 1, reserved @ 2, value @ 8);

impl DatasetProperty {
    /// All properties, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.property)
    }

    /// The property of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|property| property.name() == name)
    }

    fn row(self) -> &'static Row {
        let row = TABLE.iter().find(|row| row.property == self);
        row.expect("each property has a row")
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The possible values, as text for a message.
    #[must_use]
    pub fn values(self) -> &'static str {
        self.row().values
    }

    /// The value of a dataset if neither it nor a dataset above it has one.
    #[must_use]
    pub fn default(self) -> u64 {
        self.row().default
    }

    /// Whether the fixed part of a dataset's record has the value in effect. Others need records of version 2.
    pub(crate) fn is_recorded(self) -> bool {
        self.row().is_recorded
    }

    /// The feature of pools with own values of it, beside [`super::FEATURE_SETTINGS`]: earlier versions do not know the property.
    pub(crate) fn feature(self) -> Option<&'static str> {
        match self {
            Self::Aclmode | Self::Aclinherit => Some(super::FEATURE_ACL_RULES),
            Self::Autodefrag => Some(super::FEATURE_AUTODEFRAG),
            Self::SpecialSmallBlocks => Some(super::FEATURE_SPECIAL_SMALL_BLOCKS),
            Self::Primarycache | Self::Secondarycache => Some(super::FEATURE_CACHE_SETTINGS),
            Self::Logbias => Some(super::FEATURE_LOGBIAS),
            _ => None,
        }
    }

    /// Whether datasets inherit it from those above them.
    #[must_use]
    pub fn is_inherited(self) -> bool {
        self.row().is_inherited
    }

    /// Whether datasets of a kind have the property.
    #[must_use]
    pub fn is_of(self, kind: DatasetKind) -> bool {
        self.row().kinds.contains(&kind)
    }

    /// The value that a text means; `None` if the property cannot have it.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<u64> {
        (self.row().parse)(text)
    }

    /// The text of a value; `None` if the property cannot have it.
    #[must_use]
    pub fn show(self, value: u64) -> Option<String> {
        (self.row().show)(value)
    }
}

/// A value that a dataset has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// One of the property's values.
    pub value: u64,
    /// Whether it came with a received stream; otherwise it was set here.
    pub is_received: bool,
}

/// The values that a dataset, or the pool, has of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<DatasetProperty, Setting>,
    texts: BTreeMap<TextProperty, TextSetting>,
}

impl Settings {
    /// The dataset's own value of a property; `None` if the dataset inherits it.
    #[must_use]
    pub fn get(&self, property: DatasetProperty) -> Option<Setting> {
        self.values.get(&property).copied()
    }

    /// Sets a property; with `None`, it is inherited from now on.
    pub fn put(&mut self, property: DatasetProperty, setting: Option<Setting>) {
        match setting {
            Some(setting) => drop(self.values.insert(property, setting)),
            None => drop(self.values.remove(&property)),
        }
    }

    /// Sets a property to a value that was not received.
    pub fn put_local(&mut self, property: DatasetProperty, value: u64) {
        let is_received = false;
        self.put(property, Some(Setting { value, is_received }));
    }

    /// Whether every property is inherited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.texts.is_empty()
    }

    /// Their length in units of 16 bytes.
    pub(super) fn count(&self) -> u8 {
        let texts = self.texts.values().map(TextSetting::count);
        (self.values.len() + texts.sum::<usize>()) as u8
    }

    /// Encodes the settings, by number: 16 bytes for each, and its text.
    ///
    /// # Panics
    /// If a property cannot have its value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(usize::from(self.count()) * SETTING_SIZE);
        for (property, setting) in &self.values {
            assert!(property.show(setting.value).is_some(), "{setting:?}");
            let raw = RawSetting {
                number: property.row().number,
                source: if setting.is_received { 2 } else { 1 },
                reserved: [0; 6],
                value: U64::new(setting.value),
            };
            out.extend_from_slice(raw.as_bytes());
        }
        for (property, setting) in &self.texts {
            setting.encode(*property, &mut out);
        }
        out
    }

    /// Decodes settings.
    ///
    /// # Errors
    /// The first field that is malformed, unknown or out of order, or reserved and not zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let field = |field, value: u64| Err(Defect::Field { field, value });
        if !bytes.len().is_multiple_of(SETTING_SIZE) {
            return Err(Defect::Length {
                what: "settings",
                got: bytes.len(),
                want: bytes.len() / SETTING_SIZE * SETTING_SIZE,
            });
        }
        let mut settings = Self::default();
        let mut rest = bytes;
        while let Ok((raw, after)) = RawSetting::read_from_prefix(rest) {
            rest = after;
            let is_received = match raw.source {
                1 => false,
                2 => true,
                other => return field("source of a setting", other.into()),
            };
            if raw.reserved != [0; 6] {
                return field("reserved bytes of a setting", raw.reserved[0].into());
            }
            let value = raw.value.get();
            if let Some(property) = TextProperty::numbered(raw.number) {
                rest = settings.decode_text((property, is_received), value, rest)?;
                continue;
            }
            let row = TABLE.iter().find(|row| row.number == raw.number);
            let last = settings
                .values
                .last_key_value()
                .map(|(property, _)| *property);
            let row = row.filter(|row| last.is_none_or(|last| last < row.property));
            let Some(row) = row.filter(|_| settings.texts.is_empty()) else {
                return field("number of a setting", raw.number.into());
            };
            if row.property.show(value).is_none() {
                return field("value of a setting", value);
            }
            let setting = Setting { value, is_received };
            settings.put(row.property, Some(setting));
        }
        Ok(settings)
    }
}

impl Dataset {
    /// The value of a property that is in effect.
    #[must_use]
    pub fn value(&self, property: DatasetProperty) -> u64 {
        (property.row().read)(self)
    }

    /// Puts a value of a property into effect.
    ///
    /// # Panics
    /// If the property cannot have it.
    pub fn put_value(&mut self, property: DatasetProperty, value: u64) {
        (property.row().write)(self, value);
    }

    /// The settings of a record of version 1: its values in effect, but for defaults; and the record size of a filesystem.
    pub(super) fn plain_settings(&self) -> Settings {
        let mut settings = Settings::default();
        for row in TABLE.iter().filter(|row| row.is_recorded) {
            let value = (row.read)(self);
            if value != row.default {
                settings.put_local(row.property, value);
            }
        }
        self.put_implied(&mut settings);
        settings
    }

    /// Whether its record needs version 2: a pool with such a record has the feature [`super::FEATURE_SETTINGS`].
    pub(crate) fn needs_feature(&self) -> bool {
        self.settings != self.plain_settings()
    }

    /// Puts the own values into effect that the fixed part of the record does not have.
    pub(super) fn put_own(&mut self) {
        for row in TABLE.iter().filter(|row| !row.is_recorded) {
            let own = self.settings.get(row.property);
            (row.write)(self, own.map_or(row.default, |own| own.value));
        }
    }

    /// The first own value that differs from the value in effect.
    pub(super) fn contradiction(&self) -> Option<u64> {
        let mut own = self.settings.values.iter();
        let found = own.find(|(property, own)| self.value(**property) != own.value);
        found.map(|(_, own)| own.value)
    }
}

/// The key of the pool's settings. Without any there is no entry.
#[must_use]
pub fn settings_key() -> Key {
    Key::new(ObjectId(0), KIND_SETTINGS, 0)
}

#[cfg(test)]
mod tests;
