//! Live changes of volumes.
//!
//! **Called by** the control API, on the server's shard. **Invariants**: one change at a time; a refused one has no
//! effect. The pool stores volumes, the configuration only their exports.

use super::entry::{full_name, volumes_of};
use super::lineage::limits_failed;
use super::names::names;
use crate::api::{self, CreateVolume, DestroyVolume, ResizeVolume, SYNC_DISABLED, VolumeSync};
use crate::config::UUID_SPACE;
use crate::limits::{DISK_SIZE_MAX, VOLUMES_MAX};
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use backend::BlockBackend;
use pool::format::{ChecksumKind, Packing, Sync};
use pool::{NewVolume, Pool};
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

/// Default of a volume's block size and record size, bytes.
const BLOCK_SIZE_DEFAULT: u32 = 4096;
const RECORD_SIZES: std::ops::RangeInclusive<u64> = 4096..=1 << 20;

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
    if record < u64::from(sector) && RECORD_SIZES.contains(&record) {
        let text = format!(
            "the pool's disks have sectors of {}: a record has as many bytes or more",
            ByteSize(sector.into())
        );
        return Err(Error::Invalid(text));
    }
    if !record.is_power_of_two() || !RECORD_SIZES.contains(&record) {
        let text = format!(
            "the record size is a power of two from 4K to 1M, not {}",
            ByteSize(record)
        );
        return Err(Error::Invalid(text));
    }
    check_size(request.size, block as u32)?;
    Ok(NewVolume {
        name: name.to_owned(),
        size: request.size.0,
        block_size: block as u32,
        record_size: record as u32,
        sync: match request.sync {
            VolumeSync::Standard => Sync::Standard,
            VolumeSync::Always => Sync::Always,
            VolumeSync::Disabled => Sync::Disabled,
        },
        compression: compression(request.compression.as_deref().unwrap_or("lz4"))?,
        checksum: checksum(request.checksum.as_deref().unwrap_or("xxh3"))?,
    })
}

fn failed(pool: &str, full: &str, e: pool::Error) -> Error {
    match e {
        pool::Error::Exists => Error::Conflict(format!("volume {full:?} exists already")),
        pool::Error::NotFound => Error::NoVolume(full.to_owned()),
        pool::Error::Busy => Error::Conflict(format!(
            "the volume {full:?} has snapshots: destroy those first"
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
        let made = pool.create_volume(new).await;
        let volume = made.map_err(|e| failed(pool_name, &request.name, e))?;
        let limit = |size: Option<ByteSize>| size.map_or(0, |size| size.0);
        let (quota, reservation) = (limit(request.quota), limit(request.reservation));
        if let Err(e) = pool.set_limits(name, quota, reservation).await {
            let _unmade = pool.destroy_volume(name).await;
            return Err(limits_failed(pool_name, &request.name, e));
        }
        if volume.dataset().sync == Sync::Disabled {
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
            .ok_or_else(|| Error::NoVolume(full.to_owned()))?;
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
        if let Some(export) = self.state.borrow().file.config().exported_as(&full) {
            return Err(Error::Conflict(format!(
                "the volume {full:?} is exported: `{}` first",
                export.removal
            )));
        }
        if !request.force {
            let text =
                format!("this destroys the volume {full:?} with all its data: use -f to confirm");
            return Err(Error::Conflict(text));
        }
        pool.destroy_volume(name)
            .await
            .map_err(|e| failed(pool_name, &full, e))?;
        let gone = self.state.borrow_mut().disks.remove(&full);
        drop(gone);
        Ok(())
    }

    /// An identity for unique names: computed from the volume's identity, or from the disk's name and this machine.
    pub(crate) fn identity_of(&self, disk: &str) -> Uuid {
        let found = disk.split_once('/').and_then(|(pool, volume)| {
            let pool = self.readable_pool(pool).ok()?;
            let volume = pool.volume(volume)?;
            Some((pool, volume))
        });
        let identity = match found {
            Some((pool, volume)) => format!(
                "{:016x}\n{:016x}",
                pool.vdevs().pool().0,
                volume.dataset().guid
            ),
            None => format!("{:?}\n{disk}", self.host.id),
        };
        Uuid::new_v5(&UUID_SPACE, identity.as_bytes())
    }
}
