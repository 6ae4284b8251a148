//! Cache devices of a pool: added, opened, removed, and shown.
//!
//! **Owns** the paths of cache devices, and the reasons why one is not open. **Called by** the control API, creation, and the supervisor of a
//! pool. **Invariants**: those of [`crate::change`]; a disk is in the configuration only after it has its label, because a pool does not need
//! it; a device that failed stays out until the pool is opened again, or the device is removed and added.

use super::change::refused;
use super::new_disks::NewDisks;
use super::open::open_disk;
use super::supervisor::Supervisor;
use crate::Result;
use crate::api;
use crate::config::{PoolConfig, PoolEdit};
use crate::server::{Holdings, Server};
use crate::size::ByteSize;
use pool::format::CacheGuid;
use pool::vdev::{self, Vdevs};
use pool::{CacheFault, CacheStatus, Pool};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time until a device is open: its labels and tables are read.
const OPENING_MAX: Duration = Duration::from_secs(60);

fn fault_text(fault: CacheFault) -> &'static str {
    match fault {
        CacheFault::Gone => "the device disappeared",
        CacheFault::Hung => "it did not answer in time",
        CacheFault::Errors => "too many operations failed",
    }
}

fn hex(cache: CacheGuid) -> String {
    format!("{:016x}", cache.0)
}

impl Server {
    pub(super) fn cache_paths(&self, name: &str) -> Vec<PathBuf> {
        let state = self.state.borrow();
        let pool = state.file.config().pool(name);
        pool.map_or(Vec::new(), |p| p.caches.clone())
    }

    async fn store_caches(&self, name: &str, paths: Vec<PathBuf>) -> Result<()> {
        let new = self.edited(&[&PoolEdit::SetCaches(name.to_owned(), paths)])?;
        self.store(new).await
    }

    /// Opens disks that become cache devices, creates missing files with `size`, and refuses disks that hold anything, unless forced. `pool`
    /// is `None` if the pool is new. Errors: `Disk`, `Invalid`, `Conflict`, `Pool`; nothing has changed then.
    pub(super) async fn open_caches(
        &self,
        (name, pool): (&str, Option<&Pool>),
        paths: &[PathBuf],
        size: Option<ByteSize>,
        force: bool,
    ) -> Result<NewDisks> {
        for path in paths {
            self.check_free_spare(path)?;
        }
        let disks = self.open_each(paths, size).await?;
        let checked = match check(name, pool, &disks, force).await {
            Ok(()) if !force => disks.check(name, &[]).await,
            checked => checked,
        };
        if let Err(e) = checked {
            disks.discard().await;
            return Err(e);
        }
        Ok(disks)
    }

