//! Types of messages, described once for both directions.
//!
//! A type lists its fields in their order in the message: [`xdr_struct`]; or its variants, each with the number that selects it:
//! [`xdr_enum`], and [`xdr_union`] if the number is a part of the value. A field whose encoding is not that of its type names another
//! one: `name: &'a [u8] as Bytes<255>`.
//!
//! **Owns** the encodings of plain types and these macros. **Called by** the types of NFS 3 and 4. **Invariants**: as in [`super`]; lists are
//! allocated after their length was compared with the remaining bytes.

use super::{Reader, Result, Writer, XdrError};

/// A type with an encoding.
pub trait Xdr<'a>: Sized {
    /// Reads a value. Errors: those of the encoding.
    fn decode(reader: &mut Reader<'a>) -> Result<Self>;

    /// Writes it.
    fn encode(&self, writer: &mut Writer);
}

/// An encoding of `T`.
pub trait Codec<'a, T> {
    /// Reads a value. Errors: those of the encoding.
    fn decode(reader: &mut Reader<'a>) -> Result<T>;

    /// Writes it.
    fn encode(value: &T, writer: &mut Writer);
}

macro_rules! plain {
    ($($type:ty: $method:ident),*) => {$(
        impl<'a> Xdr<'a> for $type {
            fn decode(reader: &mut Reader<'a>) -> Result<Self> {
                reader.$method()
            }

            fn encode(&self, writer: &mut Writer) {
                writer.$method(*self);
            }
        }
    )*};
}

plain!(u32: u32, u64: u64, i64: i64, bool: bool);

impl<'a, const N: usize> Xdr<'a> for [u8; N] {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        reader.array()
    }

    fn encode(&self, writer: &mut Writer) {
        writer.fixed(self);
    }
}

/// Opaque bytes that only the message limits.
impl<'a> Xdr<'a> for &'a [u8] {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        reader.opaque(usize::MAX)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.opaque(self);
    }
}

impl<'a, T: Xdr<'a>> Xdr<'a> for Box<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        T::decode(reader).map(Box::new)
    }

    fn encode(&self, writer: &mut Writer) {
        T::encode(self, writer);
    }
}

/// A truth value, and the value if it is true.
impl<'a, T: Xdr<'a>> Xdr<'a> for Option<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        match reader.bool()? {
            true => T::decode(reader).map(Some),
            false => Ok(None),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        writer.bool(self.is_some());
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

/// The encoding of the type itself.
#[derive(Debug)]
pub struct Plain;

impl<'a, T: Xdr<'a>> Codec<'a, T> for Plain {
    fn decode(reader: &mut Reader<'a>) -> Result<T> {
        T::decode(reader)
    }

    fn encode(value: &T, writer: &mut Writer) {
        value.encode(writer);
    }
}

/// At most `MAX` opaque bytes.
#[derive(Debug)]
pub struct Bytes<const MAX: usize>;

impl<'a, const MAX: usize> Codec<'a, &'a [u8]> for Bytes<MAX> {
    fn decode(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
        reader.opaque(MAX)
    }

    fn encode(value: &&'a [u8], writer: &mut Writer) {
        writer.opaque(value);
    }
}

/// A number from `MIN` to `MAX`.
#[derive(Debug)]
pub struct Range<const MIN: u32, const MAX: u32>;

impl<'a, const MIN: u32, const MAX: u32> Codec<'a, u32> for Range<MIN, MAX> {
    fn decode(reader: &mut Reader<'a>) -> Result<u32> {
        let value = reader.u32()?;
        let is_in = (MIN..=MAX).contains(&value);
        is_in.then_some(value).ok_or(XdrError::Value)
    }

    fn encode(value: &u32, writer: &mut Writer) {
        writer.u32(*value);
    }
}

/// At most `MAX` values of at least `LEN` bytes each.
#[derive(Debug)]
pub struct List<const MAX: usize, const LEN: usize>;

