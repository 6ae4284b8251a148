//! Cost of operations on files, beside the same work on a volume with records of the same size.
//!
//! `cargo bench -p wirepool-pool --bench files`. Disks are simulated and times are processor time, so that other load on the
//! machine has little effect. The simulation's own share is the same for files and volumes.

use std::rc::Rc;

use backend::file::{
    Caller, Cookie, FileBackend, Handle, IfExists, Name, NewFile, NewKind, Stability, WriteAt,
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
const RECORD: u32 = 128 << 10;
/// Bytes of a sequential request.
const LARGE: usize = 1 << 20;
/// Tasks of the rows with several operations at once.
const TASKS: u64 = 32;

/// Sizes of the measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Operations of each row.
    pub(crate) operations: u64,
    /// Bytes of the file, and of the volume.
    pub(crate) bytes: u64,
    /// Entries of the listed directory.
    pub(crate) entries: u64,
}

/// Processor time of this thread, nanoseconds.
fn cpu_ns() -> u64 {
    thread_cpu_time().as_nanos() as u64
}

struct Bench {
    pool: Pool,
    files: FileSystem<FileStore>,
    volume: Volume,
    caller: Caller,
    scale: Scale,
}

/// Bytes that the devices were given since the pool was opened.
fn written(pool: &Pool) -> u64 {
    let vdevs = pool.vdevs().status();
    let members = vdevs.iter().flat_map(|vdev| &vdev.members);
    members.map(|member| member.counters.written.total()).sum()
}

async fn bytes(rng: &mut Prng, len: usize) -> io::IoBuf {
    let mut data = io::pool().alloc(len).await;
    rng.fill(&mut data);
    data
}

impl Bench {
    async fn new(scale: Scale) -> Self {
        let config = DiskConfig {
            size: 8 << 30,
            ..DiskConfig::default()
        };
        Node::current().create_disk("disk", config);
        let disk = Disk::open("disk", OpenOptions::default()).await;
        let host = Host::new([1; 16], "here");
        let spec = PoolSpec::new("tank", vec![vec![disk.expect("the disk is there")]], host);
        let opened = create(spec).await.expect("a pool");
        let pool = Pool::open(opened, Options::default()).await;
        let pool = pool.expect("a pool");
        let volume = pool.create_volume(NewVolume {
            record_size: RECORD,
            compression: Packing::Off,
            ..NewVolume::new("volume", scale.bytes)
        });
        let volume = volume.await.expect("a volume");
        let store = pool.create_filesystem(NewFilesystem {
            record_size: RECORD,
            compression: Packing::Off,
            ..NewFilesystem::new("files")
        });
        let store = store.await.expect("a filesystem");
        let files = FileSystem::open(store, 7).await.expect("opened");
        Self {
            pool,
            files,
            volume,
            caller: Caller::root(),
            scale,
        }
    }

    /// Runs `operations` operations of `len` bytes and what they leave to be written. Prints their cost.
    async fn row(&self, name: &str, operations: u64, len: u64, run: impl AsyncFnOnce()) {
        self.settle().await;
        let (before, start) = (written(&self.pool), cpu_ns());
        run().await;
        self.settle().await;
        let ns = cpu_ns() - start;
        let device = written(&self.pool) - before;
        let amplification = match len {
            0 => format!("{:.0} B", device as f64 / operations as f64),
            len => format!("{:.2} x", device as f64 / (operations * len) as f64),
        };
        let cost = ns as f64 / operations as f64 / 1e3;
        println!("{name:<44} {cost:>10.2} {amplification:>12}");
    }

    /// Waits until everything is on the devices.
    async fn settle(&self) {
        let _files = self.files.commit_all().await.expect("durable");
        let _volume = self.volume.flush().await.expect("durable");
    }

    async fn create(
        &self,
        directory: Handle,
        name: &str,
        kind: NewKind,
        is_durable: bool,
    ) -> Handle {
        let new = NewFile {
            kind,
            mode: 0o755,
            umask: None,
            acl: None,
        };
        let name = Name::new(name.as_bytes()).expect("a name");
        let stability = match is_durable {
            true => Stability::Durable,
            false => Stability::Cached,
        };
        let created = self.files.create(
            &self.caller,
            directory,
            &name,
            new,
            IfExists::Fail,
            stability,
        );
        created.await.expect("created").value.object.handle
    }

    async fn write(&self, file: Handle, at: u64, data: io::IoBuf) {
        let at = WriteAt::Offset(at);
        let written = self
            .files
            .write(&self.caller, file, at, data.into(), Stability::Cached);
        written.await.expect("written");
    }