    /// Makes open disks cache devices of a pool: all of them or none. The caller holds the permit for changes. Errors: `Pool`, `Conflict`, `File`.
    pub(super) async fn add_caches(
        &self,
        name: &str,
        pool: &Pool,
        disks: &NewDisks,
        force: bool,
    ) -> Result<()> {
        let (mut added, mut paths) = (Vec::new(), self.cache_paths(name));
        let mut result = Ok(());
        for disk in disks.vdevs().iter().map(|v| &v.members[0]) {
            match pool.add_cache(disk.clone(), force).await {
                Ok(cache) => added.push(cache),
                Err(e) => {
                    result = Err(refused(name, e));
                    break;
                }
            }
            let path = disk.info().path.clone();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        if result.is_ok() && !added.is_empty() {
            result = self.store_caches(name, paths).await;
        }
        if result.is_err() {
            for cache in added {
                let _best_effort = pool.remove_cache(cache).await;
            }
            return result;
        }
        for disk in disks.vdevs().iter().map(|v| &v.members[0]) {
            let text = format!("{} is a cache device", disk.info().path.display());
            self.event(name, "cache.add", text);
        }
        Ok(())
    }

    /// Removes the cache device with this path or GUID, also one that is not open. Returns whether there is one. Errors: `Pool`, `File`.
    pub(super) async fn remove_cache_named(
        &self,
        name: &str,
        pool: &Pool,
        disk: &str,
    ) -> Result<bool> {
        let mut paths = self.cache_paths(name);
        let is_it = |s: &CacheStatus| hex(s.guid) == disk || s.path == Path::new(disk);
        let open = pool.caches().into_iter().find(is_it);
        let path = match &open {
            Some(open) => open.path.clone(),
            None => PathBuf::from(disk),
        };
        if open.is_none() && !paths.contains(&path) {
            return Ok(false);
        }
        paths.retain(|p| *p != path);
        self.store_caches(name, paths).await?;
        let removed = match &open {
            Some(open) => pool.remove_cache(open.guid).await.map(drop),
            None => {
                unlabel(&pool.vdevs(), &path).await;
                Ok(())
            }
        };
        if let Some(entry) = self.state.borrow_mut().pools.get_mut(name) {
            entry.caches.remove(&path);
        }
        let text = format!("{} is no cache device any more", path.display());
        self.event(name, "cache.remove", text);
        removed.map_err(|e| refused(name, e))?;
        Ok(true)
    }

    /// Removes the labels of a destroyed pool's cache devices.
    pub(super) async fn unlabel_caches(&self, vdevs: &Vdevs, paths: &[PathBuf]) {
        for path in paths {
            unlabel(vdevs, path).await;
        }
    }
}

/// Removes the label of a cache device, if its disk can be opened.
async fn unlabel(vdevs: &Vdevs, path: &Path) {
    let Ok(disk) = open_disk(path, None, true).await else {
        tracing::warn!(disk = %path.display(), "keeps its label of a cache device, if it has one");
        return;
    };
    if let Err(error) = vdevs.unlabel_cache(&disk).await {
        tracing::warn!(disk = %path.display(), %error, "keeps its label of a cache device");
    }
}

async fn check(name: &str, pool: Option<&Pool>, disks: &NewDisks, force: bool) -> Result<()> {
    for disk in disks.vdevs().iter().map(|v| &v.members[0]) {
        let checked = match pool {
            Some(pool) => pool.vdevs().check_cache(disk, force).await,
            None => vdev::check_new_cache(disk, force).await,
        };
        checked.map_err(|e| refused(name, e))?;
    }
    Ok(())
}

impl Supervisor {
    /// Opens the cache devices of the configuration that are not open, and records an event for each that failed.
    pub(super) async fn tend_caches(&self, pool: &Pool) {
        let (server, name) = (&self.server, self.name.as_str());
        for status in pool.caches() {
            let Some(fault) = status.fault else { continue };
            if self.out.borrow_mut().insert(status.guid) {
                let path = status.path.display();
                let text = format!(
                    "the cache device {path} is out: {}; all data is read from the other disks",
                    fault_text(fault)
                );
                server.event(name, "cache.out", text);
            }
        }
        for path in server.cache_paths(name) {
            if pool.caches().iter().any(|s| s.path == path) {
                continue;
            }
            let opened = match open_disk(&path, None, false).await {
                Ok(disk) => match io::timeout(OPENING_MAX, pool.open_cache(disk)).await {
                    Ok(opened) => opened.map_err(|e| e.to_string()),
                    Err(_) => Err(format!("{} does not answer", path.display())),
                },
                Err(reason) => Err(reason),
            };
            let mut state = server.state.borrow_mut();
            let Some(entry) = state.pools.get_mut(name) else {
                return;
            };
            match opened {
                Ok(_) => drop(entry.caches.remove(&path)),
                Err(reason) => drop(entry.caches.insert(path, reason)),
            }
        }
    }
}

impl Holdings {
    /// The cache devices of a pool, for people.
    pub(super) fn caches_view(&self, config: &PoolConfig, pool: &Pool) -> Vec<api::Cache> {
        let open = pool.caches();
        let mut views: Vec<api::Cache> = open.iter().map(view).collect();
        let reasons = self.pools.get(&config.name).map(|p| &p.caches);
        for path in &config.caches {
            if open.iter().any(|s| s.path == *path) {
                continue;
            }
            let reason = reasons.and_then(|reasons| reasons.get(path).cloned());
            views.push(api::Cache {
                path: path.clone(),
                reason: Some(reason.unwrap_or_else(|| "it is not open yet".into())),
                ..api::Cache::default()
            });
        }
        views
    }
}

fn view(status: &CacheStatus) -> api::Cache {
    let counts = &status.counts;
    api::Cache {
        guid: hex(status.guid),
        path: status.path.clone(),
        reason: status.fault.map(|fault| fault_text(fault).to_owned()),
        size: status.size,
        used: status.used,
        blocks: status.blocks,
        memory: status.memory,
        hits: counts.hits,
        hit_bytes: counts.hit_bytes,
        misses: counts.misses,
        hits_of_twice: counts.hits_of_twice,
        wrong: counts.wrong,
        read_errors: counts.read_errors,
        entered: counts.entered,
        over_budget: counts.over_budget,
        written: counts.written,
        written_today: status.written_today,
        daily: status.daily,
    }
}
