//! Atomic and durable replacement of files.
//!
//! **Called by** the stores of the server, and by `wirepool rdma setup`. **Invariants**: after [`replace`] returns, the new
//! contents survive a power cut; a crash before that leaves the old contents; the next call overwrites the temporary
//! file of an interrupted one. Blocks: never called on the data path.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Replaces the contents of `path`. An existing file keeps its permissions, and its owner where this process may give files away: root
/// may replace the file of a server that is another user. A new file is readable by its owner only. Errors: those of the file system; the
/// old contents are there then.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace_or_create(path, contents, 0o600)
}

/// As [`replace`]; a new file has these permissions.
pub fn replace_or_create(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let dir = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let temporary = temporary_name(path)?;
    let written =
        write_whole(&temporary, path, contents, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(e) = written {
        // A leftover is harmless, but confusing.
        let _ = fs::remove_file(&temporary);
        return Err(e);
    }
    File::open(dir)?.sync_all()
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".new");
    Ok(path.with_file_name(temporary))
}

fn write_whole(temporary: &Path, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)?;
    match fs::metadata(path) {
        Ok(old) => {
            match fchown(&file, Some(old.uid()), Some(old.gid())) {
                Err(e) if e.kind() != io::ErrorKind::PermissionDenied => return Err(e),
                _ => {}
            }
            // After the owner, since a change of the owner takes bits away.
            file.set_permissions(old.permissions())?;
        }
        // The umask does not apply here.
        Err(_) => file.set_permissions(Permissions::from_mode(mode))?,
    }
    file.write_all(contents)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        replace(&path, b"one").expect("first");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o600
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("chmod");
        fs::write(
            dir.path().join(".f.new"),
            b"left behind by a crash, and longer",
        )
        .expect("left");
        replace(&path, b"two").expect("second");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
        let public = dir.path().join("g");
        replace_or_create(&public, b"one", 0o644).expect("made");
        let mode = fs::metadata(&public).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn a_file_of_another_user_stays_that_users() {
        if !::io::linux::is_root() {
            println!("SKIPPED: only root may give files away");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        replace(&path, b"one").expect("first");
        std::os::unix::fs::chown(&path, Some(12_345), Some(23_456)).expect("chown");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("chmod");
        replace(&path, b"two").expect("second");
        let now = fs::metadata(&path).expect("there");
        let of = (now.uid(), now.gid(), now.permissions().mode() & 0o777);
        assert_eq!(of, (12_345, 23_456, 0o640));
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        replace(&path, b"one").expect("first");
        fs::create_dir(dir.path().join(".f.new")).expect("in the way");
        replace(&path, b"two").expect_err("the temporary name is taken by a directory");
        assert_eq!(fs::read(&path).expect("read"), b"one");
    }
}
