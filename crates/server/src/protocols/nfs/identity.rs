//! The identity of the NFS service, and the numbers of exports.
//!
//! **Owns** two files in `STATE_DIR/nfs`: `identity` has the key of file handles and the server's name, `numbers` a line for each
//! filesystem that was ever exported: its number in file handles, and its GUID. **Called by** the protocol, at the start and on
//! helper threads. **Invariants**: a number is on stable storage before a handle has it, and is never used for another filesystem;
//! a filesystem gets the same number again. Without these files clients would hold handles of nothing, or of other files.

use super::config::STATE;
use super::limits::NUMBERS_MAX;
use crate::config::{ConfigFile, random_uuid};
use crate::{Error, Result, durable};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Key of file handles, and the server's name.
pub(super) struct Identity {
    pub(super) handle_key: [u8; 16],
    pub(super) server: Uuid,
}

fn failed(what: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File {
        what,
        path: path.to_path_buf(),
        source,
    }
}

fn damaged(path: &Path, what: &'static str) -> Error {
    let reason =
        "it is damaged: restore it from a backup, or delete it, and all clients must mount again";
    failed(what, path, std::io::Error::other(reason))
}

/// The path of a file of the service; none in a simulated server.
pub(super) fn path_of(file: &ConfigFile, name: &str) -> Option<PathBuf> {
    let dir = &file.config().server.state_dir;
    file.is_stored().then(|| dir.join(STATE).join(name))
}

/// The text of a file; none if there is no file.
fn read(path: &Path, what: &'static str) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(what, path, e)),
    }
}

impl Identity {
    /// A random identity.
    pub(super) fn random() -> Identity {
        Identity {
            handle_key: random_uuid().into_bytes(),
            server: random_uuid(),
        }
    }

    /// The stored identity; a new one is stored. Blocks. Errors: `File`.
    pub(super) fn load(file: &ConfigFile) -> Result<Identity> {
        let what = "use the identity of the NFS service";
        let Some(path) = path_of(file, "identity") else {
            return Ok(Identity::random());
        };
        if let Some(text) = read(&path, what)? {
            return Identity::parse(&text).ok_or_else(|| damaged(&path, what));
        }
        let new = Identity::random();
        let key = Uuid::from_bytes(new.handle_key);
        let text = format!("{key} {}\n", new.server);
        durable::replace(&path, text.as_bytes()).map_err(|e| failed(what, &path, e))?;
        Ok(new)
    }

    fn parse(text: &str) -> Option<Identity> {
        let (key, server) = text.trim().split_once(' ')?;
        Some(Identity {
            handle_key: Uuid::try_parse(key).ok()?.into_bytes(),
            server: Uuid::try_parse(server).ok()?,
        })
    }
}

/// The numbers of exports, by the GUID of the filesystem.
#[derive(Debug, Default, Clone)]
pub(super) struct Numbers {
    path: Option<PathBuf>,
    numbers: BTreeMap<u64, u32>,
}

impl Numbers {
    /// The stored numbers. Blocks. Errors: `File`.
    pub(super) fn load(file: &ConfigFile) -> Result<Numbers> {
        let what = "use the numbers of NFS exports";
        let path = path_of(file, "numbers");
        let text = match &path {
            Some(path) => read(path, what)?.unwrap_or_default(),
            None => String::new(),
        };
        let mut numbers = BTreeMap::new();
        for line in text.lines() {
            let parsed = line.split_once(' ').and_then(|(number, guid)| {
                Some((u64::from_str_radix(guid, 16).ok()?, number.parse().ok()?))
            });
            match (parsed, &path) {
                (Some((guid, number)), _) => drop(numbers.insert(guid, number)),
                (None, Some(path)) => return Err(damaged(path, what)),
                (None, None) => {}
            }
        }
        Ok(Numbers { path, numbers })
    }

    /// The number of a filesystem; a new one is stored. Blocks. Errors: `File`, `Conflict` if there are too many.
    pub(super) fn of(&mut self, guid: u64) -> Result<u32> {
        if let Some(number) = self.numbers.get(&guid) {
            return Ok(*number);
        }
        if self.numbers.len() >= NUMBERS_MAX {
            return Err(Error::Conflict(format!(
                "{NUMBERS_MAX} filesystems were exported over NFS already: no number is left"
            )));
        }
        let number = self.numbers.values().max().map_or(1, |last| last + 1);
        let mut next = self.numbers.clone();
        next.insert(guid, number);
        if let Some(path) = &self.path {
            let mut text = String::new();
            for (guid, number) in &next {
                let _ = writeln!(text, "{number} {guid:016x}");
            }
            durable::replace(path, text.as_bytes())
                .map_err(|e| failed("store the number of an NFS export", path, e))?;
        }
        self.numbers = next;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stored_and_never_used_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut numbers = Numbers {
            path: Some(dir.path().join("numbers")),
            numbers: BTreeMap::new(),
        };
        assert_eq!(numbers.of(7).expect("stored"), 1);
        assert_eq!(numbers.of(5).expect("stored"), 2);
        assert_eq!(numbers.of(7).expect("known"), 1);
        let text = std::fs::read_to_string(dir.path().join("numbers")).expect("read");
        assert_eq!(text, "2 0000000000000005\n1 0000000000000007\n");
        std::fs::create_dir(dir.path().join(".numbers.new")).expect("in the way");
        numbers.of(9).expect_err("not stored");
        std::fs::remove_dir(dir.path().join(".numbers.new")).expect("removed");
        assert_eq!(numbers.of(8).expect("stored"), 3);
    }
}
