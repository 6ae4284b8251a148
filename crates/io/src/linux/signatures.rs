//! The contents of a disk or file that other programs know by their signatures.
//!
//! **Owns** the call of `wipefs`, whose library (libblkid) knows the signatures of file systems, partition tables, swap, encrypted disks
//! and members of RAIDs, volume groups and ZFS pools. **Called by** programs that are about to overwrite a disk. **Invariants**: nothing
//! is written.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where `wipefs` lies; the search path of a user without privileges may lack these.
const SYSTEM_DIRECTORIES: &str = ":/usr/sbin:/sbin";
/// Offset of the time of the last write in the superblock of ext2, ext3 and ext4 (`s_wtime`, seconds, little endian). Source:
/// linux/fs/ext4/ext4.h, `struct ext4_super_block`, which begins at byte 1024.
const EXT_WRITTEN: u64 = 1024 + 0x30;
/// Bytes at the start of a file that are read to learn whether it holds anything.
const HEAD: usize = 1 << 20;

/// One kind of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The kind in the words of `wipefs`, such as `ext4`, `gpt` or `LVM2_member`.
    pub kind: String,
    /// Its label; empty if it has none.
    pub label: String,
    /// Time since the last write; `None` if the signature does not tell.
    pub age: Option<Duration>,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.label.is_empty() {
            write!(f, " {:?}", self.label)?;
        }
        match self.age {
            Some(age) => write!(f, " written {}", ago(age)),
            None => Ok(()),
        }
    }
}

/// A time span in the past, such as `3 days ago`.
pub fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (n, unit) = match seconds {
        ..60 => return "less than a minute ago".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        86_400..63_072_000 => (seconds / 86_400, "day"),
        _ => (seconds / 31_536_000, "year"),
    };
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {unit}{plural} ago")
}

/// The signatures at `path`, one of each kind; empty if there is none. Blocks while the disk is read.
///
/// # Errors
/// `wipefs` (package util-linux) is not installed, or cannot read the path.
pub fn signatures(path: &Path) -> Result<Vec<Signature>> {
    let mut search: OsString = env::var_os("PATH").unwrap_or_default();
    search.push(SYSTEM_DIRECTORIES);
    let output = Command::new("wipefs")
        .args(["--no-act", "--parsable", "--noheadings"])
        .args(["--output", "TYPE,LABEL", "--"])
        .arg(path)
        .env("PATH", search)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::other(format!("wipefs (package util-linux) cannot be run: {e}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::other(said.trim().to_owned()));
    }
    let mut found: Vec<Signature> = Vec::new();
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (kind, label) = line.split_once(',').unwrap_or((line, ""));
        if kind.is_empty() || found.iter().any(|s| s.kind == kind) {
            continue;
        }
        found.push(Signature {
            kind: kind.to_owned(),
            label: label.to_owned(),
            age: kind.starts_with("ext").then(|| ext_age(path)).flatten(),
        });
    }
    Ok(found)
}

/// Time since an ext file system was last written. `None` if that is unknown.
fn ext_age(path: &Path) -> Option<Duration> {
    let mut seconds = [0; 4];
    let file = File::open(path).ok()?;
    file.read_exact_at(&mut seconds, EXT_WRITTEN).ok()?;
    let written = UNIX_EPOCH + Duration::from_secs(u32::from_le_bytes(seconds).into());
    SystemTime::now().duration_since(written).ok()
}

/// Time since the last change of a regular file whose first MiB holds a byte other than zero. `None` for every other file, for a
/// block device, and for a missing file. Blocks while the file is read.
///
/// # Errors
/// The file cannot be read.
pub fn age_of_data(path: &Path) -> Result<Option<Duration>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Ok(None);
    }
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    let has_data = head.iter().any(|byte| *byte != 0);
    let age = SystemTime::now().duration_since(facts.modified()?);
    Ok(has_data.then_some(age.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn signatures_of_a_file_are_found_once_and_left_alone() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("a file");
        fs::write(&file, vec![0; 1 << 20]).expect("file");
        assert!(signatures(&file).expect("no signature").is_empty());
        assert_eq!(age_of_data(&file).expect("a file"), None);
        let mut luks = vec![0; 1 << 20];
        luks[..8].copy_from_slice(b"LUKS\xba\xbe\0\x01");
        // Ends of the partition table of a PC: the boot record's.
        luks[510..512].copy_from_slice(&[0x55, 0xaa]);
        fs::write(&file, &luks).expect("file");
        let found = signatures(&file).expect("signatures");
        let of_luks = found.iter().filter(|s| s.kind == "crypto_LUKS");
        assert_eq!(of_luks.count(), 1, "{found:?}");
        assert_eq!(fs::read(&file).expect("file"), luks);
        assert!(age_of_data(&file).expect("a file").is_some());
        let missing = signatures(&dir.path().join("missing")).expect_err("no such file");
        assert!(missing.to_string().contains("missing"), "{missing}");
        let missing = age_of_data(&dir.path().join("missing"));
        assert_eq!(missing.expect("no file"), None);
    }

    #[test]
    fn a_signature_tells_its_label_and_age() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("ext");
        let mut image = vec![0; 1 << 20];
        let block = &mut image[1024..2048];
        // Blocks, their size (1 KiB), blocks and inodes of a group, the magic number, and the revision with labels.
        for (at, value) in [(0x0, 128u32), (0x4, 1024), (0x14, 1), (0x20, 8192)] {
            block[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        block[0x28..0x2c].copy_from_slice(&128u32.to_le_bytes());
        block[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        block[0x4c..0x50].copy_from_slice(&1u32.to_le_bytes());
        block[0x78..0x7c].copy_from_slice(b"home");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
        let written = now.as_secs() as u32 - 3 * 86_400;
        block[0x30..0x34].copy_from_slice(&written.to_le_bytes());
        fs::write(&file, &image).expect("file");
        let found = signatures(&file).expect("signatures");
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [r#"ext2 "home" written 3 days ago"#]);
    }

    #[test]
    fn spans_are_told_in_the_largest_unit_that_fits() {
        let told = [
            (5, "less than a minute ago"),
            (60, "1 minute ago"),
            (7200, "2 hours ago"),
            (86_400 * 40, "40 days ago"),
            (31_536_000 * 3, "3 years ago"),
        ];
        for (seconds, text) in told {
            assert_eq!(ago(Duration::from_secs(seconds)), text);
        }
    }
}
