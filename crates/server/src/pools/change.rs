//! Live changes of pools: create, scan, export, destroy, checkpoint.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; if a new pool
//! cannot be stored in the configuration, its labels are removed from its disks, and files created for it are
//! deleted.

use super::entry::PoolState;
use super::open::{find, open_devices, open_disk};
use super::view::fault_text;
use crate::api::{self, CheckpointPool, CreatePool, DestroyPool, ExportPool, ScanPools};
use crate::config::{PoolConfig, PoolEdit};
use crate::limits::{DISK_WAIT_MAX, FLUSH_MAX};
use crate::server::Server;
use crate::size::ByteSize;
use crate::word::word;
use crate::{Error, Result};
use io::linux::signatures;
use pool::Pool;
use pool::vdev::{self, Fault, PoolSpec, Presence, SetupError, Vdevs};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

pub(super) fn refused(name: &str, e: SetupError) -> Error {
    match e {
        SetupError::Name { .. }
        | SetupError::Shape { .. }
        | SetupError::TooSmall { .. }
        | SetupError::BlockSize { .. }
        | SetupError::SameDisk { .. } => Error::Invalid(e.to_string()),
        SetupError::InUse { .. } | SetupError::LaterVersion { .. } => {
            Error::Conflict(format!("{e} (-f)"))
        }
        SetupError::ForeignHost { .. } => Error::Conflict(format!("{e} (-f)")),
        SetupError::SideMissing { .. } | SetupError::LabelsLost { .. } => {
            Error::Conflict(format!("{e} (--without-missing)"))
        }
        SetupError::Io { .. } | SetupError::FileSystemFull { .. } | SetupError::Device => {
            failed(name, e)
        }
        _ => Error::Conflict(e.to_string()),
    }
}

pub(super) fn failed(name: &str, reason: impl ToString) -> Error {
    Error::Pool {
        name: name.to_owned(),
        reason: reason.to_string(),
    }
}

pub(super) fn check_paths(paths: &[PathBuf]) -> Result<()> {
    let wrong = |p: &&PathBuf| !p.is_absolute() || p.to_str().is_none();
    match paths.iter().find(wrong) {
        Some(p) => Err(Error::Invalid(format!(
            "the path {} is not absolute, or not UTF-8",
            p.display()
        ))),
        None => Ok(()),
    }
}

/// Deletes files that were created for a refused pool.
pub(super) async fn remove_files(files: Vec<PathBuf>) {
    let _ = io::blocking(move || files.iter().for_each(|f| drop(std::fs::remove_file(f)))).await;
}

/// Refuses a disk with contents that other programs know: a file system, a partition table, a member of a RAID. Labels of pools are
/// checked by the pool itself. Errors: `Conflict` with the kinds of contents, or the reason why they are unknown.
async fn check_contents(path: &Path) -> Result<()> {
    let place = path.to_path_buf();
    let reading = io::blocking(move || signatures(&place));
    let found = match io::timeout(DISK_WAIT_MAX, reading).await {
        Ok(Ok(Ok(kinds))) if kinds.is_empty() => return Ok(()),
        Ok(Ok(Ok(kinds))) => format!("has contents: {}", kinds.join(", ")),
        Ok(Ok(Err(e))) => format!("may have contents, which cannot be examined: {e}"),
        Ok(Err(e)) => format!("may have contents, which cannot be examined: {e}"),
        Err(_) => "does not answer".to_owned(),
    };
    Err(Error::Conflict(format!(
        "{} {found}. Choose another disk, or overwrite it (-f)",
        path.display()
    )))
}

impl Server {
    /// See [`CreatePool`]. Errors: `Conflict`, `Invalid`, `Disk`, `Pool`, `File`. Nothing has changed then, except
    /// that a disk taken by force has lost its data if the creation failed halfway.
    pub async fn create_pool(self: &Rc<Self>, request: CreatePool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = request.name.clone();
        if self.state.borrow().file.config().pool(&name).is_some() {
            return Err(Error::Conflict(format!(
                "there is a pool named {name:?} already"
            )));
        }
        let paths: Vec<PathBuf> = request.vdevs.iter().flatten().cloned().collect();
        check_paths(&paths)?;
        let config = PoolConfig {
            name: name.clone(),
            disks: paths,
            cache_mib: None,
            dirty_mib: None,
            record_cache_mib: None,
            read_only: false,
        };
        let new = self.edited(&[&PoolEdit::Add(config.clone())])?;
        let mut made = Vec::new();
        let pool = self.make_pool(&request, &config, &mut made).await;
        let pool = match pool {
            Ok(pool) => pool,
            Err(e) => {
                remove_files(made).await;
                return Err(e);
            }
        };
        if let Err(e) = self.store(new).await {
            let vdevs = pool.vdevs();
            let _ = pool.close().await;
            let _ = vdevs.destroy().await;
            remove_files(made).await;
            return Err(e);
        }
        self.keep_open_pool(&name, pool).await;
        self.pool_view(&name)
    }

