//! Rows of a pool without a raw file: write amplification; the cost of size, snapshots and fullness; import after a crash.
//!
//! **Invariants**: a row that compares with the empty pool measures it in the same pool, directly before.

use super::ageing::{bytes_with_cleaning, writes_into_holes};
use super::load::{DEPTH, OTHER, OURS, Plan, Target, ours};
use super::place::{PoolFiles, VOLUME, file, new_volume, open_disks, refused, uncached};
use crate::point::{Point, Sample, sample, us};
use crate::rows::{Act, Alone, BLOCK, LARGE, M1};
use io::RuntimeConfig;
use io::rng::Prng;
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use lab::{Error, Result};
use pool::journal::{self, Start};
use pool::{Options, Pool};
use std::time::{Duration, Instant};

/// The volume is this many times the node cache, in rows where that matters.
const CACHE_PART: u64 = 100;
/// Time between two snapshots under load.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);
/// Snapshots that exist at once; few, because a full pool has a row of its own.
const SNAPSHOTS_KEPT: u32 = 4;
/// Blocks that are written between two of many snapshots.
const BETWEEN_SNAPSHOTS: u64 = 64;
/// Fraction of a pool that is full in the row of little space.
const FULL: f64 = 0.9;
/// Rounds of load before the crash: enough to use much of the journal, and too few for a checkpoint to be due.
const LOADED: u32 = 3;
/// Requests in order at a time.
const ORDERED_DEPTH: u64 = 8;
/// How often a volume is overwritten before it is put in order.
const OVERWRITTEN: u64 = 2;
/// How often a volume is overwritten before an aged pool is measured.
const AGEING: u64 = 3;
/// Percentage of a pool that is full in the comparison with an aged pool.
const ROOMY: u64 = 20;
/// Most of a pool that counts as full in the theory of ageing, where a full pool needs endless cleaning.
const FULLEST: f64 = 0.99;
/// Longest time for overwriting a volume before it is measured.
const OVERWRITING_MAX: Duration = Duration::from_secs(600);
/// How often the order mover is asked whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const SMALL_VOLUME: u64 = 1 << 30;
const LARGE_VOLUME: u64 = 16 << 40;

