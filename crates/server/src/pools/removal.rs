//! Removal of vdevs: its begin and end, and what people see of it.
//!
//! **Called by** the control API and by upkeep, on the server's shard. **Invariants**: those of [`crate::change`]; the paths of a removed
//! vdev's disks leave the configuration when their labels are gone.

use super::change::refused;
use super::entry::SeenVdev;
use super::supervisor::Supervisor;
use super::view;
use crate::api::{self, StopRemoval};
use crate::config::PoolEdit;
use crate::server::Server;
use crate::{Error, Result};
use pool::Pool;
use pool::format::VdevId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn seen_vdevs(pool: &Pool) -> BTreeMap<VdevId, SeenVdev> {
    let status = pool.vdevs().status().into_iter();
    let seen = status.map(|vdev| {
        let name = view::vdev(&vdev).name;
        let disks = vdev.members.into_iter().map(|member| member.path);
        let disks = disks.collect();
        (vdev.id, SeenVdev { name, disks })
    });
    seen.collect()
}

impl Server {
    /// Notes the present vdevs of a pool: one of them may leave it before the next check.
    pub(super) fn see_vdevs(&self, name: &str, pool: &Pool) {
        if let Some(entry) = self.state.borrow().pools.get(name) {
            entry.vdevs.borrow_mut().extend(seen_vdevs(pool));
        }
    }

    /// Begins to remove a vdev. The caller holds the permit for changes.
    pub(super) async fn remove_vdev(&self, name: &str, device: &str) -> Result<api::Pool> {
        let pool = self.pool_named(name)?;
        let vdev = self.vdev_of(name, device)?;
        self.see_vdevs(name, &pool);
        let begun = pool.remove_vdev(vdev).await;
        begun.map_err(|e| refused(name, e))?;
        self.event(name, "removal.start", format!("{device} is being removed"));
        self.pool_view(name)
    }

    /// See [`StopRemoval`]. Errors: `NoPool`, `Conflict`, `Pool`.
    pub async fn stop_removal(&self, request: StopRemoval) -> Result<api::Pool> {
        let _turn = self.turn().await?;
        let name = &request.pool;
        let pool = self.pool_named(name)?;
        let leaving = pool.removing().map(|removing| removing.vdev);
        let stopped = pool.stop_removal().await;
        stopped.map_err(|e| refused(name, e))?;
        let status = pool.vdevs().status();
        if let Some(vdev) = status.iter().find(|v| Some(v.id) == leaving) {
            let vdev = view::vdev(vdev).name;
            let text = format!("the removal of {vdev} was given up: it stays in the pool");
            self.event(name, "removal.stop", text);
        }
        self.pool_view(name)
    }

    /// Takes the paths of disks that left a pool out of the configuration.
    async fn forget_disks(&self, name: &str, gone: &[PathBuf]) -> Result<()> {
        let _turn = self.turn().await?;
        let mut paths = self.with_paths(name, &[]);
        paths.retain(|path| !gone.contains(path));
        if paths.is_empty() {
            return Err(Error::Invalid("a pool has a disk at least".into()));
        }
        let edited = self.edited(&[&PoolEdit::SetDisks(name.to_owned(), paths)])?;
        self.store(edited).await
    }
}

impl Supervisor {
    /// Records events for a removal that began to wait and for vdevs that left the pool since the last check, and forgets their disks. A removal may
    /// have begun and ended between two checks.
    pub(super) async fn look_at_removal(&self, pool: &Pool) {
        let mut now = seen_vdevs(pool);
        let waits = pool.removing().and_then(|r| Some((r.vdev, r.waits_for?)));
        let waited = self.removal_waits.replace(waits);
        if let Some((vdev, wait)) = waits.filter(|_| waits != waited)
            && let Some(seen) = now.get(&vdev)
        {
            let reason = view::removal_reason(wait);
            let text = format!("the removal of {} waits: {reason}", seen.name);
            self.server.event(&self.name, "removal.wait", text);
        }
        // A log that failed is there until its journal has moved.
        let leaving = pool.leaving_logs();
        let seen = self.vdevs.borrow().clone().into_iter();
        now.extend(seen.filter(|(id, _)| leaving.contains(id)));
        let present: BTreeSet<VdevId> = now.keys().copied().collect();
        let before = self.vdevs.replace(now);
        let lost = pool.lost_logs();
        for (id, gone) in before.iter().filter(|(id, _)| !present.contains(id)) {
            let (name, pool) = (&gone.name, &self.name);
            let (class, text) = match lost.contains(id) {
                true => (
                    "log.lost",
                    format!(
                        "{name}, which had the journal, failed and left the pool: nothing was lost, and durable writes go to the other vdevs; \
                         add another log: wirepool pool add {pool} log DISK"
                    ),
                ),
                false => (
                    "removal.finish",
                    format!("{name} was removed: its disks can be used elsewhere"),
                ),
            };
            self.server.event(pool, class, text);
            if let Err(error) = self.server.forget_disks(&self.name, &gone.disks).await {
                tracing::warn!(pool = self.name, %error, "paths of removed disks stay in the configuration");
            }
        }
    }
}