    async fn make_pool(
        &self,
        request: &CreatePool,
        config: &PoolConfig,
        made: &mut Vec<PathBuf>,
    ) -> Result<Pool> {
        let name = &request.name;
        let mut vdevs = Vec::new();
        for sides in &request.vdevs {
            let mut disks = Vec::new();
            for path in sides {
                disks.push({
                    let disk = self.new_disk(path, request.size, request.force, made);
                    disk.await?
                });
            }
            vdevs.push(disks);
        }
        let mut spec = PoolSpec::new(name, vdevs, self.host.clone());
        spec.force = request.force;
        let opened = vdev::create(spec).await.map_err(|e| refused(name, e))?;
        if let Some(witness) = self.witness(opened.vdevs.pool()).await {
            let set = opened.vdevs.set_witness(witness).await;
            set.map_err(|e| failed(name, e))?;
        }
        open_devices(opened, config)
            .await
            .map_err(|e| failed(name, e))
    }

    pub(super) async fn new_disk(
        &self,
        path: &Path,
        size: Option<ByteSize>,
        force: bool,
        made: &mut Vec<PathBuf>,
    ) -> Result<io::disk::Disk> {
        let place = path.to_path_buf();
        let there = io::blocking(move || place.exists()).await.unwrap_or(true);
        let missing = !there && self.state.borrow().file.is_stored();
        let refuse = |reason: String| Error::Disk {
            name: path.display().to_string(),
            reason,
        };
        if missing && size.is_none() {
            return Err(refuse(
                "it does not exist: use --size to create a file".into(),
            ));
        }
        let create = size.filter(|_| missing).map(|s| s.0);
        if create.is_some_and(|size| size > crate::limits::DISK_SIZE_MAX) {
            return Err(Error::Invalid(
                "no file can be that large: use a smaller --size".into(),
            ));
        }
        if missing {
            made.push(path.to_path_buf());
        } else if there && !force {
            check_contents(path).await?;
        }
        open_disk(path, create, false).await.map_err(refuse)
    }

    /// See [`ScanPools`].
    pub async fn scan_pools(&self, request: ScanPools) -> Result<Vec<api::FoundPool>> {
        check_paths(&request.disks)?;
        let (found, reasons) = find(&request.disks, self.tries_pools()).await;
        if found.is_empty() && !reasons.is_empty() {
            return Err(Error::Conflict(format!(
                "no pool was found: {}",
                reasons.join("; ")
            )));
        }
        Ok(found.iter().map(found_view).collect())
    }

    /// See [`ExportPool`].
    pub async fn export_pool(&self, request: ExportPool) -> Result<()> {
        let vdevs = self.part(&request.name).await?;
        if let Some(vdevs) = vdevs.filter(|v| !v.is_read_only()) {
            vdevs.export().await.map_err(|e| failed(&request.name, e))?;
        }
        Ok(())
    }

