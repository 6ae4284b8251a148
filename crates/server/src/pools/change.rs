//! Live changes of pools: create, scan, export, destroy, checkpoint.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; the disks of a new pool are written
//! after the configuration names it, and files created for a refused pool are deleted.

use super::creation::Creation;
use super::entry::PoolState;
use super::new_disks::NewDisks;
use super::open::{find, open_devices};
use super::view::fault_text;
use crate::api::{self, CheckpointPool, CreatePool, DestroyPool, ExportPool, ScanPools, VdevSpec};
use crate::config::{ConfigFile, PoolConfig, PoolEdit};
use crate::limits::FLUSH_MAX;
use crate::server::Server;
use crate::word::word;
use crate::{Error, Result};
use pool::Pool;
use pool::format::SpareGuid;
use pool::vdev::{self, Fault, PoolSpec, Presence, SetupError, Vdevs};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

pub(super) fn refused(name: &str, e: SetupError) -> Error {
    match e {
        SetupError::Name { .. }
        | SetupError::Shape { .. }
        | SetupError::TooSmall { .. }
        | SetupError::NoBlocks
        | SetupError::LogLayout
        | SetupError::LogTooSmall { .. }
        | SetupError::BlockSize { .. }
        | SetupError::SameDisk { .. }
        | SetupError::SpareTooSmall { .. }
        | SetupError::SpareTwice { .. } => Error::Invalid(e.to_string()),
        SetupError::InUse { .. } | SetupError::IsSpare { .. } | SetupError::LaterVersion { .. } => {
            Error::Conflict(format!("{e} (-f)"))
        }
        SetupError::ForeignHost { .. } => Error::Conflict(format!("{e} (-f)")),
        SetupError::MemberMissing { .. }
        | SetupError::LabelsLost { .. }
        | SetupError::LogMissing { .. } => Error::Conflict(format!("{e} (--without-missing)")),
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

/// Refuses a request that names a disk twice, or a spare without an absolute path. Errors: `Invalid`.
pub(super) fn check_each(disks: &[PathBuf], spares: &[PathBuf]) -> Result<()> {
    check_paths(spares)?;
    let mut seen = BTreeSet::new();
    for path in disks.iter().chain(spares) {
        if !seen.insert(path) && spares.contains(path) {
            let text = format!("{} is named twice: name each disk once", path.display());
            return Err(Error::Invalid(text));
        }
    }
    Ok(())
}

/// Refuses a new name that is a word of the layout's grammar.
pub(super) fn check_new_name(name: &str) -> Result<()> {
    match api::LAYOUT_WORDS.contains(&name) {
        true => Err(Error::Invalid(format!(
            "{name:?} is a word of a pool's layout and cannot be its name: give the name first, as in `pool create tank {name} …`"
        ))),
        false => Ok(()),
    }
}

impl Server {
    /// See [`CreatePool`]. Errors: `Conflict`, `Invalid`, `Disk`, `Pool`, `File`. Nothing has changed then, except that a disk has lost
    /// its data if writing to the disks failed halfway, and that the pool may exist without its cache devices.
    pub async fn create_pool(self: &Rc<Self>, request: CreatePool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.name;
        let paths: Vec<PathBuf> = VdevSpec::paths(&request.vdevs)
            .map(Path::to_path_buf)
            .collect();
        let extras = [&request.spares[..], &request.caches].concat();
        check_paths(&paths)?;
        check_each(&paths, &extras)?;
        if paths.is_empty() && !extras.is_empty() {
            let text = "a pool needs disks for its data beside its spares and cache devices: name them first";
            return Err(Error::Invalid(text.into()));
        }
        let (size, force) = (request.size, request.force);
        let caches = self.open_caches((name, None), &request.caches, size, force);
        let caches = caches.await?;
        let done = match self.create(&request, paths).await {
            Ok(pool) => self.add_caches(name, &pool, &caches, force).await,
            Err(e) => Err(e),
        };
        if let Err(e) = done {
            caches.discard().await;
            return Err(e);
        }
        self.pool_view(name)
    }

    /// Creates a pool without cache devices.
    async fn create(
        self: &Rc<Self>,
        request: &CreatePool,
        paths: Vec<PathBuf>,
    ) -> Result<Rc<Pool>> {
        let name = &request.name;
        check_new_name(name)?;
        if self.state.borrow().file.config().pool(name).is_some() {
            return Err(Error::Conflict(format!(
                "there is a pool named {name:?} already"
            )));
        }
        for path in &request.spares {
            self.check_free_spare(path)?;
        }
        let config = PoolConfig {
            name: name.clone(),
            disks: paths,
            spares: request.spares.clone(),
            spare_after_s: None,
            caches: Vec::new(),
            cache_daily_mib: None,
            cache_mib: None,
            dirty_mib: None,
            record_cache_mib: None,
            space_mib: None,
            read_only: false,
        };
        let new = self.edited(&[&PoolEdit::Add(config.clone())])?;
        let disks = self.open_new(&request.vdevs, request.size).await?;
        let spares = match self.open_each(&request.spares, request.size).await {
            Ok(spares) => spares,
            Err(e) => {
                disks.discard().await;
                return Err(e);
            }
        };
        match self.create_on(&disks, &spares, request, new, &config).await {
            Ok((pool, added)) => {
                drop(spares);
                self.keep_open_pool(name, pool).await;
                let (pool, notes) = (self.pool_named(name)?, self.notes_of(name)?);
                self.remember_spares(name, &notes, &added).await;
                self.find_spares(name, &pool, &notes).await;
                Ok(pool)
            }
            Err(e) => {
                disks.discard().await;
                spares.discard().await;
                Err(e)
            }
        }
    }

    /// Creates the pool on disks that are open. First comes everything that can refuse, then the configuration, then the labels.
    async fn create_on(
        &self,
        disks: &NewDisks,
        spares: &NewDisks,
        request: &CreatePool,
        new: ConfigFile,
        config: &PoolConfig,
    ) -> Result<(Pool, Vec<(SpareGuid, PathBuf)>)> {
        let name = &config.name;
        if !request.force {
            disks.check(name, &[]).await?;
            spares.check(name, &[]).await?;
        }
        for spare in spares.vdevs().iter().map(|v| &v.members[0]) {
            let host = &self.host;
            let checked = vdev::check_new_spare(disks.vdevs(), spare, host, request.force).await;
            checked.map_err(|e| refused(name, e))?;
        }
        let files = [disks.made(), spares.made()].concat();
        let creation = Creation::begin(self.state_dir(), name, &files, &request.spares).await?;
        let old = self.state.borrow().file.clone();
        let made = match self.store(new).await {
            Ok(()) => self.make_pool(request, config, disks.vdevs()).await,
            Err(e) => Err(e),
        };
        let made = match made {
            Ok(pool) => self.furnish(name, pool, spares, request.force).await,
            Err(e) => Err(e),
        };
        if made.is_err() && self.state.borrow().file.text() != old.text() {
            self.store(old).await?;
        }
        creation.end().await;
        made
    }

    /// Gives a new pool its spares. If that fails, the pool is destroyed.
    async fn furnish(
        &self,
        name: &str,
        pool: Pool,
        spares: &NewDisks,
        force: bool,
    ) -> Result<(Pool, Vec<(SpareGuid, PathBuf)>)> {
        match self.add_spares(name, &pool, spares, force).await {
            Ok(added) => Ok((pool, added)),
            Err(e) => {
                let vdevs = pool.vdevs();
                let _ = pool.close().await;
                let _ = vdevs.destroy().await;
                Err(e)
            }
        }
    }

    async fn make_pool(
        &self,
        request: &CreatePool,
        config: &PoolConfig,
        vdevs: &[vdev::VdevSpec],
    ) -> Result<Pool> {
        let name = &request.name;
        let mut spec = PoolSpec::new(name, vdevs.to_vec(), self.host.clone());
        spec.force = request.force;
        let opened = vdev::create(spec).await.map_err(|e| refused(name, e))?;
        if let Some(witness) = self.witness(opened.vdevs.pool()).await
            && let Err(e) = opened.vdevs.set_witness(witness).await
        {
            let _ = opened.vdevs.destroy().await;
            return Err(failed(name, e));
        }
        open_devices(opened, config)
            .await
            .map_err(|e| failed(name, e))
    }

    /// See [`ScanPools`].
    pub async fn scan_pools(&self, request: ScanPools) -> Result<Vec<api::FoundPool>> {
        let places = self.places(&request.disks).await?;
        let (found, reasons) = find(&places.disks(), self.tries_pools()).await;
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
        let (spares, caches) = (self.waiting_spares(name), self.cache_paths(name));
        match self.part(name).await? {
            Some(vdevs) => {
                self.unlabel_caches(&vdevs, &caches).await;
                vdevs.destroy().await.map_err(|e| failed(name, e))?;
                self.unlabel_spares(&vdevs, spares).await;
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
        match self.state.borrow().pools.state(name) {
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
    let members = || p.vdevs.iter().flat_map(|v| &v.members);
    let missing = |s: &&vdev::FoundMember| {
        use Presence::{Missing, MissingStale, Truncated};
        matches!(s.presence, Missing | MissingStale | Truncated)
    };
    api::FoundPool {
        name: p.name.clone(),
        guid: format!("{:016x}", p.guid.0),
        state: word(p.state),
        host: p.host.name.clone(),
        disks: members().filter_map(|s| s.path.clone()).collect(),
        missing: members().filter(missing).count()
            + p.vdevs.iter().filter(|v| v.members.is_empty()).count(),
        short: short_disks(p),
        reason: p.problem().map(|e| e.to_string()),
    }
}
