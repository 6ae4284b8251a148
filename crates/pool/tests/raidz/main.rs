//! Pools on a raidz, in the simulator.

mod full;
mod inspect;
mod members;

use backend::{BlockBackend, Extent, Lba, StorageError};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::{ChecksumKind, Host, Packing, Sync};
use pool::vdev::{Layout, PoolSpec, VdevSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: usize = 4096;

/// Members, parity, and MiB of each member.
type Shape = (usize, u8, u64);

async fn disks(first: usize, (members, _, mib): Shape) -> Vec<Disk> {
    let config = DiskConfig {
        size: mib << 20,
        logical_block: 4096,
        physical_block: 4096,
        atomic_unit: 4096,
        ..DiskConfig::default()
    };
    let mut disks = Vec::new();
    for n in first..first + members {
        let path = format!("d{n}");
        Node::current().create_disk(&path, config.clone());
        let disk = Disk::open(path, OpenOptions::default()).await;
        disks.push(disk.expect("open"));
    }
    disks
}

/// A vdev of new disks from `d<first>` on.
async fn raidz(first: usize, shape: Shape) -> VdevSpec {
    VdevSpec {
        layout: Layout::Raidz { parity: shape.1 },
        members: disks(first, shape).await,
    }
}

async fn make(shape: Shape) -> Pool {
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![raidz(0, shape).await], host);
    let opened = create(spec).await.expect("create");
    let pool = Pool::open(opened, Options::default()).await;
    pool.expect("open")
}

async fn volume(pool: &Pool, name: &str, size: u64) -> Volume {
    let new = NewVolume {
        name: name.into(),
        size,
        block_size: 4096,
        record_size: 4096,
        sync: Sync::Standard,
        compression: Packing::Off,
        checksum: ChecksumKind::Xxh3,
    };
    pool.create_volume(new).await.expect("volume")
}

async fn write(volume: &Volume, block: u64, blocks: usize, n: u8) -> Result<(), StorageError> {
    let mut buf = io::pool().alloc(blocks * BLOCK).await;
    buf.fill(n);
    volume.write(Lba(block), buf).await
}

/// Writes `blocks` blocks at a time from `from` on until a write is refused. Returns where that was.
async fn fill(volume: &Volume, from: u64, blocks: usize) -> u64 {
    let mut at = from;
    loop {
        match write(volume, at, blocks, byte(at)).await {
            Ok(()) => at += blocks as u64,
            Err(error) => {
                assert_eq!(error, StorageError::NoSpace);
                return at;
            }
        }
    }
}

async fn deallocate(volume: &Volume, block: u64, blocks: u64) {
    let start = Lba(block);
    let gone = volume.deallocate(Extent { start, blocks }).await;
    gone.expect("a full pool deallocates");
}

/// The first byte of a block.
async fn first(volume: &Volume, block: u64) -> u8 {
    let at = Extent {
        start: Lba(block),
        blocks: 1,
    };
    let read = volume.read(at).await.expect("read");
    let mut buf = vec![0; BLOCK];
    read.copy_to(&mut buf);
    buf[0]
}

/// The byte that distinguishes writes at different blocks.
fn byte(n: u64) -> u8 {
    (n % 251) as u8 + 1
}

async fn sound(pool: &Pool) {
    for volume in pool.volumes() {
        let _proof = volume.flush().await.expect("flush");
    }
    let found = pool.verify().await.expect("verify");
    assert_eq!(found.problems, Vec::<String>::new());
}

async fn free_all(pool: &Pool) {
    pool.checkpoint().await.expect("checkpoint");
    while pool.is_freeing() {
        pool.checkpoint().await.expect("checkpoint");
    }
    pool.checkpoint().await.expect("checkpoint");
}

fn simulated<T: 'static>(seed: u64, body: impl AsyncFnOnce() -> T + 'static) -> T {
    let sim = Sim::new(seed, SimConfig::default());
    sim.block_on(async move {
        let node = Node::new();
        let done = node.spawn(async move { body().await }).await;
        done.expect("it ran to its end")
    })
}
