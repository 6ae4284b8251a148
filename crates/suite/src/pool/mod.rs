//! The pool's table: a volume compared with a raw file on the same disk, and goals of the pool alone.
//!
//! | module | owns |
//! |---|---|
//! | `place` | files of the pool, and how to create and open it |
//! | `load` | load on a raw file or on a volume |
//! | `ageing` | the theory of random overwrites in a full pool |
//! | `alone` | rows without a raw file |
//! | `btrfs` | a file on btrfs |
//! | `classes` | rows of device classes |
//! | `tree` | a tree of small files, filled and walked |
//! | `raidz` | rows of a raidz |
//! | `shards` | the owner's processor time, two shards |
//!
//! **Owns** the pool, on this thread, and the order of all operations on it. **Invariants**: the file under the pool is written completely
//! before, so that no file system allocates space during a measurement; reads come from the disk, except in rows about the cache; a raw
//! file does durable writes with each of its methods, and the fastest one counts.

mod ageing;
mod alone;
mod btrfs;
mod classes;
mod load;
mod place;
mod raidz;
mod shards;
mod tree;

use crate::bench::{Bench, local};
use crate::point::{Point, Sample, point, sample};
use crate::rows::{Act, LARGE, Other, Row, Shards, Work};
use io::disk::{Disk, OpenOptions};
use lab::served::{Served, ServedDisk};
use lab::workload::{Sync, Workload};
use lab::{Error, Result};
use load::{DEPTH, OTHER, OURS, Plan, Target};
use place::{NAME, PoolFiles, VOLUME, file, refused, uncached};
use pool::Pool;

/// A raw file and a volume of the same size, written completely.
struct Pair {
    raw: Target,
    pool: Pool,
    volume: Target,
}

/// The pool of the current rows.
#[derive(Default)]
pub(crate) struct PoolTable {
    pair: Option<Pair>,
    remote: Option<Served>,
}

/// A measurement with the method of the raw file.
fn raw(way: &str, point: Point) -> Sample {
    Sample {
        way: way.into(),
        ..sample(OTHER, point)
    }
}

impl PoolTable {
    pub(crate) async fn round(
        &mut self,
        bench: &Bench,
        row: &Row,
        round: u32,
    ) -> Result<Vec<Sample>> {
        if let Work::Raidz(row) = row.work {
            self.close().await?;
            return PoolFiles::in_memory(bench)?.raidz(row).await;
        }
        if let Work::Shards(row) = row.work {
            self.close().await?;
            let place = PoolFiles::in_memory(bench)?;
            return match row {
                Shards::OwnerTime(bytes) => place.owner_time(bytes).await,
                Shards::Two(bytes) => place.two_shards(bytes).await,
            };
        }
        let place = PoolFiles::new(bench).await?;
        match row.work {
            Work::Local(act, bytes, depth) => {
                let plan = Plan {
                    bytes,
                    is_sequential: bytes == LARGE,
                    ..Plan::small(act, depth, bench.extent.size)
                };
                self.local(&place, plan, round).await
            }
            Work::Beside(other) => self.beside(&place, other).await,
            Work::Io(..) => self.remote(&place, row).await,
            Work::Alone(alone) => {
                self.close().await?;
                place.alone(alone).await
            }
            Work::Class(class) => {
                self.close().await?;
                place.with_class(class).await
            }
            _ => unreachable!("{} is of another table", row.name),
        }
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.close().await
    }

    async fn close(&mut self) -> Result<()> {
        if let Some(Pair { pool, volume, .. }) = self.pair.take() {
            drop(volume);
            pool.close().await.map_err(refused)?;
        }
        self.remote.take().map_or(Ok(()), Served::stop)
    }

    async fn pair(&mut self, place: &PoolFiles<'_>) -> Result<&Pair> {
        if self.pair.is_none() {
            self.close().await?;
            let size = place.bench.extent.size;
            let raw = Target::Raw(file(&place.raw(), size).await?);
            raw.fill(size).await?;
            let pool = place.create(uncached()).await?;
            let volume = place.volume(&pool, size).await?;
            self.pair = Some(Pair { raw, pool, volume });
        }
        Ok(self.pair.as_ref().expect("made above"))
    }

