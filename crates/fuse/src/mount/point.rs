//! Mount points: checks before mounting, and the kernel's list of mounts.
//!
//! **Owns** the reading of /proc/self/mountinfo (proc(5)). **Called by** the mount, before it changes anything, and to find
//! out whether another program has unmounted it. **Invariants**: the list is read before the directory is touched, since a
//! dead mount answers every access with ENOTCONN.

use crate::error::{Error, Result};
use crate::options::MountOptions;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount in the kernel's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// The device's number, `major:minor`; unique while it is mounted.
    pub(super) device: String,
    pub(super) at: PathBuf,
    pub(super) kind: String,
    pub(super) source: String,
}

impl Listed {
    fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }
}

/// All mounts of this process's namespace; the last one at a directory hides the others.
pub(super) fn mounts() -> std::io::Result<Vec<Listed>> {
    let text = fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
}

/// A line of mountinfo: `ID PARENT MAJOR:MINOR ROOT AT OPTIONS FIELDS... - KIND SOURCE OPTIONS`.
fn parse(line: &[u8]) -> Option<Listed> {
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = words.iter().position(|w| *w == b"-")?;
    let text = |w: &[u8]| String::from_utf8_lossy(&unescape(w)).into_owned();
    Some(Listed {
        device: text(words.get(2)?),
        at: OsString::from_vec(unescape(words.get(4)?)).into(),
        kind: text(words.get(dash + 1)?),
        source: text(words.get(dash + 2)?),
    })
}

/// Replaces octal escapes such as `\040`.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|d| *first == b'\\' && d.iter().all(|b| (b'0'..b'8').contains(b)));
        match digits {
            Some(d) => {
                out.push(d.iter().fold(0u8, |n, b| n.wrapping_mul(8) + (b - b'0')));
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// The mount that is visible at a directory.
pub(super) fn mounted_at(at: &Path) -> std::io::Result<Option<Listed>> {
    Ok(mounts()?.into_iter().rev().find(|m| m.at == at))
}

/// The mount point's path without symbolic links. Errors: `Missing`, `Examine`.
pub(super) fn resolve(at: &Path) -> Result<PathBuf> {
    let examine = |source| Error::Examine {
        at: at.to_owned(),
        source,
    };
    let absolute = std::path::absolute(at).map_err(examine)?;
    if let (Some(parent), Some(last)) = (absolute.parent(), absolute.file_name())
        && let Ok(parent) = parent.canonicalize()
    {
        let path = parent.join(last);
        if mounted_at(&path).map_err(examine)?.is_some() {
            return Ok(path);
        }
    }
    at.canonicalize().map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::Missing(at.to_owned()),
        _ => examine(e),
    })
}

/// What is at a mount point before the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A directory that can be mounted over.
    Directory,
    /// A dead mount, which the options allow to replace.
    Dead,
}

/// Checks a resolved mount point. Errors: `Missing`, `NotDirectory`, `NotEmpty`, `InUse`, `Dead`, `Examine`.
pub(super) fn check(at: &Path, options: &MountOptions) -> Result<Found> {
    let examine = |source| Error::Examine {
        at: at.to_owned(),
        source,
    };
    if let Some(present) = mounted_at(at).map_err(examine)? {
        let is_dead = present.is_fuse() && is_dead(at);
        return match (is_dead, options.replace_dead) {
            (true, true) => Ok(Found::Dead),
            (true, false) => Err(Error::Dead(at.to_owned())),
            (false, _) => Err(Error::InUse {
                at: at.to_owned(),
                source_name: present.source,
            }),
        };
    }
    let found = fs::metadata(at).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::Missing(at.to_owned()),
        _ => examine(e),
    })?;
    if !found.is_dir() {
        return Err(Error::NotDirectory(at.to_owned()));
    }
    if !options.over_files {
        let mut entries = fs::read_dir(at).map_err(examine)?;
        if entries.next().is_some() {
            return Err(Error::NotEmpty(at.to_owned()));
        }
    }
    Ok(Found::Directory)
}

/// Whether the server of a FUSE mount has ended: a request to it answers ENOTCONN. Attributes do not tell: the kernel has them in
/// its cache for a while.
fn is_dead(at: &Path) -> bool {
    io::linux::ask_file_system(at).is_err_and(|e| e == io::Error::Closed)
}

/// Whether users other than root may use `allow_other`, by /etc/fuse.conf (mount.fuse3(8)).
pub(super) fn may_allow_other() -> bool {
    let text = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    text.lines().any(|l| l.trim() == "user_allow_other")
}

/// A source's name as the options of a mount take it: `,` and `\` are escaped.
pub(super) fn escape(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    for c in source.chars() {
        if matches!(c, ',' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_spaces_is_found() {
        let line =
            b"40 26 0:35 / /mnt/a\\040b rw,nosuid shared:1 - fuse.wirepool tank/home rw,user_id=0";
        let found = parse(line).unwrap();
        assert_eq!(found.at, Path::new("/mnt/a b"));
        assert_eq!(
            (found.device.as_str(), found.source.as_str()),
            ("0:35", "tank/home")
        );
        assert!(found.is_fuse());
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3 4 5 6 -"), None);
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape(b"a\\040b\\134\\9x\\04"), b"a b\\\\9x\\04");
        assert_eq!(unescape(b"\\777"), [0o377]);
    }

    #[test]
    fn a_mount_point_is_checked_before_anything_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let options = MountOptions::default();
        let missing = dir.path().join("missing");
        assert!(matches!(resolve(&missing), Err(Error::Missing(_))));
        assert!(matches!(check(&missing, &options), Err(Error::Missing(_))));
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(
            check(&file, &options),
            Err(Error::NotDirectory(_))
        ));
        assert!(matches!(
            check(dir.path(), &options),
            Err(Error::NotEmpty(_))
        ));
        let over = MountOptions {
            over_files: true,
            ..options.clone()
        };
        assert_eq!(check(dir.path(), &over).unwrap(), Found::Directory);
        assert!(matches!(
            check(Path::new("/proc"), &over),
            Err(Error::InUse { .. })
        ));
    }
}
