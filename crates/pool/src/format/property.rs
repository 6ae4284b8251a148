//! Pool properties.
//!
//! **Owns** their entries in the pool's own tree. **Called by** the opening and changes of a pool. **Invariants**: an unknown
//! property is refused; a property without an entry is off. `docs/format.md`, "Properties".

use super::{Defect, Key, Kind, ObjectId};

/// Kind of the keys of properties. The object is 0, the offset is the property's number.
pub const KIND_PROPERTY: Kind = Kind(8);

/// A property that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolProperty {
    /// Freed space is discarded on the disks automatically.
    Autotrim,
    /// A vdev whose disks grew uses the new space automatically.
    Autoexpand,
}

impl PoolProperty {
    fn number(self) -> u64 {
        match self {
            PoolProperty::Autotrim => 1,
            PoolProperty::Autoexpand => 2,
        }
    }

    /// The property of an entry.
    ///
    /// # Errors
    /// If the property is unknown.
    pub fn of_key(key: Key) -> Result<Self, Defect> {
        let all = [PoolProperty::Autotrim, PoolProperty::Autoexpand];
        let found = all.into_iter().find(|p| p.number() == key.offset());
        found.filter(|_| key.object().0 == 0).ok_or(Defect::Field {
            field: "number of a pool's property",
            value: key.offset(),
        })
    }
}

/// The key of a property.
#[must_use]
pub fn property_key(property: PoolProperty) -> Key {
    Key::new(ObjectId(0), KIND_PROPERTY, property.number())
}

/// The value of a property that is on. A property that is off has no entry.
#[must_use]
pub fn encode_on() -> Box<[u8]> {
    Box::new([1])
}

/// Checks the value of a property that is on.
///
/// # Errors
/// If it is another value.
pub fn decode_on(bytes: &[u8]) -> Result<(), Defect> {
    match bytes {
        [1] => Ok(()),
        _ => Err(Defect::Length {
            what: "pool's property that is on",
            got: bytes.len(),
            want: 1,
        }),
    }
}
