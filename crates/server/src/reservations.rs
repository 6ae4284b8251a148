//! Storage of persistent reservations across restarts.
//!
//! **Owns** the files in `STATE_DIR/reservations`, one per namespace or logical unit, named by a UUID computed from
//! the subsystem's or target's name, the number and its UUID, so that another export never inherits them. **Called
//! by** the protocols' targets, through their stores, off the data path. **Invariants**: a file is replaced atomically and
//! durably. NVMe Base 8.19 (persist through power loss), SPC-4 5.13.5 (APTPL).

use crate::config::{ConfigFile, UUID_SPACE};
use crate::durable;
use scsi::{NoReservationStore, ReservationStore};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The reservations of one namespace or logical unit.
#[derive(Debug)]
pub(crate) struct ReservationFile {
    path: PathBuf,
}

/// Stores the reservations of the namespace or logical unit `number` of the subsystem or target `name`; a configuration
/// without a file stores nothing.
pub(crate) fn store(
    file: &ConfigFile,
    name: impl Display,
    number: u32,
    uuid: Uuid,
) -> Arc<dyn ReservationStore> {
    if !file.is_stored() {
        return Arc::new(NoReservationStore);
    }
    let dir = &file.config().server.state_dir;
    Arc::new(ReservationFile::of(dir, name, number, uuid))
}

/// The directory of all of them.
pub(crate) fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("reservations")
}

impl ReservationFile {
    pub(crate) fn of(
        state_dir: &Path,
        name: impl Display,
        number: u32,
        uuid: Uuid,
    ) -> ReservationFile {
        let id = Uuid::new_v5(&UUID_SPACE, format!("{name}\n{number}\n{uuid}").as_bytes());
        ReservationFile {
            path: directory(state_dir).join(id.to_string()),
        }
    }

    /// Deletes the reservations of a removed namespace. Blocks.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl ReservationStore for ReservationFile {
    fn load(&self) -> Option<Vec<u8>> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                // An unreadable file must not be taken for no reservations.
                tracing::error!(file = %self.path.display(), error = %e, "reservations cannot be read");
                Some(Vec::new())
            }
        }
    }

    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        durable::replace(&self.path, bytes)
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory(dir.path())).expect("mkdir");
        let nqn = "nqn.2026-01.org.example:a";
        let at = |nsid, uuid| ReservationFile::of(dir.path(), nqn, nsid, Uuid::from_u128(uuid));
        assert_eq!(at(1, 1).load(), None);
        at(1, 1).save(b"held").expect("save");
        assert_eq!(at(1, 1).load().as_deref(), Some(&b"held"[..]));
        assert_eq!((at(2, 1).load(), at(1, 2).load()), (None, None));
        assert!(at(1, 1).place().contains("reservations/"));
        at(1, 1).remove().expect("remove");
        at(1, 1).remove().expect("nothing to remove is no error");
        assert_eq!(at(1, 1).load(), None);
    }
}
