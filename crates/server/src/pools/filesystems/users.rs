//! Users of an open filesystem.
//!
//! **Owns** the list of a filesystem's users. **Called by** the opening of filesystems. **Invariants**: a filesystem is closed
//! after its last user; two users have the same [`FileSystem`], so that locks, holds and turns are shared; a user that must be
//! alone has no others beside it.

use super::snapshots::PoolSnapshots;
use crate::{Error, Result};
use io::JoinHandle;
use pool::FileStore;
use pool::filesystem::{FileSystem, SnapshotDirectory};
use pool::format::Switches;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// A filesystem with its snapshots below `.zfs/snapshot`, as users have it.
pub(crate) type Files = SnapshotDirectory<FileSystem<FileStore>, PoolSnapshots>;

/// An open filesystem.
pub(crate) struct OpenFilesystem {
    files: Files,
    pub(super) live: FileSystem<FileStore>,
    pub(super) snapshots: PoolSnapshots,
    /// Frees the space of removed files; none if the pool is read-only.
    orphans: Option<JoinHandle<()>>,
    users: RefCell<BTreeMap<u64, User>>,
    next_user: Cell<u64>,
}

impl Drop for OpenFilesystem {
    fn drop(&mut self) {
        if let Some(task) = &self.orphans {
            task.abort();
        }
    }
}

/// A present user.
pub(super) struct User {
    /// Such as `mounted at /mnt/home`.
    pub(super) words: String,
    /// Whether it keeps changes and knowledge back, so that no one else may use the filesystem.
    pub(super) is_alone: bool,
    /// Whether it is an export. One by property ends when the filesystem is to be destroyed, renamed or rolled back.
    pub(super) is_export: bool,
}

/// A user of an open filesystem; its use ends when it is dropped.
pub struct FilesystemUser {
    of: Rc<OpenFilesystem>,
    number: u64,
}

impl FilesystemUser {
    /// The filesystem, which any shard may use.
    #[must_use]
    pub fn files(&self) -> impl backend::file::FileBackend + Clone + use<> {
        self.of.files.clone()
    }

    /// The properties of the filesystem with two values, as they are now.
    #[must_use]
    pub fn switches(&self) -> Switches {
        self.of.snapshots.switches()
    }
}

impl Drop for FilesystemUser {
    fn drop(&mut self) {
        self.of.users.borrow_mut().remove(&self.number);
    }
}

impl fmt::Debug for FilesystemUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.of.users.borrow();
        let words = users.get(&self.number).map_or("", |user| &user.words);
        write!(f, "FilesystemUser({words})")
    }
}

impl OpenFilesystem {
    /// A filesystem without users. `orphans` frees the space of removed files.
    pub(super) fn new(
        live: FileSystem<FileStore>,
        snapshots: PoolSnapshots,
        orphans: Option<JoinHandle<()>>,
    ) -> OpenFilesystem {
        OpenFilesystem {
            files: SnapshotDirectory::new(live.clone(), snapshots.clone()),
            live,
            snapshots,
            orphans,
            users: RefCell::default(),
            next_user: Cell::new(0),
        }
    }

    /// What a user other than an export does with it, if there is one.
    pub(super) fn other_use(&self) -> Option<String> {
        let users = self.users.borrow();
        let other = users.values().find(|user| !user.is_export);
        other.map(|user| user.words.clone())
    }

    /// Errors: `Conflict` if there are other users, and the new one or one of them must be alone.
    pub(super) fn user(self: &Rc<Self>, full: &str, new: User) -> Result<FilesystemUser> {
        let mut users = self.users.borrow_mut();
        let alone = users.values().find(|user| user.is_alone);
        if let Some(user) = alone {
            return Err(Error::Conflict(format!(
                "the filesystem {full:?} is {}, and not shared: unmount it, and mount it with -o shared",
                user.words
            )));
        }
        if let (true, Some(user)) = (new.is_alone, users.values().next()) {
            return Err(Error::Conflict(format!(
                "the filesystem {full:?} is in use: {}: mount it with -o shared",
                user.words
            )));
        }
        let number = self.next_user.get();
        self.next_user.set(number + 1);
        users.insert(number, new);
        Ok(FilesystemUser {
            of: self.clone(),
            number,
        })
    }
}
