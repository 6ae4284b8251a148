//! `logbias`: contents of small durable writes go to the journal, or never do.

use backend::{BlockBackend, Lba};
use io::sim::{Node, Sim, SimConfig};
use pool::format::{DatasetProperty, Setting};
use pool::vdev::scan;
use pool::{DatasetWrites, DurableWrites, Options, Pool, Volume};

use crate::blocks::{BLOCK, byte, first, sound, volume};
use crate::volume::{again_with, create_pool, disk_config, free_disk, on_disk};

const BYTES: u64 = BLOCK as u64;
/// Bytes of journal records about a write without contents, at most.
const POINTER: u64 = 200;

/// Contents go to the journal wherever they may.
fn journal() -> Options {
    Options {
        durable_writes: DurableWrites::Journal,
        ..Options::default()
    }
}

async fn set(pool: &Pool, dataset: Option<&str>, value: &str) {
    let property = DatasetProperty::Logbias;
    let setting = Setting {
        value: property.parse(value).expect("a value"),
        is_received: false,
    };
    let set = pool.set_own(dataset, property, Some(setting)).await;
    set.expect("set");
}

async fn write_durable(volume: &Volume, block: u64, blocks: usize) {
    let mut buf = io::pool().alloc(blocks * BLOCK).await;
    buf.fill(byte(block));
    let durable = volume.write_durable(Lba(block), buf).await;
    drop(durable.expect("written"));
}

fn counts(pool: &Pool, name: &str) -> DatasetWrites {
    pool.writes().datasets[name]
}

/// Bytes of data and of the journal for 64 durable writes of one block.
async fn cost(pool: &Pool, volume: &Volume, name: &str) -> (u64, u64) {
    let before = counts(pool, name);
    for n in 0..64 {
        write_durable(volume, n * 3, 1).await;
    }
    let after = counts(pool, name);
    (after.data - before.data, after.journal - before.journal)
}

/// Waits until all records have blocks, and the labels their features.
async fn rest(pool: &Pool) {
    io::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(pool.dirty(), 0);
}

#[test]
fn throughput_keeps_contents_out_of_the_journal() {
    on_disk(|_| async move {
        let pool = create_pool(journal()).await;
        let vol = volume(&pool, "vm", 16 << 20).await;
        write_durable(&vol, 0, 1).await;
        rest(&pool).await;
        let (data, log) = cost(&pool, &vol, "vm").await;
        assert!(log >= 64 * BYTES, "{log}");
        assert!(data < 64 * BYTES, "{data}");
        rest(&pool).await;
        set(&pool, Some("vm"), "throughput").await;
        let times = pool.durable_times().journaled;
        let (data, log) = cost(&pool, &vol, "vm").await;
        assert_eq!(data, 64 * BYTES, "records are at their places at once");
        assert!(log < 64 * POINTER, "{log}");
        assert_eq!(pool.durable_times().journaled, times);
        let value = pool.property(Some("vm"), DatasetProperty::Logbias);
        assert_eq!(value.map(|(value, _)| value), Some(1));
        set(&pool, Some("vm"), "latency").await;
        let (_, log) = cost(&pool, &vol, "vm").await;
        assert!(log >= 64 * BYTES, "{log}");
        sound(&pool).await;
    });
}

/// Datasets inherit it from the pool, and it is there after a restart. Other datasets keep the fast way.
#[test]
fn logbias_is_inherited_and_survives_a_restart() {
    on_disk(|_| async move {
        let pool = create_pool(journal()).await;
        let vol = volume(&pool, "vm", 16 << 20).await;
        let other = volume(&pool, "other", 16 << 20).await;
        set(&pool, Some("other"), "latency").await;
        set(&pool, None, "throughput").await;
        drop((vol, other));
        pool.close().await.expect("closed");
        let found = scan(vec![free_disk().await]).await.pools.pop();
        let found = found.expect("a pool");
        let has_feature = found.features().incompatible.iter().any(|f| f == "logbias");
        assert!(has_feature, "{:?}", found.features());
        drop(found);
        let pool = again_with(journal()).await;
        let vol = pool.volume("vm").expect("there");
        let other = pool.volume("other").expect("there");
        write_durable(&other, 0, 1).await;
        rest(&pool).await;
        let (data, log) = cost(&pool, &vol, "vm").await;
        assert_eq!(data, 64 * BYTES);
        assert!(log < 64 * POINTER, "{log}");
        let (_, log) = cost(&pool, &other, "other").await;
        assert!(log >= 64 * BYTES, "{log}");
        sound(&pool).await;
    });
}

/// Records that only the journal has when the setting changes get blocks, and a crash loses neither them nor later writes.
#[test]
fn a_crash_after_a_change_of_logbias_loses_nothing() {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let life = node.spawn(async {
            let pool = create_pool(journal()).await;
            let vol = volume(&pool, "vm", 16 << 20).await;
            write_durable(&vol, 0, 1).await;
            rest(&pool).await;
            for n in 1..32 {
                write_durable(&vol, n, 1).await;
            }
            assert!(pool.dirty() > 0, "only the journal has them");
            set(&pool, None, "throughput").await;
            for n in 16..48 {
                write_durable(&vol, n * 2, 1).await;
            }
        });
        life.await.expect("it has power");
        node.power_cut();
        node.power_on();
        let next = node.spawn(async {
            io::time::sleep(std::time::Duration::from_secs(1)).await;
            let pool = again_with(journal()).await;
            let vol = pool.volume("vm").expect("there");
            for n in (0..32).chain((16..48).map(|n| n * 2)) {
                assert_eq!(first(&vol, n).await, byte(n), "block {n}");
            }
            sound(&pool).await;
        });
        next.await.expect("it has power");
    });
}
