//! Values of attributes.

use super::*;
use crate::identity::Names;
use crate::limits::{HANDLE_LEN_MAX, TRANSFER_MAX};
use crate::wire::Status;
use crate::xdr::{Writer, Xdr};
use backend::file::{
    Acl, Attributes, FILE_SIZE_MAX, FileKind, FileLimits, FileSpace, NAME_MAX, Timestamp,
};

/// The object whose attributes are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of<'a> {
    /// A directory of the pseudo file system: its number, and when it changed.
    Pseudo(u64, u64),
    /// An object of a file system.
    File(&'a Attributes),
}

/// Everything that values are made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The object.
    pub(crate) of: Of<'a>,
    /// Its file handle.
    pub(crate) handle: &'a [u8],
    /// Its file system, for clients.
    pub(crate) fsid: (u64, u64),
    /// Its number in the directory above, where another file system may begin.
    pub(crate) mounted_on: u64,
    /// Limits of its file system.
    pub(crate) limits: &'a FileLimits,
    /// Space of its file system, if one of [`OF_SPACE`] is wanted.
    pub(crate) space: Option<FileSpace>,
    /// Lease time, seconds.
    pub(crate) lease_s: u32,
    /// Minor version.
    pub(crate) minor: u32,
    /// Its access control list, if it has one and one of [`OF_ACL`] is wanted.
    pub(crate) acl: Option<&'a Acl>,
    /// Names of the users and groups, if one of [`OF_PRINCIPALS`] is wanted.
    pub(crate) names: &'a Names,
}

/// `NFS4_CHANGE_TYPE_IS_UNDEFINED` (RFC 7862, section 12.2.3). Values grow, but a crash takes back changes
/// that were not on stable storage, and a rollback takes back all changes since its snapshot. A client of a monotonic attribute would
/// take the smaller values for old replies.
const CHANGE_TYPE_UNDEFINED: u32 = 4;

/// `ACL4_SUPPORT_ALLOW_ACL`, `ACL4_SUPPORT_DENY_ACL`.
const SUPPORT_ALLOW: u32 = 1;
const SUPPORT_DENY: u32 = 2;

/// The bits of `open_arguments4` (RFC 9754, section 3): share access, share deny, wishes about delegations, claims, ways to create. A bit's
/// number is the value that OPEN has; wishes are counted from `OPEN4_SHARE_ACCESS_WANT_READ_DELEG` in steps of 0x100 up to 5, and
/// by the bit of the word from there on.
const OPEN_ARGUMENT_BITS: [u32; 5] = [
    0b1110,
    0b1111,
    // Any delegation, none, cancel; times (20), either an open or a delegation (21).
    0b11_1000 | 1 << 20 | 1 << 21,
    // CLAIM_NULL, PREVIOUS, DELEGATE_CUR, FH, DELEG_CUR_FH.
    0b11_0111,
    0b1111,
];

/// The number of a kind (`nfs_ftype4`, and `ftype3` of version 3).
pub(crate) fn kind_number(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => 1,
        FileKind::Directory => 2,
        FileKind::BlockDevice => 3,
        FileKind::CharDevice => 4,
        FileKind::Symlink => 5,
        FileKind::Socket => 6,
        FileKind::Fifo => 7,
    }
}

/// Writes the wanted attributes that exist here, as `fattr4`.
pub(crate) fn encode(wanted: &Bitmap, facts: &Facts<'_>, writer: &mut Writer) {
    let has = wanted.and(&supported_in(facts.minor, facts.limits));
    has.encode(writer);
    let len = writer.mark();
    writer.u32(0);
    let start = writer.mark();
    for attribute in has.iter() {
        match facts.of {
            Of::File(object) if value_of_object(attribute, (object, facts), writer) => {}
            Of::Pseudo(id, change) if value_of_pseudo(attribute, id, change, writer) => {}
            Of::File(_) | Of::Pseudo(..) => value(attribute, facts, writer),
        }
    }
    let written = u32::try_from(writer.len_since(start)).expect("attributes are short");
    writer.set_u32(len, written);
}

fn time(time: Timestamp, writer: &mut Writer) {
    let (seconds, nanoseconds) = time.parts();
    writer.i64(seconds);
    writer.u32(nanoseconds);
}

