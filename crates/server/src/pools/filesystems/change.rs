//! Live changes of filesystems, but for their creation.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; a filesystem with users
//! keeps its name and its data. The pool stores filesystems.

use crate::api::{
    self, DestroyFilesystem, PromoteFilesystem, RenameFilesystem, RollbackFilesystem,
};
use crate::pools::dependents;
use crate::pools::entry::filesystems_of;
use crate::pools::names::{is_at, names, split};
use crate::pools::snapshots::failed;
use crate::server::Server;
use crate::{Error, Result};

impl Server {
    /// See [`DestroyFilesystem`].
    pub async fn destroy_filesystem(&self, request: DestroyFilesystem) -> Result<()> {
        let _turn = self.turn().await?;
        let full = &request.name;
        let (pool_name, name) = names(full)?;
        let (pool, _) = self.filesystem_named(full)?;
        self.check_unused(full).await?;
        let all = match request.recursive {
            true => self.tree(&pool, pool_name, name),
            false => vec![full.clone()],
        };
        self.check_not_exported(&all)?;
        if !request.recursive
            && let Some(text) = dependents::of_dataset(&pool, pool_name, name)
        {
            return Err(Error::Conflict(text));
        }
        if !request.force {
            let also = match request.recursive {
                true => ", its snapshots and all datasets below it",
                false => "",
            };
            return Err(Error::Conflict(format!(
                "this destroys the filesystem {full:?} with all its files{also}: use -f to confirm"
            )));
        }
        self.destroy_dataset(&pool, full, &all, request.recursive)
            .await
    }

    /// See [`RenameFilesystem`].
    pub async fn rename_filesystem(&self, request: RenameFilesystem) -> Result<api::Filesystem> {
        let _turn = self.turn().await?;
        let RenameFilesystem { name: full, new } = request;
        let (pool, _) = self.filesystem_named(&full)?;
        let (pool_name, name) = names(&full)?;
        let (new_pool, new_name) = names(&new)?;
        if new_pool != pool_name {
            return Err(Error::Invalid(format!(
                "a filesystem cannot move to another pool: use {pool_name}/{new_name}"
            )));
        }
        self.check_unused(&full).await?;
        self.withdraw_shares(|other| is_at(other, &full));
        let renamed = pool.rename_volume(name, new_name).await;
        self.shares_changed();
        renamed.map_err(|e| failed(pool_name, &new, e))?;
        self.filesystem_view(&new)
    }

    /// See [`PromoteFilesystem`].
    pub async fn promote_filesystem(&self, request: PromoteFilesystem) -> Result<api::Filesystem> {
        let _turn = self.turn().await?;
        let full = request.name;
        let (pool, _) = self.filesystem_named(&full)?;
        let (pool_name, name) = names(&full)?;
        let origin = filesystems_of(&pool)
            .into_iter()
            .find(|f| f.dataset().name == name)
            .and_then(|f| pool.origin(&f));
        pool.promote(name).await.map_err(|e| match e {
            pool::Error::NotAClone => {
                Error::Conflict(format!("the filesystem {full:?} is not a clone"))
            }
            pool::Error::Exists => Error::Conflict(format!(
                "{full:?} has a snapshot of the same name as one that it would get: rename one of them first"
            )),
            e => failed(pool_name, &full, e),
        })?;
        self.renew_snapshots(&pool, &full);
        if let Some((of, _)) = origin {
            self.renew_snapshots(&pool, &crate::pools::entry::full_name(pool_name, &of));
        }
        self.filesystem_view(&full)
    }

    /// See [`RollbackFilesystem`].
    pub async fn rollback_filesystem(
        &self,
        request: RollbackFilesystem,
    ) -> Result<api::Filesystem> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.snapshot)?;
        let (pool, _) = self.filesystem_named(full)?;
        let (pool_name, filesystem) = names(full)?;
        if pool.filesystem_snapshot(filesystem, name).is_none() {
            return Err(Error::NoSnapshot(request.snapshot));
        }
        self.check_unused(full).await?;
        if !request.force {
            return Err(Error::Conflict(format!(
                "this loses all changes of {full:?} since {name:?}: use -f to confirm"
            )));
        }
        self.recall_shares(full).await;
        self.withdraw_shares(|other| other == full);
        let back = pool.roll_back(filesystem, name).await;
        self.shares_changed();
        back.map_err(|e| failed(pool_name, &request.snapshot, e))?;
        self.filesystem_view(full)
    }
}