impl<'a, T: Xdr<'a>, const MAX: usize, const LEN: usize> Codec<'a, Vec<T>> for List<MAX, LEN> {
    fn decode(reader: &mut Reader<'a>) -> Result<Vec<T>> {
        let count = reader.count(MAX, LEN)?;
        (0..count).map(|_| T::decode(reader)).collect()
    }

    fn encode(value: &Vec<T>, writer: &mut Writer) {
        writer.count(value.len());
        value.iter().for_each(|item| item.encode(writer));
    }
}

/// A word without a meaning, written as 0, before the value.
#[derive(Debug)]
pub struct Skip;

impl<'a, T: Xdr<'a>> Codec<'a, T> for Skip {
    fn decode(reader: &mut Reader<'a>) -> Result<T> {
        reader.u32()?;
        T::decode(reader)
    }

    fn encode(value: &T, writer: &mut Writer) {
        writer.u32(0);
        value.encode(writer);
    }
}

/// A word without a meaning, written as 0, behind the value.
#[derive(Debug)]
pub struct SkipAfter;

impl<'a, T: Xdr<'a>> Codec<'a, T> for SkipAfter {
    fn decode(reader: &mut Reader<'a>) -> Result<T> {
        let value = T::decode(reader)?;
        reader.u32()?;
        Ok(value)
    }

    fn encode(value: &T, writer: &mut Writer) {
        value.encode(writer);
        writer.u32(0);
    }
}

/// Writes nothing: the variant is only its number.
pub(crate) fn no_fields(_: &u32, _: &mut Writer) {}

/// The encoding of a field: the named one, else that of its type.
macro_rules! xdr_codec {
    () => {
        $crate::xdr::Plain
    };
    ($codec:ty) => {
        $codec
    };
}

