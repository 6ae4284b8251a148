//! Open filesystems and their users.
//!
//! **Owns** the list of a filesystem's users. **Called by** mounts, and by every other way to the files. **Invariants**: a
//! filesystem is opened by its first user and closed after the last one; two users have the same [`FileSystem`], so that locks,
//! holds and turns are shared.

use super::snapshots::PoolSnapshots;
use crate::pools::change::failed;
use crate::pools::names::names;
use crate::server::Server;
use crate::{Error, Result};
use io::JoinHandle;
use pool::filesystem::{FileSystem, SnapshotDirectory};
use pool::format::DatasetClass;
use pool::{FileStore, Pool};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// A filesystem with its snapshots below `.zfs/snapshot`, as users have it.
pub(crate) type Files = SnapshotDirectory<FileSystem<FileStore>, PoolSnapshots>;

/// An open filesystem.
pub(crate) struct OpenFilesystem {
    files: Files,
    snapshots: PoolSnapshots,
    /// Frees the space of removed files; none if the pool is read-only.
    orphans: Option<JoinHandle<()>>,
    /// The present users, in words.
    users: RefCell<BTreeMap<u64, String>>,
    next_user: Cell<u64>,
}

impl Drop for OpenFilesystem {
    fn drop(&mut self) {
        if let Some(task) = &self.orphans {
            task.abort();
        }
    }
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
}

impl Drop for FilesystemUser {
    fn drop(&mut self) {
        self.of.users.borrow_mut().remove(&self.number);
    }
}

impl fmt::Debug for FilesystemUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.of.users.borrow();
        let words = users.get(&self.number).map_or("", String::as_str);
        write!(f, "FilesystemUser({words})")
    }
}

impl OpenFilesystem {
    fn user(self: &Rc<Self>, words: String) -> FilesystemUser {
        let number = self.next_user.get();
        self.next_user.set(number + 1);
        self.users.borrow_mut().insert(number, words);
        FilesystemUser {
            of: self.clone(),
            number,
        }
    }
}

impl Server {
    /// A volume or filesystem of a pool that may be changed. Errors: `Invalid`, `NoPool`, `Pool`, `Conflict`, `NoDataset`.
    pub(in crate::pools) fn dataset_named(&self, full: &str) -> Result<(Rc<Pool>, DatasetClass)> {
        let (pool_name, name) = names(full)?;
        let pool = self.pool_named(pool_name)?;
        let class = class_of(&pool, name).ok_or_else(|| Error::NoDataset(full.to_owned()))?;
        Ok((pool, class))
    }

    /// A filesystem of a pool that may be changed. Errors: `Invalid` if it is a volume, `NoPool`, `Pool`, `Conflict`,
    /// `NoFilesystem`.
    pub(in crate::pools) fn filesystem_named(&self, full: &str) -> Result<(Rc<Pool>, FileStore)> {
        let (pool_name, _) = names(full)?;
        let pool = self.pool_named(pool_name)?;
        let store = filesystem_of(&pool, full)?;
        Ok((pool, store))
    }

    /// Begins to use a filesystem; `words` says how, such as `mounted at /mnt/home`. The caller has the turn for changes, or knows
    /// that nothing else opens it. Errors: `Invalid` if it is a volume, `NoPool`, `Pool`, `NoFilesystem`.
    pub async fn use_filesystem(&self, full: &str, words: String) -> Result<FilesystemUser> {
        if let Some(opened) = self.open_filesystem(full) {
            return Ok(opened.user(words));
        }
        let (pool_name, name) = names(full)?;
        let pool = self.readable_pool(pool_name)?;
        let store = filesystem_of(&pool, full)?;
        let id = store.dataset().guid;
        let opened = FileSystem::open(store, id).await;
        let live = opened.map_err(|e| failed(pool_name, format!("{full:?}: {e}")))?;
        let orphans = match pool.vdevs().is_read_only() {
            true => None,
            false => Some(io::spawn(live.clone().free_orphans())),
        };
        let snapshots = PoolSnapshots::default();
        snapshots.renew(&pool, name);
        let opened = Rc::new(OpenFilesystem {
            files: SnapshotDirectory::new(live, snapshots.clone()),
            snapshots,
            orphans,
            users: RefCell::default(),
            next_user: Cell::new(0),
        });
        let mut state = self.state.borrow_mut();
        let filesystems = &mut state.filesystems;
        filesystems.retain(|_, opened| opened.strong_count() > 0);
        filesystems.insert(full.to_owned(), Rc::downgrade(&opened));
        Ok(opened.user(words))
    }

    fn open_filesystem(&self, full: &str) -> Option<Rc<OpenFilesystem>> {
        self.state.borrow().filesystems.get(full)?.upgrade()
    }

    /// Renews the list of snapshots that the users of a filesystem see.
    pub(in crate::pools) fn renew_snapshots(&self, pool: &Pool, full: &str) {
        if let (Some(opened), Ok((_, name))) = (self.open_filesystem(full), names(full)) {
            opened.snapshots.renew(pool, name);
        }
    }

    /// Errors: `Conflict` if a filesystem, or one below it, is mounted, shall be mounted, is exported, or has other users.
    pub(in crate::pools) async fn check_unused(&self, full: &str) -> Result<()> {
        self.forget_detached().await;
        let below = format!("{full}/");
        let others = self.filesystems().into_iter().map(|other| other.name);
        let others = others.filter(|other| other.starts_with(&below));
        for name in std::iter::once(full.to_owned()).chain(others) {
            self.check_one_unused(&name)?;
        }
        Ok(())
    }

    fn check_one_unused(&self, full: &str) -> Result<()> {
        if let Some(mount) = self.state.borrow().file.config().mount_of(full) {
            return Err(Error::Conflict(format!(
                "the filesystem {full:?} is mounted at {}: `wirepool fs unmount {full}` first",
                mount.at.display()
            )));
        }
        if let Some(export) = self.state.borrow().file.config().exported_as(full) {
            return Err(Error::Conflict(format!(
                "the filesystem {full:?} is exported as {export}: `{}` first",
                export.removal
            )));
        }
        let Some(opened) = self.open_filesystem(full) else {
            return Ok(());
        };
        let users = opened.users.borrow();
        match users.values().next() {
            None => Ok(()),
            Some(user) => Err(Error::Conflict(format!(
                "the filesystem {full:?} is in use: {user}"
            ))),
        }
    }
}

fn class_of(pool: &Pool, name: &str) -> Option<DatasetClass> {
    let filesystem = || Some(pool.filesystem(name)?.dataset().class);
    let volume = || Some(pool.volume(name)?.dataset().class);
    filesystem().or_else(volume)
}

fn filesystem_of(pool: &Pool, full: &str) -> Result<FileStore> {
    let (_, name) = names(full)?;
    pool.filesystem(name)
        .ok_or_else(|| match pool.volume(name) {
            Some(_) => Error::Invalid(format!(
                "{full:?} is a volume, not a filesystem: see `wirepool volume --help`"
            )),
            None => Error::NoFilesystem(full.to_owned()),
        })
}
