//! Disks of cache devices: which disk may become one, and the writes of its label.
//!
//! **Owns** these checks, and the size of segments. **Called by** the pool's owner, and by creation. **Invariant**: a cache device has the label areas of a
//! member, and no ring.

use io::BufPool;
use io::disk::Disk;

use super::Vdevs;
use super::area::{self, filled};
use super::cache_label::{check_unlabelled, read};
use super::create::{guid, label_of};
use super::error::SetupError;
use super::geometry::{self, areas};
use super::limits::SCRATCH_BYTES;
use super::spare_label;
use crate::format::{CacheGuid, CacheLabel, PoolGuid, UBERBLOCK_SIZE, VdevOffset};

/// Bytes of a segment of a large device.
const SEGMENT_SIZE: u32 = io::limits::BUF_LEN_MAX as u32;
/// Bytes of a segment of a device below [`LARGE_DEVICE`].
const SEGMENT_SIZE_SMALL: u32 = 512 << 10;
const LARGE_DEVICE: u64 = 256 << 20;
/// Fewest segments of a device.
const SEGMENTS_MIN: u64 = 8;
/// The size that a cache device must have, bytes.
pub(crate) const CACHE_SIZE_MIN: u64 =
    geometry::least_size(SEGMENTS_MIN * SEGMENT_SIZE_SMALL as u64);

/// Bytes of a segment of a new cache device, which has `size` bytes.
fn segment_size(size: u64) -> u32 {
    match size < LARGE_DEVICE {
        true => SEGMENT_SIZE_SMALL,
        false => SEGMENT_SIZE,
    }
}

/// The label of a cache device; `None` if it is none, or a member's or a spare's label is on the disk as well.
pub async fn cache_label(disk: &Disk) -> Option<CacheLabel> {
    let scratch = BufPool::new(SCRATCH_BYTES);
    let is_member = !matches!(label_of(disk, &scratch).await, Ok(None));
    if is_member || spare_label::read(disk, &scratch).await.is_some() {
        return None;
    }
    read(disk, &scratch).await
}

/// Checks a disk that becomes a cache device of a pool that does not exist yet.
///
/// # Errors
/// As [`Vdevs::check_cache`].
pub async fn check_new_cache(disk: &Disk, force: bool) -> Result<(), SetupError> {
    check(disk, None, force, &BufPool::new(SCRATCH_BYTES)).await
}

async fn check(
    disk: &Disk,
    own: Option<PoolGuid>,
    force: bool,
    scratch: &BufPool,
) -> Result<(), SetupError> {
    let info = disk.info();
    let path = || info.path.clone();
    if info.read_only {
        return Err(SetupError::ReadOnlyDisk { path: path() });
    }
    let most = UBERBLOCK_SIZE as u32;
    if info.logical_block > most {
        let (path, block) = (path(), info.logical_block);
        return Err(SetupError::BlockSize { path, block, most });
    }
    if info.size < CACHE_SIZE_MIN {
        let (path, least) = (path(), CACHE_SIZE_MIN);
        return Err(SetupError::CacheTooSmall { path, least });
    }
    if force {
        return Ok(());
    }
    if let Some(label) = label_of(disk, scratch).await? {
        let (path, name) = (path(), label.name);
        return Err(SetupError::InUse { path, name });
    }
    match read(disk, scratch).await {
        // an addition that was interrupted, or a device that comes back
        Some(label) if Some(label.pool) == own => Ok(()),
        _ => check_unlabelled(disk, scratch).await,
    }
}

impl Vdevs {
    /// Checks a disk that becomes a cache device of this pool.
    ///
    /// # Errors
    /// [`SetupError::ReadOnly`], [`SetupError::ReadOnlyDisk`], [`SetupError::BlockSize`], [`SetupError::CacheTooSmall`]; [`SetupError::InUse`],
    /// [`SetupError::IsSpare`] and [`SetupError::IsCache`] (of another pool) unless forced.
    pub async fn check_cache(&self, disk: &Disk, force: bool) -> Result<(), SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        check(disk, Some(self.pool), force, &self.scratch).await
    }

    /// Makes a disk an empty cache device of this pool. Returns its label.
    ///
    /// # Errors
    /// [`SetupError::Io`]: the disk may have the old or the new label.
    pub(crate) async fn label_cache(&self, disk: &Disk) -> Result<CacheLabel, SetupError> {
        let label = CacheLabel {
            cache: CacheGuid(guid()),
            pool: self.pool,
            name: self.name(),
            host: self.shared().host.clone(),
            segment_size: segment_size(disk.info().size),
        };
        let failed = |error| SetupError::Io {
            path: disk.info().path.clone(),
            error,
        };
        let wiped = area::wipe_labels(disk, disk.info().size, &self.scratch).await;
        wiped.map_err(failed)?;
        for at in areas(disk.info().size) {
            let buf = filled(&self.scratch, &label.encode(VdevOffset(at))).await;
            disk.write(buf, at).await.map_err(failed)?;
        }
        let _durable = disk.flush().await.map_err(failed)?;
        Ok(label)
    }

    /// Wipes the label of a cache device of this pool. Does nothing to another disk.
    ///
    /// # Errors
    /// [`SetupError::ReadOnly`], [`SetupError::Io`].
    pub async fn unlabel_cache(&self, disk: &Disk) -> Result<(), SetupError> {
        if cache_label(disk)
            .await
            .is_none_or(|label| label.pool != self.pool)
        {
            return Ok(());
        }
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let wiped = area::wipe_labels(disk, disk.info().size, &self.scratch).await;
        wiped.map_err(|error| SetupError::Io {
            path: disk.info().path.clone(),
            error,
        })
    }
}
