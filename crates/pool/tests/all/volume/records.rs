//! Records of every size, compressed and not: their contents are read back, and space adds up.

use std::cell::RefCell;
use std::rc::Rc;

use backend::{BlockBackend, Extent, Lba};
use io::rng::Prng;
use io::sim::{Node, Sim, SimConfig};
use pool::format::{ChecksumKind, Packing};
use pool::{NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, again, create_pool, disk_config};

const BLOCKS: usize = 1024;

/// Fills the buffer with text, noise, or half of each.
fn fill(buf: &mut [u8], rng: &mut Prng) {
    let half = buf.len() / 2;
    match rng.below(4) {
        0 => rng.fill(buf),
        1 => {
            rng.fill(&mut buf[..half]);
            buf[half..].fill(7);
        }
        _ => {
            let word = rng.u64().to_le_bytes();
            buf.chunks_mut(8).for_each(|c| c.copy_from_slice(&word));
        }
    }
}

async fn read(volume: &Volume, start: usize, blocks: usize) -> Vec<u8> {
    let at = Extent {
        start: Lba(start as u64),
        blocks: blocks as u64,
    };
    let payload = volume.read(at).await.expect("read");
    let mut bytes = vec![0; blocks * BLOCK];
    payload.copy_to(&mut bytes);
    bytes
}

async fn agrees(volume: &Volume, model: &[u8], rng: &mut Prng) {
    assert!(read(volume, 0, 256).await == model[..256 * BLOCK]);
    for _ in 0..30 {
        let at = rng.below(BLOCKS as u64) as usize;
        let n = 1 + rng.below((BLOCKS - at).min(300) as u64) as usize;
        let got = read(volume, at, n).await;
        assert!(
            got == model[at * BLOCK..(at + n) * BLOCK],
            "{n} blocks at {at}"
        );
    }
}

async fn changes(volume: &Volume, model: &mut [u8], rng: &mut Prng) {
    for _ in 0..40 {
        // Sometimes many whole records, which are not copied.
        let (at, n) = match rng.chance(0.2) {
            true => (256 * rng.below(4) as usize, 256),
            false => {
                let at = rng.below(BLOCKS as u64) as usize;
                let longest = 1 << rng.below(9);
                (
                    at,
                    1 + rng.below((BLOCKS - at).min(longest) as u64) as usize,
                )
            }
        };
        let mut buf = io::pool().alloc(n * BLOCK).await;
        fill(&mut buf, rng);
        model[at * BLOCK..][..buf.len()].copy_from_slice(&buf);
        volume.write(Lba(at as u64), buf).await.expect("written");
    }
}

async fn sound(pool: &Pool) {
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems, Vec::<String>::new());
}

async fn first_life(new: NewVolume, model: Rc<RefCell<Vec<u8>>>, mut rng: Prng) {
    let pool = create_pool(Options::default()).await;
    let shrinks = new.compression != Packing::Off && new.record_size > BLOCK as u32;
    let record_size = u64::from(new.record_size);
    let volume = pool.create_volume(new).await.expect("a volume");
    let mut bytes = vec![0; BLOCKS * BLOCK];
    changes(&volume, &mut bytes, &mut rng).await;
    agrees(&volume, &bytes, &mut rng).await;
    let made = pool.create_snapshot("volume", "before").await;
    let (snapshot, before) = (made.expect("a snapshot"), bytes.clone());
    changes(&volume, &mut bytes, &mut rng).await;
    pool.checkpoint().await.expect("a checkpoint");
    sound(&pool).await;
    agrees(&volume, &bytes, &mut rng).await;
    agrees(&snapshot, &before, &mut rng).await;
    let space = pool.volume_spaces()["volume"];
    assert_eq!(space.logical > space.referenced, shrinks, "{space:?}");
    assert!(space.logical.is_multiple_of(record_size), "{space:?}");
    let sizes = space.sizes.expect("a new volume counts its records");
    assert_eq!(sizes.up_to(record_size).bytes, space.referenced);
    let are_smaller = sizes.up_to(record_size / 2).blocks > 0;
    assert_eq!(are_smaller, shrinks, "{sizes:?}");
    // Only the journal has these changes.
    changes(&volume, &mut bytes, &mut rng).await;
    let _durable = volume.flush().await.expect("flushed");
    agrees(&volume, &bytes, &mut rng).await;
    model.replace(bytes);
}

