//! Files of the pool under measurement, and how to create and open it.

use super::load::Target;
use crate::bench::Bench;
use crate::peers::directory;
use crate::rows::LARGE;
use io::disk::{Disk, OpenOptions};
use lab::{Error, Result};
use pool::format::{Host, JournalLayout};
use pool::vdev::{self, Opened, PoolSpec, VdevSpec};
use pool::{NewVolume, Options, Pool, Volume};
use std::path::{Path, PathBuf};

pub(super) const NAME: &str = "bench";
pub(super) const VOLUME: &str = "volume";
/// The pool's disk is this many times the volume, with a minimum: in a small pool the reserve would be most of the
/// free space of a full pool.
pub(super) const DISK_PER_VOLUME: u64 = 4;
const DISK_SIZE_MIN: u64 = 512 << 20;

pub(super) fn refused(e: impl ToString) -> Error {
    Error::target("the pool", e)
}

fn host() -> Host {
    Host::new([1; 16], NAME)
}

pub(super) async fn file(path: &Path, size: u64) -> Result<Disk> {
    let options = OpenOptions {
        create_size: Some(size),
        ..OpenOptions::default()
    };
    Ok(Disk::open(path, options).await?)
}

/// Options of a pool whose reads are to come from the disk.
pub(super) fn uncached() -> Options {
    Options {
        record_cache_bytes: 0,
        ..Options::default()
    }
}

/// Directory of the pool.
pub(super) struct PoolFiles<'a> {
    pub(super) bench: &'a Bench,
    dir: PathBuf,
}

impl<'a> PoolFiles<'a> {
    /// The directory on the disk. The file under the pool is written completely, once.
    pub(super) async fn new(bench: &'a Bench) -> Result<Self> {
        let place = Self {
            bench,
            dir: bench.place.0.clone(),
        };
        if !place.disk().exists() {
            let disk = Target::Raw(file(&place.disk(), place.disk_size()).await?);
            disk.fill(place.disk_size()).await?;
        }
        Ok(place)
    }

    /// A directory in memory.
    pub(super) fn in_memory(bench: &'a Bench) -> Result<Self> {
        Ok(Self {
            bench,
            dir: directory(&bench.memory.0, NAME)?,
        })
    }

    pub(super) fn disk(&self) -> PathBuf {
        self.dir.join("pool.img")
    }

    /// The raw file for comparison.
    pub(super) fn raw(&self) -> PathBuf {
        self.dir.join("raw.img")
    }

    /// The flash device of a pool on a hard disk.
    pub(super) fn flash(&self) -> PathBuf {
        self.dir.join("flash.img")
    }

    pub(super) fn disk_size(&self) -> u64 {
        (DISK_PER_VOLUME * self.bench.extent.size).max(DISK_SIZE_MIN) / LARGE * LARGE
    }

    /// A new pool, which replaces the previous one.
    pub(super) async fn create(&self, options: Options) -> Result<Pool> {
        create_at(&self.disk(), self.disk_size(), options).await
    }

    /// A volume with default properties and this size, written completely.
    pub(super) async fn volume(&self, pool: &Pool, size: u64) -> Result<Target> {
        let volume = Target::Volume(new_volume(pool, VOLUME, size).await?);
        volume.fill(size).await?;
        pool.checkpoint().await.map_err(refused)?;
        Ok(volume)
    }
}

/// A new pool of one file, of this size in bytes.
pub(super) async fn create_at(disk: &Path, size: u64, options: Options) -> Result<Pool> {
    create_pool(vec![vec![file(disk, size).await?]], None, options).await
}

/// A new pool, whose journal has the usual size unless another one is given. Disks of an earlier pool are used again.
pub(super) async fn create_pool(
    vdevs: Vec<impl Into<VdevSpec>>,
    journal: Option<JournalLayout>,
    options: Options,
) -> Result<Pool> {
    let mut spec = PoolSpec::new(NAME, vdevs, host());
    spec.force = true;
    spec.journal = journal;
    let opened = vdev::create(spec).await.map_err(refused)?;
    Pool::open(opened, options).await.map_err(refused)
}

pub(super) async fn new_volume(pool: &Pool, name: &str, size: u64) -> Result<Volume> {
    let made = pool.create_volume(NewVolume::new(name, size)).await;
    made.map_err(refused)
}

/// The devices of an existing pool, which has these disks.
pub(super) async fn open_disks(paths: &[PathBuf]) -> Result<Opened> {
    let mut disks = Vec::new();
    for path in paths {
        disks.push(Disk::open(path, OpenOptions::default()).await?);
    }
    let found = vdev::scan(disks).await.pools.pop();
    let found = found.ok_or_else(|| refused("there is none"))?;
    let options = vdev::OpenOptions::new(host());
    vdev::open(found, options).await.map_err(refused)
}
