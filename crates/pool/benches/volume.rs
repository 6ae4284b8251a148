//! A volume beside a raw file on the same disk: `cargo bench -p wirepool-pool --bench volume`.
//!
//! Both files, and the volume, are written whole before, with random bytes; each row measures them in turn, several
//! times, and shows the medians. Rows with "sync" make each write durable: the raw file is flushed after it. A word after
//! `--` leaves the rows whose name has it; "cache" those of the record cache, "compression" those of compressed volumes.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::runtime::{Runtime, RuntimeConfig};
use pool::format::{ChecksumKind, Host, Packing, Sync};
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: u64 = 4096;
const LARGE: u64 = 128 << 10;
/// The words that leave what is no comparison with a raw file.
const CACHED: &str = "cache";
const COMPRESSED: &str = "compression";

/// How large and how long.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of the raw file, and of the volume.
    pub(crate) size: u64,
    /// Bytes of the pool's disk.
    pub(crate) disk: u64,
    /// Of one measurement.
    pub(crate) time: Duration,
    /// Measurements of each side of a row.
    pub(crate) rounds: usize,
}

#[derive(Clone)]
enum Target {
    Raw(Disk),
    Volume(Volume),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Read,
    Write,
    SyncWrite,
}

#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    work: Work,
    bytes: u64,
    depth: u64,
    sequential: bool,
}

const ROWS: [Row; 7] = [
    row("4K random write, sync, QD1", Work::SyncWrite, BLOCK, 1),
    row("4K random write, sync, QD32", Work::SyncWrite, BLOCK, 32),
    row("4K random write, async, QD32", Work::Write, BLOCK, 32),
    row("4K random read, QD1", Work::Read, BLOCK, 1),
    row("4K random read, QD32", Work::Read, BLOCK, 32),
    Row {
        sequential: true,
        ..row("128K sequential write, QD8", Work::Write, LARGE, 8)
    },
    Row {
        sequential: true,
        ..row("128K sequential read, QD8", Work::Read, LARGE, 8)
    },
];

const fn row(name: &'static str, work: Work, bytes: u64, depth: u64) -> Row {
    Row {
        name,
        work,
        bytes,
        depth,
        sequential: false,
    }
}

impl Target {
    async fn act(&self, work: Work, at: u64, bytes: u64, rng: &mut Prng) {
        let start = Lba(at / BLOCK);
        if work == Work::Read {
            match self {
                Target::Raw(disk) => {
                    let buf = io::pool().alloc(bytes as usize).await;
                    disk.read(buf, at).await.0.expect("read");
                }
                Target::Volume(volume) => {
                    let blocks = bytes / BLOCK;
                    let read = volume.read(Extent { start, blocks }).await;
                    assert_eq!(read.expect("read").len() as u64, bytes);
                }
            }
            return;
        }
        let mut buf = io::pool().alloc(bytes as usize).await;
        // what the buffer held, with every block made different
        for block in buf.chunks_mut(BLOCK as usize) {
            block[..8].copy_from_slice(&rng.u64().to_le_bytes());
        }
        match (self, work) {
            (Target::Raw(disk), _) => {
                disk.write(buf, at).await.expect("write");
                if work == Work::SyncWrite {
                    let _flushed = disk.flush().await.expect("flush");
                }
            }
            (Target::Volume(volume), Work::SyncWrite) => {
                let _durable = volume.write_durable(start, buf).await.expect("write");
            }
            (Target::Volume(volume), _) => volume.write(start, buf).await.expect("write"),
        }
    }

    async fn settle(&self) {
        match self {
            Target::Raw(disk) => drop(disk.flush().await.expect("flush")),
            Target::Volume(volume) => drop(volume.flush().await.expect("flush")),
        }
    }