impl PoolFiles<'_> {
    pub(super) async fn alone(&self, row: Alone) -> Result<Vec<Sample>> {
        match row {
            Alone::Written(act, depth) => self.written(act, depth).await,
            Alone::CachedReads => self.cached_reads().await,
            Alone::SnapshotsUnderLoad => self.snapshots_under_load().await,
            Alone::ManySnapshots => self.many_snapshots().await,
            Alone::Full => self.full().await,
            Alone::Aged(percent) => self.aged(percent).await,
            Alone::PutInOrder => self.put_in_order().await,
            Alone::Import(act) => self.import_after(act).await,
            Alone::Growth => self.growth().await,
        }
    }

    /// Bytes that the disk gets for each byte of random writes, with a node cache that holds a small part of the tree.
    async fn written(&self, act: Act, depth: u64) -> Result<Vec<Sample>> {
        let extent = &self.bench.extent;
        let pool = self.create(Options {
            cache_bytes: (extent.size / CACHE_PART) as usize,
            ..uncached()
        });
        let pool = pool.await?;
        let volume = self.volume(&pool, extent.size).await?;
        let plan = Plan::small(act, depth, extent.size);
        let p = volume.measure(plan, extent.long, 1).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        Ok(vec![sample(OURS, p)])
    }

    async fn cached_reads(&self) -> Result<Vec<Sample>> {
        let (options, extent) = (Options::default(), &self.bench.extent);
        // half of what the cache holds
        let region = extent.size.min(options.record_cache_bytes as u64 / 2);
        let pool = self.create(options).await?;
        let volume = self.volume(&pool, region).await?;
        let plan = Plan::small(Act::Read, 1, region);
        volume.pass(plan).await?;
        let before = pool.record_cache();
        let p = volume.measure(plan, extent.runtime, 1).await?;
        let after = pool.record_cache();
        drop(volume);
        pool.close().await.map_err(refused)?;
        let (found, missed) = (after.hits - before.hits, after.misses - before.misses);
        let share = found as f64 / (found + missed).max(1) as f64 * 100.0;
        Ok(vec![ours(format!("{share:.1} % found there"), p)])
    }

    /// A volume whose snapshots cannot fill the pool, with what they hold.
    async fn small_volume(&self, pool: &Pool) -> Result<(Target, Plan)> {
        let region = self.bench.extent.size / 4;
        let volume = self.volume(pool, region).await?;
        Ok((volume, Plan::small(Act::Write, DEPTH, region)))
    }

    async fn many_snapshots(&self) -> Result<Vec<Sample>> {
        let pool = self.create(uncached()).await?;
        let (volume, plan) = self.small_volume(&pool).await?;
        let (time, many) = (self.bench.extent.long, self.bench.extent.snapshots);
        // excludes the cost of the first use of memory
        let before = volume.measure(plan, time, 1).await?;
        let mut rng = Prng::new(3);
        for n in 0..many {
            for _ in 0..BETWEEN_SNAPSHOTS {
                let at = rng.below(plan.region / BLOCK) * BLOCK;
                volume.act(Act::Write, at, BLOCK, &mut rng).await?;
            }
            create_snapshot(&pool, &format!("s{n}")).await?;
        }
        pool.checkpoint().await.map_err(refused)?;
        let now = volume.measure(plan, time, 4).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        Ok(vec![
            sample(OTHER, before),
            ours(format!("{many} snapshots"), now),
        ])
    }

    async fn full(&self) -> Result<Vec<Sample>> {
        let (pool, extent) = (self.create(uncached()).await?, &self.bench.extent);
        let volume = self.volume(&pool, extent.size).await?;
        let plan = Plan::small(Act::Write, DEPTH, extent.size);
        let before = volume.measure(plan, extent.long, 1).await?;
        // space that the first checkpoint frees is free after the second one
        for _ in 0..2 {
            pool.checkpoint().await.map_err(refused)?;
        }
        let space = pool.space();
        let more = (space.size as f64 * FULL) as u64 - space.used.min(space.size);
        let more = more / LARGE * LARGE;
        let filler = Target::Volume(new_volume(&pool, "filler", more).await?);
        filler.fill(more).await?;
        pool.checkpoint().await.map_err(refused)?;
        let space = pool.space();
        let full = space.used as f64 / space.size as f64 * 100.0;
        let now = volume.measure(plan, extent.long, 5).await?;
        drop((volume, filler));
        pool.close().await.map_err(refused)?;
        Ok(vec![
            sample(OTHER, before),
            ours(format!("{full:.0} % full"), now),
        ])
    }

    /// Overwrites a volume that takes a part of the pool, after it was overwritten as a whole; compared with a smaller volume.
    async fn aged(&self, percent: u64) -> Result<Vec<Sample>> {
        let (roomy, _) = self.aged_to(ROOMY).await?;
        let (point, remark) = self.aged_to(percent).await?;
        Ok(vec![sample(OTHER, roomy), ours(remark, point)])
    }

    /// The measurement, and how full the pool was before it, with device writes and bytes beside those of the theory.
    async fn aged_to(&self, percent: u64) -> Result<(Point, String)> {
        let (pool, extent) = (self.create(uncached()).await?, &self.bench.extent);
        let region = extent.part_of_pool(pool.space().size, percent);
        let volume = self.volume(&pool, region).await?;
        let plan = Plan::small(Act::Write, DEPTH, region);
        let writes = Plan {
            most: AGEING * region / BLOCK,
            ..plan
        };
        volume.measure(writes, OVERWRITING_MAX, 1).await?;
        pool.checkpoint().await.map_err(refused)?;
        let space = pool.space();
        let full = (space.used as f64 / space.size as f64).min(FULLEST);
        let (begun, writes) = (Instant::now(), device_writes(&pool));
        let point = volume.measure(plan, extent.long, 5).await?;
        let records = point.rate.unwrap_or_default() * begun.elapsed().as_secs_f64();
        let writes = (device_writes(&pool) - writes) as f64 / records.max(1.0);
        drop(volume);
        pool.close().await.map_err(refused)?;
        let remark = format!(
            "{:.0} % full; {writes:.2} device writes for each, {:.2} in theory if holes are filled; {:.2} bytes for each, {:.2} in theory if regions are cleaned",
            full * 100.0,
            writes_into_holes(full),
            point.written.unwrap_or_default(),
            bytes_with_cleaning(full),
        );
        Ok((point, remark))
    }

    /// Reads a volume in order that was overwritten at random, after the order mover is done; compared with the raw file.
    async fn put_in_order(&self) -> Result<Vec<Sample>> {
        let extent = &self.bench.extent;
        let region = extent.size / 4;
        let plan = Plan {
            bytes: LARGE,
            is_sequential: true,
            ..Plan::small(Act::Read, ORDERED_DEPTH, region)
        };
        let raw = Target::Raw(file(&self.raw(), extent.size).await?);
        raw.fill(region).await?;
        let raw = raw.measure(plan, extent.long, 1).await?;
        let pool = self.create(uncached()).await?;
        let volume = self.volume(&pool, region).await?;
        let writes = Plan {
            most: OVERWRITTEN * region / BLOCK,
            ..Plan::small(Act::Write, DEPTH, region)
        };
        volume.measure(writes, OVERWRITING_MAX, 1).await?;
        volume.make_durable().await?;
        let apart = volume.measure(plan, extent.runtime, 1).await?;
        volume.pass(plan).await?;
        while pool.order_moves().waiting > 0 || pool.order_moves().is_moving {
            io::time::sleep(LOOK_EVERY).await;
        }
        let moved = pool.order_moves().moved;
        let now = volume.measure(plan, extent.long, 1).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let mib = |bytes: f64| bytes / f64::from(M1);
        let before = mib(apart.bytes_per_s.unwrap_or_default());
        let remark = format!(
            "{before:.0} MiB/s before, {:.0} MiB moved",
            mib(moved as f64)
        );
        Ok(vec![sample(OTHER, raw), ours(remark, now)])
    }

    /// Writes while snapshots replace each other. In memory, because disks stall.
    async fn snapshots_under_load(&self) -> Result<Vec<Sample>> {
        let (place, time) = (PoolFiles::in_memory(self.bench)?, self.bench.extent.runtime);
        let pool = place.create(uncached()).await?;
        let (volume, plan) = place.small_volume(&pool).await?;
        let before = volume.measure(plan, time, 1).await?;
        let count = (time.as_millis() / SNAPSHOT_EVERY.as_millis()) as u32;
        let load = volume.begin(plan, 2);
        for n in 0..count + SNAPSHOTS_KEPT {
            if n < count {
                create_snapshot(&pool, &format!("brief{n}")).await?;
            }
            if n >= SNAPSHOTS_KEPT {
                let name = format!("brief{}", n - SNAPSHOTS_KEPT);
                let destroyed = pool.destroy_snapshot(VOLUME, &name).await;
                destroyed.map_err(refused)?;
            }
            io::time::sleep(SNAPSHOT_EVERY).await;
        }
        let now = load.end().await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        std::fs::remove_file(place.disk()).map_err(Error::file(&place.disk()))?;
        Ok(vec![
            sample(OTHER, before),
            ours(format!("{count} snapshots came and went"), now),
        ])
    }

    /// Ends a pool without closing it during these writes, and opens it. Without flushes (`Act::Write`), nothing proves which writes are on
    /// the devices: the worst case.
    async fn import_after(&self, act: Act) -> Result<Vec<Sample>> {
        let pool = self.create(uncached()).await?;
        drop(self.volume(&pool, self.bench.extent.size).await?);
        pool.close().await.map_err(refused)?;
        self.crash(act).await?;
        let begun = Instant::now();
        let opened = open_disks(&[self.disk()]).await?;
        let found = begun.elapsed();
        let (ring, start) = (opened.vdevs.ring(), opened.uberblock.journal);
        let replayed = journal::replay(&opened.vdevs, &ring, start).await;
        let bytes = between(start, replayed.map_err(refused)?.head, &ring);
        let begun = Instant::now();
        let pool = Pool::open(opened, uncached()).await.map_err(refused)?;
        let time = found + begun.elapsed();
        pool.close().await.map_err(refused)?;
        let p = Point {
            time_us: Some(us(time)),
            bytes: Some(bytes as f64),
            ..Point::default()
        };
        Ok(vec![ours("of journal".into(), p)])
    }

    /// Opens the pool on a separate thread, and ends the thread under load.
    async fn crash(&self, act: Act) -> Result<()> {
        let shard = Shard::start(ShardConfig {
            name: "pool".into(),
            cpu: None,
            runtime: RuntimeConfig::default(),
        })?;
        let (loaded, is_loaded) = oneshot::channel();
        let (path, time) = (self.disk(), LOADED * self.bench.extent.runtime);
        let region = self.bench.extent.size;
        shard.spawn(move || async move {
            let reopen = async {
                let opened = open_disks(&[path]).await?;
                Pool::open(opened, uncached()).await.map_err(refused)
            };
            let pool = match reopen.await {
                Ok(pool) => pool,
                Err(e) => return loaded.send(Err(e)),
            };
            let Some(volume) = pool.volume(VOLUME) else {
                return loaded.send(Err(refused("its volume is gone")));
            };
            let plan = Plan::small(act, DEPTH, region);
            let _running = Target::Volume(volume).begin(plan, 1);
            io::time::sleep(time).await;
            loaded.send(Ok(()));
            std::future::pending::<()>().await;
        })?;
        let cancelled = Err(Error::Io(io::Error::Cancelled));
        let done = is_loaded.await.unwrap_or(cancelled);
        shard.stop();
        done
    }

    async fn growth(&self) -> Result<Vec<Sample>> {
        let pool = self.create(uncached()).await?;
        let mut samples = Vec::new();
        for (column, name, region) in [
            (OTHER, "small", SMALL_VOLUME),
            (OURS, "large", LARGE_VOLUME),
        ] {
            let volume = Target::Volume(new_volume(&pool, name, region).await?);
            let plan = Plan {
                // no fuller than before
                most: self.bench.extent.size / BLOCK,
                ..Plan::small(Act::Write, DEPTH, region)
            };
            let p = volume.measure(plan, self.bench.extent.runtime, 1).await?;
            samples.push(sample(column, p));
        }
        pool.close().await.map_err(refused)?;
        Ok(samples)
    }
}

/// Writes that the disks of `pool` got since it was opened.
fn device_writes(pool: &Pool) -> u64 {
    let vdevs = pool.vdevs().status();
    let members = vdevs.iter().flat_map(|vdev| &vdev.members);
    members.map(|member| member.counters.writes).sum()
}

async fn create_snapshot(pool: &Pool, name: &str) -> Result<()> {
    let made = pool.create_snapshot(VOLUME, name).await;
    made.map(drop).map_err(refused)
}

/// Bytes of the journal between two places of it.
fn between(start: Start, head: Start, ring: &journal::Ring) -> u64 {
    let place = |at: Start| {
        at.position.segment * u64::from(ring.segment_size) + u64::from(at.position.offset)
    };
    place(head) - place(start)
}
