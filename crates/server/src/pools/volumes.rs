//! Live changes of volumes.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: one change at a time; a refused one has no
//! effect. The pool stores volumes, the configuration only their exports.

use super::convert::record_size;
use super::dependents;
use super::entry::{full_name, volumes_of};
use super::lineage::limits_failed;
use super::names::{misplaced, names};
use crate::api::{self, CreateVolume, DestroyVolume, ResizeVolume, SYNC_DISABLED, VolumeSync};
use crate::config::{UUID_SPACE, random_uuid};
use crate::limits::{DISK_SIZE_MAX, VOLUMES_MAX};
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use backend::BlockBackend;
use pool::format::{ChecksumKind, DatasetProperty, Packing};
use pool::{NewVolume, Pool};
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

/// Default of a volume's block size and record size, bytes.
const BLOCK_SIZE_DEFAULT: u32 = 4096;

fn check_size(size: ByteSize, block: u32) -> Result<()> {
    let (least, most) = (ByteSize(block.into()), ByteSize(DISK_SIZE_MAX));
    if size < least || size > most {
        return Err(Error::Invalid(format!(
            "a volume has {least} to {most}, not {size}"
        )));
    }
    if !size.0.is_multiple_of(block.into()) {
        return Err(Error::Invalid(format!(
            "the size {size} is no multiple of the block size ({block})"
        )));
    }
    Ok(())
}

pub(super) fn compression(text: &str) -> Result<Packing> {
    let parsed = text.parse();
    parsed.map_err(|e| Error::Invalid(format!("{e}, not {text:?}")))
}

pub(super) fn checksum(text: &str) -> Result<ChecksumKind> {
    let parsed = text.parse();
    parsed.map_err(|e| Error::Invalid(format!("{e}, not {text:?}")))
}

/// The properties that a request names. The new dataset inherits the others.
pub(super) fn own_properties(
    sync: Option<VolumeSync>,
    compression: Option<&String>,
    checksum: Option<&String>,
) -> Vec<DatasetProperty> {
    let named = [
        (DatasetProperty::Sync, sync.is_some()),
        (DatasetProperty::Compression, compression.is_some()),
        (DatasetProperty::Checksum, checksum.is_some()),
    ];
    let named = named.into_iter().filter(|(_, is_named)| *is_named);
    named.map(|(property, _)| property).collect()
}

fn new_volume(request: &CreateVolume, name: &str, sector: u32) -> Result<NewVolume> {
    let block = request
        .block_size
        .map_or(u64::from(BLOCK_SIZE_DEFAULT), |b| b.0);
    if !matches!(block, 512 | 4096) {
        return Err(Error::Invalid(format!(
            "the block size is 512 or 4K, not {}",
            ByteSize(block)
        )));
    }
    let record = request
        .record_size
        .map_or(u64::from(sector.max(BLOCK_SIZE_DEFAULT)), |r| r.0);
    let record_size = record_size(ByteSize(record), sector)?;
    check_size(request.size, block as u32)?;
    Ok(NewVolume {
        name: name.to_owned(),
        size: request.size.0,
        block_size: block as u32,
        record_size,
        sync: request.sync.unwrap_or_default().into(),
        compression: compression(request.compression.as_deref().unwrap_or("lz4"))?,
        checksum: checksum(request.checksum.as_deref().unwrap_or("xxh3"))?,
    })
}

fn failed(pool: &str, full: &str, e: pool::Error) -> Error {
    if let Some(misplaced) = misplaced(full, &e) {
        return misplaced;
    }
    match e {
        pool::Error::Exists => Error::Conflict(format!("volume {full:?} exists already")),
        pool::Error::NotFound => Error::NoVolume(full.to_owned()),
        pool::Error::Busy => Error::Conflict(format!(
            "the volume {full:?} has snapshots or datasets below it: destroy those first, or use -r"
        )),
        pool::Error::Invalid(defect) => Error::Invalid(format!("the volume {full:?}: {defect}")),
        e => Error::Pool {
            name: pool.to_owned(),
            reason: e.to_string(),
        },
    }
}

