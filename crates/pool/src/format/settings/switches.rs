//! Properties with a few values, as one word in memory.
//!
//! **Owns** [`Switches`]. **Called by** datasets, which publish it to requests. **Invariant**: the bit of a property with two
//! values is its place among all properties; others have fields behind those bits. Unused bits are 0. They are never on disk.

use super::{DatasetProperty, TABLE};

/// The properties of a dataset with a few values each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches(u32);

impl Switches {
    /// The switches with these bits, of [`Switches::bits`].
    #[must_use]
    pub fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The switches as bits, for one word in memory.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether a property has another value than its first: its second, which is `on` where that is one.
    #[must_use]
    pub fn has(self, property: DatasetProperty) -> bool {
        self.value(property) != 0
    }

    /// The value of a property.
    #[must_use]
    pub fn value(self, property: DatasetProperty) -> u64 {
        let (shift, mask) = field(property);
        (self.0 >> shift & mask).into()
    }

    pub(super) fn put(&mut self, property: DatasetProperty, value: u64) {
        let (shift, mask) = field(property);
        self.0 = self.0 & !(mask << shift) | (value as u32 & mask) << shift;
    }
}

/// The first bit of a property, and the mask of its value.
fn field(property: DatasetProperty) -> (u32, u32) {
    match property {
        DatasetProperty::Primarycache => (20, 0b11),
        DatasetProperty::Secondarycache => (22, 0b11),
        DatasetProperty::Aclmode => (24, 0b11),
        DatasetProperty::Aclinherit => (26, 0b111),
        DatasetProperty::Logbias => (29, 1),
        other => (other as u32, 1),
    }
}

impl Default for Switches {
    fn default() -> Self {
        let mut switches = Self(0);
        for row in TABLE.iter().filter(|row| row.is_switch()) {
            switches.put(row.property, row.default);
        }
        switches
    }
}
