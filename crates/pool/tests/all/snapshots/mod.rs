//! Thousands of snapshots, and full pools, in the simulator.

mod full;
mod regions;

use crate::blocks::{BLOCK, byte, first, free_all, simulated, sound, volume, write};
use backend::{BlockBackend, StorageError};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node};
use pool::format::Host;
use pool::vdev::{PoolSpec, create};
use pool::{Error, Options, Pool, SnapshotUse, Volume};

async fn make(size: u64, freeing_max: usize) -> Pool {
    make_with(size, |options| options.freeing_max = freeing_max).await
}

async fn make_with(size: u64, change: impl FnOnce(&mut Options)) -> Pool {
    let config = DiskConfig {
        size,
        logical_block: 4096,
        physical_block: 4096,
        atomic_unit: 4096,
        ..DiskConfig::default()
    };
    Node::current().create_disk("disk", config);
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![vec![disk.expect("open")]], host);
    let opened = create(spec).await.expect("create");
    let mut options = Options::default();
    change(&mut options);
    Pool::open(opened, options).await.expect("open")
}

/// Writes `blocks` blocks at a time from `from` on until a write is refused. Returns where that was.
async fn fill(volume: &Volume, from: u64, blocks: usize) -> u64 {
    let mut at = from;
    while write(volume, at, blocks, byte(at)).await.is_ok() {
        at += blocks as u64;
    }
    at
}

#[test]
fn a_pool_full_of_snapshots_takes_a_destroy_and_then_writes() {
    simulated(1, async || {
        let pool = make(96 << 20, 1000).await;
        let vol = volume(&pool, "vm", 64 << 20).await;
        let mut taken = 0;
        let refused = 'full: loop {
            for at in 0..16 {
                if let Err(e) = write(&vol, at * 256, 256, taken as u8 + 1).await {
                    break 'full e;
                }
            }
            pool.create_snapshot("vm", &format!("s{taken}"))
                .await
                .expect("a snapshot takes no data");
            taken += 1;
        };
        assert_eq!(refused, StorageError::NoSpace);
        assert!(taken > 0);
        let _proof = vol.flush().await.expect("what was acknowledged is kept");
        sound(&pool).await;
        for n in 0..taken {
            let name = format!("s{n}");
            let snapshot = pool.snapshot("vm", &name).expect("there");
            assert_eq!(first(&snapshot, 5).await, n as u8 + 1);
            pool.destroy_snapshot("vm", &name)
                .await
                .expect("a full pool destroys");
            assert!(pool.snapshot("vm", &name).is_none());
        }
        for at in 0..8 {
            let written = write(&vol, at * 256, 256, 99).await;
            written.expect("there is space again");
        }
        let _proof = vol.flush().await.expect("flush");
        assert_eq!(first(&vol, 5).await, 99);
        free_all(&pool).await;
        sound(&pool).await;
        let space = pool.volume_spaces()["vm"];
        assert_eq!(space.by_snapshots, 0);
        assert!(space.used >= space.referenced, "{space:?}");
        pool.close().await.expect("close");
    });
}

async fn used(pool: &Pool, name: &str, blocks: usize) -> SnapshotUse {
    let snapshot = pool.snapshot("vm", name).expect("there");
    let used = pool.snapshot_use(&snapshot, &mut { blocks }).await;
    used.expect("an intact list")
}

#[test]
fn the_used_space_of_a_snapshot_is_free_once_it_is_destroyed() {
    simulated(3, async || {
        let pool = make(96 << 20, 1000).await;
        let vol = volume(&pool, "vm", 64 << 20).await;
        for (snapshot, blocks) in [("s0", 256), ("s1", 64), ("s2", 128)] {
            write(&vol, 0, blocks, 7).await.expect("written");
            pool.create_snapshot("vm", snapshot).await.expect("taken");
        }
        write(&vol, 0, 256, 8).await.expect("written");
        let _proof = vol.flush().await.expect("flush");
        pool.checkpoint().await.expect("a checkpoint");
        // s1 holds 256 blocks that the volume no longer holds; those of s0's time are shared with s0
        let listed = || pool.volume_spaces()["vm"].by_snapshots;
        assert!(listed() > 0);
        for name in ["s1", "s0", "s2"] {
            let SnapshotUse::Exact(bytes) = used(&pool, name, 1 << 20).await else {
                panic!("{name} has few blocks");
            };
            assert!(bytes > 0, "{name}");
            let before = listed();
            pool.destroy_snapshot("vm", name).await.expect("destroyed");
            free_all(&pool).await;
            assert_eq!(listed(), before - bytes, "{name}");
        }
        assert_eq!(listed(), 0);
        pool.close().await.expect("close");
    });
}