impl Server {
    /// See [`CreateVolume`]. Errors: `Invalid`, `Conflict`, `NoPool`, `Pool`. The same holds for the other changes.
    pub async fn create_volume(self: &Rc<Self>, request: CreateVolume) -> Result<api::Volume> {
        let _turn = self.turn().await?;
        let (pool_name, name) = names(&request.name)?;
        let pool = self.pool_named(pool_name)?;
        let new = new_volume(&request, name, pool.vdevs().sector())?;
        if volumes_of(&pool).len() >= VOLUMES_MAX {
            return Err(Error::Conflict(format!(
                "the pool {pool_name:?} has {VOLUMES_MAX} volumes: destroy one first"
            )));
        }
        let made = pool
            .create_volume_with(
                new,
                &own_properties(
                    request.sync,
                    request.compression.as_ref(),
                    request.checksum.as_ref(),
                ),
            )
            .await;
        let volume = made.map_err(|e| failed(pool_name, &request.name, e))?;
        let limit = |size: Option<ByteSize>| size.map_or(0, |size| size.0);
        let (quota, reservation) = (limit(request.quota), limit(request.reservation));
        if let Err(e) = pool.set_limits(name, quota, reservation).await {
            let _unmade = pool.destroy_volume(name).await;
            return Err(limits_failed(pool_name, &request.name, e));
        }
        if request.sync == Some(VolumeSync::Disabled) {
            tracing::warn!(volume = request.name, "{SYNC_DISABLED}");
        }
        self.keep(&full_name(pool_name, name), Some(Arc::new(volume)));
        self.volume_view(&request.name)
    }

    pub(super) fn volume_named(&self, full: &str) -> Result<(Rc<Pool>, pool::Volume)> {
        let (pool_name, name) = names(full)?;
        let pool = self.pool_named(pool_name)?;
        let volume = pool
            .volume(name)
            .ok_or_else(|| match pool.filesystem(name) {
                Some(_) => Error::Invalid(format!(
                    "{full:?} is a filesystem, not a volume: see `wirepool fs --help`"
                )),
                None => Error::NoVolume(full.to_owned()),
            })?;
        Ok((pool, volume))
    }

    /// See [`ResizeVolume`].
    pub async fn resize_volume(&self, request: ResizeVolume) -> Result<api::Volume> {
        let _turn = self.turn().await?;
        let ResizeVolume {
            name: full,
            size,
            shrink,
        } = request;
        let (pool, volume) = self.volume_named(&full)?;
        let (pool_name, name) = names(&full)?;
        let geometry = volume.geometry();
        check_size(size, geometry.block_size)?;
        let blocks = size.0 / u64::from(geometry.block_size);
        if blocks < geometry.blocks && !shrink {
            let now = ByteSize(geometry.blocks * u64::from(geometry.block_size)).human();
            return Err(Error::Conflict(format!(
                "the volume {full:?} has {now}: what lies beyond {size} would be lost; --shrink does it nevertheless"
            )));
        }
        let changed = pool.resize_volume(name, size.0).await;
        changed.map_err(|e| failed(pool_name, &full, e))?;
        self.announce(&full);
        self.volume_view(&full)
    }

    /// See [`DestroyVolume`].
    pub async fn destroy_volume(&self, request: DestroyVolume) -> Result<()> {
        let _turn = self.turn().await?;
        let full = request.name;
        let (pool_name, name) = names(&full)?;
        let (pool, _) = self.volume_named(&full)?;
        let all = match request.recursive {
            true => self.tree(&pool, pool_name, name),
            false => vec![full.clone()],
        };
        self.check_not_exported(&all)?;
        if !request.force {
            let also = match request.recursive {
                true => ", its snapshots and all datasets below it",
                false => "",
            };
            let text = format!(
                "this destroys the volume {full:?} with all its data{also}: use -f to confirm"
            );
            return Err(Error::Conflict(text));
        }
        self.destroy_dataset(&pool, &full, &all, request.recursive)
            .await
    }

