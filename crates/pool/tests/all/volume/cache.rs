//! The record cache: repeated reads come from memory, and never return old contents.

use backend::{BlockBackend, Extent, Lba};
use io::rng::Prng;
use pool::{NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, create_pool, on_disk, read};

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

/// Regression: a read that missed went into a buffer of its own and was copied into the cache, and its part into a third buffer:
/// 132 KiB copied for 4 KiB of a record of 128 KiB.
#[test]
fn a_missed_read_is_a_part_of_the_cached_record() {
    on_disk(|_| async {
        let pool = pool(4 << 20).await;
        for (name, record_size, blocks) in [
            ("small", 4096, 1),
            ("part", 128 << 10, 1),
            ("large", 128 << 10, 20),
        ] {
            let new = NewVolume {
                record_size,
                ..NewVolume::new(name, 2 << 20)
            };
            let volume = pool.create_volume(new).await.expect("a volume");
            // It does not get smaller by compression.
            let mut noise = vec![0; 64 * BLOCK];
            Prng::new(1).fill(&mut noise);
            for (block, bytes) in noise.chunks(BLOCK).enumerate() {
                let mut buf = io::pool().alloc(BLOCK).await;
                buf.copy_from_slice(bytes);
                let written = volume.write(Lba(block as u64), buf);
                written.await.expect("written");
            }
            settle(&pool, &volume).await;
            for block in [3, 40] {
                let at = Extent {
                    start: Lba(block),
                    blocks,
                };
                let known = pool.record_cache().inserts;
                let missed = volume.read(at).await.expect("read");
                assert_eq!(pool.record_cache().inserts, known + 1);
                let before = reads(&pool);
                let found = volume.read(at).await.expect("read");
                assert_eq!(reads(&pool), before, "it was in memory");
                let [missed, found] =
                    [&missed, &found].map(|read| read.as_slice().expect("stable"));
                assert!(*missed == noise[block as usize * BLOCK..][..missed.len()]);
                assert_eq!(
                    missed.as_ptr(),
                    found.as_ptr(),
                    "{name}: both are one buffer"
                );
            }
        }
        pool.close().await.expect("closed");
    });
}

/// Regression: replies kept the whole cached record until they were sent. A client that asked for 4 KiB of many records of 128 KiB
/// and received nothing kept all buffers of the cache, with 1/32 of them counted, and nothing was cached for anybody.
#[test]
fn replies_that_are_not_sent_keep_little_of_the_cache() {
    on_disk(|_| async {
        let pool = pool(4 << 20).await;
        let new = NewVolume {
            record_size: 128 << 10,
            ..NewVolume::new("volume", 16 << 20)
        };
        let volume = pool.create_volume(new).await.expect("a volume");
        for block in (0..4096).step_by(32) {
            write(&volume, block, (block / 32) as u8 + 1).await;
        }
        settle(&pool, &volume).await;
        let mut unsent = Vec::new();
        for block in (0..4000).step_by(32) {
            let at = Extent {
                start: Lba(block),
                blocks: 1,
            };
            unsent.push(volume.read(at).await.expect("read"));
            unsent.push(volume.read(at).await.expect("read"));
        }
        let last = 4064;
        assert_eq!(read(&volume, last, 1).await, [128; BLOCK]);
        let before = reads(&pool);
        assert_eq!(read(&volume, last, 1).await, [128; BLOCK]);
        assert_eq!(reads(&pool), before, "it was cached");
        for (n, reply) in unsent.iter().enumerate() {
            let bytes = reply.as_slice().expect("stable");
            assert_eq!(*bytes, [(n / 2) as u8 + 1; BLOCK]);
        }
        drop(unsent);
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
