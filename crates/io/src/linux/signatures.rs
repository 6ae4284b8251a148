//! The contents of a disk or file that other programs know by their signatures.
//!
//! **Owns** the call of `wipefs`, whose library knows the signatures of file systems, partition tables, RAID members and encrypted
//! disks. **Called by** programs that are about to overwrite a disk. **Invariants**: nothing is written.

use std::env;
use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where `wipefs` lies; the search path of a user without privileges may lack these.
const SYSTEM_DIRECTORIES: &str = ":/usr/sbin:/sbin";

/// The kinds of signatures at `path`, such as `ext4` or `gpt`, each once; empty if there is none. Blocks while the disk is read.
/// Errors: `wipefs` (package util-linux) is not installed, or cannot read the path.
pub fn signatures(path: &Path) -> Result<Vec<String>> {
    let mut search: OsString = env::var_os("PATH").unwrap_or_default();
    search.push(SYSTEM_DIRECTORIES);
    let output = Command::new("wipefs")
        .args(["--no-act", "--noheadings", "--output", "TYPE", "--"])
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
    let mut kinds: Vec<String> = Vec::new();
    for kind in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if !kinds.iter().any(|k| k == kind) {
            kinds.push(kind.to_owned());
        }
    }
    Ok(kinds)
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
        let mut luks = vec![0; 1 << 20];
        luks[..8].copy_from_slice(b"LUKS\xba\xbe\0\x01");
        // Ends of the partition table of a PC: the boot record's.
        luks[510..512].copy_from_slice(&[0x55, 0xaa]);
        fs::write(&file, &luks).expect("file");
        let found = signatures(&file).expect("signatures");
        assert!(found.contains(&"crypto_LUKS".to_owned()), "{found:?}");
        assert_eq!(fs::read(&file).expect("file"), luks);
        let missing = signatures(&dir.path().join("missing")).expect_err("no such file");
        assert!(missing.to_string().contains("missing"), "{missing}");
    }
}
