//! Removal of vdevs: its begin and end, and what people see of it.
//!
//! **Called by** the control API and by upkeep, on the server's shard. **Invariants**: those of [`crate::change`]; the paths of a removed
//! vdev's disks leave the configuration when their labels are gone.

use super::change::refused;
use super::supervisor::{SeenRemoval, Supervisor};
use super::view;
use crate::api::{self, StopRemoval};
use crate::config::PoolEdit;
use crate::server::Server;
use crate::{Error, Result};
use pool::Pool;
use pool::format::VdevId;
use std::collections::BTreeSet;
use std::path::PathBuf;

impl Server {
    /// Begins to remove a vdev. The caller holds the permit for changes.
    pub(super) async fn remove_vdev(&self, name: &str, device: &str) -> Result<api::Pool> {
        let pool = self.pool_named(name)?;
        let vdev = self.vdev_of(name, device)?;
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
        let stopped = pool.stop_removal().await;
        stopped.map_err(|e| refused(name, e))?;
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
    /// Records events for a removal that ended, or began to wait, since the last check, and forgets the disks of a removed vdev.
    pub(super) async fn look_at_removal(&self, pool: &Pool) {
        let status = pool.vdevs().status();
        let now = pool.removing().and_then(|removing| {
            let vdev = status.iter().find(|v| v.id == removing.vdev)?;
            let disks = vdev.members.iter().map(|member| member.path.clone());
            Some(SeenRemoval {
                vdev: vdev.id,
                name: view::vdev(vdev).name,
                disks: disks.collect(),
                is_stopping: removing.is_stopping,
                waits_for: removing.waits_for,
            })
        });
        let before = self.removal.replace(now.clone());
        if let Some(now) = &now
            && let Some(wait) = now.waits_for
            && before.as_ref().and_then(|b| b.waits_for) != Some(wait)
        {
            let text = format!(
                "the removal of {} waits: {}",
                now.name,
                view::removal_reason(wait)
            );
            self.server.event(&self.name, "removal.wait", text);
        }
        let Some(ended) = before.filter(|b| now.as_ref().map(|n| n.vdev) != Some(b.vdev)) else {
            return;
        };
        let present: BTreeSet<VdevId> = status.iter().map(|v| v.id).collect();
        if present.contains(&ended.vdev) {
            let text = format!("{} stays in the pool", ended.name);
            self.server.event(&self.name, "removal.stop", text);
            return;
        }
        let text = format!(
            "{} was removed: its disks can be used elsewhere",
            ended.name
        );
        self.server.event(&self.name, "removal.finish", text);
        if let Err(error) = self.server.forget_disks(&self.name, &ended.disks).await {
            tracing::warn!(pool = self.name, %error, "paths of removed disks stay in the configuration");
        }
    }
}
