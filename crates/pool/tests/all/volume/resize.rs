//! Volumes that shrink and grow, with power cuts between.

use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Lba, StorageError};
use io::rng::Prng;
use io::sim::{Node, Sim, SimConfig};
use pool::{NewVolume, Options, Volume};

use crate::volume::{BLOCK, again, create_pool, disk_config, read};

/// Blocks of the volume before the shrink.
const BLOCKS: u64 = 64;
/// Record size, bytes: four blocks, so that most ends lie within a record.
const RECORD: u32 = 4 * BLOCK as u32;

async fn put(volume: &Volume, block: u64, byte: u8) -> backend::Result<()> {
    let mut buf = io::pool().alloc(BLOCK).await;
    buf.fill(byte);
    volume.write_durable(Lba(block), buf).await.map(drop)
}

/// Shrinks a volume with a concurrent durable writer, and cuts the power after the shrink returned. Returns the first block
/// beyond the shrunk size that is not zero after the volume grew back.
fn shrink_crash_grow(seed: u64) -> Option<u64> {
    let config = SimConfig::default();
    Sim::new(seed, config).block_on(async move {
        let mut rng = Prng::new(seed);
        let (end, pause) = (1 + rng.below(BLOCKS - 1), rng.below(2000));
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let first = node.spawn(async move {
            let pool = create_pool(Options::default()).await;
            let new = NewVolume {
                record_size: RECORD,
                ..NewVolume::new("volume", BLOCKS * BLOCK as u64)
            };
            let volume = pool.create_volume(new).await.expect("a volume");
            for block in 0..BLOCKS {
                put(&volume, block, 7).await.expect("written");
            }
            let writer = volume.clone();
            let _writing = io::spawn(async move {
                for n in 0u64.. {
                    put(&writer, n % end, 9).await.expect("written");
                }
            });
            io::time::sleep(Duration::from_micros(pause)).await;
            let shrunk = pool.resize_volume("volume", end * BLOCK as u64).await;
            shrunk.expect("smaller");
        });
        first.await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        let second = node.spawn(async move {
            let pool = again().await;
            let volume = pool.volume("volume").expect("a volume");
            assert_eq!(
                volume.geometry().blocks,
                end,
                "a size that was acknowledged"
            );
            let grown = pool.resize_volume("volume", BLOCKS * BLOCK as u64).await;
            grown.expect("larger");
            let bytes = read(&volume, 0, BLOCKS).await;
            let mut blocks = (0..).zip(bytes.chunks(BLOCK));
            let found = blocks.find(|(n, block)| *n >= end && block.iter().any(|b| *b != 0));
            found.map(|(n, _)| n)
        });
        second.await.expect("the power stays on")
    })
}

/// Regression: the zeroes of a shrink were only in memory when the new size was durable: 135 of 200 crashes brought the data
/// back.
#[test]
fn data_beyond_a_shrink_does_not_return_after_a_crash() {
    let back: Vec<(u64, u64)> = (0..100)
        .filter_map(|seed| Some((seed, shrink_crash_grow(seed)?)))
        .collect();
    assert!(back.is_empty(), "{} of 100 seeds: {back:?}", back.len());
}

/// Regression: a write that was requested while the shrink waited for the disk was carried out beyond the new end.
#[test]
fn a_write_that_waited_for_a_shrink_is_refused_behind_the_new_end() {
    Sim::new(3, SimConfig::default()).block_on(async {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let test = node.spawn(async {
            let pool = Rc::new(create_pool(Options::default()).await);
            let new = NewVolume {
                record_size: RECORD,
                ..NewVolume::new("volume", BLOCKS * BLOCK as u64)
            };
            let volume = pool.create_volume(new).await.expect("a volume");
            put(&volume, 50, 7).await.expect("written");
            let (of, end) = (pool.clone(), 10);
            let size = end * BLOCK as u64;
            let resize = io::spawn(async move { of.resize_volume("volume", size).await });
            io::yield_now().await;
            assert_eq!(volume.geometry().blocks, BLOCKS, "it waits for the disk");
            let write = |block| {
                let volume = volume.clone();
                io::spawn(async move { put(&volume, block, 9).await })
            };
            let writes = [write(50), write(end), write(end - 1)];
            let [behind, first_behind, last] = writes;
            let refused = Some(Err(StorageError::OutOfRange));
            assert_eq!(behind.await, refused);
            assert_eq!(first_behind.await, refused);
            assert_eq!(last.await, Some(Ok(())));
            resize.await.expect("done").expect("smaller");
            let grown = pool.resize_volume("volume", BLOCKS * BLOCK as u64).await;
            grown.expect("larger");
            let bytes = read(&volume, end, BLOCKS - end).await;
            assert!(bytes.iter().all(|b| *b == 0));
            assert_eq!(read(&volume, end - 1, 1).await, [9; BLOCK]);
        });
        test.await.expect("the power stays on");
    });
}
