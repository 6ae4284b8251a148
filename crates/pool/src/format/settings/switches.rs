//! Properties of filesystems with two values, as one word in memory.
//!
//! **Owns** [`Switches`]. **Called by** datasets, which publish it to requests. **Invariant**: a property's bit is its place among
//! all properties; the bits of other properties are 0. They are never on disk.

use super::{DatasetProperty, TABLE};

/// The properties of a filesystem with two values each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches(u16);

impl Switches {
    /// The switches with these bits, of [`Switches::bits`].
    #[must_use]
    pub fn of_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The switches as bits, for one word in memory.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether a property has its second value, which is `on` where that is one.
    #[must_use]
    pub fn has(self, property: DatasetProperty) -> bool {
        self.0 & 1 << property as u16 != 0
    }

    pub(super) fn put(&mut self, property: DatasetProperty, value: u64) {
        let bit = 1 << property as u16;
        self.0 = self.0 & !bit | if value == 0 { 0 } else { bit };
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
