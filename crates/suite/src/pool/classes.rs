//! Rows of device classes: a pool of a hard disk with a little flash.
//!
//! The hard disk is a file in memory whose operations take as long as those of a hard disk ([`io::rehearsal::HardDisk`]); the flash is a file on the
//! disk of the measurement. **Invariants**: the hard disk becomes slow after the volume was filled, so filling takes no hours.

use super::load::{OTHER, OURS, Plan, Target};
use super::place::{PoolFiles, file, refused, uncached};
use crate::point::{Point, Sample, sample};
use crate::rows::{Act, Class};
use io::rehearsal::{HardDisk, hard_disk};
use lab::Result;
use lab::size::count;
use pool::vdev::VdevSpec;
use std::time::Duration;

/// A seek with half a turn, and the transfer of a usual disk.
const HARD_DISK: HardDisk = HardDisk {
    seek: Duration::from_millis(10),
    bytes_per_s: 150_000_000,
};
/// Bytes of a log device.
const LOG_SIZE: u64 = 512 << 20;
/// The volume is this part of those of other rows, because its pool is in memory.
const PART: u64 = 4;

impl PoolFiles<'_> {
    pub(super) async fn with_class(&self, row: Class) -> Result<Vec<Sample>> {
        match row {
            Class::Log => self.with_log().await,
        }
    }

    /// Durable writes to a pool on a hard disk with a log, compared with the log device itself.
    async fn with_log(&self) -> Result<Vec<Sample>> {
        let extent = &self.bench.extent;
        let region = extent.size / PART;
        let plan = Plan::small(Act::SyncWrite, 1, region);
        let raw = Target::Raw(file(&self.raw(), extent.size).await?);
        raw.fill(region).await?;
        let raw = raw.measure(plan, extent.long, 1).await?;
        let disks = PoolFiles::in_memory(self.bench)?;
        let pool = disks.create(uncached()).await?;
        let volume = disks.volume(&pool, region).await?;
        hard_disk(&disks.disk(), HARD_DISK);
        let without = volume.measure(plan, extent.long, 1).await?;
        let log = file(&self.log(), LOG_SIZE).await?;
        let log = VdevSpec::log(vec![log]);
        pool.add_vdev(log, true).await.map_err(refused)?;
        let with = volume.measure(plan, extent.long, 2).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        Ok(vec![sample(OTHER, raw), ours_beside(without, with)])
    }
}

/// The pool with the class, with the rate without it as a remark.
fn ours_beside(without: Point, with: Point) -> Sample {
    let rate = without.rate.unwrap_or_default();
    Sample {
        way: format!("{} without it", count(rate)),
        ..sample(OURS, with)
    }
}
