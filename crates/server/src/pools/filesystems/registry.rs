//! The filesystems of a server: open ones, mounts and exports.
//!
//! **Owns** their entries; the tasks of an entry end with it. **Called by** the server, and by the operations beside this file.
//! **Invariant**: each mount and each export of the configuration has an entry, in use or not.

use super::users::{FilesystemUser, OpenFilesystem};
use fuse::Mount;
use io::JoinHandle;
use io::sync::Notify;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A mounted filesystem.
pub(super) struct Mounted {
    pub(super) mount: Arc<Mount>,
    /// The use ends after the mount.
    pub(super) _user: FilesystemUser,
}

/// State of a mount of the configuration.
pub(super) enum MountState {
    /// Its pool is being opened for the first time, or the first attempt to mount is under way.
    Opening,
    /// It is mounted.
    Mounted(Mounted),
    /// It is not mounted.
    Held {
        /// The reason, for people.
        reason: String,
        /// Whether the server tries again.
        is_retried: bool,
    },
}

/// A mount of the configuration, with its supervisor.
pub(super) struct MountEntry {
    pub(super) state: MountState,
    pub(super) wake: Rc<Notify>,
    pub(super) supervisor: JoinHandle<()>,
}

impl Drop for MountEntry {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

/// State of an exported filesystem.
pub(super) enum ExportState {
    /// Its pool is being opened for the first time.
    Opening,
    /// It is open and published.
    Online {
        /// The use ends with the export.
        _user: FilesystemUser,
    },
    /// It could not be opened or published. The server tries again.
    Held,
}

/// A filesystem that the configuration exports, with its supervisor.
pub(super) struct FilesystemExport {
    pub(super) state: ExportState,
    pub(super) wake: Rc<Notify>,
    pub(super) supervisor: JoinHandle<()>,
}

impl Drop for FilesystemExport {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl FilesystemExport {
    /// Whether the first attempt to publish it is still to come.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, ExportState::Opening)
    }
}

/// Open filesystems, and the mounts and exports of the configuration.
#[derive(Default)]
pub(crate) struct Filesystems {
    /// By full name.
    pub(super) open: BTreeMap<String, Weak<OpenFilesystem>>,
    /// The mounts of the configuration, by filesystem.
    pub(super) mounts: BTreeMap<String, MountEntry>,
    /// Mounts that were unmounted while files were open.
    pub(super) detached: Vec<Mounted>,
    /// The filesystems that the configuration or a property exports, by name.
    pub(super) exports: BTreeMap<String, FilesystemExport>,
}

impl Filesystems {
    /// Whether one of them is mounted or exported for the first time since the start.
    pub(crate) fn is_one_opening(&self) -> bool {
        let mut mounts = self.mounts.values();
        let mut exports = self.exports.values();
        mounts.any(|mount| matches!(mount.state, MountState::Opening))
            || exports.any(FilesystemExport::is_opening)
    }
}
