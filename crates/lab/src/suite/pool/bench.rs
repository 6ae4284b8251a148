//! The pool under measurement: its files, its lines of the table, and how to open it.

use super::load::{Score, Target};
use crate::suite::goal::Outcome;
use crate::suite::lab::Extent;
use crate::{Error, Result};
use io::disk::{Disk, OpenOptions};
use pool::format::Host;
use pool::vdev::{self, Opened, PoolSpec};
use pool::{NewVolume, Options, Pool, Volume};
use std::path::{Path, PathBuf};

pub(super) const NAME: &str = "bench";
pub(super) const VOLUME: &str = "volume";
/// The pool's disk is this many times the volume, with a minimum: in a small pool the reserve would be most of the
/// free space of a full pool.
pub(super) const DISK_PER_VOLUME: u64 = 4;
pub(super) const DISK_SIZE_MIN: u64 = 512 << 20;

/// A row of the table.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) goal: String,
    pub(super) measured: String,
    /// Scores of the raw file and of the volume.
    pub(super) scores: [Option<Score>; 2],
    pub(super) outcome: Outcome,
}

impl Line {
    /// A row without a raw file for comparison.
    pub(super) fn alone(
        name: impl Into<String>,
        goal: String,
        measured: String,
        met: bool,
    ) -> Self {
        Self {
            name: name.into(),
            goal,
            measured,
            scores: [None, None],
            outcome: Outcome::of(&[Some(met)]),
        }
    }

    /// The row with the volume's score.
    pub(super) fn scored(self, volume: Score) -> Self {
        Self {
            scores: [None, Some(volume)],
            ..self
        }
    }
}

pub(super) fn refused(e: impl ToString) -> Error {
    Error::target("the pool", e)
}

pub(super) fn host() -> Host {
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

/// Place and size of the pool.
pub(super) struct Bench<'a> {
    pub(super) extent: &'a Extent,
    pub(super) place: &'a Path,
    /// A directory in memory.
    pub(super) memory: &'a Path,
}

impl Bench<'_> {
    pub(super) fn disk(&self) -> PathBuf {
        self.place.join("pool.img")
    }

    /// The raw file for comparison.
    pub(super) fn raw(&self) -> PathBuf {
        self.place.join("raw.img")
    }

    pub(super) fn disk_size(&self) -> u64 {
        (DISK_PER_VOLUME * self.extent.bytes).max(DISK_SIZE_MIN)
    }

    /// A new pool, which replaces the previous one.
    pub(super) async fn create(&self, options: Options) -> Result<Pool> {
        let disk = file(&self.disk(), self.disk_size()).await?;
        let mut spec = PoolSpec::new(NAME, vec![vec![disk]], host());
        spec.force = true;
        let opened = vdev::create(spec).await.map_err(refused)?;
        Pool::open(opened, options).await.map_err(refused)
    }

    /// A volume with default properties and this size, written completely.
    pub(super) async fn volume(&self, pool: &Pool, size: u64) -> Result<Target> {
        let volume = Target::Volume(new_volume(pool, VOLUME, size).await?);
        volume.fill(size).await?;
        pool.checkpoint().await.map_err(refused)?;
        Ok(volume)
    }
}

pub(super) async fn new_volume(pool: &Pool, name: &str, size: u64) -> Result<Volume> {
    let made = pool.create_volume(NewVolume::new(name, size)).await;
    made.map_err(refused)
}

/// The devices of an existing pool.
pub(super) async fn open_devices(path: &Path) -> Result<Opened> {
    let disk = Disk::open(path, OpenOptions::default()).await?;
    let found = vdev::scan(vec![disk]).await.pools.pop();
    let found = found.ok_or_else(|| refused("there is none"))?;
    let options = vdev::OpenOptions::new(host());
    vdev::open(found, options).await.map_err(refused)
}

pub(super) async fn reopen(path: &Path, options: Options) -> Result<Pool> {
    let opened = open_devices(path).await?;
    Pool::open(opened, options).await.map_err(refused)
}
