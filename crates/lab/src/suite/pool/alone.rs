//! Rows of a pool without a comparison: write amplification; the cost of size, snapshots and fullness; import after a
//! crash.
//!
//! **Invariants**: a row "of the empty pool" is measured in the same pool, directly afterwards.

use super::bench::{Bench, Line, VOLUME, new_volume, open_devices, refused, reopen, uncached};
use super::load::{BLOCK, Plan, Score, Target, Work};
use crate::size::{digits, size};
use crate::suite::lab::Steps;
use crate::{Error, Result};
use io::RuntimeConfig;
use io::rng::Prng;
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use pool::journal::{self, Start};
use pool::{Options, Pool};
use std::time::{Duration, Instant};

/// Names of the rows.
pub(super) const ROWS: [&str; 9] = [
    "bytes written, async",
    "bytes written, sync",
    "reads from the record cache",
    "snapshots under load",
    "many snapshots",
    "a full pool",
    "import after a crash",
    "import after unflushed writes",
    "a volume of 16 TiB",
];
const DEPTH: u64 = 32;
/// The volume is this many times the node cache, in rows where that matters.
const CACHE_PART: u64 = 100;
/// Goals for bytes that devices write for each byte: asynchronous writes, and durable ones.
const AMPLIFICATION: f64 = 1.3;
const AMPLIFICATION_SYNC: f64 = 2.2;
/// Processor time of a read from the record cache, µs.
const CACHED_READ_US: f64 = 2.0;
/// Goal for the time that a snapshot under load adds to the slowest request.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(10);
/// Time between two snapshots under load.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);
/// Snapshots that exist at once; few, because a full pool has a row of its own.
const SNAPSHOTS_KEPT: u32 = 4;
/// Blocks that are written between two of many snapshots.
const BETWEEN_SNAPSHOTS: u64 = 64;
/// Goal for the share of the empty pool's rate that remains with many snapshots, or little space.
const SHARE_LEFT: f64 = 0.7;
/// Fraction of a pool that is full in the row of little space.
const FULL: f64 = 0.9;
/// Rounds of load before the crash: enough to use much of the journal, and too few for a checkpoint to be due.
const LOADED: u32 = 3;
/// Goal for the time of an import for each GiB of journal.
const IMPORT_PER_GIB: Duration = Duration::from_secs(10);
/// Goal for the time of an import after any crash.
const IMPORT_MAX: Duration = Duration::from_secs(10);
/// Goal for the cost of a write to the large volume, relative to the small one.
const GROWTH: f64 = 1.5;
const SMALL_VOLUME: u64 = 1 << 30;
const LARGE_VOLUME: u64 = 16 << 40;

fn ms(time: Duration) -> String {
    digits(time.as_secs_f64() * 1000.0)
}

fn of_empty(name: String, empty: Score, now: Score) -> Line {
    let share = now.rate / empty.rate;
    Line::alone(
        name,
        format!("≥ {SHARE_LEFT} of the empty pool"),
        format!(
            "{share:.2}, slowest write {} ms, before {} ms",
            ms(now.slowest),
            ms(empty.slowest)
        ),
        share >= SHARE_LEFT,
    )
    .scored(now)
}

