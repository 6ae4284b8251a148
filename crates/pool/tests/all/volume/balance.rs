//! The balance mover: after a vdev was added, records move until all vdevs are equally full.

use std::time::Duration;

use backend::BlockBackend;
use io::disk::{Disk, OpenOptions};
use io::sim::Node;
use pool::format::{DatasetProperty, Setting};
use pool::{BalanceMoves, Options, Pool, Volume, vdev};

use crate::blocks::{byte, first, free_all, sound, volume, write};
use crate::volume::{create_pool, disk_config, host, on_disk};

/// Blocks of one write.
const STEP: u64 = 64;
/// Blocks of the test's volume: 60 MiB.
const BLOCKS: u64 = 240 * STEP;

/// A pool of one disk with a volume whose blocks are written.
async fn filled() -> (Pool, Volume) {
    let pool = create_pool(Options::default()).await;
    let volume = volume(&pool, "vm", 256 << 20).await;
    for at in (0..BLOCKS).step_by(STEP as usize) {
        write(&volume, at, STEP as usize, byte(at))
            .await
            .expect("written");
    }
    let _durable = volume.flush().await.expect("flushed");
    pool.checkpoint().await.expect("a checkpoint");
    (pool, volume)
}

async fn open_disk(name: &str) -> Disk {
    let disk = Disk::open(name, OpenOptions::default()).await;
    disk.expect("the disk is there")
}

async fn again_with_both() -> Pool {
    let disks = vec![open_disk("disk").await, open_disk("second").await];
    let found = vdev::scan(disks).await.pools.pop();
    let opened = vdev::open(found.expect("a pool"), vdev::OpenOptions::new(host())).await;
    let pool = Pool::open(opened.expect("opened"), Options::default()).await;
    pool.expect("a pool")
}

async fn add(pool: &Pool) {
    Node::current().create_disk("second", disk_config());
    let disk = open_disk("second").await;
    pool.add_vdev(vec![disk], false).await.expect("added");
}

fn state(pool: &Pool) -> BalanceMoves {
    pool.balance_moves().expect("two vdevs")
}

/// Waits until the mover has begun and ended.
async fn moved(pool: &Pool) -> BalanceMoves {
    while state(pool).moved == 0 && !state(pool).is_stuck {
        io::time::sleep(Duration::from_millis(10)).await;
    }
    while state(pool).is_moving {
        io::time::sleep(Duration::from_millis(10)).await;
    }
    state(pool)
}

async fn check(volume: &Volume) {
    for at in (0..BLOCKS).step_by(STEP as usize / 2) {
        assert_eq!(
            first(volume, at).await,
            byte(at / STEP * STEP),
            "block {at}"
        );
    }
}

#[test]
fn vdevs_are_equally_full_after_a_disk_was_added() {
    on_disk(|_| async move {
        let (pool, volume) = filled().await;
        add(&pool).await;
        assert!(state(&pool).surplus > 24 << 20, "{:?}", state(&pool));
        let moves = moved(&pool).await;
        assert!(moves.surplus < 4 << 20, "{moves:?}");
        assert!((20 << 20..40 << 20).contains(&moves.moved), "{moves:?}");
        assert_eq!(pool.writes().all.moved, moves.moved);
        check(&volume).await;
        sound(&pool).await;
        io::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(state(&pool).moved, moves.moved, "once is enough");
        drop(volume);
        pool.close().await.expect("closed");
        // tasks that end hold the disks
        io::time::sleep(Duration::from_secs(1)).await;
        let pool = again_with_both().await;
        let volume = pool.volume("vm").expect("it is there");
        let reads = || {
            pool.vdevs()
                .status()
                .into_iter()
                .map(|v| v.members[0].counters.reads)
        };
        let before: Vec<u64> = reads().collect();
        check(&volume).await;
        let both: Vec<u64> = reads()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        assert!(both[0] < 2 * both[1] && both[1] < 2 * both[0], "{both:?}");
        free_all(&pool).await;
        sound(&pool).await;
        drop(volume);
        pool.close().await.expect("closed");
    });
}

#[test]
fn each_part_of_a_volume_is_spread_over_the_vdevs() {
    on_disk(|_| async move {
        let (pool, volume) = filled().await;
        add(&pool).await;
        moved(&pool).await;
        let reads = || pool.vdevs().status()[1].members[0].counters.reads;
        for quarter in 0..4 {
            let before = reads();
            for at in (0..BLOCKS / 4).step_by(STEP as usize) {
                first(&volume, quarter * BLOCKS / 4 + at).await;
            }
            let found = reads() - before;
            assert!(
                (15..45).contains(&found),
                "{found} of 60 in quarter {quarter}"
            );
        }
        drop(volume);
        pool.close().await.expect("closed");
    });
}

#[test]
fn blocks_that_snapshots_hold_stay_until_the_snapshot_is_gone() {
    on_disk(|_| async move {
        let (pool, volume) = filled().await;
        drop(pool.create_snapshot("vm", "one").await.expect("taken"));
        add(&pool).await;
        let moves = moved(&pool).await;
        assert_eq!((moves.moved, moves.is_stuck), (0, true));
        pool.destroy_snapshot("vm", "one").await.expect("destroyed");
        io::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(state(&pool).moved, 0, "not before an hour has passed");
        io::time::sleep(Duration::from_secs(3600)).await;
        let moves = moved(&pool).await;
        assert!(!moves.is_stuck && moves.moved > 20 << 20, "{moves:?}");
        check(&volume).await;
        drop(volume);
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn with_autodefrag_off_records_stay_on_their_vdev() {
    on_disk(|_| async move {
        let (pool, volume) = filled().await;
        let off = Setting {
            value: DatasetProperty::Autodefrag.parse("off").expect("a value"),
            is_received: false,
        };
        let set = pool.set_own(None, DatasetProperty::Autodefrag, Some(off));
        set.await.expect("set");
        add(&pool).await;
        let moves = moved(&pool).await;
        assert_eq!((moves.moved, moves.is_stuck), (0, true));
        check(&volume).await;
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// Clients overwrite and delete what is being moved.
#[test]
fn newer_writes_win_over_records_on_their_way_to_another_vdev() {
    on_disk(|_| async move {
        let (pool, volume) = filled().await;
        add(&pool).await;
        while state(&pool).moved == 0 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        for at in (0..BLOCKS).step_by(STEP as usize) {
            write(&volume, at + 1, 1, byte(at + 5))
                .await
                .expect("written");
            assert_eq!(first(&volume, at + 1).await, byte(at + 5));
        }
        moved(&pool).await;
        check(&volume).await;
        for at in (0..BLOCKS).step_by(STEP as usize) {
            assert_eq!(first(&volume, at + 1).await, byte(at + 5), "block {at}");
        }
        sound(&pool).await;
        drop(volume);
        pool.destroy_volume("vm").await.expect("destroyed");
        free_all(&pool).await;
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}
