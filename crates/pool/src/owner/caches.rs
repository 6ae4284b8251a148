//! Cache devices of an open pool: added, opened and removed.
//!
//! **Owns** the order in which a label and the set of devices change. **Called by** [`Pool`]'s users, one call at a time. **Invariant**: the pool itself has
//! no record of its cache devices; the label on the disk decides whether it is one. `docs/decisions/0186`.

use io::disk::Disk;

use super::Pool;
use crate::cache_device::CacheStatus;
use crate::format::{CacheGuid, CacheLabel};
use crate::vdev::{CACHE_SIZE_MIN, SetupError, cache_label};

type Result<T> = std::result::Result<T, SetupError>;

impl Pool {
    /// Makes a disk an empty cache device of the pool.
    ///
    /// # Errors
    /// Those of [`crate::vdev::Vdevs::check_cache`], with nothing changed. [`SetupError::Io`]: the disk may have the label.
    pub async fn add_cache(&self, disk: Disk, force: bool) -> Result<CacheGuid> {
        let vdevs = self.vdevs();
        vdevs.check_cache(&disk, force).await?;
        let label = vdevs.label_cache(&disk).await?;
        self.join_cache(disk, &label).await
    }

    /// Opens a cache device of the pool, with the blocks that are on it. Takes as long as reading a hundredth of it.
    ///
    /// # Errors
    /// [`SetupError::ReadOnly`]; [`SetupError::NotCache`] if the disk has no label of a cache device of this pool, or is open;
    /// [`SetupError::CacheTooSmall`] if it shrank; [`SetupError::Io`] if it is gone or does not answer.
    pub async fn open_cache(&self, disk: Disk) -> Result<CacheGuid> {
        if self.vdevs().is_read_only() {
            return Err(SetupError::ReadOnly);
        }
        let label = cache_label(&disk).await;
        let is_ours = |label: &CacheLabel| {
            label.pool == self.vdevs().pool() && !self.owner.shared.caches.has(label.cache)
        };
        let Some(label) = label.filter(is_ours) else {
            let path = disk.info().path.clone();
            return Err(SetupError::NotCache { path });
        };
        self.join_cache(disk, &label).await
    }

    async fn join_cache(&self, disk: Disk, label: &CacheLabel) -> Result<CacheGuid> {
        let path = disk.info().path.clone();
        match self.owner.shared.caches.open(disk, label).await {
            Ok(true) => Ok(label.cache),
            Ok(false) => Err(SetupError::CacheTooSmall {
                path,
                least: CACHE_SIZE_MIN,
            }),
            Err(error) => Err(SetupError::Io { path, error }),
        }
    }

    /// Removes a cache device. Returns its disk, without a label, unless it failed before. Does nothing if there is no such device.
    ///
    /// # Errors
    /// [`SetupError::Io`]: the device is out of the pool, and its disk may have the label.
    pub async fn remove_cache(&self, cache: CacheGuid) -> Result<Option<Disk>> {
        let Some(disk) = self.owner.shared.caches.remove(cache) else {
            return Ok(None);
        };
        self.vdevs().unlabel_cache(&disk).await?;
        Ok(Some(disk))
    }

    /// The open cache devices, with failed ones.
    #[must_use]
    pub fn caches(&self) -> Vec<CacheStatus> {
        self.owner.shared.caches.status()
    }
}
