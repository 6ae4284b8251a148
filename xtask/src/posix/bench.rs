//! The table of files: a mount of a pool's filesystem beside ext4 and btrfs in loop files on the same disk.
//!
//! **Owns** the measurements and the two local file systems. **Called by** `make bench`. **Invariants**: in each round all sides
//! are measured in turn, and a figure is the median of the rounds; data is incompressible; a side that this machine does not
//! have is named, with the reason.

use crate::pool_server::PoolServer;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const MIB: usize = 1 << 20;
/// Bytes of the file that is read and written sequentially.
const LARGE: usize = 512 * MIB;
/// Bytes of the file that is read from the cache.
const CACHED: usize = 64 * MIB;
const FILES: usize = 10_000;
/// Time of a measurement that repeats one operation.
const PERIOD: Duration = Duration::from_secs(1);
const IMAGE: &str = "6G";

/// A measurement in a directory: its name, its unit, and its figure (more is better).
struct Row {
    name: &'static str,
    unit: &'static str,
    measure: fn(&Path) -> Result<f64>,
}

const ROWS: &[Row] = &[
    Row {
        name: "read 4K, cached",
        unit: "k/s",
        measure: cached_reads,
    },
    Row {
        name: "stat, cached",
        unit: "k/s",
        measure: stats,
    },
    Row {
        name: "create, empty file",
        unit: "k/s",
        measure: creates,
    },
    Row {
        name: "create, 4K and fsync",
        unit: "k/s",
        measure: durable_creates,
    },
    Row {
        name: "write 1M, then fsync",
        unit: "MB/s",
        measure: sequential_writes,
    },
    Row {
        name: "read 1M, cold",
        unit: "MB/s",
        measure: sequential_reads,
    },
];

fn random(bytes: usize) -> Result<Vec<u8>> {
    let mut data = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut data)?;
    Ok(data)
}

/// Fills a file with random data, and makes it durable. Returns the seconds.
fn fill(path: &Path, bytes: usize) -> Result<f64> {
    let data = random(bytes.min(64 * MIB))?;
    let file = File::create(path)?;
    let since = Instant::now();
    for at in (0..bytes).step_by(MIB) {
        // another MiB of the data each time
        let from = at % data.len();
        file.write_all_at(&data[from..from + MIB], at as u64)?;
    }
    file.sync_all()?;
    Ok(since.elapsed().as_secs_f64())
}

/// Thousands a second of an operation that is repeated with a counter.
fn rate(mut operation: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let since = Instant::now();
    let mut count = 0;
    while since.elapsed() < PERIOD {
        for _ in 0..64 {
            operation(count)?;
            count += 1;
        }
    }
    Ok(count as f64 / since.elapsed().as_secs_f64() / 1e3)
}

fn cached_reads(at: &Path) -> Result<f64> {
    let path = at.join("cached");
    fill(&path, CACHED)?;
    let file = File::open(&path)?;
    let mut block = vec![0; MIB];
    for at in (0..CACHED).step_by(MIB) {
        file.read_exact_at(&mut block, at as u64)?;
    }
    rate(|n| {
        // an odd step visits all blocks in an order that no read-ahead foresees
        let place = n.wrapping_mul(7919) % (CACHED / 4096);
        Ok(file.read_exact_at(&mut block[..4096], place as u64 * 4096)?)
    })
}

fn names(at: &Path) -> Result<PathBuf> {
    let dir = at.join("names");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir(&dir)?;
    Ok(dir)
}

fn stats(at: &Path) -> Result<f64> {
    let dir = names(at)?;
    let paths: Vec<PathBuf> = (0..1000).map(|n| dir.join(format!("f{n}"))).collect();
    for path in &paths {
        File::create(path)?;
    }
    rate(|n| Ok(fs::metadata(&paths[n % paths.len()]).map(|_| ())?))
}

fn creates(at: &Path) -> Result<f64> {
    let dir = names(at)?;
    let since = Instant::now();
    for n in 0..FILES {
        File::create(dir.join(format!("f{n}")))?;
    }
    Ok(FILES as f64 / since.elapsed().as_secs_f64() / 1e3)
}