    async fn contents(&self, rng: &mut Prng) {
        let file = self
            .create(self.files.root(), "file", NewKind::File, false)
            .await;
        let large = self.scale.bytes / LARGE as u64;
        let len = LARGE as u64;
        self.row("volume: write 1M in order", large, len, async || {
            for n in 0..large {
                let at = Lba(n * (LARGE / BLOCK) as u64);
                let data = bytes(rng, LARGE).await;
                self.volume.write(at, data).await.expect("written");
            }
        })
        .await;
        self.row("file: write 1M in order", large, len, async || {
            for n in 0..large {
                self.write(file, n * len, bytes(rng, LARGE).await).await;
            }
        })
        .await;
        self.row("volume: read 1M in order", large, 0, async || {
            for n in 0..large {
                let extent = Extent {
                    start: Lba(n * (LARGE / BLOCK) as u64),
                    blocks: (LARGE / BLOCK) as u64,
                };
                drop(self.volume.read(extent).await.expect("read"));
            }
        })
        .await;
        self.row("file: read 1M in order", large, 0, async || {
            for n in 0..large {
                drop(self.files.read(file, n * len, LARGE).await.expect("read"));
            }
        })
        .await;
        let blocks = self.scale.bytes / BLOCK as u64;
        let operations = self.scale.operations;
        self.row(
            "volume: overwrite 4K",
            operations,
            BLOCK as u64,
            async || {
                for _ in 0..operations {
                    let at = Lba(rng.below(blocks));
                    let data = bytes(rng, BLOCK).await;
                    self.volume.write(at, data).await.expect("written");
                }
            },
        )
        .await;
        self.row("file: overwrite 4K", operations, BLOCK as u64, async || {
            for _ in 0..operations {
                let at = rng.below(blocks) * BLOCK as u64;
                self.write(file, at, bytes(rng, BLOCK).await).await;
            }
        })
        .await;
        self.row("file: read 4K", operations, 0, async || {
            for _ in 0..operations {
                let at = rng.below(blocks) * BLOCK as u64;
                drop(self.files.read(file, at, BLOCK).await.expect("read"));
            }
        })
        .await;
        self.row("file: attributes", operations, 0, async || {
            for _ in 0..operations {
                self.files.attributes(file).await.expect("there");
            }
        })
        .await;
    }

    async fn names(self: &Rc<Self>) {
        let root = self.files.root();
        let operations = self.scale.operations;
        let directory = self
            .create(root, "durable", NewKind::Directory, false)
            .await;
        self.row(
            "create, durable, one after the other",
            operations,
            0,
            async || {
                for n in 0..operations {
                    let name = format!("file{n}");
                    self.create(directory, &name, NewKind::File, true).await;
                }
            },
        )
        .await;
        self.row("create, durable, 32 at once", operations, 0, async || {
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let this = self.clone();
                    io::spawn(async move {
                        for n in 0..operations / TASKS {
                            let name = format!("task{task}-{n}");
                            this.create(directory, &name, NewKind::File, true).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
        })
        .await;
        let entries = self.scale.entries;
        let large = self.create(root, "large", NewKind::Directory, false).await;
        self.row("create", entries, 0, async || {
            for n in 0..entries {
                let name = format!("file{n}");
                self.create(large, &name, NewKind::File, false).await;
            }
        })
        .await;
        self.row("look up", entries, 0, async || {
            for n in 0..entries {
                let name = format!("file{n}");
                let name = Name::new(name.as_bytes()).expect("a name");
                let found = self.files.lookup(&self.caller, large, &name);
                found.await.expect("found");
            }
        })
        .await;
        self.pool.checkpoint().await.expect("a checkpoint");
        self.row("list with attributes, each entry", entries, 0, async || {
            let mut cookie = Cookie::START;
            let mut seen = 0;
            while seen < entries {
                let page = self
                    .files
                    .read_directory(&self.caller, large, cookie, 1000, true);
                let page = page.await.expect("listed");
                seen += page.entries.len() as u64;
                match page.entries.last() {
                    Some(last) => cookie = last.cookie,
                    None => break,
                }
            }
        })
        .await;
    }
}

/// Measures everything, and prints the results.
pub(crate) fn run(scale: Scale) {
    println!("{:<44} {:>10} {:>12}", "operation", "CPU us", "written");
    Sim::new(1, SimConfig::default()).block_on(async move {
        let work = Node::new().spawn(async move {
            let bench = Rc::new(Bench::new(scale).await);
            bench.contents(&mut Prng::new(1)).await;
            bench.names().await;
        });
        work.await.expect("it ran to its end");
    });
}

#[allow(dead_code, reason = "the tests call `run` themselves")]
fn main() {
    run(Scale {
        operations: 8192,
        bytes: 256 << 20,
        entries: 50_000,
    });
}
