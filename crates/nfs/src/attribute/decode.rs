//! New values of attributes.

use super::*;
use crate::wire::{Attrs, Status};
use crate::xdr::{Reader, XdrError};
use backend::file::{SetAttributes, SetTime, Timestamp};

/// Most bytes of a user's or group's name.
const USER_NAME_MAX: usize = 1024;

/// Attributes of a creation or of SETATTR.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NewAttributes {
    /// The attributes.
    pub(crate) mask: Bitmap,
    /// Their values.
    pub(crate) set: SetAttributes,
}

fn bad_xdr(_: XdrError) -> Status {
    Status::Badxdr
}

/// Reads new values. Errors: `Attrnotsupp`, `Inval` for an attribute that cannot be set or a value out of range, `Badowner`,
/// `Badxdr`.
pub(crate) fn decode(attrs: &Attrs<'_>, minor: u32) -> Result<NewAttributes, Status> {
    if !attrs.mask.is_within(&supported(minor)) {
        return Err(Status::Attrnotsupp);
    }
    if !attrs.mask.is_within(&SETTABLE) {
        return Err(Status::Inval);
    }
    let mut reader = Reader::new(attrs.values);
    let mut set = SetAttributes::default();
    for attribute in attrs.mask.iter() {
        match attribute {
            SIZE => set.size = Some(reader.u64().map_err(bad_xdr)?),
            MODE => {
                let mode = reader.u32().map_err(bad_xdr)?;
                let mode = u16::try_from(mode).ok().filter(|mode| *mode < 0o10000);
                set.mode = Some(mode.ok_or(Status::Inval)?);
            }
            OWNER => set.uid = Some(number(&mut reader)?),
            OWNER_GROUP => set.gid = Some(number(&mut reader)?),
            TIME_ACCESS_SET => set.accessed = set_time(&mut reader)?,
            TIME_CREATE => set.created = Some(time(&mut reader)?),
            TIME_MODIFY_SET => set.modified = set_time(&mut reader)?,
            other => unreachable!("attribute {other} can be set"),
        }
    }
    match reader.is_empty() {
        true => Ok(NewAttributes {
            mask: attrs.mask,
            set,
        }),
        false => Err(Status::Badxdr),
    }
}

fn time(reader: &mut Reader<'_>) -> Result<Timestamp, Status> {
    let seconds = reader.i64().map_err(bad_xdr)?;
    match reader.u32().map_err(bad_xdr)? {
        nanoseconds @ 0..1_000_000_000 => Ok(Timestamp::from_parts(seconds, nanoseconds)),
        _ => Err(Status::Inval),
    }
}

fn set_time(reader: &mut Reader<'_>) -> Result<SetTime, Status> {
    match reader.u32().map_err(bad_xdr)? {
        0 => Ok(SetTime::Now),
        1 => time(reader).map(SetTime::To),
        _ => Err(Status::Badxdr),
    }
}

/// A user or group as a decimal number, without a domain (§5.9).
fn number(reader: &mut Reader<'_>) -> Result<u32, Status> {
    let name = reader.opaque(USER_NAME_MAX).map_err(bad_xdr)?;
    let is_decimal = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(name).ok().filter(|_| is_decimal);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or(Status::Badowner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Writer;

    fn decoded(mask: &[u32], write: impl FnOnce(&mut Writer)) -> Result<SetAttributes, Status> {
        let mut writer = Writer::new();
        write(&mut writer);
        let values = writer.to_vec();
        let mask = Bitmap::of(mask);
        let attrs = Attrs {
            mask,
            values: &values,
        };
        decode(&attrs, 2).map(|new| new.set)
    }

    #[test]
    fn values_are_read_in_the_order_of_their_numbers() {
        let all = [
            SIZE,
            MODE,
            OWNER,
            OWNER_GROUP,
            TIME_ACCESS_SET,
            TIME_CREATE,
            TIME_MODIFY_SET,
        ];
        let set = decoded(&all, |w| {
            w.u64(5);
            w.u32(0o644);
            w.opaque(b"1000");
            w.opaque(b"0");
            w.u32(0);
            w.i64(-1);
            w.u32(999_999_999);
            w.u32(1);
            w.i64(2);
            w.u32(3);
        });
        let expected = SetAttributes {
            mode: Some(0o644),
            uid: Some(1000),
            gid: Some(0),
            size: Some(5),
            accessed: SetTime::Now,
            modified: SetTime::To(Timestamp(2_000_000_003)),
            created: Some(Timestamp(-1)),
            guard: None,
        };
        assert_eq!(set, Ok(expected));
    }

    #[test]
    fn bad_values_are_refused() {
        assert_eq!(decoded(&[12], |_| {}), Err(Status::Attrnotsupp));
        assert_eq!(decoded(&[TYPE], |w| w.u32(1)), Err(Status::Inval));
        assert_eq!(decoded(&[MODE], |w| w.u32(0o10000)), Err(Status::Inval));
        assert_eq!(decoded(&[MODE], |w| w.u64(1)), Err(Status::Badxdr));
        assert_eq!(decoded(&[SIZE], |w| w.u32(1)), Err(Status::Badxdr));
        for name in [&b""[..], b"ann@example.org", b"-1", b"4294967296", b"\xff"] {
            assert_eq!(decoded(&[OWNER], |w| w.opaque(name)), Err(Status::Badowner));
        }
        let late = |w: &mut Writer| {
            w.u32(1);
            w.i64(0);
            w.u32(1_000_000_000);
        };
        assert_eq!(decoded(&[TIME_MODIFY_SET], late), Err(Status::Inval));
    }
}
