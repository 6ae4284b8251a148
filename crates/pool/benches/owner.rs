//! Processor time of the owner for a write: `cargo bench -p wirepool-pool --bench owner`.
//!
//! One thread has the pool's owner and its disk, another one is the shard that takes the writes of clients. The table says what each
//! spent for one write, until the devices had it. `docs/decisions/0170`.

use std::path::Path;
use std::rc::Rc;

use backend::{BlockBackend, Lba};
use futures_util::stream::{self, StreamExt};
use io::disk::{Disk, OpenOptions};
use io::linux::thread_cpu_time;
use io::rng::Prng;
use io::runtime::{Runtime, RuntimeConfig, Shard, ShardConfig};
use io::sync::oneshot;
use pool::format::{ChecksumKind, Host, Packing};
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: u64 = 4096;
/// Writes in flight.
const DEPTH: usize = 32;

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of each volume, and of the writes of each row.
    pub(crate) size: u64,
    /// Size of the pool's disk, bytes.
    pub(crate) disk: u64,
}

/// Processor time of a row for one write, microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) owner_us: f64,
    pub(crate) shard_us: f64,
}

/// Processor time of this thread, microseconds.
fn cpu_us() -> f64 {
    thread_cpu_time().as_secs_f64() * 1e6
}

/// Writes the volume once, `len` bytes at a time, at random or in order. Returns the processor time of this shard.
async fn fill(volume: Volume, len: u64, size: u64, is_random: bool) -> f64 {
    let mut noise = vec![0; 4 << 20];
    Prng::new(5).fill(&mut noise);
    let noise = Rc::new(noise);
    let (before, count) = (cpu_us(), size / len);
    let writes = (0..count).map(|n| {
        let at = match is_random {
            // each one once: the factor and the count have no common divisor
            true => n * 1_000_003 % count * len,
            false => n * len,
        };
        let (volume, noise) = (volume.clone(), noise.clone());
        async move {
            let mut buf = io::pool().alloc(len as usize).await;
            let from = at as usize % noise.len();
            buf.copy_from_slice(&noise[from..from + len as usize]);
            volume.write(Lba(at / BLOCK), buf).await.expect("written");
        }
    });
    stream::iter(writes)
        .buffer_unordered(DEPTH)
        .for_each(async |()| ())
        .await;
    drop(volume.flush().await.expect("flushed"));
    cpu_us() - before
}

/// The cost of the writes of a volume.
async fn cost(pool: &Pool, shard: &Shard, new: NewVolume, len: u64, is_random: bool) -> Cost {
    let size = new.size;
    let volume = pool.create_volume(new).await.expect("a volume");
    pool.checkpoint().await.expect("a checkpoint");
    let (done, is_done) = oneshot::channel();
    let before = cpu_us();
    let work = move || async move { done.send(fill(volume, len, size, is_random).await) };
    shard.spawn(work).expect("the shard is there");
    let of_shard = is_done.await.expect("it ran to its end");
    let writes = (size / len) as f64;
    Cost {
        owner_us: (cpu_us() - before) / writes,
        shard_us: of_shard / writes,
    }
}

async fn measure(dir: &Path, scale: Scale) -> Vec<Cost> {
    let options = OpenOptions {
        create_size: Some(scale.disk),
        ..OpenOptions::default()
    };
    let disk = Disk::open(dir.join("owner.img"), options).await;
    let members = vec![vec![disk.expect("a file")]];
    let spec = PoolSpec::new("owner", members, Host::new([1; 16], "bench"));
    let pool = Pool::open(create(spec).await.expect("a pool"), Options::default()).await;
    let pool = pool.expect("a pool");
    let shard = Shard::start(ShardConfig {
        name: "clients".into(),
        cpu: None,
        runtime: RuntimeConfig::default(),
    });
    let shard = shard.expect("io_uring");
    println!("| write | records | checksum | owner, CPU µs | shard, CPU µs |");
    println!("|---|---|---|---|---|");
    let mut costs = Vec::new();
    for (name, len, record_size, is_random) in [
        ("4K at random", 4 << 10, 4 << 10, true),
        ("128K in order", 128 << 10, 128 << 10, false),
        ("1M in order", 1 << 20, 1 << 20, false),
    ] {
        for checksum in [ChecksumKind::Xxh3, ChecksumKind::Blake3] {
            let new = NewVolume {
                record_size,
                compression: Packing::Off,
                checksum,
                ..NewVolume::new(format!("{checksum}-{len}"), scale.size)
            };
            let cost = cost(&pool, &shard, new, len, is_random).await;
            let (owner, clients) = (cost.owner_us, cost.shard_us);
            let records = record_size >> 10;
            println!("| {name} | {records}K | {checksum} | {owner:.2} | {clients:.2} |");
            costs.push(cost);
        }
    }
    shard.stop();
    pool.close().await.expect("closed");
    costs
}

/// Measures in a directory, which should be in memory.
pub(crate) fn run(dir: &Path, scale: Scale) -> Vec<Cost> {
    let dir = dir.to_owned();
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring");
    runtime.block_on(async move { measure(&dir, scale).await })
}

#[allow(dead_code, reason = "the test that includes this calls `run`")]
fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let scale = Scale {
        size: 256 << 20,
        disk: 4 << 30,
    };
    run(dir.path(), scale);
}