/// Writes a value that only the object decides. Returns whether it is one.
fn value_of_object(
    attribute: u32,
    (of, facts): (&Attributes, &Facts<'_>),
    writer: &mut Writer,
) -> bool {
    let names = facts.names;
    match attribute {
        ACL | DACL => {
            if attribute == DACL {
                // Flags of automatic inheritance (§6.4.3.2), which the file system does not have.
                writer.u32(0);
            }
            match facts.acl {
                Some(acl) => acl::encode(acl.aces(), names, writer),
                None => {
                    let is_directory = of.kind == FileKind::Directory;
                    acl::encode(&acl::of_mode(of.mode, is_directory), names, writer);
                }
            }
        }
        TYPE => writer.u32(kind_number(of.kind)),
        CHANGE => writer.u64(of.change),
        SIZE => writer.u64(of.size),
        FILEID => writer.u64(of.handle.object),
        MODE => writer.u32(of.mode.into()),
        NUMLINKS => writer.u32(of.links),
        OWNER => writer.opaque(names.user(of.uid).as_bytes()),
        OWNER_GROUP => writer.opaque(names.group(of.gid).as_bytes()),
        RAWDEV => {
            let (major, minor) = device_parts(of.device);
            writer.u32(major);
            writer.u32(minor);
        }
        SPACE_USED => writer.u64(of.used),
        TIME_ACCESS => time(of.accessed, writer),
        TIME_CREATE => time(of.created, writer),
        TIME_METADATA => time(of.changed, writer),
        TIME_MODIFY => time(of.modified, writer),
        _ => return false,
    }
    true
}

/// The same for a directory of the pseudo file system.
fn value_of_pseudo(attribute: u32, id: u64, change: u64, writer: &mut Writer) -> bool {
    match attribute {
        TYPE => writer.u32(kind_number(FileKind::Directory)),
        CHANGE => writer.u64(change),
        SIZE | SPACE_USED => writer.u64(0),
        FILEID => writer.u64(id),
        MODE => writer.u32(0o555),
        NUMLINKS => writer.u32(2),
        OWNER | OWNER_GROUP => writer.opaque(b"0"),
        RAWDEV => writer.u64(0),
        TIME_ACCESS | TIME_CREATE | TIME_METADATA | TIME_MODIFY => {
            let changed = i64::try_from(change).unwrap_or(i64::MAX);
            time(Timestamp(changed), writer);
        }
        _ => return false,
    }
    true
}

/// A value that does not depend on the object, or only on its place.
fn value(attribute: u32, facts: &Facts<'_>, writer: &mut Writer) {
    let limits = facts.limits;
    let space = facts.space.unwrap_or(FileSpace {
        total: 0,
        available: 0,
        files: 0,
        files_available: 0,
    });
    match attribute {
        SUPPORTED_ATTRS => supported_in(facts.minor, limits).encode(writer),
        SUPPATTR_EXCLCREAT => EXCLUSIVE
            .and(&supported_in(facts.minor, limits))
            .encode(writer),
        // Handles are persistent.
        FH_EXPIRE_TYPE => writer.u32(0),
        ACLSUPPORT if limits.has_acls => writer.u32(SUPPORT_ALLOW | SUPPORT_DENY),
        ACLSUPPORT => writer.u32(0),
        NAMED_ATTR => writer.bool(false),
        LINK_SUPPORT | SYMLINK_SUPPORT | UNIQUE_HANDLES | CANSETTIME | CASE_PRESERVING
        | CHOWN_RESTRICTED | HOMOGENEOUS | NO_TRUNC => writer.bool(true),
        CASE_INSENSITIVE => writer.bool(limits.is_case_insensitive),
        FSID => {
            writer.u64(facts.fsid.0);
            writer.u64(facts.fsid.1);
        }
        LEASE_TIME => writer.u32(facts.lease_s),
        RDATTR_ERROR => writer.u32(Status::Ok.code()),
        FILEHANDLE => {
            assert!(facts.handle.len() <= HANDLE_LEN_MAX, "handles are short");
            writer.opaque(facts.handle);
        }
        FILES_AVAIL | FILES_FREE => writer.u64(space.files_available),
        FILES_TOTAL => writer.u64(space.files.saturating_add(space.files_available)),
        SPACE_AVAIL | SPACE_FREE => writer.u64(space.available),
        SPACE_TOTAL => writer.u64(space.total),
        MAXFILESIZE => writer.u64(FILE_SIZE_MAX),
        MAXLINK => writer.u32(limits.links_max),
        MAXNAME => writer.count(NAME_MAX),
        MAXREAD | MAXWRITE => writer.u64(TRANSFER_MAX.into()),
        TIME_DELTA => {
            writer.i64(0);
            writer.u32(1);
        }
        MOUNTED_ON_FILEID => writer.u64(facts.mounted_on),
        OPEN_ARGUMENTS => {
            for bits in OPEN_ARGUMENT_BITS {
                writer.count(1);
                writer.u32(bits);
            }
        }
        XATTR_SUPPORT => writer.bool(matches!(facts.of, Of::File(_))),
        CHANGE_ATTR_TYPE => writer.u32(CHANGE_TYPE_UNDEFINED),
        other => unreachable!("attribute {other} is supported and has a value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::Reader;
    use backend::file::Handle;

    #[test]
    fn every_attribute_that_can_be_read_has_a_value() {
        let attributes = Attributes {
            handle: Handle {
                filesystem: 1,
                object: 2,
                generation: 3,
            },
            kind: FileKind::File,
            mode: 0o644,
            links: 1,
            uid: 4,
            gid: 5,
            size: 6,
            used: 512,
            device: 0,
            accessed: Timestamp(7),
            modified: Timestamp(8),
            changed: Timestamp(9),
            created: Timestamp(10),
            change: 11,
        };
        let limits = FileLimits {
            links_max: 12,
            record_size: 4096,
            is_case_insensitive: false,
            is_read_only: false,
            has_acls: true,
            acl_rules: backend::file::permission::AclRules::STANDARD,
        };
        let without = FileLimits {
            has_acls: false,
            ..limits
        };
        for (of, limits) in [
            (Of::File(&attributes), &limits),
            (Of::Pseudo(13, 14), &without),
        ] {
            let facts = Facts {
                of,
                handle: &[15; 48],
                fsid: (16, 17),
                mounted_on: 18,
                limits,
                space: None,
                lease_s: 90,
                minor: 2,
                acl: None,
                names: &Names::default(),
            };
            for attribute in supported(2).iter().filter(|a| !WRITE_ONLY.has(*a)) {
                let mut writer = Writer::new();
                encode(&Bitmap::of(&[attribute]), &facts, &mut writer);
                let bytes = writer.to_vec();
                let mut reader = Reader::new(&bytes);
                let values = crate::wire::Attrs::decode(&mut reader).unwrap();
                let is_missing = matches!(of, Of::Pseudo(..)) && OF_ACL.has(attribute);
                assert_eq!(values.mask.has(attribute), !is_missing);
                assert!(reader.is_empty() && values.values.is_empty() == is_missing);
            }
        }
    }
}
