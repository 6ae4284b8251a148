//! What a pool is set to.
//!
//! **Owns** the entries of the pool's own tree that say so. **Called by** whoever opens or changes a pool. **Invariants**: a
//! property that is not known is refused; one that is not there is off. `docs/format.md`, "Properties".

use super::{Defect, Key, Kind, ObjectId};

/// Kind of the keys under which properties lie; the object is 0, the offset says which.
pub const KIND_PROPERTY: Kind = Kind(8);

/// Something that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolProperty {
    /// What is freed is given back to the disks by itself.
    Autotrim,
    /// A vdev whose disks became larger uses that by itself.
    Autoexpand,
}

impl PoolProperty {
    fn number(self) -> u64 {
        match self {
            PoolProperty::Autotrim => 1,
            PoolProperty::Autoexpand => 2,
        }
    }

    /// The property that an entry is about.
    ///
    /// # Errors
    /// None that is known.
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

/// The value of a property that is on; one that is off has none.
#[must_use]
pub fn encode_on() -> Box<[u8]> {
    Box::new([1])
}

/// Checks the value of a property that is on.
///
/// # Errors
/// It is another.
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
