//! The pool's table: a volume compared with a raw file on the same disk, and goals of the pool alone.
//!
//! **Owns** the pool, on this thread, and the order of all operations on it. **Called by** [`super::measure`].
//! **Invariants**: the file under the pool is written completely before, so that no file system allocates space
//! during a measurement; reads come from the disk, except in rows about the cache.

mod alone;
mod beside;
mod btrfs;
mod load;
mod remote;

use super::goal::Outcome;
use super::{Extent, Lab, Steps};
use crate::report::table::blank;
use crate::size::digits;
use crate::{Error, Result};
use io::disk::{Disk, OpenOptions};
use load::{BLOCK, Score, Target};
use pool::format::Host;
use pool::vdev::{self, Opened, PoolSpec};
use pool::{NewVolume, Options, Pool, Volume};
use std::path::{Path, PathBuf};

pub(super) use beside::needed;

/// Names of its rows.
pub(super) fn rows() -> Vec<&'static str> {
    let with_network = remote::rows();
    beside::rows()
        .chain(with_network)
        .chain(alone::ROWS)
        .collect()
}

const NAME: &str = "bench";
const VOLUME: &str = "volume";
/// The pool's disk is this many times the volume, with a minimum: in a small pool the reserve would be most of the
/// free space of a full pool.
const DISK_PER_VOLUME: u64 = 4;
const DISK_SIZE_MIN: u64 = 512 << 20;

/// A row of the table.
struct Line {
    name: String,
    goal: String,
    measured: String,
    /// Scores of the raw file and of the volume.
    scores: [Option<Score>; 2],
    outcome: Outcome,
}

impl Line {
    /// A row without a raw file for comparison.
    fn alone(name: impl Into<String>, goal: String, measured: String, met: bool) -> Self {
        Self {
            name: name.into(),
            goal,
            measured,
            scores: [None, None],
            outcome: Outcome::of(&[Some(met)]),
        }
    }

    /// The row with the volume's score.
    fn scored(self, volume: Score) -> Self {
        Self {
            scores: [None, Some(volume)],
            ..self
        }
    }
}

fn refused(e: impl ToString) -> Error {
    Error::target("the pool", e)
}

fn host() -> Host {
    Host::new([1; 16], NAME)
}

async fn file(path: &Path, size: u64) -> Result<Disk> {
    let options = OpenOptions {
        create_size: Some(size),
        ..OpenOptions::default()
    };
    Ok(Disk::open(path, options).await?)
}

/// Options of a pool whose reads are to come from the disk.
fn uncached() -> Options {
    Options {
        record_cache_bytes: 0,
        ..Options::default()
    }
}

/// All rows as a table. Errors: the row that could not be measured.
pub(super) async fn table(lab: &mut Lab<'_>) -> Result<String> {
    let bench = Bench {
        extent: lab.extent,
        place: lab.place,
        memory: lab.memory,
    };
    let disk = Target::Raw(file(&bench.disk(), bench.disk_size()).await?);
    disk.fill(bench.disk_size()).await?;
    drop(disk);
    let mut lines = Vec::new();
    if beside::rows().any(|row| lab.steps.wanted.contains(&row)) {
        lines = bench.beside(&mut lab.steps).await?;
    }
    if remote::rows().any(|row| lab.steps.wanted.contains(&row)) {
        let (setup, cpus) = (lab.setup.clone(), lab.processors().0);
        lines.extend(bench.remote(&mut lab.steps, &setup, cpus).await?);
    }
    lines.extend(bench.alone(&mut lab.steps).await?);
    let head = [
        "pool row", "goal", "measured", "raw file", "volume", "result",
    ];
    let mut t = blank(&head, 9);
    for line in lines {
        let [raw, volume] = line.scores.map(|s| s.map_or("–".into(), summary));
        let result = line.outcome.text().into();
        t.add_row([line.name, line.goal, line.measured, raw, volume, result]);
    }
    Ok(t.to_string())
}

/// Place and size of the pool.
struct Bench<'a> {
    extent: &'a Extent,
    place: &'a Path,
    /// A directory in memory.
    memory: &'a Path,
}

impl Bench<'_> {
    fn disk(&self) -> PathBuf {
        self.place.join("pool.img")
    }

    /// The raw file for comparison.
    fn raw(&self) -> PathBuf {
        self.place.join("raw.img")
    }

    fn disk_size(&self) -> u64 {
        (DISK_PER_VOLUME * self.extent.bytes).max(DISK_SIZE_MIN)
    }

    /// A new pool, which replaces the previous one.
    async fn create(&self, options: Options) -> Result<Pool> {
        let disk = file(&self.disk(), self.disk_size()).await?;
        let mut spec = PoolSpec::new(NAME, vec![vec![disk]], host());
        spec.force = true;
        let opened = vdev::create(spec).await.map_err(refused)?;
        Pool::open(opened, options).await.map_err(refused)
    }

    /// A volume with default properties and this size, written completely.
    async fn volume(&self, pool: &Pool, size: u64) -> Result<Target> {
        let volume = Target::Volume(new_volume(pool, VOLUME, size).await?);
        volume.fill(size).await?;
        pool.checkpoint().await.map_err(refused)?;
        Ok(volume)
    }
}

async fn new_volume(pool: &Pool, name: &str, size: u64) -> Result<Volume> {
    let made = pool.create_volume(NewVolume::new(name, size)).await;
    made.map_err(refused)
}

/// The devices of an existing pool.
async fn open_devices(path: &Path) -> Result<Opened> {
    let disk = Disk::open(path, OpenOptions::default()).await?;
    let found = vdev::scan(vec![disk]).await.pools.pop();
    let found = found.ok_or_else(|| refused("there is none"))?;
    let options = vdev::OpenOptions::new(host());
    vdev::open(found, options).await.map_err(refused)
}

async fn reopen(path: &Path, options: Options) -> Result<Pool> {
    let opened = open_devices(path).await?;
    Pool::open(opened, options).await.map_err(refused)
}

/// Rate and processor time, short.
fn summary(score: Score) -> String {
    let cpu = digits(score.cpu_us);
    format!("{}, CPU {cpu}", crate::size::count(score.rate))
}
