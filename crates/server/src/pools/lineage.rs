//! Names, promotion, holds and limits of volumes and snapshots.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`super::volumes`]; an exported
//! volume keeps its name.

use super::entry::full_name;
use super::filesystems::check_snapshot_name;
use super::names::{names, split};
use super::snapshots::{failed, view_one};
use crate::api::{
    self, Hold, HoldSnapshot, ListHolds, PromoteVolume, ReleaseSnapshot, RenameSnapshot,
    RenameVolume,
};
use crate::server::Server;
use crate::{Error, Result};
use std::rc::Rc;
use std::sync::Arc;

impl Server {
    /// See [`RenameVolume`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoVolume`, `Pool`. The same holds for the
    /// others.
    pub async fn rename_volume(self: &Rc<Self>, request: RenameVolume) -> Result<api::Volume> {
        let _turn = self.turn().await?;
        let RenameVolume { name: full, new } = request;
        let (pool, _) = self.volume_named(&full)?;
        let (pool_name, name) = names(&full)?;
        let (new_pool, new_name) = names(&new)?;
        if new_pool != pool_name {
            return Err(Error::Invalid(format!(
                "a volume cannot move to another pool: use {pool_name}/{new_name}"
            )));
        }
        let all = self.tree(&pool, pool_name, name);
        self.check_not_exported(&all)?;
        let renamed = pool.rename_volume(name, new_name).await;
        renamed.map_err(|e| failed(pool_name, &new, e))?;
        for old in all {
            let gone = self.state.borrow_mut().disks.remove(&old);
            drop(gone);
        }
        for full in self.tree(&pool, pool_name, new_name) {
            let (_, name) = names(&full)?;
            if let Some(volume) = pool.volume(name) {
                self.keep(&full, Some(Arc::new(volume)));
            }
        }
        self.volume_view(&new)
    }

    /// See [`PromoteVolume`].
    pub async fn promote_volume(&self, request: PromoteVolume) -> Result<api::Volume> {
        let _turn = self.turn().await?;
        let full = request.name;
        let (pool, _) = self.volume_named(&full)?;
        let (pool_name, name) = names(&full)?;
        pool.promote(name).await.map_err(|e| match e {
            pool::Error::NotAClone => Error::Conflict(format!("the volume {full:?} is not a clone")),
            pool::Error::Exists => Error::Conflict(format!(
                "{full:?} has a snapshot of the same name as one that it would get: rename one of them first"
            )),
            e => failed(pool_name, &full, e),
        })?;
        self.volume_view(&full)
    }

    /// See [`RenameSnapshot`].
    pub async fn rename_snapshot(&self, request: RenameSnapshot) -> Result<api::Snapshot> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.name)?;
        let (pool, _) = self.dataset_named(full)?;
        let (pool_name, volume) = names(full)?;
        let new = match request.new.split_once('@') {
            Some((of, new)) if of == full => new,
            Some(_) => {
                return Err(Error::Invalid(format!(
                    "a snapshot cannot move to another volume or filesystem: use {full}@NAME"
                )));
            }
            None => &request.new,
        };
        check_snapshot_name(new)?;
        let renamed = pool.rename_snapshot(volume, name, new).await;
        renamed.map_err(|e| match e {
            pool::Error::NotFound => Error::NoSnapshot(request.name.clone()),
            e => failed(pool_name, &format!("{full}@{new}"), e),
        })?;
        self.renew_snapshots(&pool, full);
        let found = pool.snapshot(volume, new);
        let found = found.ok_or_else(|| Error::NoSnapshot(request.name.clone()))?;
        Ok(view_one(&pool, volume, &found).await)
    }

    /// See [`HoldSnapshot`].
    pub async fn hold_snapshot(&self, request: HoldSnapshot) -> Result<Vec<Hold>> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.name)?;
        let (pool, _) = self.dataset_named(full)?;
        let (pool_name, volume) = names(full)?;
        let held = pool.hold(volume, name, &request.tag).await;
        held.map_err(|e| match e {
            pool::Error::Exists => Error::Conflict(format!(
                "{:?} is held as {:?} already",
                request.name, request.tag
            )),
            pool::Error::Busy => Error::Conflict(format!("{:?} has too many holds", request.name)),
            e => failed(pool_name, &request.name, e),
        })?;
        holds(&pool, &request.name)
    }

    /// See [`ReleaseSnapshot`].
    pub async fn release_snapshot(&self, request: ReleaseSnapshot) -> Result<Vec<Hold>> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.name)?;
        let (pool, _) = self.dataset_named(full)?;
        let (pool_name, volume) = names(full)?;
        let released = pool.release(volume, name, &request.tag).await;
        released.map_err(|e| match e {
            pool::Error::NoHold => Error::Conflict(format!(
                "{:?} is not held as {:?}",
                request.name, request.tag
            )),
            e => failed(pool_name, &request.name, e),
        })?;
        holds(&pool, &request.name)
    }

    /// See [`ListHolds`].
    pub async fn list_holds(&self, request: ListHolds) -> Result<Vec<Hold>> {
        let (full, _) = split(&request.name)?;
        let (pool, _) = self.dataset_named(full)?;
        holds(&pool, &request.name)
    }
}

/// The error for limits that cannot be set.
pub(super) fn limits_failed(pool: &str, full: &str, e: pool::Error) -> Error {
    match e {
        pool::Error::NoSpace => Error::Conflict(format!(
            "the pool {pool:?} does not have that much unreserved free space"
        )),
        pool::Error::OverQuota => Error::Invalid(format!("{full:?}: {e}")),
        e => failed(pool, full, e),
    }
}

fn holds(pool: &pool::Pool, snapshot: &str) -> Result<Vec<Hold>> {
    let (full, name) = split(snapshot)?;
    let (pool_name, volume) = names(full)?;
    let found = pool.holds(volume, name);
    let found = found.map_err(|e| failed(pool_name, snapshot, e))?;
    let name = format!("{}@{name}", full_name(pool_name, volume));
    let hold = |hold: pool::format::Hold| Hold {
        name: name.clone(),
        tag: hold.tag,
        created_ms: hold.created / 1_000_000,
    };
    Ok(found.into_iter().map(hold).collect())
}
