//! The record cache: repeated reads come from memory, and never return old contents.

use backend::{BlockBackend, Lba};
use pool::{NewVolume, Options, Pool, Volume};

use crate::{BLOCK, create_pool, on_disk, read};

async fn pool(record_cache_bytes: usize) -> Pool {
    let options = Options {
        record_cache_bytes,
        ..Options::default()
    };
    create_pool(options).await
}

async fn write(volume: &Volume, block: u64, byte: u8) {
    let mut buf = io::pool().alloc(BLOCK).await;
    buf.fill(byte);
    volume.write(Lba(block), buf).await.expect("written");
}

/// Waits until nothing is dirty and every record is on the disk.
async fn settle(pool: &Pool, volume: &Volume) {
    let _durable = volume.flush().await.expect("flushed");
    pool.checkpoint().await.expect("a checkpoint");
}

fn reads(pool: &Pool) -> u64 {
    pool.vdevs().status()[0].members[0].counters.reads
}

#[test]
fn repeated_reads_of_any_size_come_from_memory() {
    on_disk(|_| async {
        let pool = pool(4 << 20).await;
        for (name, record_size) in [("small", 4096), ("large", 128 << 10)] {
            let new = NewVolume {
                record_size,
                ..NewVolume::new(name, 2 << 20)
            };
            let volume = pool.create_volume(new).await.expect("a volume");
            for block in 0..32 {
                write(&volume, block, block as u8 + 1).await;
            }
            settle(&pool, &volume).await;
            for (block, blocks) in [(0, 1), (3, 9), (31, 1)] {
                let once = read(&volume, block, blocks).await;
                let before = reads(&pool);
                assert_eq!(read(&volume, block, blocks).await, once);
                assert_eq!(reads(&pool), before, "{name}");
                let wanted =
                    |(i, byte): (usize, &u8)| *byte == (block as usize + i / BLOCK) as u8 + 1;
                assert!(once.iter().enumerate().all(wanted));
            }
        }
        // A scan does not displace them.
        let held = pool.record_cache().inserts;
        let volume = pool.volume("small").expect("a volume");
        read(&volume, 0, 32).await;
        assert_eq!(pool.record_cache().inserts, held);
        pool.close().await.expect("closed");
    });
}

/// A block is freed, and its place is reused for other data.
#[test]
fn a_reused_address_never_returns_old_contents() {
    on_disk(|_| async {
        let pool = pool(32 << 20).await;
        let new = NewVolume::new("volume", 32 << 20);
        let volume = pool.create_volume(new).await.expect("a volume");
        // Often enough for every place on the disk to be reused several times.
        for round in 1..=16u8 {
            for block in 0..4096 {
                write(&volume, block, round).await;
            }
            settle(&pool, &volume).await;
            for block in (0..4096).step_by(3) {
                assert_eq!(read(&volume, block, 1).await, [round; BLOCK]);
            }
        }
        assert!(pool.record_cache().inserts > 4096);
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_cache_of_size_zero_reads_the_disk() {
    on_disk(|_| async {
        let pool = pool(0).await;
        let new = NewVolume::new("volume", 1 << 20);
        let volume = pool.create_volume(new).await.expect("a volume");
        write(&volume, 0, 1).await;
        settle(&pool, &volume).await;
        read(&volume, 0, 1).await;
        let before = reads(&pool);
        read(&volume, 0, 1).await;
        assert_eq!(reads(&pool), before + 1);
        assert_eq!(pool.record_cache(), pool::RecordCacheStats::default());
        pool.close().await.expect("closed");
    });
}
