//! Cost of 4 KiB reads at random, from long records and from records of their size.
//!
//! `cargo bench -p wirepool-pool --bench short_reads`. Disks are simulated and times are processor time, so that other load on the
//! machine has little effect. The simulation's own share is in each row. `docs/decisions/0177`.

use std::rc::Rc;

use backend::file::{
    Caller, FileBackend, Handle, IfExists, Name, NewFile, NewKind, Stability, WriteAt,
};
use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::linux::thread_cpu_time;
use io::rng::Prng;
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::filesystem::FileSystem;
use pool::format::{Host, Packing};
use pool::vdev::{PoolSpec, create};
use pool::{FileStore, NewFilesystem, NewVolume, Options, Pool, Volume};

const BLOCK: usize = 4096;
/// Bytes of a request that fills the objects.
const LARGE: usize = 1 << 20;

/// Sizes of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Reads of each row.
    pub(crate) reads: u64,
    /// Bytes of the file, and of the volume.
    pub(crate) bytes: u64,
}

/// Cost of one read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Processor time, nanoseconds.
    pub(crate) cpu_ns: f64,
    /// Bytes that the devices returned.
    pub(crate) device_bytes: f64,
}

/// Processor time of this thread, nanoseconds.
fn cpu_ns() -> u64 {
    thread_cpu_time().as_nanos() as u64
}

fn read_bytes(pool: &Pool) -> u64 {
    let vdevs = pool.vdevs().status();
    let members = vdevs.iter().flat_map(|vdev| &vdev.members);
    members.map(|member| member.counters.read_bytes).sum()
}

async fn create_pool(path: &str, record_parts: bool) -> Pool {
    let config = DiskConfig {
        size: 8 << 30,
        ..DiskConfig::default()
    };
    Node::current().create_disk(path, config);
    let disk = Disk::open(path, OpenOptions::default()).await;
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![vec![disk.expect("the disk is there")]], host);
    let opened = create(spec).await.expect("a pool");
    let options = Options {
        record_parts,
        // a small part of the data
        record_cache_bytes: 4 << 20,
        ..Options::default()
    };
    Pool::open(opened, options).await.expect("a pool")
}

/// A volume and a file with records of one size.
struct Objects {
    pool: Rc<Pool>,
    volume: Volume,
    files: FileSystem<FileStore>,
    file: Handle,
}

impl Objects {
    async fn new(pool: &Rc<Pool>, record_size: u32, scale: Scale) -> Self {
        let name = format!("volume{record_size}");
        let volume = pool.create_volume(NewVolume {
            record_size,
            compression: Packing::Off,
            ..NewVolume::new(&name, scale.bytes)
        });
        let volume = volume.await.expect("a volume");
        let name = format!("files{record_size}");
        let store = pool.create_filesystem(NewFilesystem {
            record_size,
            compression: Packing::Off,
            ..NewFilesystem::new(&name)
        });
        let files = FileSystem::open(store.await.expect("a filesystem"), 7).await;
        let files = files.expect("opened");
        let new = NewFile {
            kind: NewKind::File,
            mode: 0o644,
            umask: None,
            acl: None,
        };
        let (caller, name) = (Caller::root(), Name::new(b"file").expect("a name"));
        let (parent, cached) = (files.root(), Stability::Cached);
        let made = files.create(&caller, parent, &name, new, IfExists::Fail, cached);
        let file = made.await.expect("created").value.object.handle;
        let objects = Self {
            pool: pool.clone(),
            volume,
            files,
            file,
        };
        objects.fill(scale).await;
        objects
    }

    async fn fill(&self, scale: Scale) {
        let mut rng = Prng::new(1);
        for at in (0..scale.bytes).step_by(LARGE) {
            let mut data = io::pool().alloc(LARGE).await;
            rng.fill(&mut data);
            let offset = WriteAt::Offset(at);
            let (file, caller) = (self.file, Caller::root());
            let written = self
                .files
                .write(&caller, file, offset, data.into(), Stability::Cached);
            written.await.expect("written");
            let mut data = io::pool().alloc(LARGE).await;
            rng.fill(&mut data);
            let at = Lba(at / BLOCK as u64);
            self.volume.write(at, data).await.expect("written");
        }
        self.pool.checkpoint().await.expect("a checkpoint");
    }

    /// The cost of one of `reads` reads at random places.
    async fn cost(&self, scale: Scale, read: impl AsyncFn(u64)) -> Cost {
        let mut rng = Prng::new(2);
        let blocks = scale.bytes / BLOCK as u64;
        // nodes of the tree get into memory
        for at in (0..blocks).step_by(32) {
            read(at).await;
        }
        let (before, start) = (read_bytes(&self.pool), cpu_ns());
        for _ in 0..scale.reads {
            read(rng.below(blocks)).await;
        }
        Cost {
            cpu_ns: (cpu_ns() - start) as f64 / scale.reads as f64,
            device_bytes: (read_bytes(&self.pool) - before) as f64 / scale.reads as f64,
        }
    }

    /// The cost of a read of the volume, and of the file.
    async fn costs(&self, scale: Scale) -> [Cost; 2] {
        let of_volume = self.cost(scale, async |block| {
            let extent = Extent {
                start: Lba(block),
                blocks: 1,
            };
            drop(self.volume.read(extent).await.expect("read"));
        });
        let of_volume = of_volume.await;
        let of_file = self.cost(scale, async |block| {
            let at = block * BLOCK as u64;
            drop(self.files.read(self.file, at, BLOCK).await.expect("read"));
        });
        [of_volume, of_file.await]
    }
}

/// Measures everything, and prints the results. Returns the costs of records of 4 KiB, of 128 KiB in parts, and of 128 KiB without parts:
/// each of the volume, and of the file.
pub(crate) fn run(scale: Scale) -> [[Cost; 2]; 3] {
    println!(
        "{:<44} {:>10} {:>14}",
        "4K read at random", "CPU us", "device bytes"
    );
    Sim::new(1, SimConfig::default()).block_on(async move {
        let work = Node::new().spawn(async move {
            let mut all = Vec::new();
            for (name, record_size, record_parts) in [
                ("records of 4K", 4 << 10, true),
                ("records of 128K, in parts", 128 << 10, true),
                ("records of 128K, read whole", 128 << 10, false),
            ] {
                let pool = Rc::new(create_pool(name, record_parts).await);
                let objects = Objects::new(&pool, record_size, scale).await;
                let costs = objects.costs(scale).await;
                for (object, cost) in ["volume", "file"].into_iter().zip(costs) {
                    let name = format!("{object}, {name}");
                    let (us, bytes) = (cost.cpu_ns / 1e3, cost.device_bytes);
                    println!("{name:<44} {us:>10.2} {bytes:>14.0}");
                }
                drop(objects);
                let pool = Rc::into_inner(pool).expect("the only owner");
                pool.close().await.expect("closed");
                all.push(costs);
            }
            all.try_into().expect("three sizes")
        });
        work.await.expect("it ran to its end")
    })
}

#[allow(dead_code, reason = "the tests call `run` themselves")]
fn main() {
    run(Scale {
        reads: 50_000,
        bytes: 256 << 20,
    });
}