#[test]
fn a_list_that_is_too_long_for_an_answer_gives_a_bound() {
    simulated(4, async || {
        let pool = make(96 << 20, 1000).await;
        let vol = volume(&pool, "vm", 64 << 20).await;
        write(&vol, 0, 256, 7).await.expect("written");
        pool.create_snapshot("vm", "s0").await.expect("taken");
        assert_eq!(used(&pool, "s0", 0).await, SnapshotUse::Exact(0));
        write(&vol, 0, 256, 8).await.expect("written");
        let _proof = vol.flush().await.expect("flush");
        pool.checkpoint().await.expect("a checkpoint");
        let SnapshotUse::Exact(bytes) = used(&pool, "s0", 1 << 20).await else {
            panic!("a short list");
        };
        let SnapshotUse::AtMost(most) = used(&pool, "s0", 1).await else {
            panic!("more blocks than one");
        };
        assert!(bytes <= most, "{bytes} {most}");
        pool.close().await.expect("close");
    });
}

#[test]
fn a_quota_stops_its_volume_and_a_reservation_keeps_space_from_others() {
    simulated(2, async || {
        let pool = make(64 << 20, 1000).await;
        let (a, b) = (
            volume(&pool, "a", 64 << 20).await,
            volume(&pool, "b", 64 << 20).await,
        );
        assert_eq!(
            pool.set_limits("a", 4 << 20, 8 << 20).await,
            Err(Error::OverQuota)
        );
        assert_eq!(pool.set_limits("a", 0, 1 << 40).await, Err(Error::NoSpace));
        pool.set_limits("a", 10 << 20, 8 << 20).await.expect("set");
        assert_eq!(pool.space().reserved, 8 << 20);
        let mut filled = 0;
        let refused = loop {
            match write(&b, filled * 64, 64, 7).await {
                Ok(()) => filled += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(refused, StorageError::NoSpace);
        for at in 0..32 {
            let written = write(&a, at * 64, 64, 5).await;
            written.expect("this was reserved");
        }
        let _proof = a.flush().await.expect("flush");
        pool.destroy_volume("b").await.expect("destroy");
        free_all(&pool).await;
        let mut more = 32;
        let refused = loop {
            match write(&a, more * 64, 64, 5).await {
                Ok(()) => more += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(refused, StorageError::NoSpace);
        let space = pool.volume_spaces()["a"];
        assert!(space.used <= 11 << 20 && more >= 36, "{space:?}, {more}");
        pool.set_limits("a", 0, 0).await.expect("set");
        let written = write(&a, more * 64, 64, 5).await;
        written.expect("no quota any more");
        free_all(&pool).await;
        sound(&pool).await;
        pool.close().await.expect("close");
    });
}

#[test]
fn a_thousand_snapshots_go_in_any_order() {
    simulated(3, async || {
        let pool = make(256 << 20, 64).await;
        let vol = volume(&pool, "vm", 1 << 20).await;
        for n in 0..1000u64 {
            write(&vol, n % 256, 1, byte(n)).await.expect("write");
            let made = pool.create_snapshot("vm", &format!("s{n}")).await;
            made.expect("snapshot");
        }
        assert_eq!(pool.snapshots("vm").len(), 1000);
        pool.checkpoint().await.expect("checkpoint");
        sound(&pool).await;
        // All but every tenth, from both ends in turn.
        let mut order: Vec<u64> = (0..1000).filter(|n| n % 10 != 0).collect();
        order.sort_by_key(|n| (n * 7919) % 1009);
        for n in order {
            let gone = pool.destroy_snapshot("vm", &format!("s{n}")).await;
            gone.expect("destroy");
        }
        for n in (0..1000u64).step_by(10) {
            let snapshot = pool.snapshot("vm", &format!("s{n}")).expect("kept");
            assert_eq!(first(&snapshot, n % 256).await, byte(n));
        }
        free_all(&pool).await;
        sound(&pool).await;
        let clone = pool.clone_snapshot("vm", "s500", "other").await;
        let clone = clone.expect("clone");
        write(&clone, 3, 1, 77).await.expect("write");
        pool.promote("other").await.expect("promote");
        assert_eq!(pool.snapshots("other").len(), 51);
        assert_eq!(pool.snapshots("vm").len(), 49);
        free_all(&pool).await;
        sound(&pool).await;
        let busy = pool.destroy_snapshot("other", "s500").await;
        assert_eq!(busy, Err(Error::Busy));
        for snapshot in pool.snapshots("vm") {
            let name = snapshot.dataset().name;
            pool.destroy_snapshot("vm", &name).await.expect("destroy");
        }
        pool.destroy_volume("vm").await.expect("destroy");
        for snapshot in pool.snapshots("other") {
            let name = snapshot.dataset().name;
            let gone = pool.destroy_snapshot("other", &name).await;
            gone.expect("destroy");
        }
        free_all(&pool).await;
        sound(&pool).await;
        let space = pool.volume_spaces()["other"];
        assert_eq!((space.by_snapshots, space.referenced), (0, 1 << 20));
        assert_eq!(first(&clone, 3).await, 77);
        pool.close().await.expect("close");
    });
}

/// Regression: a rollback was refused as in use while the pool wrote back dirty records, which an operator cannot know.
#[test]
fn a_volume_is_rolled_back_while_it_is_written_back() {
    simulated(7, async || {
        let pool = make(96 << 20, 1000).await;
        let vol = volume(&pool, "vm", 32 << 20).await;
        write(&vol, 0, 1, 7).await.expect("write");
        let made = pool.create_snapshot("vm", "before").await;
        made.expect("snapshot");
        pool.checkpoint().await.expect("checkpoint");
        for at in 0..4096 {
            write(&vol, at, 1, 9).await.expect("write");
        }
        // Some of it is in flight now.
        io::time::sleep(std::time::Duration::from_micros(10)).await;
        pool.roll_back("vm", "before").await.expect("roll back");
        assert_eq!((first(&vol, 0).await, first(&vol, 4000).await), (7, 0));
        sound(&pool).await;
        pool.close().await.expect("close");
    });
}

/// Regression: each snapshot keeps the nodes that the next changes replace, which take more space than the changes. They were
/// not counted, so the checkpoint that had to write them found no space, and the pool failed.
#[test]
fn nodes_that_snapshots_keep_are_counted_before_they_are_written() {
    simulated(5, async || {
        let pool = make(96 << 20, 1000).await;
        let blocks = (32 << 20) / BLOCK as u64;
        let vol = volume(&pool, "vm", 32 << 20).await;
        for at in (0..blocks).step_by(64) {
            write(&vol, at, 64, byte(at)).await.expect("write");
        }
        let mut rng = Prng::new(5);
        let mut taken = 0;
        let refused = 'full: loop {
            for _ in 0..100 {
                let at = rng.below(blocks);
                if let Err(e) = write(&vol, at, 1, byte(at)).await {
                    break 'full e;
                }
            }
            let made = pool.create_snapshot("vm", &format!("s{taken}")).await;
            made.expect("a snapshot takes no data");
            taken += 1;
        };
        assert_eq!(refused, StorageError::NoSpace);
        assert!(taken > 10, "{taken}");
        sound(&pool).await;
        for n in 0..taken {
            let gone = pool.destroy_snapshot("vm", &format!("s{n}")).await;
            gone.expect("a full pool destroys");
        }
        free_all(&pool).await;
        write(&vol, 0, 64, 1).await.expect("there is space again");
        sound(&pool).await;
        pool.close().await.expect("close");
    });
}

/// Regression: each snapshot was assumed to keep as many nodes as if every write had an entry of its own, although only
/// a limited number of records can change. With gigabytes free, writers waited for a checkpoint.
#[test]
fn snapshots_of_overwritten_records_leave_space() {
    simulated(8, async || {
        let pool = make(1 << 30, 1000).await;
        let vol = volume(&pool, "vm", 16 << 20).await;
        let mut rng = Prng::new(8);
        let before = pool.sequence();
        for taken in 0..40 {
            for _ in 0..2500 {
                let at = rng.below(4096);
                write(&vol, at, 1, byte(at)).await.expect("write");
            }
            let made = pool.create_snapshot("vm", &format!("s{taken}")).await;
            made.expect("a snapshot takes no data");
        }
        assert_eq!(pool.sequence(), before, "no checkpoint was needed");
        sound(&pool).await;
        pool.close().await.expect("close");
    });
}