    /// Operations per second, and microseconds of processor time for each.
    async fn measure(&self, row: Row, scale: Scale, seed: u64) -> (f64, f64) {
        let (next, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0u64)));
        let places = scale.size / row.bytes;
        let (begun, cpu) = (Instant::now(), cpu_us());
        let jobs: Vec<_> = (0..row.depth)
            .map(|job| {
                let (this, next, done) = (self.clone(), next.clone(), done.clone());
                io::spawn(async move {
                    let mut rng = Prng::new(seed + job);
                    while begun.elapsed() < scale.time {
                        let place = if row.sequential {
                            next.replace(next.get() + 1) % places
                        } else {
                            rng.below(places)
                        };
                        this.act(row.work, place * row.bytes, row.bytes, &mut rng)
                            .await;
                        done.set(done.get() + 1);
                    }
                })
            })
            .collect();
        for job in jobs {
            job.await;
        }
        if row.work == Work::Write {
            // what was only acknowledged is part of the work
            self.settle().await;
        }
        let done = done.get() as f64;
        let rate = done / begun.elapsed().as_secs_f64();
        (rate, (cpu_us() - cpu) / done)
    }

    async fn fill(&self, size: u64) {
        let mut rng = Prng::new(7);
        let mut noise = vec![0; LARGE as usize];
        for at in (0..size).step_by(LARGE as usize) {
            rng.fill(&mut noise);
            let mut buf = io::pool().alloc(noise.len()).await;
            buf.copy_from_slice(&noise);
            match self {
                Target::Raw(disk) => disk.write(buf, at).await.expect("write"),
                Target::Volume(volume) => {
                    volume.write(Lba(at / BLOCK), buf).await.expect("write");
                }
            }
        }
        self.settle().await;
    }
}

/// Microseconds that this process has been on a processor.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    first.and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn open(dir: &Path, name: &str, size: u64) -> Disk {
    let options = OpenOptions {
        create_size: Some(size),
        ..OpenOptions::default()
    };
    Disk::open(dir.join(name), options).await.expect("a file")
}

async fn compare(dir: &Path, scale: Scale, only: &str) {
    let raw = Target::Raw(open(dir, "raw.img", scale.size).await);
    let host = Host {
        id: [1; 16],
        name: "bench".into(),
    };
    let disk = open(dir, "pool.img", scale.disk).await;
    // a file system that has to find room for a sparse file would be measured with it
    Target::Raw(disk.clone()).fill(scale.disk).await;
    let opened = create(PoolSpec::new("bench", vec![vec![disk]], host)).await;
    // what is read is to come from the disk
    let options = Options {
        record_cache_bytes: 0,
        ..Options::default()
    };
    let pool = Pool::open(opened.expect("a pool"), options).await;
    let pool = pool.expect("a pool");
    let volume = pool.create_volume(NewVolume {
        name: "volume".into(),
        size: scale.size,
        block_size: BLOCK as u32,
        record_size: BLOCK as u32,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    });
    let volume = Target::Volume(volume.await.expect("a volume"));
    raw.fill(scale.size).await;
    volume.fill(scale.size).await;
    pool.checkpoint().await.expect("a checkpoint");
    println!("| work | raw /s | CPU µs | volume /s | CPU µs | ratio |\n|---|---|---|---|---|---|");
    for row in ROWS.into_iter().filter(|row| row.name.contains(only)) {
        let mut sides = [Vec::new(), Vec::new()];
        for round in 0..scale.rounds {
            for (side, target) in sides.iter_mut().zip([&raw, &volume]) {
                side.push(target.measure(row, scale, 1000 * round as u64).await);
            }
        }
        let [raw, volume] = sides.map(|side| {
            let (rates, cpus): (Vec<f64>, Vec<f64>) = side.into_iter().unzip();
            (median(rates), median(cpus))
        });
        println!(
            "| {} | {:.0} | {:.1} | {:.0} | {:.1} | {:.2} |",
            row.name,
            raw.0,
            raw.1,
            volume.0,
            volume.1,
            volume.0 / raw.0
        );
    }
    println!("{:?}, node cache {:?}", pool.space(), pool.cache());
    drop(volume);
    pool.close().await.expect("closed");
}

/// Reads of records that are in memory, and what the first reads of them cost, which came from the disk.
async fn cached(dir: &Path, scale: Scale) {
    let disk = open(dir, "cached.img", scale.disk.min(256 << 20)).await;
    let host = Host::new([1; 16], "bench");
    let opened = create(PoolSpec::new("cached", vec![vec![disk]], host)).await;
    let pool = Pool::open(opened.expect("a pool"), Options::default()).await;
    let pool = pool.expect("a pool");
    // half of what the cache holds
    let scale = Scale {
        size: scale
            .size
            .min(Options::default().record_cache_bytes as u64 / 2),
        ..scale
    };
    let volume = pool.create_volume(NewVolume::new("volume", scale.size));
    let volume = Target::Volume(volume.await.expect("a volume"));
    volume.fill(scale.size).await;
    pool.checkpoint().await.expect("a checkpoint");
    for at in (0..scale.size).step_by(BLOCK as usize) {
        volume.act(Work::Read, at, BLOCK, &mut Prng::new(1)).await;
    }
    println!("| work | /s | CPU µs | found |\n|---|---|---|---|");
    for row in [ROWS[3], ROWS[4]] {
        let before = pool.record_cache();
        let mut rounds = Vec::new();
        for round in 0..scale.rounds {
            rounds.push(volume.measure(row, scale, 1000 * round as u64).await);
        }
        let (rates, cpus): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        let after = pool.record_cache();
        let found = after.hits - before.hits;
        println!(
            "| {}, record cache | {:.0} | {:.2} | {:.3} |",
            row.name,
            median(rates),
            median(cpus),
            found as f64 / (found + after.misses - before.misses) as f64
        );
    }
    drop(volume);
    pool.close().await.expect("closed");
}

