//! The scratch volume of a drill.
//!
//! **Owns** the volume and its export, from creation to removal, and the refusals before them. **Called by** drills.
//! **Invariants**: the volume did not exist before; it is exported to the drill's host alone; only volumes with a drill's
//! reserved name whose process has ended are removed as leftovers, and only if no other export has them.

use super::mark::Mark;
use crate::client::Client;
use anyhow::{Context, Result, bail, ensure};
use server::ByteSize;
use server::api::{
    CreateVolume, DestroyVolume, DiskState, ExportNvme, GetStatus, Health, Pool, RemoveExport,
    Status, Volume, VolumeSync,
};
use std::sync::Arc;

/// Free space of the pool that a drill asks for, in sizes of its volume.
pub(super) const SPACE: u64 = 8;

/// A volume of the drill's own, exported.
pub(super) struct Scratch {
    client: Arc<Client>,
    mark: Mark,
    volume: String,
}

/// A scratch volume to be made.
pub(super) struct NewScratch<'a> {
    pub(super) pool: &'a str,
    /// Name below the pool; by default a reserved one.
    pub(super) name: Option<&'a str>,
    pub(super) size: ByteSize,
    /// Bytes that the volume may take.
    pub(super) quota: ByteSize,
    pub(super) sync: Option<VolumeSync>,
}

impl Scratch {
    /// Removes leftovers of ended drills, then makes and exports the volume.
    ///
    /// # Errors
    /// A drill is running, the pool is unsuitable, the name is taken, or the server refuses.
    pub(super) fn make(client: &Arc<Client>, new: &NewScratch<'_>) -> Result<Scratch> {
        let status = client.ask(&GetStatus {})?;
        remove_leftovers(client, &status)?;
        check(&status, new)?;
        let mark = Mark::own();
        let name = new.name.map_or_else(|| mark.name(), str::to_owned);
        let volume = format!("{}/{name}", new.pool);
        ensure!(
            status.volumes.iter().all(|v| v.name != volume)
                && status.filesystems.iter().all(|f| f.name != volume),
            "{volume} exists: a drill writes only to a volume of its own. Choose another name, or none"
        );
        client.ask(&CreateVolume {
            name: volume.clone(),
            size: new.size,
            block_size: None,
            record_size: None,
            sync: new.sync,
            // Checked contents are random, so nothing is compressed away.
            compression: Some("off".into()),
            checksum: None,
            quota: Some(new.quota),
            reservation: None,
        })?;
        let scratch = Scratch {
            client: client.clone(),
            mark,
            volume,
        };
        let export = ExportNvme {
            disk: scratch.volume.clone(),
            nqn: Some(mark.subsystem()),
            hosts: vec![mark.host()],
            transports: Vec::new(),
        };
        match client.ask(&export) {
            Ok(_) => Ok(scratch),
            Err(e) => {
                // The export may exist without its host.
                scratch.remove()?;
                Err(e)
            }
        }
    }

    /// The volume.
    pub(super) fn volume(&self) -> &str {
        &self.volume
    }

    /// The drill.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Removes export and volume.
    ///
    /// # Errors
    /// The server refuses or does not answer; the next drill removes the volume then.
    pub(super) fn remove(self) -> Result<()> {
        let status = self.client.ask(&GetStatus {});
        let removed = status.and_then(|status| {
            let volume = status.volumes.iter().find(|v| v.name == self.volume);
            volume.map_or(Ok(()), |volume| remove(&self.client, self.mark, volume))
        });
        removed.with_context(|| {
            format!(
                "the scratch volume {} is left: the next drill removes it if it has a reserved name, else `wirepool volume \
                 destroy -f {0}` after `wirepool export remove {1}`",
                self.volume,
                self.mark.subsystem()
            )
        })
    }
}

fn remove(client: &Client, mark: Mark, volume: &Volume) -> Result<()> {
    if let Some(export) = volume.exported_as.name() {
        ensure!(
            export == mark.subsystem(),
            "{} is exported by {export}, which no drill made",
            volume.name
        );
        client.ask(&RemoveExport {
            nqn: export.to_owned(),
            nsid: None,
        })?;
    }
    client.ask(&DestroyVolume {
        name: volume.name.clone(),
        force: true,
        recursive: false,
    })?;
    Ok(())
}

/// Removes volumes of drills that ended without cleaning up. Errors: one of them is running.
fn remove_leftovers(client: &Client, status: &Status) -> Result<()> {
    for volume in &status.volumes {
        let last = volume.name.rsplit('/').next().unwrap_or_default();
        let by_name = Mark::parse(last);
        let by_export = volume.exported_as.name().and_then(Mark::of_subsystem);
        let Some(mark) = by_name.or(by_export) else {
            continue;
        };
        if mark.is_running() {
            bail!(
                "another drill (process {}) runs on this server with the volume {}: wait until it has ended",
                mark.pid(),
                volume.name
            );
        }
        // A user chose this name, so only the user can say that nothing else uses the volume.
        ensure!(
            by_name.is_some(),
            "{0} was left by an earlier drill: `wirepool export remove {1}`, then `wirepool volume destroy -f {0}`",
            volume.name,
            mark.subsystem()
        );
        eprintln!("removing {}, which an earlier drill left", volume.name);
        remove(client, mark, volume)?;
    }
    Ok(())
}

fn check(status: &Status, new: &NewScratch<'_>) -> Result<()> {
    let pool = status.pools.iter().find(|p| p.name == new.pool);
    let Some(pool) = pool else {
        let names: Vec<&str> = status.pools.iter().map(|p| p.name.as_str()).collect();
        let names = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        bail!(
            "no such pool {:?}: the server's pools are: {names}",
            new.pool
        );
    };
    check_pool(pool, new.size)
}

fn check_pool(pool: &Pool, size: ByteSize) -> Result<()> {
    let name = &pool.name;
    ensure!(
        pool.state == DiskState::Online,
        "the pool {name} is not open: see `wirepool pool status {name}`"
    );
    ensure!(!pool.read_only, "the pool {name} is open for reading only");
    ensure!(
        !matches!(pool.health, Some(Health::Faulted | Health::Suspended)),
        "the pool {name} is faulted or suspended: mend it first, see `wirepool pool status {name}`"
    );
    let available = pool.free.saturating_sub(pool.reserved);
    let needed = size.0 * SPACE;
    ensure!(
        available >= needed,
        "the pool {name} has {} available, and a drill with a volume of {} asks for {}: use a smaller --size, or free space",
        ByteSize(available).human(),
        size.human(),
        ByteSize(needed).human()
    );
    Ok(())
}
