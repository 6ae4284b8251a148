//! Open filesystems and their users.
//!
//! **Owns** the list of a filesystem's users. **Called by** mounts, and by every other way to the files. **Invariants**: a
//! filesystem is opened by its first user and closed after the last one; two users have the same [`FileSystem`], so that locks,
//! holds and turns are shared; a user that must be alone has no others beside it.

use super::snapshots::PoolSnapshots;
use crate::pools::change::failed;
use crate::pools::names::names;
use crate::server::Server;
use crate::{Error, Result};
use io::JoinHandle;
use pool::filesystem::{FileSystem, SnapshotDirectory};
use pool::format::{DatasetKind, Switches};
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
    live: FileSystem<FileStore>,
    snapshots: PoolSnapshots,
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
struct User {
    /// Such as `mounted at /mnt/home`.
    words: String,
    /// Whether it keeps changes and knowledge back, so that no one else may use the filesystem.
    is_alone: bool,
    /// Whether it is an export. One by property ends when the filesystem is to be destroyed, renamed or rolled back.
    is_export: bool,
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
    /// Errors: `Conflict` if there are other users, and the new one or one of them must be alone.
    fn user(self: &Rc<Self>, full: &str, new: User) -> Result<FilesystemUser> {
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

impl Server {
    /// A volume or filesystem of a pool that may be changed. Errors: `Invalid`, `NoPool`, `Pool`, `Conflict`, `NoDataset`.
    pub(in crate::pools) fn dataset_named(&self, full: &str) -> Result<(Rc<Pool>, DatasetKind)> {
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

    /// Begins to use a filesystem beside others; `words` says how, such as `exported`. The caller has the turn for changes, or
    /// knows that nothing else opens it. Errors: `Conflict` if a user is alone, `Invalid` if it is a volume, `NoPool`, `Pool`,
    /// `NoFilesystem`.
    pub async fn use_filesystem(&self, full: &str, words: String) -> Result<FilesystemUser> {
        let user = User {
            words,
            is_alone: false,
            is_export: false,
        };
        self.begin_use(full, user).await
    }

    /// As [`Server::use_filesystem`], for an export.
    pub(super) async fn use_filesystem_to_export(&self, full: &str) -> Result<FilesystemUser> {
        let user = User {
            words: "exported".to_owned(),
            is_alone: false,
            is_export: true,
        };
        self.begin_use(full, user).await
    }

    /// As [`Server::use_filesystem`], without others as long as it lasts. Errors: `Conflict` also if there is a user.
    pub(super) async fn use_filesystem_alone(
        &self,
        full: &str,
        words: String,
    ) -> Result<FilesystemUser> {
        let user = User {
            words,
            is_alone: true,
            is_export: false,
        };
        self.begin_use(full, user).await
    }

    async fn begin_use(&self, full: &str, new: User) -> Result<FilesystemUser> {
        self.opened_filesystem(full).await?.user(full, new)
    }

    /// Counts the space of a filesystem's files where it is not exact, beside all users. Returns the number of such files. Errors:
    /// `NoFilesystem`, `Pool`.
    pub(in crate::pools) async fn count_space(&self, full: &str) -> Result<u64> {
        let opened = {
            let _turn = self.turn().await?;
            self.opened_filesystem(full).await?
        };
        let counted = opened.live.count_space().await;
        counted.map_err(|e| failed(full, e.to_string()))
    }

    /// The open filesystem, which is opened if nobody uses it.
    async fn opened_filesystem(&self, full: &str) -> Result<Rc<OpenFilesystem>> {
        if let Some(opened) = self.open_filesystem(full) {
            return Ok(opened);
        }
        let (pool_name, name) = names(full)?;
        let pool = self.readable_pool(pool_name)?;
        let store = filesystem_of(&pool, full)?;
        let id = store.dataset().guid;
        let snapshots = PoolSnapshots::of(store.clone());
        let opened = FileSystem::open(store, id).await;
        let live = opened.map_err(|e| failed(pool_name, format!("{full:?}: {e}")))?;
        let orphans = match pool.vdevs().is_read_only() {
            true => None,
            false => Some(io::spawn(live.clone().free_orphans())),
        };
        snapshots.renew(&pool, name);
        let opened = Rc::new(OpenFilesystem {
            files: SnapshotDirectory::new(live.clone(), snapshots.clone()),
            live,
            snapshots,
            orphans,
            users: RefCell::default(),
            next_user: Cell::new(0),
        });
        let mut state = self.state.borrow_mut();
        let filesystems = &mut state.filesystems;
        filesystems.retain(|_, opened| opened.strong_count() > 0);
        filesystems.insert(full.to_owned(), Rc::downgrade(&opened));
        Ok(opened)
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

    /// Errors: `Conflict` if a filesystem, or one below it, is mounted, shall be mounted, is exported by the configuration, or has
    /// other users but for exports by property.
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
        match users.values().find(|user| !user.is_export) {
            None => Ok(()),
            Some(user) => Err(Error::Conflict(format!(
                "the filesystem {full:?} is in use: {}",
                user.words
            ))),
        }
    }
}

fn class_of(pool: &Pool, name: &str) -> Option<DatasetKind> {
    let filesystem = || Some(pool.filesystem(name)?.dataset().kind);
    let volume = || Some(pool.volume(name)?.dataset().kind);
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
