//! Rows of device classes: a pool of a hard disk with a little flash.
//!
//! The hard disk is a file in memory whose operations take as long as those of a hard disk ([`io::rehearsal::HardDisk`]); the flash is a file on the
//! disk of the measurement. **Invariants**: the hard disk becomes slow after it was filled, so filling takes no hours; a cold pool was closed and
//! opened again.

use super::load::{DEPTH, OTHER, OURS, Plan, Target, ours};
use super::place::{PoolFiles, VOLUME, create_pool, file, open_disks, refused, uncached};
use super::tree::Tree;
use crate::point::{Point, Sample, sample};
use crate::rows::{Act, Class};
use io::disk::{Disk, OpenOptions};
use io::rehearsal::{HardDisk, hard_disk, slow};
use io::time::now;
use lab::Result;
use lab::size::count;
use pool::format::{DatasetProperty, JournalLayout, Setting};
use pool::vdev::VdevSpec;
use pool::{CacheCounts, Options, Pool};
use std::path::PathBuf;
use std::time::Duration;

/// A seek with half a turn, and the transfer of a usual disk.
const HARD_DISK: HardDisk = HardDisk {
    seek: Duration::from_millis(10),
    bytes_per_s: 150_000_000,
};
/// The journal of a pool on a hard disk of 8 GiB or more. That of a small disk would make checkpoints frequent.
const JOURNAL: JournalLayout = JournalLayout {
    segment_size: 4 << 20,
    segments: 64,
};
/// Bytes of a log device, of a special one, and of a cache device.
const FLASH_SIZE: u64 = 512 << 20;
/// Bytes of a special device that is too small.
const SMALL_FLASH_SIZE: u64 = 64 << 20;
/// Records up to this size, in bytes, belong on the special device that is too small: all of the volume.
const SMALL_RECORDS: u64 = 16 << 10;
/// The volume is this part of those of other rows, because its pool is in memory.
const PART: u64 = 4;
/// The working set is this many times the record cache.
const SET_PER_MEMORY: u64 = 4;
/// Passes over the working set, at most, before all of it is on the cache device.
const PASSES: u32 = 32;
/// Time after a restart in which a cache device is to be warm.
const WARM: Duration = Duration::from_secs(10);

/// A file that is as slow as a hard disk while this exists.
struct Slow(PathBuf);

impl Slow {
    fn new(path: PathBuf) -> Self {
        hard_disk(&path, HARD_DISK);
        Self(path)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        slow(&self.0, Duration::ZERO);
    }
}

