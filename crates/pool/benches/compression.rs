//! Cost and gain of compression for a volume: `cargo bench -p wirepool-pool --bench compression`.
//!
//! Sequential writes and reads of 128 KiB, one at a time, of text and of incompressible bytes. `wirepool-suite` has a
//! table that compares a volume with a raw file.

use std::path::Path;
use std::time::{Duration, Instant};

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::runtime::{Runtime, RuntimeConfig};
use pool::format::{Host, Packing};
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool};

const BLOCK: u64 = 4096;
const LARGE: u64 = 128 << 10;

/// Sizes of a run.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes written to each volume.
    pub(crate) size: u64,
    /// Size of the pool's disk, bytes.
    pub(crate) disk: u64,
}

/// Processor time of this process, microseconds.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    first.and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1000.0
}

async fn open(dir: &Path, name: &str, size: u64) -> Disk {
    let options = OpenOptions {
        create_size: Some(size),
        ..OpenOptions::default()
    };
    Disk::open(dir.join(name), options).await.expect("a file")
}

/// Measures volumes with and without compression, with text and with incompressible bytes.
async fn measure(dir: &Path, scale: Scale) {
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
                let disk = open(dir, "packed.img", scale.disk).await;
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
                for at in (0..scale.size).step_by(LARGE as usize) {
                    let extent = Extent {
                        start: Lba(at / BLOCK),
                        blocks: LARGE / BLOCK,
                    };
                    let read = volume.read(extent).await.expect("read");
                    assert_eq!(read.len() as u64, LARGE);
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
        size: 256 << 20,
        disk: 1 << 30,
    };
    run(dir.path(), scale);
}
