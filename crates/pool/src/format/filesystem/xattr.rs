//! Extended attributes.
//!
//! **Owns** their encoding. **Called by** the filesystem. **Invariants**: as for all formats, one value has one encoding; a
//! value that fits beside its name is stored there. `docs/format.md`, "Extended attributes".

use backend::file::{XATTR_NAME_MAX, XATTR_VALUE_MAX};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CHUNK_SIZE, HEADER_OBJECT, OBJECT_END};
use crate::format::{Defect, ObjectId, layout};

const XATTR_SIZE: usize = 16;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawXattr {
    version: u8,
    name_size: u8,
    reserved: [u8; 2],
    value_size: U32,
    object: U64,
}
layout!(RawXattr, XATTR_SIZE, version @ 0, name_size @ 1, reserved @ 2, value_size @ 4, object @ 8);

/// The value of an extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XattrValue {
    /// The value itself.
    Inline(Box<[u8]>),
    /// The `INLINE` chunks of a hidden object, which has no inode.
    Object {
        /// The hidden object.
        object: ObjectId,
        /// Bytes of the value, at most [`XATTR_VALUE_MAX`].
        size: u32,
    },
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xattr {
    /// Its name with the namespace: 1 to [`XATTR_NAME_MAX`] bytes without NUL.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: XattrValue,
}

impl Xattr {
    /// Whether a value is stored beside its name, not in a hidden object. Lengths in bytes.
    #[must_use]
    pub fn is_inline(name_size: usize, value_size: usize) -> bool {
        name_size + value_size <= CHUNK_SIZE
    }

    /// Encodes the attribute.
    ///
    /// # Panics
    /// If [`Xattr::decode`] refuses it.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let (size, object, value) = match &self.value {
            XattrValue::Inline(value) => (value.len() as u32, HEADER_OBJECT, &value[..]),
            XattrValue::Object { object, size } => (*size, *object, &[][..]),
        };
        let raw = RawXattr {
            version: 1,
            name_size: self.name.len() as u8,
            reserved: [0; 2],
            value_size: U32::new(size),
            object: U64::new(object.0),
        };
        let bytes = [raw.as_bytes(), &self.name, value].concat();
        assert_eq!(Self::decode(&bytes).as_ref(), Ok(self));
        bytes.into()
    }

    /// Decodes an attribute.
    ///
    /// # Errors
    /// A wrong length, a malformed field, or a value in the wrong place.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let length = |want| Defect::Length {
            what: "extended attribute",
            got: bytes.len(),
            want,
        };
        let (raw, rest) = RawXattr::read_from_prefix(bytes).map_err(|_| length(XATTR_SIZE + 1))?;
        let field = |field, value: u64| Err(Defect::Field { field, value });
        if raw.version != 1 {
            return field("version of an attribute", raw.version.into());
        }
        if raw.reserved != [0; 2] {
            return field("reserved bytes of an attribute", 1);
        }
        let name_size = usize::from(raw.name_size);
        let (size, object) = (raw.value_size.get(), raw.object.get());
        if !(1..=XATTR_NAME_MAX).contains(&name_size) {
            return field("length of an attribute's name", name_size as u64);
        }
        if size as usize > XATTR_VALUE_MAX {
            return field("length of an attribute's value", size.into());
        }
        let is_inline = Self::is_inline(name_size, size as usize);
        if is_inline != (object == HEADER_OBJECT.0) || object >= OBJECT_END {
            return field("object of an attribute", object);
        }
        let value_size = if is_inline { size as usize } else { 0 };
        if rest.len() != name_size + value_size {
            return Err(length(XATTR_SIZE + name_size + value_size));
        }
        let (name, value) = rest.split_at(name_size);
        if name.contains(&0) {
            return field("byte of an attribute's name", 0);
        }
        let value = match is_inline {
            true => XattrValue::Inline(value.into()),
            false => XattrValue::Object {
                object: ObjectId(object),
                size,
            },
        };
        Ok(Self {
            name: name.into(),
            value,
        })
    }
}