/// Declares a struct with its encoding: the fields in their order.
macro_rules! xdr_struct {
    (@codec [$life:lifetime] $name:ty { $($field:ident: $type:ty $(as $codec:ty)?),* }) => {
        impl<$life> $crate::xdr::Xdr<$life> for $name {
            fn decode(reader: &mut $crate::xdr::Reader<$life>) -> $crate::xdr::Result<Self> {
                use $crate::xdr::{Codec, xdr_codec};
                Ok(Self {
                    $($field: <xdr_codec!($($codec)?) as Codec<'_, $type>>::decode(reader)?,)*
                })
            }

            fn encode(&self, writer: &mut $crate::xdr::Writer) {
                use $crate::xdr::{Codec, xdr_codec};
                $(<xdr_codec!($($codec)?) as Codec<'_, $type>>::encode(&self.$field, writer);)*
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$life:lifetime> {
        $($(#[$about:meta])* $field_vis:vis $field:ident: $type:ty $(as $codec:ty)?,)*
    }) => {
        $(#[$meta])* $vis struct $name<$life> { $($(#[$about])* $field_vis $field: $type,)* }
        $crate::xdr::xdr_struct!(@codec [$life] $name<$life> { $($field: $type $(as $codec)?),* });
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$about:meta])* $field_vis:vis $field:ident: $type:ty $(as $codec:ty)?,)*
    }) => {
        $(#[$meta])* $vis struct $name { $($(#[$about])* $field_vis $field: $type,)* }
        $crate::xdr::xdr_struct!(@codec ['a] $name { $($field: $type $(as $codec)?),* });
    };
}

/// Declares an enum whose variants are selected by a number, with the encoding of their fields. Variants behind `else` have no number
/// here: each names functions that return its number and write its fields.
macro_rules! xdr_enum {
    (@codec [$life:lifetime] $name:ty {
        $($variant:ident
            $(($($item:ident: $item_type:ty $(as $item_codec:ty)?),*))?
            $({$($field:ident: $type:ty $(as $codec:ty)?),*})?
            = $number:expr;)*
    } { $($other:ident: $other_number:path, $other_encode:path;)* }) => {
        impl<$life> $name {
            /// Reads the fields of the variant with this number; `None` if there is none. Errors: those of the encoding.
            #[allow(unused_imports, unused_variables)] // an enum may have no fields
            pub fn decode_fields(
                number: u32,
                reader: &mut $crate::xdr::Reader<$life>,
            ) -> $crate::xdr::Result<Option<Self>> {
                use $crate::xdr::{Codec, xdr_codec};
                Ok(Some(match number {
                    $(n if n == $number => Self::$variant
                        $(($(<xdr_codec!($($item_codec)?) as Codec<'_, $item_type>>::decode(reader)?),*))?
                        $({$($field: <xdr_codec!($($codec)?) as Codec<'_, $type>>::decode(reader)?),*})?,)*
                    _ => return Ok(None),
                }))
            }

            /// The number of the variant.
            #[must_use]
            pub fn number(&self) -> u32 {
                match self {
                    $(Self::$variant { .. } => $number,)*
                    $(Self::$other(other) => $other_number(other),)*
                }
            }

            /// Writes the fields.
            #[allow(unused_imports, unused_variables)] // an enum may have no fields
            pub fn encode_fields(&self, writer: &mut $crate::xdr::Writer) {
                use $crate::xdr::{Codec, xdr_codec};
                match self {
                    $(Self::$variant $(($($item),*))? $({$($field),*})? => {
                        $($(<xdr_codec!($($item_codec)?) as Codec<'_, $item_type>>::encode($item, writer);)*)?
                        $($(<xdr_codec!($($codec)?) as Codec<'_, $type>>::encode($field, writer);)*)?
                    })*
                    $(Self::$other(other) => $other_encode(other, writer),)*
                }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident<$life:lifetime> {
        $($(#[$about:meta])* $variant:ident
            $(($($item:ident: $item_type:ty $(as $item_codec:ty)?),*))?
            $({$($(#[$field_about:meta])* $field:ident: $type:ty $(as $codec:ty)?),* $(,)?})?
            = $number:expr,)*
    } $(else {
        $($(#[$other_about:meta])* $other:ident($other_type:ty): $other_number:path, $other_encode:path;)*
    })?) => {
        $(#[$meta])* $vis enum $name<$life> {
            $($(#[$about])* $variant $(($($item_type),*))? $({$($(#[$field_about])* $field: $type),*})?,)*
            $($($(#[$other_about])* $other($other_type),)*)?
        }
        $crate::xdr::xdr_enum!(@codec [$life] $name<$life> {
            $($variant
                $(($($item: $item_type $(as $item_codec)?),*))?
                $({$($field: $type $(as $codec)?),*})?
                = $number;)*
        } { $($($other: $other_number, $other_encode;)*)? });
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident $(($($item:ident: $item_type:ty $(as $item_codec:ty)?),*))? = $number:expr,)*
    } $(else {
        $($(#[$other_about:meta])* $other:ident($other_type:ty): $other_number:path, $other_encode:path;)*
    })?) => {
        $(#[$meta])* $vis enum $name {
            $($(#[$about])* $variant $(($($item_type),*))?,)*
            $($($(#[$other_about])* $other($other_type),)*)?
        }
        $crate::xdr::xdr_enum!(@codec ['a] $name {
            $($variant $(($($item: $item_type $(as $item_codec)?),*))? = $number;)*
        } { $($($other: $other_number, $other_encode;)*)? });
    };
}

/// Makes the number of an enum a part of its encoding. `unknown` makes a value of a number that no variant has, or an error.
macro_rules! xdr_union {
    ([$life:lifetime] $name:ty, $unknown:expr) => {
        impl<$life> $crate::xdr::Xdr<$life> for $name {
            fn decode(reader: &mut $crate::xdr::Reader<$life>) -> $crate::xdr::Result<Self> {
                let number = reader.u32()?;
                match Self::decode_fields(number, reader)? {
                    Some(value) => Ok(value),
                    None => $unknown(number),
                }
            }

            fn encode(&self, writer: &mut $crate::xdr::Writer) {
                writer.u32(self.number());
                self.encode_fields(writer);
            }
        }
    };
    ([$life:lifetime] $name:ty) => {
        $crate::xdr::xdr_union!([$life] $name, |_| Err($crate::xdr::XdrError::Value));
    };
}

pub(crate) use {xdr_codec, xdr_enum, xdr_struct, xdr_union};