    /// A round of the raw file, with each method, and of the volume.
    async fn local(
        &mut self,
        place: &PoolFiles<'_>,
        plan: Plan,
        round: u32,
    ) -> Result<Vec<Sample>> {
        let pair = self.pair(place).await?;
        let (time, seed) = (place.bench.extent.runtime, 1000 * u64::from(round));
        let ways: &[(Act, &str)] = match plan.act {
            Act::SyncWrite => &Act::DURABLE,
            _ => &[(plan.act, "")],
        };
        let mut samples = Vec::new();
        for (act, way) in ways {
            let plan = Plan { act: *act, ..plan };
            samples.push(raw(way, pair.raw.measure(plan, time, seed).await?));
        }
        let p = pair.volume.measure(plan, time, seed).await?;
        samples.push(sample(OURS, p));
        Ok(samples)
    }

    /// All rounds of asynchronous writes to another kind of file and to the volume.
    async fn beside(&mut self, place: &PoolFiles<'_>, other: Other) -> Result<Vec<Sample>> {
        let extent = &place.bench.extent;
        let plan = Plan::small(Act::Write, DEPTH, extent.size);
        let (disk, on_disk) = (&place.bench.place.0, place.bench.place.0.join("cached.img"));
        let mut mount = None;
        let path = match other {
            Other::PageCache => Ok(on_disk),
            Other::Btrfs => btrfs::mount(disk, plan.region).await.map(|mounted| {
                let path = mounted.file();
                mount = Some(mounted);
                path
            }),
        };
        let pair = self.pair(place).await?;
        let path = match path {
            Ok(path) => path,
            // The reason is told in place of the comparison.
            Err(e) => return Ok(vec![raw(&e.to_string(), Point::default())]),
        };
        let options = OpenOptions {
            create_size: Some(plan.region),
            buffered: other == Other::PageCache,
            ..OpenOptions::default()
        };
        let target = Target::Raw(Disk::open(&path, options).await?);
        target.fill(plan.region).await?;
        let mut samples = Vec::new();
        for round in 0..extent.rounds {
            let seed = 1000 * u64::from(round);
            let p = target.measure(plan, extent.runtime, seed).await?;
            samples.push(sample(OTHER, p));
            let p = pair.volume.measure(plan, extent.runtime, seed).await?;
            samples.push(sample(OURS, p));
        }
        drop(target);
        std::fs::remove_file(&path).map_err(Error::file(&path))?;
        Ok(samples)
    }

    /// The volume over NVMe/TCP, and the raw file without network.
    async fn remote(&mut self, place: &PoolFiles<'_>, row: &Row) -> Result<Vec<Sample>> {
        let bench = place.bench;
        if self.remote.is_none() {
            self.pair(place).await?;
            let devices = self.pair.as_ref().map(|pair| pair.pool.vdevs().clone());
            self.close().await?;
            if let Some(devices) = devices {
                // The server is another host.
                devices.export().await.map_err(refused)?;
            }
            let mut config = bench.serve(vec![ServedDisk::Volume(format!("{NAME}/{VOLUME}"))]);
            config.pools = vec![(NAME.into(), vec![place.disk()])];
            self.remote = Some(Served::start(&config).await?);
        }
        let served = self.remote.as_ref().expect("started above");
        let base = bench.workload(row)?;
        let ways = match base.writes() {
            true => vec![
                (Sync::Fua, "O_DSYNC"),
                (
                    Sync::FlushEvery(base.depth),
                    "one flush for a queue of writes",
                ),
            ],
            false => vec![(Sync::None, "")],
        };
        let with = |sync| Workload {
            sync,
            ..base.clone()
        };
        let mut samples = Vec::new();
        for (sync, way) in &ways {
            let file = local(place.raw(), false);
            let p = point(&file, &with(*sync), &bench.setup, None).await?;
            samples.push(raw(way, p));
        }
        let (address, pid) = (served.address(1, false), Some(served.pid()));
        let p = point(&address, &with(ways[0].0), &bench.setup, pid).await?;
        samples.push(sample(OURS, p));
        Ok(samples)
    }
}
