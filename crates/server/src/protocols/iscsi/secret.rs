//! Storage of CHAP secrets.
//!
//! **Owns** the files in `STATE_DIR/chap`, one per secret, named by a UUID computed from its purpose. **Called by**
//! the start and by live changes. **Invariants**: a file is readable by its owner only (0600) and replaced
//! atomically; a secret is never logged and never part of an error.

use super::config::{ChapNames, SECRETS};
use super::limits::CHAP_SECRET_LEN;
use crate::config::{ConfigFile, UUID_SPACE};
use crate::durable;
use iscsi::login::{ChapPolicy, Credential, Secret};
use iscsi::wire::IscsiName;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The purpose of an authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Realm {
    /// Login to a target.
    Target(IscsiName),
    /// Discovery.
    Discovery,
}

impl fmt::Display for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Realm::Target(iqn) => f.write_str(iqn.as_str()),
            Realm::Discovery => f.write_str("discovery"),
        }
    }
}

/// The owner of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The initiators.
    Initiators,
    /// This server.
    Ours,
}

/// Path of one secret.
#[derive(Debug, Clone)]
pub(crate) struct SecretFile {
    path: PathBuf,
}

impl SecretFile {
    pub(super) fn of(state_dir: &Path, realm: &Realm, whose: Whose) -> SecretFile {
        // No target's name has a line end, and each begins with its type.
        let text = match whose {
            Whose::Initiators => realm.to_string(),
            Whose::Ours => format!("{realm}\nours"),
        };
        let id = Uuid::new_v5(&UUID_SPACE, text.as_bytes());
        SecretFile {
            path: state_dir.join(SECRETS).join(id.to_string()),
        }
    }

    /// Its bytes, if it exists. Blocks.
    pub(super) fn bytes(&self) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The secret, if only its owner can read it. Blocks. Errors: the reason, for people.
    pub(super) fn read(&self) -> Result<Secret, String> {
        let path = self.path.display();
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => format!("its secret is missing: {path} does not exist"),
            _ => format!("its secret cannot be read: {path}: {e}"),
        };
        let metadata = std::fs::metadata(&self.path).map_err(failed)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(format!(
                "others can read its secret: `chmod 600 {path}`, and choose another one"
            ));
        }
        if !CHAP_SECRET_LEN.contains(&usize::try_from(metadata.len()).unwrap_or(usize::MAX)) {
            return Err(format!("{path} holds no secret"));
        }
        std::fs::read(&self.path).map(Secret::new).map_err(failed)
    }

    /// Replaces the secret durably. Blocks.
    pub(super) fn write(&self, secret: &[u8]) -> io::Result<()> {
        durable::replace(&self.path, secret)
    }

    /// Deletes it. Blocks.
    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Restores `bytes`, or deletes it. Blocks.
    pub(super) fn restore(&self, bytes: Option<&[u8]>) -> io::Result<()> {
        match bytes {
            Some(bytes) => self.write(bytes),
            None => self.remove(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The secrets of these names. Blocks. Errors: the reason, for people.
pub(super) fn policy(
    file: &ConfigFile,
    realm: &Realm,
    names: Option<&ChapNames>,
) -> Result<Option<ChapPolicy>, String> {
    let Some(names) = names else { return Ok(None) };
    if !file.is_stored() {
        return Err("nothing keeps its secret".to_owned());
    }
    let dir = &file.config().server.state_dir;
    let credential = |name: &String, whose| {
        let secret = SecretFile::of(dir, realm, whose).read();
        secret.map(|secret| Credential {
            name: name.clone(),
            secret,
        })
    };
    let ours = names.target.as_ref().map(|n| credential(n, Whose::Ours));
    Ok(Some(ChapPolicy {
        initiator: credential(&names.initiator, Whose::Initiators)?,
        target: ours.transpose()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join(SECRETS)).expect("mkdir");
        let realm = |text| Realm::Target(IscsiName::new(text).expect("valid"));
        let a = realm("iqn.2026-01.org.example:a");
        let file = SecretFile::of(dir.path(), &a, Whose::Initiators);
        let missing = file.read().expect_err("there is none");
        assert!(missing.starts_with("its secret is missing"), "{missing}");
        file.write(b"twelve bytes").expect("write");
        assert_eq!(file.read(), Ok(Secret::new(*b"twelve bytes")));
        let mode = fs::metadata(file.path())
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(file.path(), Permissions::from_mode(0o640)).expect("chmod");
        assert!(
            file.read()
                .expect_err("open")
                .starts_with("others can read")
        );
        for (other, whose) in [
            (realm("iqn.2026-01.org.example:b"), Whose::Initiators),
            (a, Whose::Ours),
            (Realm::Discovery, Whose::Initiators),
            (Realm::Discovery, Whose::Ours),
        ] {
            let other = SecretFile::of(dir.path(), &other, whose);
            assert_eq!(other.bytes().expect("read"), None);
        }
        file.restore(None).expect("remove");
        assert_eq!(file.bytes().expect("read"), None);
    }
}