impl PoolFiles<'_> {
    pub(super) async fn with_class(&self, row: Class) -> Result<Vec<Sample>> {
        match row {
            Class::Log => self.with_log().await,
            Class::Special => self.with_special().await,
            Class::FullSpecial => self.with_full_special().await,
            Class::Cache => self.with_cache().await,
        }
    }

    /// The flash device. Its file is written completely, once.
    async fn flash_disk(&self) -> Result<Disk> {
        let is_new = !self.flash().exists();
        let disk = file(&self.flash(), FLASH_SIZE).await?;
        if is_new {
            Target::Raw(disk.clone()).fill(FLASH_SIZE).await?;
        }
        Ok(disk)
    }

    /// `plan` on a raw file on the disk of the flash.
    async fn raw_flash(&self, plan: Plan) -> Result<Point> {
        let extent = &self.bench.extent;
        let raw = Target::Raw(file(&self.raw(), extent.size).await?);
        raw.fill(plan.region).await?;
        raw.measure(plan, extent.long, 1).await
    }

    /// A new pool on the hard disk, with this special device if there is one.
    async fn create_beside(&self, special: Option<Disk>, options: Options) -> Result<Pool> {
        let disk = file(&self.disk(), self.disk_size()).await?;
        let mut vdevs: Vec<VdevSpec> = vec![vec![disk].into()];
        vdevs.extend(special.map(|disk| VdevSpec::special(vec![disk])));
        create_pool(vdevs, None, options).await
    }

    /// Durable writes to a pool on a hard disk with a log, compared with the log device itself.
    async fn with_log(&self) -> Result<Vec<Sample>> {
        let extent = &self.bench.extent;
        let region = extent.size / PART;
        let plan = Plan::small(Act::SyncWrite, 1, region);
        let raw = self.raw_flash(plan).await?;
        let disks = PoolFiles::in_memory(self.bench)?;
        let disk = file(&disks.disk(), disks.disk_size()).await?;
        let pool = create_pool(vec![vec![disk]], Some(JOURNAL), uncached()).await?;
        let volume = disks.volume(&pool, region).await?;
        let _slow = Slow::new(disks.disk());
        let without = volume.measure(plan, extent.long, 1).await?;
        let log = VdevSpec::log(vec![self.flash_disk().await?]);
        pool.add_vdev(log, true).await.map_err(refused)?;
        let with = volume.measure(plan, extent.long, 2).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let rate = count(without.rate.unwrap_or_default());
        Ok(vec![
            sample(OTHER, raw),
            ours(format!("{rate} without it"), with),
        ])
    }

    /// A cold walk over a tree of files on a hard disk, without and with a special vdev.
    async fn with_special(&self) -> Result<Vec<Sample>> {
        let disks = PoolFiles::in_memory(self.bench)?;
        let without = self.cold_walk(&disks, false).await?;
        let with = self.cold_walk(&disks, true).await?;
        Ok(vec![sample(OTHER, without), sample(OURS, with)])
    }

    async fn cold_walk(&self, disks: &PoolFiles<'_>, has_special: bool) -> Result<Point> {
        let mut paths = vec![disks.disk()];
        let mut special = None;
        if has_special {
            special = Some(self.flash_disk().await?);
            paths.push(self.flash());
        }
        let files = self.bench.extent.files;
        let pool = disks.create_beside(special, Options::default()).await?;
        Tree::filled(&pool, files).await?;
        pool.close().await.map_err(refused)?;
        let _slow = Slow::new(disks.disk());
        let pool = open_disks(&paths).await?;
        let pool = Pool::open(pool, Options::default())
            .await
            .map_err(refused)?;
        let tree = Tree::open(&pool).await?;
        let begun = now();
        let found = tree.walk().await?;
        let took = begun.elapsed().as_secs_f64();
        drop(tree);
        pool.close().await.map_err(refused)?;
        if found != u64::from(files) {
            return Err(refused(format!("{found} files of {files} are there")));
        }
        Ok(Point {
            rate: Some(found as f64 / took),
            ..Point::default()
        })
    }

    /// Writes of small records to a pool on a hard disk with a special vdev that is full, compared with a pool without the class.
    async fn with_full_special(&self) -> Result<Vec<Sample>> {
        let disks = PoolFiles::in_memory(self.bench)?;
        let (without, _) = self.small_records(&disks, false).await?;
        let (with, spilled) = self.small_records(&disks, true).await?;
        if spilled == 0 {
            return Err(refused("the special device is not full"));
        }
        let remark = format!("{} MiB spilled", spilled >> 20);
        Ok(vec![sample(OTHER, without), ours(remark, with)])
    }

    /// Random writes of 4 KiB to a volume of small records, and the bytes for which the special class had no room.
    async fn small_records(
        &self,
        disks: &PoolFiles<'_>,
        has_special: bool,
    ) -> Result<(Point, u64)> {
        let extent = &self.bench.extent;
        let special = match has_special {
            true => Some(file(&disks.flash(), SMALL_FLASH_SIZE).await?),
            false => None,
        };
        let pool = disks.create_beside(special, uncached()).await?;
        let small = Setting {
            value: SMALL_RECORDS,
            is_received: false,
        };
        let property = DatasetProperty::SpecialSmallBlocks;
        let set = pool.set_own(None, property, Some(small)).await;
        set.map_err(refused)?;
        // The fill alone must overflow the class: how much the measurement writes depends on the machine.
        let region = extent.size.max(2 * SMALL_FLASH_SIZE);
        let volume = disks.volume(&pool, region).await?;
        let _slow = Slow::new(disks.disk());
        let plan = Plan::small(Act::Write, DEPTH, region);
        let point = volume.measure(plan, extent.long, 1).await?;
        let class = pool.special_class();
        let spilled = class.map_or(0, |class| class.spilled.values().sum());
        drop(volume);
        pool.close().await.map_err(refused)?;
        Ok((point, spilled))
    }

    /// Reads of a working set of four times the memory, with a cache device, compared with that device.
    async fn with_cache(&self) -> Result<Vec<Sample>> {
        let extent = &self.bench.extent;
        let region = extent.size / PART;
        let plan = Plan::small(Act::Read, DEPTH, region);
        let raw = self.raw_flash(plan).await?;
        let disks = PoolFiles::in_memory(self.bench)?;
        let options = Options {
            record_cache_bytes: (region / SET_PER_MEMORY) as usize,
            ..Options::default()
        };
        let pool = disks.create(options).await?;
        let volume = disks.volume(&pool, region).await?;
        let cache = self.flash_disk().await?;
        pool.add_cache(cache, true).await.map_err(refused)?;
        for _ in 0..PASSES {
            let missed = counts(&pool).misses;
            volume.pass(plan).await?;
            if counts(&pool).misses == missed {
                break;
            }
        }
        let _slow = Slow::new(disks.disk());
        let found = counts(&pool).hits;
        let warm = volume.measure(plan, extent.long, 2).await?;
        let found = counts(&pool).hits - found;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let after = self.after_restart(&disks, options, plan).await?;
        let rate = count(after.rate.unwrap_or_default());
        let found = count(found as f64 / extent.long.as_secs_f64());
        let remark =
            format!("{found} from the device, {rate} in the first seconds after a restart");
        Ok(vec![sample(OTHER, raw), ours(remark, warm)])
    }

    /// The same reads in the first seconds after the pool was opened again.
    async fn after_restart(
        &self,
        disks: &PoolFiles<'_>,
        options: Options,
        plan: Plan,
    ) -> Result<Point> {
        let pool = open_disks(&[disks.disk()]).await?;
        let pool = Pool::open(pool, options).await.map_err(refused)?;
        let cache = Disk::open(&self.flash(), OpenOptions::default()).await?;
        pool.open_cache(cache).await.map_err(refused)?;
        let volume = pool.volume(VOLUME).ok_or_else(|| refused("no volume"))?;
        let volume = Target::Volume(volume);
        let time = WARM.min(self.bench.extent.long);
        let point = volume.measure(plan, time, 3).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        Ok(point)
    }
}

/// Counters of the only cache device.
fn counts(pool: &Pool) -> CacheCounts {
    pool.caches()[0].counts
}
