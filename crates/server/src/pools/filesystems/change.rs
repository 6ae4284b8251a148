//! Live changes of filesystems.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; a filesystem with users
//! keeps its name and its data. The pool stores filesystems.

use crate::api::{
    self, CreateFilesystem, DestroyFilesystem, PromoteFilesystem, RenameFilesystem,
    RollbackFilesystem, SYNC_DISABLED, VolumeSync,
};
use crate::limits::FILESYSTEMS_MAX;
use crate::pools::entry::filesystems_of;
use crate::pools::lineage::limits_failed;
use crate::pools::names::{names, split};
use crate::pools::snapshots::failed;
use crate::pools::volumes::{RECORD_SIZES, checksum, compression, own_properties};
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use pool::NewFilesystem;
use pool::filesystem::NewFileSystem;
use pool::format::Sync;

impl Server {
    /// See [`CreateFilesystem`]. Errors: `Invalid`, `Conflict`, `NoPool`, `Pool`. The same holds for the other changes.
    pub async fn create_filesystem(&self, request: CreateFilesystem) -> Result<api::Filesystem> {
        let _turn = self.turn().await?;
        let full = &request.name;
        let (pool_name, name) = names(full)?;
        let pool = self.pool_named(pool_name)?;
        let new = self.new_filesystem(&request, name, pool.vdevs().sector())?;
        if filesystems_of(&pool).len() >= FILESYSTEMS_MAX {
            return Err(Error::Conflict(format!(
                "the pool {pool_name:?} has {FILESYSTEMS_MAX} filesystems: destroy one first"
            )));
        }
        let own = own_properties(
            request.sync,
            request.compression.as_ref(),
            request.checksum.as_ref(),
        );
        let made = pool.create_filesystem_with(new, &own).await;
        made.map_err(|e| failed(pool_name, full, e))?;
        let limit = |size: Option<ByteSize>| size.map_or(0, |size| size.0);
        let (quota, reservation) = (limit(request.quota), limit(request.reservation));
        if let Err(e) = pool.set_limits(name, quota, reservation).await {
            let _unmade = pool.destroy_volume(name).await;
            return Err(limits_failed(pool_name, full, e));
        }
        if request.sync == Some(VolumeSync::Disabled) {
            tracing::warn!(filesystem = full, "{SYNC_DISABLED}");
        }
        self.filesystem_view(full)
    }

    /// The properties of a new filesystem. Its root directory belongs to the server's user. Errors: `Invalid`.
    fn new_filesystem(
        &self,
        request: &CreateFilesystem,
        name: &str,
        sector: u32,
    ) -> Result<NewFilesystem> {
        let mut new = NewFilesystem::new(name);
        if let Some(size) = request.record_size {
            if !size.0.is_power_of_two() || !RECORD_SIZES.contains(&size.0) {
                return Err(Error::Invalid(format!(
                    "the record size is a power of two from 4K to 1M, not {size}"
                )));
            }
            if size.0 < u64::from(sector) {
                return Err(Error::Invalid(format!(
                    "the pool's disks have sectors of {}: a record has as many bytes or more",
                    ByteSize(sector.into())
                )));
            }
            new.record_size = size.0 as u32;
        }
        new.sync = match request.sync.unwrap_or_default() {
            VolumeSync::Standard => Sync::Standard,
            VolumeSync::Always => Sync::Always,
            VolumeSync::Disabled => Sync::Disabled,
        };
        if let Some(text) = &request.compression {
            new.compression = compression(text)?;
        }
        if let Some(text) = &request.checksum {
            new.checksum = checksum(text)?;
        }
        let (uid, gid) = match self.state_dir() {
            Some(_) => io::linux::user_and_group(),
            None => (0, 0),
        };
        new.root = NewFileSystem {
            is_case_insensitive: request.case_insensitive,
            uid,
            gid,
            ..NewFileSystem::default()
        };
        Ok(new)
    }

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
        let snapshots = pool.snapshots(name).len();
        if !request.recursive && snapshots > 0 {
            return Err(Error::Conflict(format!(
                "the filesystem {full:?} has {snapshots} snapshots: use -r to destroy them, too"
            )));
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
        let renamed = pool.rename_volume(name, new_name).await;
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
        let back = pool.roll_back(filesystem, name).await;
        back.map_err(|e| failed(pool_name, &request.snapshot, e))?;
        self.filesystem_view(full)
    }
}