    /// Destroys a dataset, or with `recursive` a tree of datasets and their snapshots. `all` has the names of its volumes and
    /// filesystems.
    pub(super) async fn destroy_dataset(
        &self,
        pool: &Pool,
        full: &str,
        all: &[String],
        recursive: bool,
    ) -> Result<()> {
        let (pool_name, name) = names(full)?;
        self.withdraw_shares(|other| all.iter().any(|full| full == other));
        let destroyed = match recursive {
            true => pool.destroy_tree(name).await.map_err(|e| match e {
                pool::Error::Busy => {
                    let tree = pool.names_below(name);
                    let clones = dependents::of_snapshots(pool, pool_name, &tree, None);
                    let text = clones.unwrap_or_else(|| {
                        format!("{full:?}: a snapshot of it or below it is being taken: try again")
                    });
                    Error::Conflict(text)
                }
                pool::Error::Held { .. } => Error::Conflict(format!("{full:?}: {e}")),
                e => failed(pool_name, full, e),
            }),
            false => {
                let destroyed = pool.destroy_volume(name).await;
                destroyed.map_err(|e| {
                    let dependents = || dependents::of_dataset(pool, pool_name, name);
                    match (e == pool::Error::Busy).then(dependents).flatten() {
                        Some(text) => Error::Conflict(text),
                        None => failed(pool_name, full, e),
                    }
                })
            }
        };
        self.shares_changed();
        // a destruction that failed may have destroyed some of them
        let gone = |full: &String| names(full).is_ok_and(|(_, name)| pool.volume(name).is_none());
        for full in all.iter().filter(|full| gone(full)) {
            let gone = self.state.borrow_mut().disks.remove(full);
            drop(gone);
        }
        destroyed
    }

    /// Full names of a dataset and all datasets below it.
    pub(super) fn tree(&self, pool: &Pool, pool_name: &str, name: &str) -> Vec<String> {
        let names = pool.names_below(name);
        names
            .iter()
            .map(|name| full_name(pool_name, name))
            .collect()
    }

    /// Errors: `Conflict` if one of these volumes and filesystems is exported.
    pub(super) fn check_not_exported(&self, all: &[String]) -> Result<()> {
        let state = self.state.borrow();
        let config = state.file.config();
        let exported = |full: &String| Some((full.clone(), config.exported_as(full)?));
        match all.iter().find_map(exported) {
            Some((full, export)) => {
                let kind = config.kind_of_exported(&full);
                Err(Error::Conflict(format!(
                    "the {kind} {full:?} is exported: `{}` first",
                    export.removal
                )))
            }
            None => Ok(()),
        }
    }

    /// An identity for unique names: computed from the volume's identity, or from the disk's name and this machine.
    pub(crate) fn identity_of(&self, disk: &str) -> Uuid {
        let of_disk = || format!("{:?}\n{disk}", self.host.id);
        let identity = self.volume_identity(disk).unwrap_or_else(of_disk);
        Uuid::new_v5(&UUID_SPACE, identity.as_bytes())
    }

    /// The UUID under which hosts know an exported disk: always the same for a volume, so that hosts find it again after its export was
    /// removed and added, or its pool moved to another server. A disk of another kind has a new one for each export, because its name
    /// says nothing about its contents.
    pub(crate) fn export_uuid(&self, disk: &str) -> Uuid {
        match self.volume_identity(disk) {
            Some(identity) => {
                let identity = format!("export\n{identity}");
                Uuid::new_v5(&UUID_SPACE, identity.as_bytes())
            }
            None => random_uuid(),
        }
    }

    /// The identifiers of a volume and its pool; `None` for a disk of another kind.
    fn volume_identity(&self, disk: &str) -> Option<String> {
        let (pool, volume) = disk.split_once('/')?;
        let pool = self.readable_pool(pool).ok()?;
        let volume = pool.volume(volume)?;
        let (pool, guid) = (pool.vdevs().pool().0, volume.dataset().guid);
        Some(format!("{pool:016x}\n{guid:016x}"))
    }
}
