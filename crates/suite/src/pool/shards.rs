//! Rows about shards: the owner's processor time, and the rate of two shards. The pool is in memory.
//!
//! **Owns** the pool's shard, which no other row has: the other rows open the pool on the thread of their load. **Invariants**: both
//! contenders of a row are new pools of the same size; writes are made durable within the measured time.

use super::load::{DEPTH, OTHER, OURS, Plan, Target};
use super::place::{PoolFiles, VOLUME, create_at, new_volume, refused, uncached};
use crate::point::{Point, Sample, sample, us};
use crate::rows::{Act, LARGE};
use io::RuntimeConfig;
use io::linux::{process_cpu_time, thread_cpu_time};
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use lab::{Error, Result};
use pool::Volume;
use std::future::Future;
use std::time::Duration;

/// Requests of 128 KiB at a time.
const LARGE_DEPTH: u64 = 8;

/// A pool on its shard, until this is dropped or closed.
struct Held {
    owner: Shard,
    volume: Volume,
    end: oneshot::Sender<()>,
    closed: oneshot::Receiver<Result<()>>,
}

/// Requests that ended, and processor time of the process and of the owner for them.
struct Spent {
    point: Point,
    owner_us: f64,
}

fn start(name: &str) -> Result<Shard> {
    let shard = Shard::start(ShardConfig {
        name: name.into(),
        cpu: None,
        runtime: RuntimeConfig::default(),
    });
    Ok(shard?)
}

/// Runs `make`'s future on a shard.
async fn on<T: Send + 'static, F: Future<Output = T> + 'static>(
    shard: &Shard,
    make: impl FnOnce() -> F + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    shard.spawn(move || async move { sender.send(make().await) })?;
    receiver.await.ok_or(Error::Io(io::Error::Cancelled))
}

impl Held {
    async fn close(self) -> Result<()> {
        drop(self.volume);
        self.end.send(());
        self.closed.await.unwrap_or(Ok(()))?;
        self.owner.stop();
        Ok(())
    }

    /// The same load from each of these shards, for `time`.
    async fn load(&self, shards: &[&Shard], plan: Plan, time: Duration) -> Result<Spent> {
        let time_of_owner = async || on(&self.owner, async || thread_cpu_time()).await;
        let of_process = || process_cpu_time(std::process::id()).unwrap_or_default();
        let (process, owner) = (of_process(), time_of_owner().await?);
        let mut running = Vec::new();
        for (seed, shard) in (1..).zip(shards) {
            let (sender, receiver) = oneshot::channel();
            let target = Target::Volume(self.volume.clone());
            let load = move || async move { sender.send(target.measure(plan, time, seed).await) };
            shard.spawn(load)?;
            running.push(receiver);
        }
        let mut point = Point::default();
        for one in running {
            let one = one.await.ok_or(Error::Io(io::Error::Cancelled))??;
            let sum = |a: Option<f64>, b: Option<f64>| Some(a.unwrap_or(0.0) + b.unwrap_or(0.0));
            point.rate = sum(point.rate, one.rate);
            point.bytes_per_s = sum(point.bytes_per_s, one.bytes_per_s);
        }
        let requests = point.rate.unwrap_or_default() * time.as_secs_f64();
        let each = |time: Duration| us(time) / requests.max(1.0);
        point.cpu_us = Some(each(of_process().saturating_sub(process)));
        let owner_us = each(time_of_owner().await?.saturating_sub(owner));
        Ok(Spent { point, owner_us })
    }
}

impl PoolFiles<'_> {
    /// A new pool on a shard of its own, which these workers help, with a volume.
    async fn hold(&self, workers: Vec<Shard>) -> Result<Held> {
        let owner = start("owner")?;
        let (opened, opening) = oneshot::channel::<Result<Volume>>();
        let (end, ended) = oneshot::channel::<()>();
        let (closing, closed) = oneshot::channel();
        let region = self.bench.extent.size / 4;
        let (disk, size) = (self.disk(), self.disk_size());
        owner.spawn(move || async move {
            let made = async {
                let pool = create_at(&disk, size, uncached()).await?;
                pool.set_workers(workers);
                let volume = new_volume(&pool, VOLUME, region).await?;
                Target::Volume(volume.clone()).fill(region).await?;
                pool.checkpoint().await.map_err(refused)?;
                Ok((pool, volume))
            };
            match made.await {
                Ok((pool, volume)) => {
                    opened.send(Ok(volume));
                    let _ = ended.await;
                    closing.send(pool.close().await.map_err(refused));
                }
                Err(e) => opened.send(Err(e)),
            }
        })?;
        let volume = opening.await.ok_or(Error::Io(io::Error::Cancelled))??;
        Ok(Held {
            owner,
            volume,
            end,
            closed,
        })
    }

    fn plan(&self, bytes: u64) -> Plan {
        let region = self.bench.extent.size / 4;
        match bytes {
            LARGE => Plan {
                bytes,
                is_sequential: true,
                ..Plan::small(Act::Write, LARGE_DEPTH, region)
            },
            _ => Plan::small(Act::Write, DEPTH, region),
        }
    }

    /// Processor time of the owner for each asynchronous write of `bytes` bytes that comes from another shard: without workers, and with
    /// the other shard as a worker.
    pub(super) async fn owner_time(&self, bytes: u64) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for (column, workers) in [(OTHER, 0), (OURS, 1)] {
            let other = start("writer")?;
            let pool = self.hold(vec![other.clone(); workers]).await?;
            let time = self.bench.extent.long;
            let spent = pool.load(&[&other], self.plan(bytes), time).await?;
            pool.close().await?;
            other.stop();
            let all = spent.point.cpu_us.unwrap_or_default();
            let cpu_us = Some(spent.owner_us);
            let way = format!("{all:.1} µs of all threads");
            let point = Point {
                cpu_us,
                ..spent.point
            };
            samples.push(Sample {
                way,
                ..sample(column, point)
            });
        }
        Ok(samples)
    }

    /// Writes on the pool's shard, compared with writes on it and on another one that is a worker.
    pub(super) async fn two_shards(&self, bytes: u64) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for (column, is_alone) in [(OTHER, true), (OURS, false)] {
            let other = start("writer")?;
            let workers = if is_alone { 0 } else { 1 };
            let pool = self.hold(vec![other.clone(); workers]).await?;
            let both = [&pool.owner, &other];
            let from = &both[..=workers];
            let time = self.bench.extent.long;
            let spent = pool.load(from, self.plan(bytes), time).await?;
            pool.close().await?;
            other.stop();
            let way = format!("owner {:.1} µs", spent.owner_us);
            samples.push(Sample {
                way,
                ..sample(column, spent.point)
            });
        }
        Ok(samples)
    }
}
