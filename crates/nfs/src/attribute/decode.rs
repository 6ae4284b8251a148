//! New values of attributes.

use super::*;
use crate::identity::Identity;
use crate::limits::PRINCIPAL_LEN_MAX;
use crate::wire::{Attrs, Status};
use crate::xdr::{Reader, XdrError};
use backend::file::{Acl, SetAttributes, SetTime, Timestamp};
use filestate::ReportedTimes;

/// Attributes of a creation or of SETATTR.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewAttributes {
    /// The attributes.
    pub(crate) mask: Bitmap,
    /// Their values.
    pub(crate) set: SetAttributes,
    /// The access control list.
    pub(crate) acl: Option<Acl>,
    /// Mode of a new object, and the umask of its creator (RFC 8275).
    pub(crate) mode_umask: Option<(u16, u16)>,
    /// Times that the holder of a delegation kept (RFC 9754, section 5).
    pub(crate) held: ReportedTimes,
}

impl NewAttributes {
    /// The mode of a new object, or the usual one, and the umask if the file system applies it (RFC 8275, section 4.2).
    pub(crate) fn first_mode(&self, usual: u16) -> (u16, Option<u16>) {
        match self.mode_umask {
            Some((mode, umask)) => (mode, Some(umask)),
            None => (self.set.mode.unwrap_or(usual), None),
        }
    }
}

fn bad_xdr(_: XdrError) -> Status {
    Status::Badxdr
}

/// Permission, setuid, setgid and sticky bits. Errors: `Inval` for others.
fn mode(reader: &mut Reader<'_>, below: u16) -> Result<u16, Status> {
    let mode = reader.u32().map_err(bad_xdr)?;
    let mode = u16::try_from(mode).ok().filter(|mode| *mode < below);
    mode.ok_or(Status::Inval)
}

/// Reads new values. Errors: `Attrnotsupp`, `Inval` for an attribute that cannot be set, a value out of range, or two values
/// for one thing, `Badowner`, `Badxdr`, those of a list; `Delay` if a name cannot be looked up now.
pub(crate) async fn decode(
    attrs: &Attrs<'_>,
    minor: u32,
    identity: &Identity,
) -> Result<NewAttributes, Status> {
    if !attrs.mask.is_within(&supported(minor)) {
        return Err(Status::Attrnotsupp);
    }
    if !attrs.mask.is_within(&SETTABLE) {
        return Err(Status::Inval);
    }
    let has = |attribute| attrs.mask.has(attribute);
    let is_time_twice = has(TIME_DELEG_ACCESS) && has(TIME_ACCESS_SET)
        || has(TIME_DELEG_MODIFY) && has(TIME_MODIFY_SET);
    if has(ACL) && has(DACL) || has(MODE) && has(MODE_UMASK) || is_time_twice {
        return Err(Status::Inval);
    }
    let mut reader = Reader::new(attrs.values);
    let mut new = NewAttributes {
        mask: attrs.mask,
        ..NewAttributes::default()
    };
    let set = &mut new.set;
    for attribute in attrs.mask.iter() {
        match attribute {
            SIZE => set.size = Some(reader.u64().map_err(bad_xdr)?),
            ACL => new.acl = Some(acl::decode(&mut reader, identity).await?),
            DACL => {
                // §6.4.3.2: flags of automatic inheritance, which nothing here follows.
                if reader.u32().map_err(bad_xdr)? != 0 {
                    return Err(Status::Inval);
                }
                new.acl = Some(acl::decode(&mut reader, identity).await?);
            }
            MODE => set.mode = Some(mode(&mut reader, 0o10000)?),
            MODE_UMASK => {
                let first = mode(&mut reader, 0o10000)?;
                new.mode_umask = Some((first, mode(&mut reader, 0o1000)?));
            }
            OWNER => set.uid = Some(identity.uid(principal(&mut reader)?).await?),
            OWNER_GROUP => set.gid = Some(identity.gid(principal(&mut reader)?).await?),
            TIME_ACCESS_SET => set.accessed = set_time(&mut reader)?,
            TIME_CREATE => set.created = Some(time(&mut reader)?),
            TIME_MODIFY_SET => set.modified = set_time(&mut reader)?,
            TIME_DELEG_ACCESS => new.held.accessed = Some(time(&mut reader)?),
            TIME_DELEG_MODIFY => new.held.modified = Some(time(&mut reader)?),
            other => unreachable!("attribute {other} can be set"),
        }
    }
    match reader.is_empty() {
        true => Ok(new),
        false => Err(Status::Badxdr),
    }
}

fn principal<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Status> {
    reader.opaque(PRINCIPAL_LEN_MAX).map_err(bad_xdr)
}

/// Reads `nfstime4`. Errors: `Inval` for more nanoseconds than a second has.
pub(crate) fn time(reader: &mut Reader<'_>) -> Result<Timestamp, Status> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::now_or_never;
    use crate::xdr::Writer;
    use proptest::prelude::*;

    fn decoded(mask: &[u32], write: impl FnOnce(&mut Writer)) -> Result<SetAttributes, Status> {
        let mut writer = Writer::new();
        write(&mut writer);
        let values = writer.to_vec();
        let mask = Bitmap::of(mask);
        let attrs = Attrs {
            mask,
            values: &values,
        };
        now_or_never(decode(&attrs, 2, &Identity::default())).map(|new| new.set)
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

    proptest! {
        #[test]
        fn any_bytes_are_read_within_their_bounds(
            attributes in prop::collection::btree_set(0..96_u32, 0..4),
            values in prop::collection::vec(prop_oneof![4 => Just(0_u8), 1 => any::<u8>()], 0..200),
        ) {
            let attributes: Vec<u32> = attributes.into_iter().collect();
            let settable = attributes.iter().filter(|a| SETTABLE.has(**a)).copied();
            let settable: Vec<u32> = settable.collect();
            for mask in [&attributes, &settable] {
                let attrs = Attrs {
                    mask: Bitmap::of(mask),
                    values: &values,
                };
                if let Ok(new) = now_or_never(decode(&attrs, 2, &Identity::default())) {
                    prop_assert!(attrs.mask.is_within(&SETTABLE));
                    let has_list = !attrs.mask.and(&OF_ACL).is_empty();
                    prop_assert_eq!(new.acl.is_some(), has_list);
                }
            }
        }
    }

    #[test]
    fn bad_values_are_refused() {
        assert_eq!(decoded(&[14], |_| {}), Err(Status::Attrnotsupp));
        assert_eq!(decoded(&[TYPE], |w| w.u32(1)), Err(Status::Inval));
        assert_eq!(decoded(&[MODE], |w| w.u32(0o10000)), Err(Status::Inval));
        let two = decoded(&[MODE, MODE_UMASK], |_| {});
        assert_eq!(two, Err(Status::Inval));
        assert_eq!(decoded(&[ACL, DACL], |_| {}), Err(Status::Inval));
        let wide = decoded(&[MODE_UMASK], |w| {
            w.u32(0o666);
            w.u32(0o1000);
        });
        assert_eq!(wide, Err(Status::Inval));
        let inherits = decoded(&[DACL], |w| w.u64(1 << 32));
        assert_eq!(inherits, Err(Status::Inval));
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