async fn second_life(model: Rc<RefCell<Vec<u8>>>, mut rng: Prng) {
    let pool = again().await;
    let volume = pool.volume("volume").expect("the volume");
    let bytes = model.take();
    agrees(&volume, &bytes, &mut rng).await;
    pool.checkpoint().await.expect("a checkpoint");
    sound(&pool).await;
    agrees(&volume, &bytes, &mut rng).await;
    pool.close().await.expect("closed");
}

fn story(compression: Packing, checksum: ChecksumKind, record_size: u32) {
    let seed = u64::from(record_size);
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let model = Rc::new(RefCell::new(Vec::new()));
        let new = NewVolume {
            record_size,
            compression,
            checksum,
            ..NewVolume::new("volume", (BLOCKS * BLOCK) as u64)
        };
        let life = node.spawn(first_life(new, model.clone(), Prng::new(seed)));
        life.await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        let life = node.spawn(second_life(model, Prng::new(seed + 1)));
        life.await.expect("the power stays on");
    });
}

#[test]
fn uncompressed_records_are_read_back() {
    story(Packing::Off, ChecksumKind::Xxh3, 16 << 10);
    story(Packing::Off, ChecksumKind::Blake3, 4 << 10);
}

#[test]
fn lz4_records_are_read_back() {
    for size in [4 << 10, 8 << 10, 64 << 10, 1 << 20] {
        story(Packing::Lz4, ChecksumKind::Xxh3, size);
    }
}

#[test]
fn zstd_records_are_read_back() {
    for size in [8 << 10, 32 << 10, 128 << 10] {
        story(Packing::Zstd(3), ChecksumKind::Blake3, size);
    }
}

/// Adjacent records are read with one operation, compressed or not.
#[test]
fn adjacent_records_are_one_read() {
    for compression in [Packing::Off, Packing::Lz4] {
        crate::volume::on_disk(move |_| async move {
            let pool = create_pool(Options::default()).await;
            let new = NewVolume {
                record_size: 16 << 10,
                compression,
                ..NewVolume::new("volume", 4 << 20)
            };
            let volume = pool.create_volume(new).await.expect("a volume");
            let mut buf = io::pool().alloc(256 << 10).await;
            for (n, block) in buf.chunks_mut(BLOCK).enumerate() {
                block.fill(n as u8 + 1);
            }
            volume.write(Lba(0), buf).await.expect("written");
            let _durable = volume.flush().await.expect("flushed");
            pool.checkpoint().await.expect("a checkpoint");
            // The tree's nodes are in memory from here on.
            let _warm = read(&volume, 0, 1).await;
            let reads = || pool.vdevs().status()[0].members[0].counters.reads;
            let before = reads();
            let bytes = read(&volume, 0, 64).await;
            assert!(bytes.chunks(BLOCK).zip(1..).all(|(b, n)| b == [n; BLOCK]));
            assert_eq!(reads() - before, 1, "{compression}");
            pool.close().await.expect("closed");
        });
    }
}

/// A quota counts stored bytes: no write is refused for bytes that compression saves.
#[test]
fn a_quota_counts_stored_bytes() {
    crate::volume::on_disk(|_| async move {
        let pool = create_pool(Options::default()).await;
        let new = NewVolume {
            record_size: 128 << 10,
            ..NewVolume::new("volume", 32 << 20)
        };
        let volume = pool.create_volume(new).await.expect("a volume");
        pool.set_limits("volume", 4 << 20, 0)
            .await
            .expect("a quota");
        for n in 0..128 {
            let mut buf = io::pool().alloc(128 << 10).await;
            buf.fill(n as u8 + 1);
            volume.write(Lba(n * 32), buf).await.expect("written");
        }
        let _durable = volume.flush().await.expect("flushed");
        pool.checkpoint().await.expect("a checkpoint");
        let space = pool.volume_spaces()["volume"];
        assert_eq!(space.logical, 16 << 20);
        assert!(space.used < 1 << 20, "{space:?}");
        pool.close().await.expect("closed");
    });
}
