//! Bytes that a pool reads when it is opened after a crash, and checkpoints that keep them few.

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::Packing;
use pool::{NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, again, create_pool, disk_config, on_disk};

/// Most bytes of data that replay may have to read: the limit of decision 0121.
const UNPROVEN_MAX: u64 = 128 << 20;
/// Other bytes that an opening reads: the ring, and the pool's own tree.
const OTHERS: u64 = 40 << 20;
const DISK_SIZE: u64 = 1 << 30;
const WRITE: usize = 64 << 10;

async fn volume_of(pool: &Pool, size: u64) -> Volume {
    let new = NewVolume {
        compression: Packing::Off,
        ..NewVolume::new("volume", size)
    };
    pool.create_volume(new).await.expect("a volume")
}

/// Writes `count` runs that are not adjacent, and flushes none.
async fn scatter(volume: &Volume, count: u64) {
    for n in 0..count {
        let mut data = io::pool().alloc(WRITE).await;
        data.fill(n as u8 | 1);
        let at = n * 7 % count * (WRITE / BLOCK) as u64;
        volume.write(Lba(at), data).await.expect("taken");
    }
}

/// Bytes and requests read from the disks since the pool was opened.
fn reads(pool: &Pool) -> (u64, u64) {
    let vdevs = pool.vdevs().status();
    let counters = vdevs.iter().flat_map(|v| &v.members).map(|s| &s.counters);
    counters.fold((0, 0), |(bytes, count), c| {
        (bytes + c.read_bytes, count + c.reads)
    })
}

/// Regression: each record since the last checkpoint was read by itself, so that six seconds of writes took minutes to
/// import.
#[test]
fn import_after_writes_without_a_flush_reads_at_most_the_limit() {
    let config = DiskConfig {
        size: DISK_SIZE,
        ..disk_config()
    };
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", config);
        let work = node.spawn(async {
            let pool = create_pool(Options::default()).await;
            let volume = volume_of(&pool, DISK_SIZE / 2).await;
            let count = 2 * UNPROVEN_MAX / WRITE as u64;
            scatter(&volume, count).await;
            // Time for write-back.
            io::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(pool.dirty(), 0);
            pool.sequence()
        });
        let sequence = work.await.expect("it has power");
        node.kill();
        let next = node.spawn(async move {
            io::time::sleep(Duration::from_secs(1)).await;
            let pool = again().await;
            assert_eq!(pool.sequence(), sequence, "no checkpoint came between");
            let (bytes, count) = reads(&pool);
            assert!(bytes <= UNPROVEN_MAX + OTHERS, "{bytes} bytes read");
            assert!(count <= 1000, "{count} reads");
            let volume = pool.volume("volume").expect("it is there");
            assert_eq!(crate::volume::read(&volume, 0, 1).await, [1; BLOCK]);
        });
        next.await.expect("it has power");
    });
}

/// Regression: a pool without writes for minutes was opened as slowly as a busy one.
#[test]
fn an_idle_pool_has_an_empty_journal() {
    on_disk(|_| async move {
        let pool = create_pool(Options::default()).await;
        let volume = volume_of(&pool, 64 << 20).await;
        scatter(&volume, 512).await;
        let before = pool.sequence();
        io::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(pool.sequence(), before + 1, "a checkpoint");
        io::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(pool.sequence(), before + 1, "and no more of them");
        pool.close().await.expect("closed");
    });
}

/// Occasional writes do not justify a checkpoint: it would overwrite older ones, which a rewind may need.
#[test]
fn a_trickle_of_writes_has_few_checkpoints() {
    on_disk(|_| async move {
        let pool = create_pool(Options::default()).await;
        let volume = volume_of(&pool, 64 << 20).await;
        let before = pool.sequence();
        for n in 0..600 {
            let mut data = io::pool().alloc(BLOCK).await;
            data.fill(n as u8 | 1);
            volume.write(Lba(n), data).await.expect("taken");
            io::time::sleep(Duration::from_secs(1)).await;
        }
        let written = pool.sequence() - before;
        assert!(written <= 10, "{written} checkpoints in ten minutes");
        pool.close().await.expect("closed");
    });
}
