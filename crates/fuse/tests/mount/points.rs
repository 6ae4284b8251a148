//! Mount points that must be refused, dead mounts, and users without privileges.

use crate::server::{Process, Served, can_mount, memory_files, shards};
use fuse::{Error, Mount, MountOptions, MountState, Unmount};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

fn start(at: &Path, options: &MountOptions) -> fuse::Result<Mount> {
    let shards = shards(1);
    let files = memory_files(&shards[0]);
    Mount::start(Arc::new(files), at, options, &shards)
}

#[test]
fn bad_mount_points_are_refused_before_anything_is_done() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = MountOptions::default();
    let refused = |at: &Path| start(at, &options).err().unwrap();
    let missing = refused(&dir.path().join("missing"));
    assert!(matches!(missing, Error::Missing(_)), "{missing}");
    fs::write(dir.path().join("file"), "x").unwrap();
    let file = refused(&dir.path().join("file"));
    assert!(matches!(file, Error::NotDirectory(_)), "{file}");
    let full = refused(dir.path());
    assert!(matches!(full, Error::NotEmpty(_)), "{full}");
    let proc = refused(Path::new("/proc"));
    assert!(
        matches!(&proc, Error::InUse { source_name, .. } if source_name == "proc"),
        "{proc}"
    );
    let over = MountOptions {
        over_files: true,
        ..options
    };
    let mount = start(dir.path(), &over).unwrap();
    assert!(!dir.path().join("file").exists());
    mount.unmount(Unmount::IfIdle).unwrap();
    assert!(dir.path().join("file").exists());
}

#[test]
fn a_second_mount_at_the_same_place_is_refused_and_elsewhere_it_works() {
    let Some(served) = Served::start() else {
        return;
    };
    let again = |at: &Path, options: &MountOptions| {
        let files = Arc::new(served.files.clone());
        Mount::start(files, at, options, served.shards())
    };
    let refused = again(served.path(), &MountOptions::default())
        .err()
        .unwrap();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    let elsewhere = tempfile::tempdir().unwrap();
    let options = MountOptions {
        is_shared: true,
        is_read_only: true,
        source: "tank/home, with a comma".into(),
        ..MountOptions::default()
    };
    fs::write(served.path().join("file"), "x").unwrap();
    let second = again(elsewhere.path(), &options).unwrap();
    assert_eq!(
        fs::read_to_string(elsewhere.path().join("file")).unwrap(),
        "x"
    );
    assert!(fs::write(elsewhere.path().join("new"), "x").is_err());
    second.unmount(Unmount::IfIdle).unwrap();
    served.end();
}

#[test]
fn a_dead_mount_is_recognised_and_replaced_if_allowed() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut server = Process::start(dir.path(), 0, &[]);
    assert_eq!(server.said, "mounted\n");
    fs::write(dir.path().join("file"), "x").unwrap();
    // The kernel has the attributes of the mount's root now, and answers from its cache for a minute: the mount seemed to live
    // after the server's crash.
    fs::metadata(dir.path()).unwrap();
    server.kill();
    fs::metadata(dir.path()).expect("answered from the kernel's cache");
    let dead = fs::metadata(dir.path().join("file")).unwrap_err();
    assert_eq!(dead.raw_os_error(), Some(libc::ENOTCONN));

    let options = MountOptions::default();
    let refused = start(dir.path(), &options).err().unwrap();
    assert!(matches!(refused, Error::Dead(_)), "{refused}");
    assert!(refused.to_string().contains("fusermount3 -u"), "{refused}");
    let replace = MountOptions {
        replace_dead: true,
        ..options
    };
    let mount = start(dir.path(), &replace).unwrap();
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    assert_eq!(mount.state(), MountState::Mounted);
    mount.unmount(Unmount::IfIdle).unwrap();
    assert!(!dir.path().join("file").exists());
}

/// The user `nobody`, who mounts with fusermount3.
const NOBODY: u32 = 65_534;

/// Whether a user without privileges can mount here; prints a line if not.
fn a_user_can_mount() -> bool {
    if !can_mount() {
        return false;
    }
    let device = fs::metadata("/dev/fuse").unwrap().permissions().mode();
    let is_possible = io::linux::is_root() && device & 0o006 == 0o006;
    if !is_possible {
        eprintln!(
            "SKIPPED: the test needs root, to start a server as nobody, and mode 0666 of /dev/fuse"
        );
    }
    is_possible && crate::server::has("fusermount3")
}

#[test]
fn a_user_mounts_without_root() {
    if !a_user_can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut server = Process::start(dir.path(), NOBODY, &[]);
    assert_eq!(server.said, "mounted\n");
    // others, root among them, see nothing of it
    let refused = fs::metadata(dir.path()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
    fs::metadata(dir.path()).unwrap();

    let refused = Process::start(dir.path(), NOBODY, &["suid"]);
    assert!(
        refused.said.contains("option suid needs root"),
        "{}",
        refused.said
    );
    let config = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if !config.lines().any(|l| l.trim() == "user_allow_other") {
        let refused = Process::start(dir.path(), NOBODY, &["allow_other"]);
        assert!(
            refused.said.contains("user_allow_other"),
            "{}",
            refused.said
        );
    }
}

#[test]
fn a_user_cannot_mount_over_a_directory_of_another() {
    if !a_user_can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = Process::start(dir.path(), NOBODY, &[]);
    assert!(
        refused.said.contains("fusermount3 said"),
        "{}",
        refused.said
    );
}
