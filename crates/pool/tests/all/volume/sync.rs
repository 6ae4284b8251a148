//! The durability promised by each value of `sync`.

use backend::{BlockBackend, Extent, Lba};
use io::sim::{Node, Sim, SimConfig};
use pool::format::Sync;
use pool::{NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, again, create_pool, disk_config};

async fn volume(pool: &Pool, name: &str, sync: Sync) -> Volume {
    let new = NewVolume {
        sync,
        ..NewVolume::new(name, 1 << 20)
    };
    pool.create_volume(new).await.expect("a volume")
}

async fn buffer(byte: u8) -> io::IoBuf {
    let mut buf = io::pool().alloc(BLOCK).await;
    buf.fill(byte);
    buf
}

async fn put(volume: &Volume, block: u64, byte: u8) {
    let written = volume.write(Lba(block), buffer(byte).await).await;
    written.expect("written");
}

async fn first(volume: &Volume, block: u64) -> u8 {
    let at = Extent {
        start: Lba(block),
        blocks: 1,
    };
    let mut bytes = vec![0; BLOCK];
    volume.read(at).await.expect("read").copy_to(&mut bytes);
    bytes[0]
}

/// Two incarnations of a machine, with a power cut between them.
fn lives<A, B>(first: impl FnOnce() -> A + 'static, second: impl FnOnce() -> B + 'static)
where
    A: Future<Output = ()> + 'static,
    B: Future<Output = ()> + 'static,
{
    Sim::new(5, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        node.spawn(first()).await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        node.spawn(second()).await.expect("the power stays on");
    });
}

fn flushes(pool: &Pool) -> u64 {
    pool.vdevs().status()[0].members[0].times.flush.count()
}

#[test]
fn sync_disabled_promises_nothing_and_does_not_affect_other_volumes() {
    lives(
        || async {
            let pool = create_pool(Options::default()).await;
            let disabled = volume(&pool, "disabled", Sync::Disabled).await;
            let standard = volume(&pool, "standard", Sync::Standard).await;
            let before = flushes(&pool);
            let _waived = disabled
                .write_durable(Lba(0), buffer(1).await)
                .await
                .unwrap();
            let _waived = disabled.flush().await.unwrap();
            assert_eq!(flushes(&pool), before, "nobody asked the disk");
            assert_eq!(first(&disabled, 0).await, 1);
            let _durable = standard
                .write_durable(Lba(0), buffer(2).await)
                .await
                .unwrap();
            assert!(flushes(&pool) > before);
            let _waived = disabled
                .write_durable(Lba(1), buffer(3).await)
                .await
                .unwrap();
            assert!(disabled.geometry().volatile_cache);
        },
        || async {
            let pool = again().await;
            let disabled = pool.volume("disabled").expect("the volume");
            assert_eq!(
                first(&disabled, 1).await,
                0,
                "the power came before the disk"
            );
            assert_eq!(first(&pool.volume("standard").unwrap(), 0).await, 2);
        },
    );
}

#[test]
fn acknowledged_writes_are_durable_after_sync_is_raised() {
    lives(
        || async {
            let pool = create_pool(Options::default()).await;
            let volume = volume(&pool, "volume", Sync::Disabled).await;
            put(&volume, 0, 1).await;
            let set = pool.change_volume("volume", |d| d.sync = Sync::Standard);
            set.await.expect("set");
            put(&volume, 1, 2).await;
            let set = pool.change_volume("volume", |d| d.sync = Sync::Always);
            set.await.expect("set");
            assert!(!volume.geometry().volatile_cache);
        },
        || async {
            let volume = again().await.volume("volume").expect("the volume");
            assert_eq!((first(&volume, 0).await, first(&volume, 1).await), (1, 2));
        },
    );
}

#[test]
fn closing_a_pool_loses_nothing_of_a_volume_that_promises_nothing() {
    lives(
        || async {
            let pool = create_pool(Options::default()).await;
            let volume = volume(&pool, "volume", Sync::Disabled).await;
            put(&volume, 0, 1).await;
            pool.close().await.expect("closed");
        },
        || async {
            let volume = again().await.volume("volume").expect("the volume");
            assert_eq!(first(&volume, 0).await, 1);
        },
    );
}

/// Regression: a write of zeroes and a compare-and-write were answered before they were durable.
#[test]
fn sync_always_covers_every_kind_of_change() {
    lives(
        || async {
            let pool = create_pool(Options::default()).await;
            let volume = volume(&pool, "volume", Sync::Always).await;
            for block in 0..3 {
                put(&volume, block, 1).await;
            }
            let at = Extent {
                start: Lba(1),
                blocks: 1,
            };
            volume.write_zeroes(at, true).await.expect("zeroed");
            let swapped = volume.compare_and_write(Lba(2), buffer(1).await, buffer(4).await);
            swapped.await.expect("swapped");
        },
        || async {
            let volume = again().await.volume("volume").expect("the volume");
            let mut found = Vec::new();
            for block in 0..3 {
                found.push(first(&volume, block).await);
            }
            assert_eq!(found, [1, 0, 4]);
        },
    );
}