fn durable_creates(at: &Path) -> Result<f64> {
    let (dir, block) = (names(at)?, random(4096)?);
    let since = Instant::now();
    let mut count = 0;
    while since.elapsed() < PERIOD {
        let file = File::create(dir.join(format!("f{count}")))?;
        file.write_all_at(&block, 0)?;
        file.sync_all()?;
        count += 1;
    }
    Ok(f64::from(count) / since.elapsed().as_secs_f64() / 1e3)
}

fn sequential_writes(at: &Path) -> Result<f64> {
    Ok(LARGE as f64 / 1e6 / fill(&at.join("large"), LARGE)?)
}

fn sequential_reads(at: &Path) -> Result<f64> {
    let path = at.join("large");
    if !path.exists() {
        fill(&path, LARGE)?;
    }
    fs::write("/proc/sys/vm/drop_caches", "3").context("drop the caches, as root")?;
    let file = File::open(&path)?;
    let mut block = vec![0; MIB];
    let since = Instant::now();
    for at in (0..LARGE).step_by(MIB) {
        file.read_exact_at(&mut block, at as u64)?;
    }
    Ok(LARGE as f64 / 1e6 / since.elapsed().as_secs_f64())
}

fn command(words: &[&str]) -> Result<()> {
    let done = Command::new(words[0]).args(&words[1..]).output();
    let done = done.with_context(|| words[0].to_owned())?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{}: {said}", words.join(" "));
    Ok(())
}

/// A local file system in a loop file; unmounted when dropped.
struct Local(PathBuf);

impl Local {
    fn start(kind: &str, dir: &Path, at: &Path) -> Result<Self> {
        let image = dir.join("image");
        let text = image.display().to_string();
        command(&["truncate", "-s", IMAGE, &text])?;
        command(&[&format!("mkfs.{kind}"), "-q", &text])?;
        command(&["mount", "-o", "loop", &text, &at.display().to_string()])?;
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = command(&["umount", &self.0.display().to_string()]);
    }
}

enum Side {
    Wirepool(PoolServer),
    // held until its end
    Local(#[allow(dead_code)] Local),
}

/// Measures, and prints the table. `within` is a directory on the disk to measure.
///
/// # Errors
/// No server could be started, or a measurement failed.
pub fn files_table(within: &Path) -> Result<()> {
    let dir = tempfile::Builder::new()
        .prefix("files-")
        .tempdir_in(within.canonicalize()?)?;
    let mut sides = Vec::new();
    for name in ["wirepool", "ext4", "btrfs"] {
        let (own, at) = (
            dir.path().join(name),
            dir.path().join(format!("{name}-mounted")),
        );
        fs::create_dir(&own)?;
        fs::create_dir(&at)?;
        let started = match name {
            "wirepool" => PoolServer::start(&own, "").and_then(|mut server| {
                server.mount(&at, "")?;
                Ok(Side::Wirepool(server))
            }),
            kind => Local::start(kind, &own, &at).map(Side::Local),
        };
        match started {
            Ok(side) => sides.push((name, at, side)),
            Err(e) if name != "wirepool" => println!("without {name}: {e:#}"),
            Err(e) => return Err(e),
        }
    }
    let header: Vec<String> = sides
        .iter()
        .map(|(name, ..)| format!("{name:>10}"))
        .collect();
    println!("{:24}{}", "", header.join(""));
    for row in ROWS {
        let mut figures = vec![Vec::new(); sides.len()];
        for _ in 0..ROUNDS {
            for ((_, at, _), figures) in sides.iter().zip(&mut figures) {
                figures.push((row.measure)(at).context(row.name)?);
            }
        }
        let medians = figures.iter_mut().map(|all| {
            all.sort_by(f64::total_cmp);
            format!("{:>10.1}", all[all.len() / 2])
        });
        let medians: String = medians.collect();
        println!("{:24}{medians}  {}", row.name, row.unit);
    }
    for (.., side) in sides {
        if let Side::Wirepool(server) = side {
            server.end()?;
        }
    }
    Ok(())
}
