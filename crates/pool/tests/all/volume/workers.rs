//! Other shards that do a part of the owner's work.

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::runtime::Shard;
use io::sim::{Node, Sim, SimConfig};
use pool::{NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, again, create_pool, disk_config, on_disk, pool_with_volume, read};

const LARGE: usize = 128 << 10;
/// Blocks that the tests write.
const BLOCKS: u64 = 512;

/// Writes blocks of 4 KiB, each full of another byte than its neighbours.
async fn write_blocks(volume: &Volume, salt: u64) {
    for block in 0..BLOCKS {
        let mut data = io::pool().alloc(BLOCK).await;
        data.fill((block + salt) as u8);
        volume.write(Lba(block), data).await.expect("taken");
    }
    let _durable = volume.flush().await.expect("durable");
}

async fn has_blocks(volume: &Volume, salt: u64) {
    let bytes = read(volume, 0, BLOCKS).await;
    for (block, bytes) in (0..BLOCKS).zip(bytes.chunks(BLOCK)) {
        assert!(bytes.iter().all(|b| *b == (block + salt) as u8), "{block}");
    }
}

fn with_worker(pool: &Pool) -> Shard {
    let worker = Node::current().new_shard();
    pool.set_workers(vec![worker.clone()]);
    worker
}

/// Writes, kills the process, and checks.
fn survives<A: Future<Output = ()> + 'static, B: Future<Output = ()> + 'static>(
    writes: impl FnOnce() -> A + 'static,
    check: impl FnOnce(Pool) -> B + 'static,
) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        node.spawn(writes()).await.expect("it runs");
        node.kill();
        let next = node.spawn(async move {
            // requests of the killed process still hold the disk
            io::time::sleep(Duration::from_secs(1)).await;
            check(again().await).await;
        });
        next.await.expect("it runs");
    });
}

#[test]
fn another_shard_writes_groups_of_small_and_large_records() {
    survives(write_small_and_large, |pool| async move {
        let volume = pool.volume("volume").expect("a volume");
        has_blocks(&volume, 2).await;
        let large = read(&volume, BLOCKS, (LARGE / BLOCK) as u64).await;
        assert!(large.iter().all(|byte| *byte == 77));
        pool.close().await.expect("closed");
    });
}

async fn write_small_and_large() {
    let (pool, volume) = pool_with_volume().await;
    write_blocks(&volume, 1).await;
    assert_eq!(pool.bytes_on_workers(), 0, "there is none");
    let _worker = with_worker(&pool);
    write_blocks(&volume, 2).await;
    let small = pool.bytes_on_workers();
    assert!(small >= BLOCKS * BLOCK as u64 / 2, "{small} bytes");
    let mut data = io::pool().alloc(LARGE).await;
    data.fill(77);
    let large = Lba(BLOCKS);
    let _durable = volume.write_durable(large, data).await.expect("written");
    assert!(pool.bytes_on_workers() >= small + LARGE as u64);
}

/// A small write ends earlier where the owner is.
#[test]
fn a_small_write_stays_on_the_owners_shard() {
    on_disk(|_disk| async move {
        let (pool, volume) = pool_with_volume().await;
        let _worker = with_worker(&pool);
        let mut data = io::pool().alloc(BLOCK).await;
        data.fill(5);
        let _durable = volume.write_durable(Lba(0), data).await.expect("written");
        assert_eq!(pool.bytes_on_workers(), 0);
        pool.close().await.expect("closed");
    });
}

/// Records that were assembled from parts are compressed and hashed there, too.
#[test]
fn another_shard_prepares_assembled_records() {
    survives(write_assembled, |pool| async move {
        has_blocks(&pool.volume("volume").expect("a volume"), 3).await;
        pool.close().await.expect("closed");
    });
}

async fn write_assembled() {
    let pool = create_pool(Options::default()).await;
    let new = NewVolume {
        record_size: LARGE as u32,
        ..NewVolume::new("volume", 64 << 20)
    };
    let volume = pool.create_volume(new).await.expect("a volume");
    let _worker = with_worker(&pool);
    write_blocks(&volume, 3).await;
    let once = BLOCKS * BLOCK as u64;
    let elsewhere = pool.bytes_on_workers();
    assert!(elsewhere > once, "prepared and written: {elsewhere} bytes");
}

#[test]
fn the_owner_works_alone_when_its_worker_has_stopped() {
    on_disk(|_disk| async move {
        let (pool, volume) = pool_with_volume().await;
        let worker = with_worker(&pool);
        write_blocks(&volume, 1).await;
        let before = pool.bytes_on_workers();
        worker.stop();
        write_blocks(&volume, 2).await;
        assert_eq!(pool.bytes_on_workers(), before);
        has_blocks(&volume, 2).await;
        pool.close().await.expect("closed");
    });
}
