//! Places at which an import looks for the disks of a pool.
//!
//! **Owns** the list of disks that an import examines. **Called by** import and scan. **Invariants**: a disk from a directory is examined
//! only if it has a label, and no open pool of this server has it; only disks that the request names, or that belong to the pool, get
//! into the configuration.

use super::search::{Labelled, caches_at, labels_at, list, spares_at};
use crate::server::Server;
use crate::{Error, Result};
use pool::format::PoolGuid;
use pool::vdev::{FoundCache, FoundSpare};
use std::path::PathBuf;

/// The disks at the places of an import.
pub(super) struct Places {
    /// Files and disks that the request names.
    named: Vec<PathBuf>,
    /// Disks with a label in the directories.
    listed: Vec<Labelled>,
    /// Spares, at any of the places.
    spares: Vec<FoundSpare>,
    /// Cache devices, at any of the places.
    caches: Vec<FoundCache>,
}

/// The paths of a pool.
pub(super) struct PoolPlaces {
    pub(super) disks: Vec<PathBuf>,
    pub(super) spares: Vec<PathBuf>,
    pub(super) caches: Vec<PathBuf>,
}

impl Places {
    /// All paths of disks that may be members.
    pub(super) fn disks(&self) -> Vec<PathBuf> {
        let listed = self.listed.iter().map(|l| l.path.clone());
        self.members().chain(listed).collect()
    }

    /// The paths of an imported pool.
    pub(super) fn of(&self, pool: PoolGuid) -> PoolPlaces {
        let own = self.listed.iter().filter(|l| l.pool == pool);
        let own = own.map(|l| l.path.clone());
        let spares = self.spares.iter().filter(|s| s.label.is_of(pool));
        let caches = self.caches.iter().filter(|c| c.label.pool == pool);
        PoolPlaces {
            disks: self.members().chain(own).collect(),
            spares: spares.map(|s| s.path.clone()).collect(),
            caches: caches.map(|c| c.path.clone()).collect(),
        }
    }

    /// What the request names and is no spare or cache device.
    fn members(&self) -> impl Iterator<Item = PathBuf> {
        let is_extra = |path: &PathBuf| {
            let mut extras = self.spares.iter().map(|s| &s.path);
            extras.any(|p| p == path) || self.caches.iter().any(|c| c.path == *path)
        };
        self.named
            .iter()
            .filter(move |path| !is_extra(path))
            .cloned()
    }
}

impl Server {
    /// The disks at these places: files, disks, and directories of such; without any, the configured search directories. A simulated
    /// server has no directories. Errors: `Invalid` for a path that is not absolute, or a directory that cannot be read; `Conflict` if
    /// there is no disk.
    pub(super) async fn places(&self, given: &[PathBuf]) -> Result<Places> {
        super::change::check_paths(given)?;
        if self.state_dir().is_none() {
            return Ok(Places {
                named: given.to_vec(),
                listed: Vec::new(),
                spares: spares_at(given.to_vec()).await,
                caches: caches_at(given.to_vec()).await,
            });
        }
        let searched = match given.is_empty() {
            true => self.search_directories(),
            false => given.to_vec(),
        };
        let reading = searched.clone();
        let read = io::blocking(move || {
            let (directories, named): (Vec<_>, Vec<_>) =
                reading.into_iter().partition(|p| p.is_dir());
            for directory in &directories {
                if let Err(e) = std::fs::read_dir(directory) {
                    return Err(Error::Invalid(format!("{}: {e}", directory.display())));
                }
            }
            let paths = list(&directories, &named);
            Ok((named, paths))
        });
        let (named, paths) = read.await.map_err(|e| Error::Invalid(e.to_string()))??;
        // A configured directory may be absent; a given one would be examined as a disk, with its own message.
        let named = match given.is_empty() {
            true => Vec::new(),
            false => named,
        };
        let all = [&named[..], &paths].concat();
        let (spares, caches) = (spares_at(all.clone()).await, caches_at(all).await);
        let mut listed = labels_at(paths).await;
        listed.retain(|l| !self.has_open(l.pool));
        if named.is_empty() && listed.is_empty() {
            let shown: Vec<_> = searched.iter().map(|p| p.display().to_string()).collect();
            return Err(Error::Conflict(format!(
                "no disk of a pool that could be imported was found in {}: -d names disks, or directories with disks",
                shown.join(", ")
            )));
        }
        Ok(Places {
            named,
            listed,
            spares,
            caches,
        })
    }

    /// Whether the pool is open in this server.
    fn has_open(&self, guid: PoolGuid) -> bool {
        let state = self.state.borrow();
        let mut open = state.pools.all_open();
        open.any(|(_, pool)| pool.vdevs().pool() == guid)
    }
}
