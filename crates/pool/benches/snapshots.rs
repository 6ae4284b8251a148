//! A volume with many snapshots beside itself with none: `cargo bench -p wirepool-pool --bench snapshots`.
//!
//! 4K random writes, 32 at a time, before, while snapshots are made, with all of them, while all are destroyed, and after.
//! Shows writes per second and the slowest one.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::runtime::{Runtime, RuntimeConfig};
use pool::format::{ChecksumKind, Host, Packing, Sync};
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: usize = 4096;
const DEPTH: u64 = 32;
const VOLUME: &str = "volume";

/// How large and how long.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of the volume.
    pub(crate) size: u64,
    /// Bytes of the pool's disk.
    pub(crate) disk: u64,
    /// Snapshots.
    pub(crate) snapshots: u32,
    /// Of a measurement without them.
    pub(crate) time: Duration,
}

/// Writes until it is told to stop.
struct Load {
    stop: Rc<Cell<bool>>,
    done: Rc<Cell<u64>>,
    slowest: Rc<Cell<Duration>>,
    begun: Instant,
    jobs: Vec<io::runtime::JoinHandle<()>>,
}

impl Load {
    fn begin(volume: &Volume, size: u64) -> Self {
        let (stop, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let slowest = Rc::new(Cell::new(Duration::ZERO));
        let job = |seed: u64| {
            let (volume, stop, done) = (volume.clone(), stop.clone(), done.clone());
            let slowest = slowest.clone();
            io::spawn(async move {
                let mut rng = Prng::new(seed);
                while !stop.get() {
                    let mut buf = io::pool().alloc(BLOCK).await;
                    rng.fill(&mut buf[..64]);
                    let begun = Instant::now();
                    let at = Lba(rng.below(size / BLOCK as u64));
                    volume.write(at, buf).await.expect("write");
                    slowest.set(slowest.get().max(begun.elapsed()));
                    done.set(done.get() + 1);
                    // a write that memory takes waits for nothing
                    io::yield_now().await;
                }
            })
        };
        Self {
            jobs: (0..DEPTH).map(job).collect(),
            stop,
            done,
            slowest,
            begun: Instant::now(),
        }
    }

    async fn end(self, what: &str) {
        self.stop.set(true);
        for job in self.jobs {
            job.await;
        }
        let rate = self.done.get() as f64 / self.begun.elapsed().as_secs_f64();
        let slowest = self.slowest.get().as_secs_f64() * 1000.0;
        println!("| {what} | {rate:.0} | {slowest:.1} |");
    }
}

async fn measure(dir: &Path, scale: Scale) {
    let options = OpenOptions {
        create_size: Some(scale.disk),
        ..OpenOptions::default()
    };
    let disk = Disk::open(dir.join("pool.img"), options).await;
    let host = Host::new([1; 16], "bench");
    let opened = create(PoolSpec::new(
        "bench",
        vec![vec![disk.expect("file")]],
        host,
    ))
    .await;
    let pool = Pool::open(opened.expect("a pool"), Options::default()).await;
    let pool = pool.expect("a pool");
    let new = NewVolume {
        name: VOLUME.into(),
        size: scale.size,
        block_size: BLOCK as u32,
        record_size: BLOCK as u32,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    let volume = pool.create_volume(new).await.expect("a volume");
    println!("| 4K random write, QD32 | /s | slowest, ms |\n|---|---|---|");
    let load = Load::begin(&volume, scale.size);
    io::time::sleep(scale.time).await;
    load.end("warming up").await;
    let load = Load::begin(&volume, scale.size);
    io::time::sleep(scale.time).await;
    load.end("no snapshots").await;
    let load = Load::begin(&volume, scale.size);
    let begun = Instant::now();
    for n in 0..scale.snapshots {
        let made = pool.create_snapshot(VOLUME, &format!("s{n}")).await;
        made.expect("a snapshot");
    }
    let each = begun.elapsed() / scale.snapshots;
    load.end(&format!("one made each {each:.1?}")).await;
    let load = Load::begin(&volume, scale.size);
    io::time::sleep(scale.time).await;
    load.end(&format!("{} snapshots", scale.snapshots)).await;
    let begun = Instant::now();
    assert_eq!(pool.snapshots(VOLUME).len(), scale.snapshots as usize);
    let listed = begun.elapsed();
    let load = Load::begin(&volume, scale.size);
    let begun = Instant::now();
    for n in 0..scale.snapshots {
        let gone = pool.destroy_snapshot(VOLUME, &format!("s{n}")).await;
        gone.expect("destroyed");
    }
    let gone = begun.elapsed();
    while pool.is_freeing() {
        io::time::sleep(Duration::from_millis(20)).await;
    }
    let freed = begun.elapsed();
    load.end("all being destroyed").await;
    println!("listed in {listed:.1?}; destroyed in {gone:.1?}, all free after {freed:.1?}");
    drop(volume);
    pool.close().await.expect("closed");
}

/// Measures in a directory, which should be on the disk in question.
pub(crate) fn run(dir: &Path, scale: Scale) {
    let dir = dir.to_owned();
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring");
    runtime.block_on(async move { measure(&dir, scale).await });
}

#[allow(dead_code, reason = "the test that includes this calls `run`")]
fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let scale = Scale {
        size: 1 << 30,
        disk: 8 << 30,
        snapshots: 1000,
        time: Duration::from_secs(4),
    };
    run(dir.path(), scale);
}
