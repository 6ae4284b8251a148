//! Live changes of a pool's size: added vdevs and grown disks.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: those of [`crate::change`]; disks of a new
//! vdev are in the configuration before they have labels, so that a restart in between finds every disk that the pool
//! needs.

use super::change::{check_each, check_paths, refused};
use super::layout::Shape;
use super::new_disks::{NewDisks, remove_files};
use crate::api::{self, AddVdevs, VdevClass, VdevSpec};
use crate::config::PoolEdit;
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use pool::Pool;
use pool::format::VdevId;
use std::path::{Path, PathBuf};
use std::rc::Rc;

fn shapes_of(pool: &Pool) -> Vec<Shape> {
    pool.vdevs().status().iter().map(Shape::from).collect()
}

impl Server {
    /// See [`AddVdevs`]. Errors: `NoPool`, `Invalid`, `Conflict`, `Disk`, `Pool`, `File`.
    pub async fn add_vdevs(self: &Rc<Self>, request: AddVdevs) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.pool;
        let pool = self.pool_named(name)?;
        let new: Vec<PathBuf> = VdevSpec::paths(&request.vdevs)
            .map(Path::to_path_buf)
            .collect();
        let extras = [&request.spares[..], &request.caches].concat();
        if new.is_empty() && extras.is_empty() {
            return Err(Error::Invalid("name the disks to add".into()));
        }
        check_paths(&new)?;
        check_each(&new, &extras)?;
        let (size, force) = (request.size, request.force);
        let caches = self.open_caches((name, Some(&pool)), &request.caches, size, force);
        let caches = caches.await?;
        // cache devices can be removed again, vdevs cannot
        let added = match self.add_caches(name, &pool, &caches, force).await {
            Ok(()) if new.is_empty() && request.spares.is_empty() => Ok(()),
            Ok(()) => self.add_members(&request, &pool, new).await,
            Err(e) => Err(e),
        };
        if let Err(e) = added {
            for path in &request.caches {
                let path = path.display().to_string();
                let _best_effort = self.remove_cache_named(name, &pool, &path).await;
            }
            caches.discard().await;
            return Err(e);
        }
        self.pool_view(name)
    }

    /// Adds vdevs and spares. The caller holds the permit for changes.
    async fn add_members(
        self: &Rc<Self>,
        request: &AddVdevs,
        pool: &Rc<Pool>,
        new: Vec<PathBuf>,
    ) -> Result<()> {
        let name = &request.pool;
        let notes = self.notes_of(name)?;
        for path in &new {
            self.check_free(name, path)?;
        }
        for path in &request.spares {
            self.check_free_spare(path)?;
        }
        let edited = self.with_more(name, &new, &request.spares)?;
        let spares_before = self.with_spares(name, &[]);
        let disks = self.open_new(&request.vdevs, request.size).await?;
        let spares = match self.open_each(&request.spares, request.size).await {
            Ok(spares) => spares,
            Err(e) => {
                disks.discard().await;
                return Err(e);
            }
        };
        let stored = match self.check_added(pool, request, &disks, &spares).await {
            Ok(()) => self.store(edited).await,
            Err(e) => Err(e),
        };
        if let Err(e) = stored {
            disks.discard().await;
            spares.discard().await;
            return Err(e);
        }
        // Spares can be removed again, vdevs cannot.
        let waiting = self.add_spares(name, pool, &spares, request.force).await;
        let added = match &waiting {
            Ok(_) => self.add_each(pool, request, &disks).await,
            Err(_) => Ok(()),
        };
        self.remember_paths(pool, &notes).await;
        let (waiting, added) = match (waiting, added) {
            (Ok(waiting), Ok(())) => (waiting, Ok(())),
            (Ok(waiting), Err(e)) => {
                self.drop_spares(pool, &spares, &waiting).await;
                (Vec::new(), Err(e))
            }
            (Err(e), _) => (Vec::new(), Err(e)),
        };
        match added.is_ok() {
            true => drop(spares),
            false => spares.discard().await,
        }
        self.remember_spares(name, &notes, &waiting).await;
        self.find_spares(name, pool, &notes).await;
        if let Err(e) = added {
            // paths of former members are removed
            let members = pool.vdevs().status().into_iter().flat_map(|v| v.members);
            let used: Vec<PathBuf> = members.map(|s| s.path).collect();
            let unused = |path: &PathBuf| new.contains(path) && !used.contains(path);
            let mut paths = self.with_paths(name, &[]);
            paths.retain(|path| !unused(path));
            let disks_edit = PoolEdit::SetDisks(name.clone(), paths);
            let spares_edit = PoolEdit::SetSpares(name.clone(), spares_before);
            let edited = self.edited(&[&disks_edit, &spares_edit])?;
            self.store(edited).await?;
            let made = disks.made().iter().filter(|path| unused(path));
            remove_files(made.cloned().collect()).await;
            return Err(e);
        }
        Ok(())
    }

    /// Refuses disks that hold anything, unless forced, and spares that fit no vdev. Errors: `Conflict`, `Invalid`.
    async fn check_added(
        &self,
        pool: &Pool,
        request: &AddVdevs,
        disks: &NewDisks,
        spares: &NewDisks,
    ) -> Result<()> {
        let name = &request.pool;
        for disk in spares.vdevs().iter().map(|v| &v.members[0]) {
            let checked = pool.vdevs().check_spare(disk, request.force).await;
            checked.map_err(|e| refused(name, e))?;
        }
        if request.force {
            return Ok(());
        }
        disks.check(name, &shapes_of(pool)).await?;
        spares.check(name, &[]).await
    }

    /// Expands a vdev to the space of its grown disks. Returns whether it grew. Errors: `Pool`.
    pub(super) async fn expand(&self, name: &str, pool: &Pool, vdev: VdevId) -> Result<bool> {
        let grown = pool.grow(vdev).await.map_err(|e| refused(name, e))?;
        if grown {
            let size = pool.space().size;
            let text = format!("vdev {} grew: the pool has {}", vdev.0, ByteSize(size));
            self.event(name, "vdev.grow", text);
        }
        Ok(grown)
    }

    async fn add_each(&self, pool: &Pool, request: &AddVdevs, disks: &NewDisks) -> Result<()> {
        let name = &request.pool;
        for (spec, asked) in disks.vdevs().iter().zip(&request.vdevs) {
            let added = pool.add_vdev(spec.clone(), request.force).await;
            let vdev = added.map_err(|e| refused(name, e))?;
            self.see_vdevs(name, pool);
            let paths = asked.members.iter().map(|p| p.display().to_string());
            let paths = paths.collect::<Vec<_>>().join(" ");
            let class = match asked.class {
                VdevClass::Normal => "",
                VdevClass::Log => " for the journal",
                VdevClass::Special => " for metadata and small records",
            };
            let text = format!("vdev {}, {}{class} of {paths}", vdev.0, asked.layout);
            self.event(name, "vdev.add", text);
        }
        Ok(())
    }
}
