//! Blocks of a volume of 4 KiB records, and checks of its pool, in the simulator.
//!
//! **Called by** the tests of snapshots and of raidz.

use backend::{BlockBackend, Extent, Lba, StorageError};
use io::sim::{Node, Sim, SimConfig};
use pool::format::{ChecksumKind, Packing, Sync};
use pool::{NewVolume, Pool, Volume};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;

pub(crate) async fn volume(pool: &Pool, name: &str, size: u64) -> Volume {
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

pub(crate) async fn write(
    volume: &Volume,
    block: u64,
    blocks: usize,
    n: u8,
) -> Result<(), StorageError> {
    let mut buf = io::pool().alloc(blocks * BLOCK).await;
    buf.fill(n);
    volume.write(Lba(block), buf).await
}

/// The first byte of a block.
pub(crate) async fn first(volume: &Volume, block: u64) -> u8 {
    read(volume, block).await.expect("read")
}

/// The first byte of a block that may be damaged.
pub(crate) async fn read(volume: &Volume, block: u64) -> Result<u8, StorageError> {
    let at = Extent {
        start: Lba(block),
        blocks: 1,
    };
    let read = volume.read(at).await?;
    let mut buf = vec![0; BLOCK];
    read.copy_to(&mut buf);
    Ok(buf[0])
}

/// The byte that distinguishes write or snapshot `n`.
pub(crate) fn byte(n: u64) -> u8 {
    (n % 251) as u8 + 1
}

pub(crate) async fn sound(pool: &Pool) {
    for volume in pool.volumes() {
        let _proof = volume.flush().await.expect("flush");
    }
    let found = pool.verify().await.expect("verify");
    assert_eq!(found.problems, Vec::<String>::new());
}

pub(crate) async fn free_all(pool: &Pool) {
    pool.checkpoint().await.expect("checkpoint");
    while pool.is_freeing() {
        pool.checkpoint().await.expect("checkpoint");
    }
    pool.checkpoint().await.expect("checkpoint");
}

pub(crate) fn simulated<T: 'static>(seed: u64, body: impl AsyncFnOnce() -> T + 'static) -> T {
    let sim = Sim::new(seed, SimConfig::default());
    sim.block_on(async move {
        let node = Node::new();
        let done = node.spawn(async move { body().await }).await;
        done.expect("it ran to its end")
    })
}
