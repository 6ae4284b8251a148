//! The opening of filesystems for their users.
//!
//! **Owns** the opening. **Called by** mounts, and by every other way to the files. **Invariant**: a filesystem is opened by its
//! first user, and its other users get the same one.

use super::snapshots::PoolSnapshots;
use super::users::{FilesystemUser, OpenFilesystem, User};
use crate::pools::change::failed;
use crate::pools::names::names;
use crate::server::Server;
use crate::{Error, Result};
use pool::filesystem::FileSystem;
use pool::format::DatasetKind;
use pool::{FileStore, Pool};
use std::rc::Rc;

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
        let opened = Rc::new(OpenFilesystem::new(live, snapshots, orphans));
        let mut state = self.state.borrow_mut();
        let open = &mut state.filesystems.open;
        open.retain(|_, opened| opened.strong_count() > 0);
        open.insert(full.to_owned(), Rc::downgrade(&opened));
        Ok(opened)
    }

    fn open_filesystem(&self, full: &str) -> Option<Rc<OpenFilesystem>> {
        self.state.borrow().filesystems.open.get(full)?.upgrade()
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
        match opened.other_use() {
            None => Ok(()),
            Some(words) => Err(Error::Conflict(format!(
                "the filesystem {full:?} is in use: {words}"
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