/// What compression costs a volume, and gains: text, and bytes that do not compress.
async fn compressed(dir: &Path, scale: Scale) {
    let scale = Scale {
        size: scale.size.min(256 << 20),
        ..scale
    };
    let mut rng = Prng::new(5);
    let mut noise = vec![0; scale.size.min(4 << 20) as usize];
    rng.fill(&mut noise);
    let lines = (0u64..).map(|n| {
        format!(
            "{n:08} volume {} wrote {} bytes\n",
            n % 7,
            n * 7919 % 65_536
        )
    });
    let text: Vec<u8> = lines
        .flat_map(String::into_bytes)
        .take(noise.len())
        .collect();
    println!(
        "| records | compression | data | MB/s written | CPU µs/MiB | MB/s read | CPU µs/MiB | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for record_size in [16 << 10, 128 << 10] {
        for compression in [
            Packing::Off,
            Packing::Lz4,
            Packing::Zstd(1),
            Packing::Zstd(3),
        ] {
            for (name, data) in [("noise", &noise), ("text", &text)] {
                let disk = open(dir, "packed.img", scale.disk.min(1 << 30)).await;
                let mut spec =
                    PoolSpec::new("packed", vec![vec![disk]], Host::new([1; 16], "bench"));
                spec.force = true;
                let options = Options {
                    record_cache_bytes: 0,
                    ..Options::default()
                };
                let pool = Pool::open(create(spec).await.expect("a pool"), options).await;
                let pool = pool.expect("a pool");
                let volume = pool.create_volume(NewVolume {
                    record_size,
                    compression,
                    ..NewVolume::new("volume", scale.size)
                });
                let volume = volume.await.expect("a volume");
                let (begun, cpu) = (Instant::now(), cpu_us());
                for at in (0..scale.size).step_by(LARGE as usize) {
                    let mut buf = io::pool().alloc(LARGE as usize).await;
                    let from = at as usize % data.len();
                    buf.copy_from_slice(&data[from..from + LARGE as usize]);
                    volume.write(Lba(at / BLOCK), buf).await.expect("written");
                }
                drop(volume.flush().await.expect("flushed"));
                let written = (begun.elapsed(), cpu_us() - cpu);
                pool.checkpoint().await.expect("a checkpoint");
                let (begun, cpu) = (Instant::now(), cpu_us());
                let read = Target::Volume(volume);
                for at in (0..scale.size).step_by(LARGE as usize) {
                    read.act(Work::Read, at, LARGE, &mut rng).await;
                }
                let read = (begun.elapsed(), cpu_us() - cpu);
                let space = pool.volume_spaces()["volume"];
                let rate =
                    |(time, _): (Duration, f64)| scale.size as f64 / 1e6 / time.as_secs_f64();
                let cost = |(_, cpu): (Duration, f64)| cpu / (scale.size >> 20) as f64;
                println!(
                    "| {}K | {compression} | {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} |",
                    record_size >> 10,
                    rate(written),
                    cost(written),
                    rate(read),
                    cost(read),
                    space.logical as f64 / space.referenced as f64
                );
                pool.close().await.expect("closed");
            }
        }
    }
}

/// Measures in a directory, which should be on the disk in question, the rows whose name has `only` in it.
pub(crate) fn run(dir: &Path, scale: Scale, only: &str) {
    let (dir, only) = (dir.to_owned(), only.to_owned());
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring");
    runtime.block_on(async move {
        if only != CACHED && only != COMPRESSED {
            compare(&dir, scale, &only).await;
        }
        if only.is_empty() || only == CACHED {
            cached(&dir, scale).await;
        }
        if only.is_empty() || only == COMPRESSED {
            compressed(&dir, scale).await;
        }
    });
}

#[allow(dead_code, reason = "the test that includes this calls `run`")]
fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let scale = Scale {
        size: 1 << 30,
        disk: 4 << 30,
        time: Duration::from_millis(1500),
        rounds: 3,
    };
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    run(dir.path(), scale, &only.unwrap_or_default());
}
