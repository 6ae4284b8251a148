//! Access control lists.
//!
//! **Owns** the encoding of a list, which is stored in chunks. **Called by** the filesystem. **Invariants**: as for all
//! formats, one value has one encoding. `docs/format.md`, "Access control lists".

use backend::file::{ACES_MAX, Ace, AceFlags, AceKind, AceMask, Acl, SID_MAX, Who};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::{Defect, layout};

const LIST_SIZE: usize = 4;
const ACE_SIZE: usize = 12;
/// Most bytes of an encoded list.
pub const ACL_SIZE_MAX: usize = LIST_SIZE + ACES_MAX * (ACE_SIZE + SID_MAX);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawList {
    version: u8,
    reserved: u8,
    count: U16,
}
layout!(RawList, LIST_SIZE, version @ 0, reserved @ 1, count @ 2);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawAce {
    kind: u8,
    who: u8,
    flags: U16,
    mask: U32,
    id: U32,
}
layout!(RawAce, ACE_SIZE, kind @ 0, who @ 1, flags @ 2, mask @ 4, id @ 8);

const WHO_OWNER: u8 = 1;
const WHO_GROUP: u8 = 2;
const WHO_EVERYONE: u8 = 3;
const WHO_USER: u8 = 4;
const WHO_NAMED_GROUP: u8 = 5;
const WHO_SID: u8 = 6;

/// Encodes a list.
#[must_use]
pub fn encode_acl(acl: &Acl) -> Box<[u8]> {
    let list = RawList {
        version: 1,
        reserved: 0,
        count: U16::new(acl.aces().len() as u16),
    };
    let mut bytes = list.as_bytes().to_vec();
    for ace in acl.aces() {
        let (who, id, sid) = match &ace.who {
            Who::Owner => (WHO_OWNER, 0, &[][..]),
            Who::OwningGroup => (WHO_GROUP, 0, &[][..]),
            Who::Everyone => (WHO_EVERYONE, 0, &[][..]),
            Who::User(id) => (WHO_USER, *id, &[][..]),
            Who::Group(id) => (WHO_NAMED_GROUP, *id, &[][..]),
            Who::Sid(sid) => (WHO_SID, sid.len() as u32, &sid[..]),
        };
        let raw = RawAce {
            kind: ace.kind as u8,
            who,
            flags: U16::new(ace.flags.0),
            mask: U32::new(ace.mask.0),
            id: U32::new(id),
        };
        bytes.extend(raw.as_bytes());
        bytes.extend(sid);
    }
    bytes.into()
}

/// Decodes a list.
///
/// # Errors
/// A wrong length, a malformed entry, or more than [`ACES_MAX`] entries.
pub fn decode_acl(bytes: &[u8]) -> Result<Acl, Defect> {
    let length = |want| Defect::Length {
        what: "access control list",
        got: bytes.len(),
        want,
    };
    let (list, mut rest) = RawList::read_from_prefix(bytes).map_err(|_| length(LIST_SIZE))?;
    let count = usize::from(list.count.get());
    let field = |field, value: u64| Err(Defect::Field { field, value });
    if list.version != 1 {
        return field("version of an access control list", list.version.into());
    }
    if list.reserved != 0 {
        return field("reserved byte of an access control list", 1);
    }
    if count > ACES_MAX {
        return field("entries of an access control list", count as u64);
    }
    let mut aces = Vec::new();
    for _ in 0..count {
        let (raw, after) =
            RawAce::read_from_prefix(rest).map_err(|_| length(LIST_SIZE + count * ACE_SIZE))?;
        let (ace, after) = decode_ace(&raw, after)?;
        aces.push(ace);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(length(bytes.len() - rest.len()));
    }
    Acl::new(aces).map_err(|_| Defect::Field {
        field: "flags of an access control entry",
        value: count as u64,
    })
}

/// Decodes an entry; `after` are the bytes behind its fixed part. Returns the bytes behind the entry.
fn decode_ace<'a>(raw: &RawAce, after: &'a [u8]) -> Result<(Ace, &'a [u8]), Defect> {
    let field = |field, value: u64| Err(Defect::Field { field, value });
    let kind = match raw.kind {
        0 => AceKind::Allow,
        1 => AceKind::Deny,
        2 => AceKind::Audit,
        3 => AceKind::Alarm,
        other => return field("kind of an access control entry", other.into()),
    };
    let id = raw.id.get();
    if matches!(raw.who, WHO_OWNER | WHO_GROUP | WHO_EVERYONE) && id != 0 {
        return field("identifier of an access control entry", id.into());
    }
    let mut after = after;
    let who = match raw.who {
        WHO_OWNER => Who::Owner,
        WHO_GROUP => Who::OwningGroup,
        WHO_EVERYONE => Who::Everyone,
        WHO_USER => Who::User(id),
        WHO_NAMED_GROUP => Who::Group(id),
        WHO_SID => match after.split_at_checked(id as usize) {
            Some((sid, rest)) => {
                after = rest;
                Who::Sid(sid.into())
            }
            None => return field("length of a security identifier", id.into()),
        },
        other => return field("subject of an access control entry", other.into()),
    };
    let (flags, mask) = (AceFlags(raw.flags.get()), AceMask(raw.mask.get()));
    let ace = Ace {
        kind,
        flags,
        mask,
        who,
    };
    Ok((ace, after))
}
