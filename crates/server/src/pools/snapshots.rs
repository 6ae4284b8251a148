//! Snapshots, clones and rollbacks.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`super::volumes`]; a volume is
//! rolled back only while it is not exported.

use super::dependents;
use super::entry::{datasets_of, full_name};
use super::filesystems::check_snapshot_name;
use super::names::{misplaced, names, split};
use crate::api::{
    self, CloneSnapshot, CreateSnapshot, DestroySnapshot, ListSnapshots, RollbackVolume,
};
use crate::server::Server;
use crate::{Error, Result};
use pool::{Pool, SnapshotUse, Volume};
use std::rc::Rc;
use std::sync::Arc;

pub(super) fn failed(pool: &str, full: &str, e: pool::Error) -> Error {
    if let Some(misplaced) = misplaced(full, &e).filter(|_| e != pool::Error::BadName) {
        return misplaced;
    }
    match e {
        pool::Error::Exists => Error::Conflict(format!("{full:?} exists already")),
        pool::Error::NotFound => Error::NoSnapshot(full.to_owned()),
        pool::Error::BadName => Error::Invalid(format!("{full:?}: {e}")),
        pool::Error::Busy | pool::Error::Held { .. } => Error::Conflict(format!("{full:?}: {e}")),
        pool::Error::Invalid(defect) => Error::Invalid(format!("{full:?}: {defect}")),
        e => Error::Pool {
            name: pool.to_owned(),
            reason: e.to_string(),
        },
    }
}

/// Blocks of snapshots' lists that are read for one answer: 64 bytes each, from the disks if they are in no cache.
const ANSWER_BLOCKS: usize = 1 << 18;

/// `blocks` is the number of blocks that may still be read for this answer.
async fn view(pool: &Pool, volume: &str, snapshot: &Volume, blocks: &mut usize) -> api::Snapshot {
    let dataset = snapshot.dataset();
    let referenced = snapshot.referenced();
    let (used, used_at_most) = match pool.snapshot_use(snapshot, blocks).await {
        Ok(SnapshotUse::Exact(bytes)) => (bytes, false),
        Ok(SnapshotUse::AtMost(bytes)) => (bytes, true),
        Err(_) => (referenced, true),
    };
    api::Snapshot {
        name: format!(
            "{}@{}",
            full_name(&pool.vdevs().name(), volume),
            dataset.name
        ),
        size: dataset.size,
        referenced,
        used,
        used_at_most,
        created_ms: dataset.created / 1_000_000,
        clones: pool
            .clones(snapshot)
            .iter()
            .map(|c| full_name(&pool.vdevs().name(), c))
            .collect(),
    }
}

/// The view of a single snapshot.
pub(super) async fn view_one(pool: &Pool, volume: &str, snapshot: &Volume) -> api::Snapshot {
    view(pool, volume, snapshot, &mut { ANSWER_BLOCKS }).await
}

impl Server {
    /// See [`ListSnapshots`]. Errors: `NoPool`, `NoVolume`, `Invalid`, `Pool`.
    pub async fn list_snapshots(&self, request: ListSnapshots) -> Result<Vec<api::Snapshot>> {
        self.snapshot_views(request.volume, true).await
    }

    /// The snapshots of a dataset, or all. Their used space is an upper bound if it is not `counted`: then nothing is read.
    /// Errors: as [`Server::list_snapshots`].
    pub(crate) async fn snapshot_views(
        &self,
        of: Option<String>,
        counted: bool,
    ) -> Result<Vec<api::Snapshot>> {
        let mut blocks = if counted { ANSWER_BLOCKS } else { 0 };
        let mut found: Vec<(Rc<Pool>, String)> = Vec::new();
        if let Some(full) = of {
            let (pool, _) = self.dataset_named(&full)?;
            found.push((pool, names(&full)?.1.to_owned()));
        } else {
            let names = self.state.borrow().pools.names();
            for pool in names.iter().filter_map(|n| self.open_pool(n)) {
                found.extend(datasets_of(&pool).map(|v| (pool.clone(), v.dataset().name)));
            }
        }
        let mut views = Vec::new();
        for (pool, volume) in found {
            for snapshot in pool.snapshots(&volume) {
                views.push(view(&pool, &volume, &snapshot, &mut blocks).await);
            }
        }
        Ok(views)
    }