impl Bench<'_> {
    /// All rows.
    pub(super) async fn alone(&self, steps: &mut Steps<'_>) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for row in ROWS {
            if !steps.next(row) {
                continue;
            }
            lines.push(match row {
                "bytes written, async" => {
                    let row = self.amplification(Work::Write, DEPTH, AMPLIFICATION);
                    row.await?
                }
                "bytes written, sync" => {
                    let row = self.amplification(Work::SyncWrite, 1, AMPLIFICATION_SYNC);
                    row.await?
                }
                "reads from the record cache" => self.cached_reads().await?,
                "snapshots under load" => self.snapshots_under_load().await?,
                "many snapshots" => self.many_snapshots().await?,
                "a full pool" => self.full().await?,
                "import after a crash" => self.import_after_durable_writes().await?,
                "import after unflushed writes" => self.import_after_unflushed_writes().await?,
                "a volume of 16 TiB" => self.growth().await?,
                _ => unreachable!("no such row {row}"),
            });
        }
        Ok(lines)
    }

    /// Bytes that the disk gets for each byte of random writes, with a node cache that holds a small part of the tree.
    async fn amplification(&self, work: Work, depth: u64, most: f64) -> Result<Line> {
        let options = Options {
            cache_bytes: (self.extent.bytes / CACHE_PART) as usize,
            ..uncached()
        };
        let pool = self.create(options).await?;
        let volume = self.volume(&pool, self.extent.bytes).await?;
        let plan = Plan::small(work, depth, self.extent.bytes);
        let score = volume.measure(plan, self.extent.long, 1).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let times = score.amplification;
        let word = if work == Work::Write { "async" } else { "sync" };
        Ok(Line::alone(
            format!("bytes written for each, 4K randwrite {word} Q{depth}"),
            format!("≤ {most}"),
            times.map_or("the kernel does not tell".into(), |t| format!("{t:.2}")),
            times.is_some_and(|t| t <= most),
        )
        .scored(score))
    }

    async fn cached_reads(&self) -> Result<Line> {
        let options = Options::default();
        // half of what the cache holds
        let region = self.extent.bytes.min(options.record_cache_bytes as u64 / 2);
        let pool = self.create(options).await?;
        let volume = self.volume(&pool, region).await?;
        let plan = Plan::small(Work::Read, 1, region);
        volume.pass(plan).await?;
        let before = pool.record_cache();
        let score = volume.measure(plan, self.extent.runtime, 1).await?;
        let after = pool.record_cache();
        drop(volume);
        pool.close().await.map_err(refused)?;
        let (found, missed) = (after.hits - before.hits, after.misses - before.misses);
        let share = found as f64 / (found + missed).max(1) as f64;
        Ok(Line::alone(
            "CPU of a 4K read from the record cache",
            format!("≤ {CACHED_READ_US} µs"),
            format!(
                "{} µs, {:.1} % found there",
                digits(score.cpu_us),
                share * 100.0
            ),
            score.cpu_us <= CACHED_READ_US,
        )
        .scored(score))
    }

    /// A volume whose snapshots cannot fill the pool, with what they hold.
    async fn small_volume(&self, pool: &Pool) -> Result<(Target, Plan)> {
        let region = self.extent.bytes / 4;
        let volume = self.volume(pool, region).await?;
        Ok((volume, Plan::small(Work::Write, DEPTH, region)))
    }

    async fn many_snapshots(&self) -> Result<Line> {
        let pool = self.create(uncached()).await?;
        let (volume, plan) = self.small_volume(&pool).await?;
        // excludes the cost of the first use of memory
        let time = self.extent.long;
        let alone = volume.measure(plan, time, 1).await?;
        let many = self.extent.snapshots;
        let mut rng = Prng::new(3);
        for n in 0..many {
            for _ in 0..BETWEEN_SNAPSHOTS {
                let at = rng.below(plan.region / BLOCK) * BLOCK;
                volume.act(Work::Write, at, BLOCK, &mut rng).await?;
            }
            create_snapshot(&pool, &format!("s{n}")).await?;
        }
        pool.checkpoint().await.map_err(refused)?;
        let with = volume.measure(plan, time, 4).await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let name = format!("4K randwrite async Q{DEPTH}, {many} snapshots");
        Ok(of_empty(name, alone, with))
    }

    async fn full(&self) -> Result<Line> {
        let pool = self.create(uncached()).await?;
        let volume = self.volume(&pool, self.extent.bytes).await?;
        let plan = Plan::small(Work::Write, DEPTH, self.extent.bytes);
        let time = self.extent.long;
        let alone = volume.measure(plan, time, 1).await?;
        // space that the first checkpoint frees is free after the second one
        for _ in 0..2 {
            pool.checkpoint().await.map_err(refused)?;
        }
        let space = pool.space();
        let more = (space.size as f64 * FULL) as u64 - space.used.min(space.size);
        let more = more / super::load::LARGE * super::load::LARGE;
        let filler = Target::Volume(new_volume(&pool, "filler", more).await?);
        filler.fill(more).await?;
        pool.checkpoint().await.map_err(refused)?;
        let space = pool.space();
        let full = space.used as f64 / space.size as f64 * 100.0;
        let with = volume.measure(plan, time, 5).await?;
        drop((volume, filler));
        pool.close().await.map_err(refused)?;
        let name = format!("4K randwrite async Q{DEPTH}, {full:.0} % full");
        Ok(of_empty(name, alone, with))
    }

    /// The slowest write while snapshots replace each other. In memory, because disks stall.
    async fn snapshots_under_load(&self) -> Result<Line> {
        let in_memory = Bench {
            place: self.memory,
            ..*self
        };
        let pool = in_memory.create(uncached()).await?;
        let (volume, plan) = self.small_volume(&pool).await?;
        let alone = volume.measure(plan, self.extent.runtime, 1).await?;
        let count = (self.extent.runtime.as_millis() / SNAPSHOT_EVERY.as_millis()) as u32;
        let load = volume.begin(plan, 2);
        for n in 0..count + SNAPSHOTS_KEPT {
            if n < count {
                create_snapshot(&pool, &format!("brief{n}")).await?;
            }
            if n >= SNAPSHOTS_KEPT {
                destroy_snapshot(&pool, &format!("brief{}", n - SNAPSHOTS_KEPT)).await?;
            }
            io::time::sleep(SNAPSHOT_EVERY).await;
        }
        let with = load.end().await?;
        drop(volume);
        pool.close().await.map_err(refused)?;
        let disk = in_memory.disk();
        std::fs::remove_file(&disk).map_err(Error::file(&disk))?;
        let more = with.slowest.saturating_sub(alone.slowest);
        Ok(Line::alone(
            format!("slowest write while {count} snapshots come and go, in memory"),
            format!("≤ {} ms more", ms(SNAPSHOT_PAUSE)),
            format!("{} ms, without {} ms", ms(with.slowest), ms(alone.slowest)),
            more <= SNAPSHOT_PAUSE,
        )
        .scored(with))
    }

    async fn import_after_durable_writes(&self) -> Result<Line> {
        let (took, bytes) = self.import_after(Work::SyncWrite).await?;
        let per_gib = took.as_secs_f64() / (bytes as f64 / f64::from(1 << 30));
        Ok(Line::alone(
            "import after a crash at full load",
            format!("≤ {} s per GiB of journal", IMPORT_PER_GIB.as_secs()),
            format!(
                "{} ms for {}: {} s per GiB",
                ms(took),
                size(bytes),
                digits(per_gib)
            ),
            per_gib <= IMPORT_PER_GIB.as_secs_f64(),
        ))
    }

    /// The worst case: no flush proves which writes are on the devices.
    async fn import_after_unflushed_writes(&self) -> Result<Line> {
        let (took, bytes) = self.import_after(Work::Write).await?;
        Ok(Line::alone(
            format!("import after a crash, 4K randwrite async Q{DEPTH}"),
            format!("≤ {} s", IMPORT_MAX.as_secs()),
            format!("{} ms for {} of journal", ms(took), size(bytes)),
            took <= IMPORT_MAX,
        ))
    }

    /// Ends a pool without closing it during these writes, and opens it. Returns the time of the opening, and bytes
    /// of the journal that were replayed.
    async fn import_after(&self, work: Work) -> Result<(Duration, u64)> {
        let pool = self.create(uncached()).await?;
        drop(self.volume(&pool, self.extent.bytes).await?);
        pool.close().await.map_err(refused)?;
        self.crash(work).await?;
        let begun = Instant::now();
        let opened = open_devices(&self.disk()).await?;
        let found = begun.elapsed();
        let (ring, start) = (opened.vdevs.ring(), opened.uberblock.journal);
        let replayed = journal::replay(&opened.vdevs, &ring, start).await;
        let bytes = between(start, replayed.map_err(refused)?.head, &ring);
        let begun = Instant::now();
        let pool = Pool::open(opened, uncached()).await.map_err(refused)?;
        let took = found + begun.elapsed();
        pool.close().await.map_err(refused)?;
        Ok((took, bytes))
    }

    /// Opens the pool on a separate thread, and ends the thread under load.
    async fn crash(&self, work: Work) -> Result<()> {
        let shard = Shard::start(ShardConfig {
            name: "pool".into(),
            cpu: None,
            runtime: RuntimeConfig::default(),
        })?;
        let (loaded, is_loaded) = oneshot::channel();
        let (path, time) = (self.disk(), LOADED * self.extent.runtime);
        let region = self.extent.bytes;
        shard.spawn(move || async move {
            let pool = match reopen(&path, uncached()).await {
                Ok(pool) => pool,
                Err(e) => return loaded.send(Err(e)),
            };
            let Some(volume) = pool.volume(VOLUME) else {
                return loaded.send(Err(refused("its volume is gone")));
            };
            let plan = Plan::small(work, DEPTH, region);
            let _running = Target::Volume(volume).begin(plan, 1);
            io::time::sleep(time).await;
            loaded.send(Ok(()));
            std::future::pending::<()>().await;
        })?;
        let done = is_loaded
            .await
            .unwrap_or(Err(Error::Io(io::Error::Cancelled)));
        shard.stop();
        done
    }

    async fn growth(&self) -> Result<Line> {
        let pool = self.create(uncached()).await?;
        let mut rates = Vec::new();
        for (name, region) in [("small", SMALL_VOLUME), ("large", LARGE_VOLUME)] {
            let volume = Target::Volume(new_volume(&pool, name, region).await?);
            let plan = Plan {
                // no fuller than before
                most: self.extent.bytes / BLOCK,
                ..Plan::small(Work::Write, DEPTH, region)
            };
            rates.push(volume.measure(plan, self.extent.runtime, 1).await?);
        }
        pool.close().await.map_err(refused)?;
        let times = rates[0].rate / rates[1].rate;
        Ok(Line::alone(
            "a random write, 16 TiB against 1 GiB (sparse)",
            format!("≤ {GROWTH}x"),
            format!("{times:.2}x"),
            times <= GROWTH,
        )
        .scored(rates[1]))
    }
}

async fn create_snapshot(pool: &Pool, name: &str) -> Result<()> {
    let made = pool.create_snapshot(VOLUME, name).await;
    made.map(drop).map_err(refused)
}

async fn destroy_snapshot(pool: &Pool, name: &str) -> Result<()> {
    pool.destroy_snapshot(VOLUME, name).await.map_err(refused)
}

/// Bytes of the journal between two places of it.
fn between(start: Start, head: Start, ring: &journal::Ring) -> u64 {
    let place = |at: Start| {
        at.position.segment * u64::from(ring.segment_size) + u64::from(at.position.offset)
    };
    place(head) - place(start)
}
