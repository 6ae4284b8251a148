//! Attributes (§5): which ones exist here, their values, and new values.
//!
//! | module | owns |
//! |---|---|
//! | `encode` | values of an object's attributes |
//! | `decode` | new values: SETATTR, CREATE, OPEN |
//! | `acl` | access control lists |
//!
//! **Called by** the operations. **Invariants**: values are written in the order of their numbers; an attribute is in
//! [`supported`] if and only if it has a value or can be set.

mod acl;
mod decode;
mod encode;

pub(crate) use acl::principals;
pub(crate) use decode::{NewAttributes, decode, time};
pub(crate) use encode::{Facts, Of, encode, kind_number};

use crate::wire::Bitmap;
pub(crate) use crate::wire::attribute::*;
use backend::file::FileLimits;

/// The attributes of minor version 2 that exist here (RFC 7862, section 12; RFC 8275, section 4; RFC 8276, section 8.2; RFC 9754).
const OF_MINOR_2: Bitmap = Bitmap::of(&[
    CHANGE_ATTR_TYPE,
    MODE_UMASK,
    XATTR_SUPPORT,
    TIME_DELEG_ACCESS,
    TIME_DELEG_MODIFY,
    OPEN_ARGUMENTS,
]);

/// The attributes that exist in a minor version.
pub(crate) fn supported(minor: u32) -> Bitmap {
    match minor {
        0 | 1 => SUPPORTED,
        _ => SUPPORTED.or(&OF_MINOR_2),
    }
}

/// The attributes that exist in a minor version and a file system.
fn supported_in(minor: u32, limits: &FileLimits) -> Bitmap {
    match limits.has_acls {
        true => supported(minor),
        false => supported(minor).without(&OF_ACL),
    }
}

/// The attributes that exist in every minor version.
const SUPPORTED: Bitmap = Bitmap::of(&[
    SUPPORTED_ATTRS,
    TYPE,
    FH_EXPIRE_TYPE,
    CHANGE,
    SIZE,
    LINK_SUPPORT,
    SYMLINK_SUPPORT,
    NAMED_ATTR,
    FSID,
    UNIQUE_HANDLES,
    LEASE_TIME,
    RDATTR_ERROR,
    ACL,
    ACLSUPPORT,
    CANSETTIME,
    CASE_INSENSITIVE,
    CASE_PRESERVING,
    CHOWN_RESTRICTED,
    FILEHANDLE,
    FILEID,
    FILES_AVAIL,
    FILES_FREE,
    FILES_TOTAL,
    HOMOGENEOUS,
    MAXFILESIZE,
    MAXLINK,
    MAXNAME,
    MAXREAD,
    MAXWRITE,
    MODE,
    NO_TRUNC,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_AVAIL,
    SPACE_FREE,
    SPACE_TOTAL,
    SPACE_USED,
    TIME_ACCESS,
    TIME_ACCESS_SET,
    TIME_CREATE,
    TIME_DELTA,
    TIME_METADATA,
    TIME_MODIFY,
    TIME_MODIFY_SET,
    MOUNTED_ON_FILEID,
    DACL,
    SUPPATTR_EXCLCREAT,
]);

/// The attributes that are access control lists.
pub(crate) const OF_ACL: Bitmap = Bitmap::of(&[ACL, DACL]);

/// The attributes that name users and groups.
pub(crate) const OF_PRINCIPALS: Bitmap = Bitmap::of(&[ACL, DACL, OWNER, OWNER_GROUP]);

/// The times that only the holder of a delegation can set (RFC 9754, section 5).
pub(crate) const HELD_TIMES: Bitmap = Bitmap::of(&[TIME_DELEG_ACCESS, TIME_DELEG_MODIFY]);

/// The attributes that can be set; `mode_umask` only by a creation, [`HELD_TIMES`] only under a delegation.
pub(crate) const SETTABLE: Bitmap = Bitmap::of(&[
    SIZE,
    ACL,
    DACL,
    MODE_UMASK,
    MODE,
    OWNER,
    OWNER_GROUP,
    TIME_ACCESS_SET,
    TIME_CREATE,
    TIME_MODIFY_SET,
    TIME_DELEG_ACCESS,
    TIME_DELEG_MODIFY,
]);

/// The attributes that can only be set.
pub(crate) const WRITE_ONLY: Bitmap = Bitmap::of(&[
    TIME_ACCESS_SET,
    TIME_MODIFY_SET,
    MODE_UMASK,
    TIME_DELEG_ACCESS,
    TIME_DELEG_MODIFY,
]);

/// The attributes that can be set with an exclusive creation (§5.8.1.14). Setting a time ends the memory of the verifier.
pub(crate) const EXCLUSIVE: Bitmap = Bitmap::of(&[MODE, OWNER, OWNER_GROUP, ACL, DACL, MODE_UMASK]);

/// The attributes whose value is about the space of a file system.
pub(crate) const OF_SPACE: Bitmap = Bitmap::of(&[
    FILES_AVAIL,
    FILES_FREE,
    FILES_TOTAL,
    SPACE_AVAIL,
    SPACE_FREE,
    SPACE_TOTAL,
]);

/// Device numbers are Linux's `dev_t` (makedev(3)).
pub(crate) fn device(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

/// Major and minor number of a device.
pub(crate) fn device_parts(device: u64) -> (u32, u32) {
    let major = device >> 32 & 0xffff_f000 | device >> 8 & 0xfff;
    let minor = device >> 12 & 0xffff_ff00 | device & 0xff;
    (major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_those_of_linux() {
        assert_eq!(device(8, 1), 0x801);
        assert_eq!(device(0x1234_5678, 0x9abc_def0), 0x1234_59ab_cde6_78f0);
        for parts in [
            (0, 0),
            (8, 1),
            (u32::MAX, u32::MAX),
            (0x1234_5678, 0x9abc_def0),
        ] {
            assert_eq!(device_parts(device(parts.0, parts.1)), parts);
        }
    }
}