    /// See [`CreateSnapshot`]. Errors: `Invalid`, `Conflict`, `NoPool`, `NoVolume`, `Pool`. The same holds for the
    /// others.
    pub async fn create_snapshot(&self, request: CreateSnapshot) -> Result<api::Snapshot> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.name)?;
        check_snapshot_name(name)?;
        let (pool, pool_name, volume) = self.snapshots_top(full, request.recursive)?;
        let of = match request.recursive {
            true => pool.names_below(volume),
            false => vec![volume.to_owned()],
        };
        for of in &of {
            if pool.snapshot(of, name).is_some() {
                let taken = format!("{}@{name}", full_name(pool_name, of));
                return Err(failed(pool_name, &taken, pool::Error::Exists));
            }
            self.sync_mount(&full_name(pool_name, of)).await?;
        }
        let made = match request.recursive {
            true => pool.create_snapshot_tree(volume, name).await.map(drop),
            false => pool.create_snapshot(volume, name).await.map(drop),
        };
        made.map_err(|e| failed(pool_name, &request.name, e))?;
        for of in &of {
            self.renew_snapshots(&pool, &full_name(pool_name, of));
        }
        // of a whole pool, the first one stands for all
        let shown = of.first().map_or(volume, String::as_str);
        let snapshot = pool.snapshot(shown, name);
        let snapshot = snapshot.ok_or_else(|| Error::NoSnapshot(request.name.clone()))?;
        Ok(view_one(&pool, shown, &snapshot).await)
    }

    /// The pool and the dataset of a request for snapshots of a name. A recursive one may name the pool: the dataset is empty then, and
    /// means all. Errors: `NoPool`, `NoVolume`, `Invalid`; `Conflict` for a pool without datasets.
    fn snapshots_top<'a>(
        &self,
        full: &'a str,
        is_recursive: bool,
    ) -> Result<(Rc<Pool>, &'a str, &'a str)> {
        if full.contains('/') || !is_recursive {
            let (pool, _) = self.dataset_named(full)?;
            let (pool_name, dataset) = names(full)?;
            return Ok((pool, pool_name, dataset));
        }
        let pool = self.pool_named(full)?;
        if pool.names_below("").is_empty() {
            let text = format!("the pool {full:?} has no volumes and filesystems");
            return Err(Error::Conflict(text));
        }
        Ok((pool, full, ""))
    }

    /// See [`DestroySnapshot`].
    pub async fn destroy_snapshot(&self, request: DestroySnapshot) -> Result<()> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.name)?;
        let (pool, pool_name, volume) = self.snapshots_top(full, request.recursive)?;
        let of = match request.recursive {
            true => pool.names_below(volume),
            false => vec![volume.to_owned()],
        };
        let gone = match request.recursive {
            true => pool.destroy_snapshot_tree(volume, name).await,
            false => pool.destroy_snapshot(volume, name).await,
        };
        for of in &of {
            self.renew_snapshots(&pool, &full_name(pool_name, of));
        }
        gone.map_err(|e| {
            let clones = || dependents::of_snapshots(&pool, pool_name, &of, Some(name));
            match (e == pool::Error::Busy).then(clones).flatten() {
                Some(text) => Error::Conflict(text),
                None => failed(pool_name, &request.name, e),
            }
        })
    }

    /// See [`CloneSnapshot`].
    pub async fn clone_snapshot(self: &Rc<Self>, request: CloneSnapshot) -> Result<api::Dataset> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.snapshot)?;
        let (pool, class) = self.dataset_named(full)?;
        let (pool_name, volume) = names(full)?;
        let (clone_pool, clone) = names(&request.clone)?;
        if clone_pool != pool_name {
            return Err(Error::Invalid(format!(
                "a clone must be in its snapshot's pool: use {pool_name}/{clone}"
            )));
        }
        if pool.snapshot(volume, name).is_none() {
            return Err(Error::NoSnapshot(request.snapshot));
        }
        let made = pool.clone_snapshot(volume, name, clone).await;
        let made = made.map_err(|e| failed(pool_name, &request.clone, e))?;
        if class.has_files() {
            self.shares_changed();
            let made = self.filesystem_view(&request.clone)?;
            return Ok(api::Dataset::Filesystem(made));
        }
        self.keep(&request.clone, Some(Arc::new(made)));
        self.volume_view(&request.clone).map(api::Dataset::Volume)
    }

    /// See [`RollbackVolume`].
    pub async fn rollback_volume(&self, request: RollbackVolume) -> Result<api::Volume> {
        let _turn = self.turn().await?;
        let (full, name) = split(&request.snapshot)?;
        let (pool, found) = self.volume_named(full)?;
        let (pool_name, volume) = names(full)?;
        if let Some(export) = self.state.borrow().file.config().exported_as(full) {
            return Err(Error::Conflict(format!(
                "the volume {full:?} is exported, and its data would change under its clients: `{}` first",
                export.removal
            )));
        }
        if !request.force {
            return Err(Error::Conflict(format!(
                "this loses all changes of {full:?} since {name:?}: use -f to confirm"
            )));
        }
        // no write is in flight to the disks then
        let flushed = found.flush_all().await;
        let _proof = flushed.map_err(|e| Error::Pool {
            name: pool_name.to_owned(),
            reason: e.to_string(),
        })?;
        let back = pool.roll_back(volume, name).await;
        back.map_err(|e| failed(pool_name, &request.snapshot, e))?;
        self.announce(full);
        self.volume_view(full)
    }
}
