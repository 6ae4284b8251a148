//! Import of pools.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; a trial writes
//! nothing, neither to disks nor to the configuration.

use super::change::{check_new_name, failed, refused, short_disks};
use super::entry::{PoolState, datasets_of};
use super::open::{choose, find, open_devices};
use super::places::{Places, PoolPlaces};
use super::recover::{advice, open_or_advise, survey};
use super::view::{health, vdev as vdev_view};
use crate::api::{self, Checkpoint, ImportPool, Trial, TryImport};
use crate::config::{Edit, PoolConfig, PoolEdit};
use crate::server::Server;
use crate::{Error, Result};
use pool::Choice;
use pool::vdev::{self, FoundPool};
use std::rc::Rc;

const NS_PER_MS: u64 = 1_000_000;

impl Server {
    /// See [`ImportPool`]. A pool of the configuration that is held back is imported anew. Errors: `Conflict`, `Invalid`,
    /// `Pool`, `File`.
    pub async fn import_pool(self: &Rc<Self>, request: ImportPool) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        if let Some(new) = &request.rename {
            check_new_name(new)?;
        }
        let (found, places) = self.find_one(&request).await?;
        let PoolPlaces {
            disks,
            spares,
            caches,
        } = places;
        let name = request.rename.clone().unwrap_or_else(|| found.name.clone());
        let mut edits = Vec::new();
        let held = matches!(
            self.state.borrow().pools.state(&name),
            Some(PoolState::Held(_))
        );
        let mut config = PoolConfig {
            name: name.clone(),
            disks,
            spares: spares.clone(),
            spare_after_s: None,
            caches: caches.clone(),
            cache_daily_mib: None,
            cache_mib: None,
            dirty_mib: None,
            record_cache_mib: None,
            space_mib: None,
            read_only: request.read_only,
        };
        if request.read_only && request.rewind.is_some() {
            let text =
                "a rewind needs a writable pool: use -n to try it, or --read-only without --rewind";
            return Err(Error::Invalid(text.into()));
        }
        let old = self.state.borrow().file.config().pool(&name).cloned();
        if let Some(old) = old {
            if !held {
                return Err(Error::Conflict(format!(
                    "there is a pool named {name:?} already: --as gives it another name"
                )));
            }
            (config.cache_mib, config.dirty_mib) = (old.cache_mib, old.dirty_mib);
            config.record_cache_mib = old.record_cache_mib;
            config.spare_after_s = old.spare_after_s;
            config.cache_daily_mib = old.cache_daily_mib;
            config.space_mib = old.space_mib;
            edits.push(PoolEdit::Remove(name.clone()));
        }
        edits.push(PoolEdit::Add(config.clone()));
        let edits: Vec<_> = edits.iter().map(|e| e as &dyn Edit).collect();
        let new = self.edited(&edits)?;
        let options = self.import_options(&request, &found).await;
        let opened = vdev::open(found, options.clone())
            .await
            .map_err(|e| refused(&name, e))?;
        let pool = open_or_advise(opened, &config, options)
            .await
            .map_err(|e| failed(&name, e))?;
        if let Err(e) = self.store(new).await {
            let vdevs = pool.vdevs();
            let _ = pool.close().await;
            let _ = vdevs.export().await;
            return Err(e);
        }
        self.keep_open_pool(&name, pool).await;
        let (pool, notes) = (self.open_pool(&name), self.notes_of(&name)?);
        if let Some(pool) = pool {
            self.find_spares(&name, &pool, &notes).await;
        }
        self.pool_view(&name)
    }

    /// See [`TryImport`].
    pub async fn try_import(&self, request: TryImport) -> Result<Trial> {
        let _turn = self.turn().await?;
        let request = request.import;
        let (found, places) = self.find_one(&request).await?;
        let PoolPlaces {
            disks,
            spares,
            caches,
        } = places;
        let options = self.import_options(&request, &found).await;
        let name = request.rename.clone().unwrap_or_else(|| found.name.clone());
        let short = short_disks(&found);
        let unasked = options.rewind.is_none().then(|| found.problem()).flatten();
        let (opened, choices) = survey(found, options)
            .await
            .map_err(|e| refused(&name, e))?;
        let config = PoolConfig {
            name: name.clone(),
            disks,
            spares: spares.clone(),
            spare_after_s: None,
            caches: caches.clone(),
            cache_daily_mib: None,
            cache_mib: None,
            dirty_mib: None,
            record_cache_mib: None,
            space_mib: None,
            read_only: true,
        };
        let (uberblock, status) = (opened.uberblock, opened.vdevs.status());
        let vdevs: Vec<_> = status.iter().map(vdev_view).collect();
        let mut trial = Trial {
            guid: format!("{:016x}", uberblock.pool.0),
            sequence: uberblock.sequence,
            time_ms: uberblock.time / NS_PER_MS,
            health: health(&vdevs),
            volumes: Vec::new(),
            problem: unasked.map(|e| e.to_string()),
            advice: advice(&name, &choices),
            checkpoints: choices.iter().map(checkpoint).collect(),
            short,
            name,
        };
        match open_devices(opened, &config).await {
            Ok(pool) => {
                trial.volumes = datasets_of(&pool).map(|v| v.dataset().name).collect();
                pool.close().await.map_err(|e| failed(&trial.name, e))?;
            }
            Err(reason) => trial.problem = Some(reason),
        }
        Ok(trial)
    }

    /// Whether a pool of the configuration is not open, and tried again periodically.
    pub(super) fn tries_pools(&self) -> bool {
        let state = self.state.borrow();
        state.pools.all_open().count() < state.pools.names().len()
    }

    /// The requested pool, and its paths for the configuration. If a pool of the configuration is held back, its disks may
    /// be in use for a moment.
    async fn find_one(&self, request: &ImportPool) -> Result<(FoundPool, PoolPlaces)> {
        let places = self.places(&request.disks).await?;
        let (found, reasons) = find(&places.disks(), self.tries_pools()).await;
        let wanted = |p: &FoundPool| {
            let name = request.name.as_ref();
            name.is_none_or(|w| p.name == *w || format!("{:016x}", p.guid.0) == *w)
        };
        let pool = choose(found, &reasons, wanted)
            .map_err(|e| Error::Conflict(self.open_here(request, &places).unwrap_or(e)))?;
        let places = places.of(pool.guid);
        Ok((pool, places))
    }

    /// The message if the requested pool is open on this server: its disks are in use then, so no label of it was read.
    fn open_here(&self, request: &ImportPool, places: &Places) -> Option<String> {
        let state = self.state.borrow();
        let paths = places.disks();
        let is_wanted = |p: &&PoolConfig| {
            let is_there = p.disks.iter().any(|disk| paths.contains(disk));
            // A directory has no readable labels of an open pool, and no path is listed for them.
            let may_be_there = request.disks.is_empty() || paths.is_empty();
            match &request.name {
                Some(name) => p.name == *name && (is_there || may_be_there),
                None => is_there,
            }
        };
        let is_open =
            |p: &&PoolConfig| matches!(state.pools.state(&p.name), Some(PoolState::Online(_)));
        let mut pools = state.file.config().pools.iter();
        let name = &pools.find(|p| is_wanted(p) && is_open(p))?.name;
        Some(format!(
            "the pool {name:?} is open on this server: `wirepool pool status {name}` shows it"
        ))
    }

    async fn import_options(&self, request: &ImportPool, found: &FoundPool) -> vdev::OpenOptions {
        let mut options = vdev::OpenOptions::new(self.host.clone());
        options.name = request.rename.clone();
        options.force_host = request.force;
        options.force_missing = request.force_missing;
        options.read_only = request.read_only;
        options.grow = request.expand;
        options.rewind = request.rewind;
        options.witness = self.witness(found.guid).await;
        options
    }
}

fn checkpoint(choice: &Choice) -> Checkpoint {
    let uberblock = &choice.uberblock;
    Checkpoint {
        sequence: uberblock.sequence,
        epoch: uberblock.epoch.0,
        time_ms: uberblock.time / NS_PER_MS,
        reason: choice.error.as_ref().map(ToString::to_string),
        batches: choice.batches,
        bytes: choice.bytes,
        lost_batches: choice.lost_batches,
        lost_checkpoints: choice.lost_checkpoints,
    }
}
