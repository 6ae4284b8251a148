//! The file of the console's users.
//!
//! **Owns** `STATE_DIR/console/users.json`: name, hash of the password, time of the last change. **Called by** [`super::Accounts`].
//! **Invariants**: the file is readable by its owner only and replaced atomically; it is read for each use, so that an operator may repair it
//! without a restart; a file that cannot be read is never overwritten. Every method blocks.

use super::password::Hash;
use crate::api::UserRole;
use crate::limits::{CONSOLE_USER_LEN_MAX, CONSOLE_USERS_MAX};
use crate::{Error, Result, durable};
use io::sync::lock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self as std_io, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Directory of the console below the state directory.
pub(crate) const DIRECTORY: &str = "console";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    changed_ms: u64,
    #[serde(default)]
    role: UserRole,
    argon2id: Hash,
}

type All = BTreeMap<String, Stored>;

/// The stored users.
pub(super) struct Users {
    path: PathBuf,
    /// One change at a time.
    changing: Mutex<()>,
}

impl Users {
    pub(super) fn new(state_dir: &Path) -> Users {
        Users {
            path: state_dir.join(DIRECTORY).join("users.json"),
            changing: Mutex::new(()),
        }
    }

    /// Names, and the times of the last change.
    pub(super) fn list(&self) -> Result<Vec<(String, u64, UserRole)>> {
        let all = self.read()?.into_iter();
        Ok(all
            .map(|(name, user)| (name, user.changed_ms, user.role))
            .collect())
    }

    /// Errors: `Invalid`, `Conflict`, `File`.
    pub(super) fn add(&self, name: &str, password: &str, role: UserRole) -> Result<()> {
        check_name(name)?;
        let hash = Hash::new(password)?;
        self.change(|all| {
            if all.contains_key(name) {
                let message = format!(
                    "the user {name:?} exists: `wirepool console user password {name}` changes the password"
                );
                return Err(Error::Conflict(message));
            }
            if all.len() == CONSOLE_USERS_MAX {
                let message = format!("there are at most {CONSOLE_USERS_MAX} users");
                return Err(Error::Conflict(message));
            }
            all.insert(name.to_owned(), stored(hash, role));
            Ok(())
        })
    }

    /// Errors: `Invalid`, `NoUser`, `File`.
    pub(super) fn set(&self, name: &str, password: &str) -> Result<()> {
        let hash = Hash::new(password)?;
        self.change(|all| match all.get_mut(name) {
            Some(user) => {
                *user = stored(hash, user.role);
                Ok(())
            }
            None => Err(Error::NoUser(name.to_owned())),
        })
    }

    /// Errors: `NoUser`, `File`.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        self.change(|all| match all.remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::NoUser(name.to_owned())),
        })
    }

    /// The role of the user with this name and password, if there is one. It takes the same time for a name that nobody has. Errors: `File`.
    pub(super) fn check(&self, name: &str, password: &str) -> Result<Option<UserRole>> {
        let user = self.read()?.remove(name);
        let role = user.as_ref().map(|user| user.role);
        let hash = user.map_or_else(Hash::of_nobody, |user| user.argon2id);
        let is_right = hash.is_of(password);
        Ok(role.filter(|_| is_right))
    }

    fn change(&self, change: impl FnOnce(&mut All) -> Result<()>) -> Result<()> {
        let _one = lock(&self.changing);
        let mut all = self.read()?;
        change(&mut all)?;
        self.write(&all).map_err(|e| self.failed("write", e))
    }

    fn read(&self) -> Result<All> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(All::new()),
            Err(e) => return Err(self.failed("read", e)),
        };
        serde_json::from_slice(&text).map_err(|e| self.failed("read", e.into()))
    }

    fn write(&self, all: &All) -> std_io::Result<()> {
        if let Some(dir) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        durable::replace(&self.path, &serde_json::to_vec_pretty(all)?)
    }

    fn failed(&self, verb: &str, source: std_io::Error) -> Error {
        Error::File {
            what: match verb {
                "read" => "read the users of the console",
                _ => "write the users of the console",
            },
            path: self.path.clone(),
            source,
        }
    }
}

fn stored(argon2id: Hash, role: UserRole) -> Stored {
    Stored {
        changed_ms: io::time::wall_clock_ms(),
        role,
        argon2id,
    }
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match (1..=CONSOLE_USER_LEN_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "the name of a user has 1 to {CONSOLE_USER_LEN_MAX} letters, digits, '.', '_' and '-'; found {name:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn users_are_stored_for_their_owner_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let users = Users::new(dir.path());
        assert!(
            users
                .check("ann", "long enough")
                .expect("no file")
                .is_none()
        );
        users
            .add("ann", "long enough", UserRole::Admin)
            .expect("added");
        users
            .add("eve", "only looks", UserRole::Reader)
            .expect("added");
        assert!(matches!(
            users.add("ann", "something else", UserRole::Admin),
            Err(Error::Conflict(_))
        ));
        for bad in ["", "a b", "<img>", "../x", &"x".repeat(33)] {
            assert!(matches!(
                users.add(bad, "long enough", UserRole::Admin),
                Err(Error::Invalid(_))
            ));
        }
        let path = dir.path().join("console/users.json");
        let mode = std::fs::metadata(&path).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(!text.contains("long enough"));

        let again = Users::new(dir.path());
        let role = |name, password| again.check(name, password).expect("read");
        assert_eq!(role("ann", "long enough"), Some(UserRole::Admin));
        assert_eq!(role("eve", "only looks"), Some(UserRole::Reader));
        assert_eq!(role("bob", "long enough"), None);
        again.set("ann", "even longer").expect("set");
        assert_eq!(role("ann", "long enough"), None);
        again.set("eve", "still looks").expect("set");
        assert_eq!(
            role("eve", "still looks"),
            Some(UserRole::Reader),
            "a new password keeps the role"
        );
        assert_eq!(role("ann", "even longer"), Some(UserRole::Admin));
        again.remove("ann").expect("removed");
        again.remove("eve").expect("removed");
        assert!(matches!(again.remove("ann"), Err(Error::NoUser(_))));
        assert!(matches!(
            again.set("ann", "long enough"),
            Err(Error::NoUser(_))
        ));
        assert!(again.list().expect("read").is_empty());
    }

    #[test]
    fn a_damaged_file_stays_and_lets_nobody_in() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("console/users.json");
        std::fs::create_dir(dir.path().join("console")).expect("made");
        std::fs::write(&path, "{\"ann\": {}}").expect("written");
        let users = Users::new(dir.path());
        assert!(users.check("ann", "").is_err());
        assert!(users.add("bob", "long enough", UserRole::Admin).is_err());
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(text, "{\"ann\": {}}");
    }
}