    /// See [`DestroyPool`].
    pub async fn destroy_pool(&self, request: DestroyPool) -> Result<()> {
        let name = &request.name;
        if self.state.borrow().file.config().pool(name).is_none() {
            return Err(Error::NoPool(name.clone()));
        }
        if self.open_pool(name).is_none() {
            let text = format!(
                "the pool {name:?} is held back and cannot be destroyed: `wirepool pool export {name}` forgets it"
            );
            return Err(Error::Conflict(text));
        }
        if !request.force {
            let text = format!(
                "this destroys the pool {name:?} with all its volumes and filesystems: use -f to confirm"
            );
            return Err(Error::Conflict(text));
        }
        self.pool_named(name)?;
        match self.part(name).await? {
            Some(vdevs) => {
                vdevs.destroy().await.map_err(|e| failed(name, e))?;
                self.forget_files(vdevs.pool()).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Removes a pool from the configuration and closes it. Returns its devices, if it was open.
    async fn part(&self, name: &str) -> Result<Option<Arc<Vdevs>>> {
        let _turn = self.turn().await?;
        {
            let state = self.state.borrow();
            let config = state.file.config();
            if config.pool(name).is_none() {
                return Err(Error::NoPool(name.to_owned()));
            }
            let is_ours = |disk: &str| disk.split_once('/').is_some_and(|(p, _)| p == name);
            let exported = config.exported_disks().chain(config.exported_filesystems());
            let mut ours = exported.filter(|name| is_ours(name));
            let export = ours.find_map(|name| Some((name, config.exported_as(name)?)));
            if let Some((name, export)) = export {
                let kind = config.kind_of_exported(name);
                return Err(Error::Conflict(format!(
                    "the {kind} {name:?} is exported: `{}` first",
                    export.removal
                )));
            }
            if let Some(mount) = config.mounts.iter().find(|m| is_ours(&m.filesystem)) {
                return Err(Error::Conflict(format!(
                    "the filesystem {:?} is mounted at {}: `wirepool fs unmount {}` first",
                    mount.filesystem,
                    mount.at.display(),
                    mount.filesystem
                )));
            }
        }
        let new = self.edited(&[&PoolEdit::Remove(name.to_owned())])?;
        self.store(new).await?;
        self.withdraw_shares(|full| full.split_once('/').is_some_and(|(p, _)| p == name));
        self.shares_changed();
        let Some(pool) = self.forget_pool(name) else {
            return Ok(None);
        };
        let pool = Rc::try_unwrap(pool).map_err(|_| failed(name, "it is in use: try again"))?;
        let vdevs = pool.vdevs();
        let closed = io::timeout(FLUSH_MAX, pool.close()).await;
        match closed {
            Ok(Ok(())) => Ok(Some(vdevs)),
            Ok(Err(e)) => Err(failed(name, format!("it could not be closed: {e}"))),
            Err(_) => Err(failed(
                name,
                "its disks do not answer: it was not closed in time",
            )),
        }
    }

    /// See [`CheckpointPool`].
    pub async fn checkpoint_pool(&self, request: CheckpointPool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let pool = self.pool_named(&request.name)?;
        pool.checkpoint()
            .await
            .map_err(|e| failed(&request.name, e))?;
        self.pool_view(&request.name)
    }

    /// An open pool that may be changed. Errors: `NoPool`, `Pool` if it is held back, `Conflict` if it is read-only.
    pub(super) fn pool_named(&self, name: &str) -> Result<Rc<Pool>> {
        let pool = self.readable_pool(name)?;
        if pool.vdevs().is_read_only() {
            let text = format!(
                "the pool {name:?} was imported for reading only: export it and import it for writing"
            );
            return Err(Error::Conflict(text));
        }
        Ok(pool)
    }

    /// An open pool. Errors: `NoPool`, `Pool` if it is held back.
    pub(super) fn readable_pool(&self, name: &str) -> Result<Rc<Pool>> {
        match self.state.borrow().pools.get(name).map(|p| &p.state) {
            None => Err(Error::NoPool(name.to_owned())),
            Some(PoolState::Online(pool)) => Ok(pool.clone()),
            Some(PoolState::Opening) => Err(failed(name, "it is being opened: try again")),
            Some(PoolState::Held(reason)) => Err(failed(name, format!("held back: {reason}"))),
        }
    }
}

/// Disks of a pool that are too short to be used, each with its size.
pub(super) fn short_disks(found: &vdev::FoundPool) -> Vec<String> {
    let text = |(path, fault, data_size): (PathBuf, Fault, u64)| {
        format!("{}: {}", path.display(), fault_text(fault, data_size))
    };
    found.short().into_iter().map(text).collect()
}

fn found_view(p: &vdev::FoundPool) -> api::FoundPool {
    let sides = || p.vdevs.iter().flat_map(|v| &v.sides);
    let missing = |s: &&vdev::FoundSide| {
        use Presence::{Missing, MissingStale, Truncated};
        matches!(s.presence, Missing | MissingStale | Truncated)
    };
    api::FoundPool {
        name: p.name.clone(),
        guid: format!("{:016x}", p.guid.0),
        state: word(p.state),
        host: p.host.name.clone(),
        disks: sides().filter_map(|s| s.path.clone()).collect(),
        missing: sides().filter(missing).count()
            + p.vdevs.iter().filter(|v| v.sides.is_empty()).count(),
        short: short_disks(p),
        reason: p.problem().map(|e| e.to_string()),
    }
}
