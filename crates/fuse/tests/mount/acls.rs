//! Access control lists of a mount whose file system checks permissions, by the rule for chmod(2).

use crate::server::Served;
use backend::file::memory::MemoryOptions;
use backend::file::permission::{AclInherit, AclMode, AclRules};
use fuse::{MountOptions, Permissions};
use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, Permissions as Mode};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const ACCESS: &str = "system.posix_acl_access";

/// Tags of an entry of a POSIX ACL.
const OWNER: u16 = 1;
const USER: u16 = 2;
const GROUP: u16 = 4;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id of an entry without one.
const NO_ID: u32 = u32::MAX;

fn posix(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2_u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(bits.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

/// Owner rw, user 1234 rw, group r, others nothing.
fn named() -> Vec<u8> {
    posix(&[
        (OWNER, 6, NO_ID),
        (USER, 6, 1234),
        (GROUP, 4, NO_ID),
        (MASK, 6, NO_ID),
        (OTHER, 0, NO_ID),
    ])
}

fn access_list(file: &Path) -> Result<Vec<u8>, Errno> {
    let mut value = [0; 256];
    getxattr(file, ACCESS, &mut value[..]).map(|len| value[..len].to_vec())
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).expect("there").mode() & 0o7777
}

fn served(on_chmod: AclMode) -> Option<Served> {
    let options = MountOptions {
        permissions: Permissions::FileSystem,
        ..MountOptions::default()
    };
    let acl_rules = AclRules {
        on_chmod,
        on_create: AclInherit::Restricted,
    };
    let of_files = MemoryOptions {
        acl_rules,
        ..MemoryOptions::default()
    };
    Served::with_files(&options, of_files)
}

/// A file with a list that names a user.
fn listed(served: &Served) -> std::path::PathBuf {
    let file = served.path().join("file");
    fs::write(&file, b"data").expect("written");
    fs::set_permissions(&file, Mode::from_mode(0o640)).expect("a mode says all");
    setxattr(&file, ACCESS, &named(), XattrFlags::empty()).expect("a list");
    assert_eq!(
        mode(&file),
        0o640,
        "a mode has the bits of the group, not of the mask"
    );
    file
}

#[test]
fn chmod_through_a_mount_follows_the_rule() {
    for (rule, is_kept) in [
        (AclMode::Discard, false),
        (AclMode::Groupmask, true),
        (AclMode::Passthrough, true),
    ] {
        let Some(served) = served(rule) else { return };
        let file = listed(&served);
        fs::set_permissions(&file, Mode::from_mode(0o600)).expect("changed");
        assert_eq!(mode(&file), 0o600, "{rule:?}");
        let list = access_list(&file);
        assert_eq!(list != Err(Errno::NODATA), is_kept, "{rule:?}: {list:?}");
        served.end();
    }
}

#[test]
fn a_restricted_list_refuses_chmod_until_it_is_removed() {
    let Some(served) = served(AclMode::Restricted) else {
        return;
    };
    let file = listed(&served);
    for bits in [0o600, 0o640, 0o4640] {
        let refused = fs::set_permissions(&file, Mode::from_mode(bits));
        let refused = refused.expect_err("more than a mode").kind();
        assert_eq!(refused, ErrorKind::PermissionDenied, "{bits:o}");
    }
    assert_eq!(access_list(&file), Ok(named()));
    // a write and a change of the owner are no chmod
    fs::write(&file, b"more").expect("written");
    std::os::unix::fs::chown(&file, Some(77), None).expect("changed");
    // setfacl -b: the list that a mode can say
    let minimal = posix(&[(OWNER, 6, NO_ID), (GROUP, 4, NO_ID), (OTHER, 0, NO_ID)]);
    setxattr(&file, ACCESS, &minimal, XattrFlags::empty()).expect("set");
    assert_eq!(
        (access_list(&file), mode(&file)),
        (Err(Errno::NODATA), 0o640)
    );
    fs::set_permissions(&file, Mode::from_mode(0o600)).expect("the mode says all");
    // setfacl -x, as removexattr(2)
    setxattr(&file, ACCESS, &named(), XattrFlags::empty()).expect("a list");
    removexattr(&file, ACCESS).expect("removed");
    fs::set_permissions(&file, Mode::from_mode(0o644)).expect("the mode says all");
    assert_eq!(mode(&file), 0o644);
    served.end();
}
