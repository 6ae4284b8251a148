//! Blocks that snapshots hold are relocated: with clones, rollbacks, rot, members that are away, and removals of vdevs.

use std::time::Duration;

use backend::BlockBackend;
use io::sim::Node;
use pool::format::MemberGuid;
use pool::vdev::{DATA_START, MemberState, OpenOptions};
use pool::{Options, Pool};

use crate::blocks::{byte, first, free_all, read, simulated, sound, volume, write};
use crate::raidz::fill;
use crate::raidz::inspect::inspect;
use crate::raidz::members::{devices, import, open_options};
use crate::raidz::remove::{BLOCKS, DISK, MIRROR, RAIDZ, VDEV, check, close, ended, furnished};

/// Waits until the region mover has done its walk.
pub(super) async fn rested(pool: &Pool) {
    for _ in 0..30_000 {
        if !pool.region_moves().is_moving {
            return;
        }
        io::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not end: {:?}", pool.region_moves());
}

/// Has regions emptied. Returns the bytes that were relocated.
async fn relocate(pool: &Pool) -> u64 {
    let before = pool.region_moves().relocated;
    pool.empty_regions();
    rested(pool).await;
    pool.region_moves().relocated - before
}

pub(super) async fn clean(disks: usize) {
    let (findings, _) = inspect(disks, &[]).await;
    assert!(findings.is_empty(), "{findings:?}");
}

/// Blocks of a snapshot and of a clone move, and are the same at their new places, also after a restart. When their datasets are
/// destroyed, all space comes back, and no relocation is left.
#[test]
fn held_blocks_are_relocated_and_freed() {
    for (seed, kind) in (1..).zip([DISK, MIRROR, RAIDZ]) {
        simulated(seed, async move || {
            let disks = 2 + kind.1;
            let pool = furnished(kind).await;
            // disks that were added lack older uberblocks
            pool.scrub(|_| ()).await.expect("a scrub");
            let used = pool.space().used;
            let accounts = pool.volume_spaces();
            let moved = relocate(&pool).await;
            let moves = pool.region_moves();
            assert!(moved > 2 << 20 && moves.relocations > 200, "{moves:?}");
            assert_eq!(pool.writes().all.moved, moves.moved);
            check(&pool).await;
            assert_eq!(pool.volume_spaces(), accounts);
            assert!(pool.space().used < used + (1 << 20), "{:?}", pool.space());
            let found = pool.scrub(|_| ()).await.expect("a scrub");
            assert_eq!((found.repaired, found.lost.len()), (0, 0), "{found:?}");
            close(pool).await;
            clean(disks).await;
            let pool = import(0..disks).await.expect("all members");
            assert!(pool.region_moves().relocations > 200);
            check(&pool).await;
            pool.promote("clone").await.expect("promoted");
            pool.destroy_volume("vm").await.expect("destroyed");
            free_all(&pool).await;
            sound(&pool).await;
            pool.destroy_volume("clone").await.expect_err("a snapshot");
            pool.destroy_snapshot("clone", "one").await.expect("gone");
            free_all(&pool).await;
            sound(&pool).await;
            pool.destroy_volume("clone").await.expect("destroyed");
            free_all(&pool).await;
            // nodes of the tree of deadlists may be left
            let left = pool.region_moves().relocations;
            assert!(left < 4, "{left} relocations");
            assert!(pool.space().used < 1 << 20, "{:?}", pool.space());
            sound(&pool).await;
            close(pool).await;
            clean(disks).await;
        });
    }
}

/// Other blocks get the addresses that relocated blocks left. Each reader gets its own block, from the cache and from disk.
#[test]
fn old_addresses_are_used_again() {
    for (seed, kind) in (11..).zip([DISK, RAIDZ]) {
        simulated(seed, async move || {
            let disks = 2 + kind.1;
            let pool = furnished(kind).await;
            for round in 0..3 {
                let moved = relocate(&pool).await;
                assert!(moved > 0 || round > 0);
                let name = format!("other{round}");
                let other = volume(&pool, &name, 256 << 20).await;
                let end = fill(&other, 0, 64).await;
                check(&pool).await;
                for at in 0..end {
                    assert_eq!(first(&other, at).await, byte(at / 64 * 64), "block {at}");
                }
                drop(other);
                pool.destroy_volume(&name).await.expect("destroyed");
                free_all(&pool).await;
            }
            check(&pool).await;
            close(pool).await;
            clean(disks).await;
            let pool = import(0..disks).await.expect("all members");
            check(&pool).await;
            close(pool).await;
        });
    }
}

/// A block that moves again has one relocation.
#[test]
fn blocks_are_relocated_again() {
    simulated(21, async || {
        let pool = furnished(DISK).await;
        let mut most = 0;
        let mut moved = 0;
        for _ in 0..6 {
            moved += relocate(&pool).await;
            most = pool.region_moves().relocations.max(most);
            check(&pool).await;
        }
        let all = 2 * BLOCKS * 4096;
        assert!(moved > 2 * all, "{moved} bytes");
        assert!(most < 2 * BLOCKS, "{most} relocations");
        close(pool).await;
        clean(3).await;
        let pool = import(0..3).await.expect("all members");
        check(&pool).await;
        close(pool).await;
    });
}

/// Datasets change while their blocks are relocated.
#[test]
fn datasets_change_while_blocks_are_relocated() {
    for seed in 31..37 {
        simulated(seed, async move || {
            let pool = furnished(DISK).await;
            let back = volume(&pool, "back", 8 << 20).await;
            for n in [5, 6] {
                for at in (0..1024).step_by(64) {
                    write(&back, at, 64, byte(at + n)).await.expect("written");
                }
                let _proof = back.flush().await.expect("flushed");
                if n == 5 {
                    pool.create_snapshot("back", "five").await.expect("taken");
                }
            }
            let pause = Duration::from_millis(3 * (seed - 30));
            pool.empty_regions();
            io::time::sleep(pause).await;
            pool.create_snapshot("vm", "two").await.expect("a snapshot");
            pool.promote("clone").await.expect("promoted");
            io::time::sleep(pause).await;
            drop(back);
            pool.roll_back("back", "five").await.expect("rolled back");
            pool.destroy_snapshot("vm", "two").await.expect("destroyed");
            rested(&pool).await;
            let back = pool.volume("back").expect("there");
            for at in 0..1024 {
                assert_eq!(first(&back, at).await, byte(at / 64 * 64 + 5), "block {at}");
            }
            drop(back);
            free_all(&pool).await;
            sound(&pool).await;
            pool.empty_regions();
            io::time::sleep(pause).await;
            pool.destroy_snapshot("back", "five").await.expect("gone");
            pool.destroy_volume("back").await.expect("destroyed");
            pool.destroy_volume("vm").await.expect("destroyed");
            rested(&pool).await;
            free_all(&pool).await;
            sound(&pool).await;
            close(pool).await;
            clean(3).await;
        });
    }
}

/// A block without a right copy is named, and stays where it is. The others move.
#[test]
fn damaged_blocks_are_named_and_left() {
    simulated(41, async || {
        let pool = furnished(DISK).await;
        close(pool).await;
        let pool = import(0..3).await.expect("all members");
        let disk = Node::current().disk("d2").expect("a disk");
        let start = DATA_START + pool.vdevs().table()[1].first_free.0 + (2 << 20);
        disk.rot(start..start + 65536);
        let bad = async || {
            let old = pool.snapshot("vm", "one").expect("there");
            let mut bad = 0;
            for at in 0..BLOCKS {
                match read(&old, at).await {
                    Ok(found) => assert_eq!(found, byte(at / 32 * 32), "block {at}"),
                    Err(_) => bad += 1,
                }
            }
            bad
        };
        for _ in 0..4 {
            relocate(&pool).await;
        }
        let lost = pool.lost_blocks();
        assert!(!lost.is_empty(), "damaged blocks are named");
        let before = bad().await;
        assert!(before > 0);
        relocate(&pool).await;
        assert_eq!(bad().await, before, "nothing else is lost");
        close(pool).await;
    });
}

fn members_of(pool: &Pool, vdev: usize) -> Vec<(MemberGuid, MemberState)> {
    let status = pool.vdevs().status().remove(vdev);
    status.members.iter().map(|m| (m.guid, m.state)).collect()
}

/// A member that was away while blocks were relocated gets them when it returns: then it has all that the other one has.
#[test]
fn a_member_gets_what_was_relocated_while_it_was_away() {
    for seed in 51..54 {
        simulated(seed, async move || {
            let pool = furnished(MIRROR).await;
            if seed == 52 {
                // many are at other places already
                relocate(&pool).await;
            }
            let vdevs = pool.vdevs();
            let away: Vec<MemberGuid> = [0, 1].map(|v| members_of(&pool, v)[1].0).into();
            for member in &away {
                vdevs.offline(*member).await.expect("the other one is in");
            }
            assert!(relocate(&pool).await > 1 << 20);
            for member in &away {
                vdevs.online(*member, None).await.expect("it is there");
            }
            let copied = pool.resilver(|_| ()).await.expect("all is there");
            assert!(copied > 100, "{copied}");
            for vdev in [0, 1] {
                let other = members_of(&pool, vdev)[0].0;
                vdevs.offline(other).await.expect("the returned one is in");
            }
            check(&pool).await;
            drop(vdevs);
            close(pool).await;
        });
    }
}

/// The vdev that is removed has places of relocated blocks, and addresses in their pointers.
#[test]
fn a_vdev_with_relocated_blocks_is_removed() {
    for (seed, kind) in (61..).zip([DISK, MIRROR, RAIDZ]) {
        simulated(seed, async move || {
            let pool = furnished(kind).await;
            for _ in 0..3 {
                relocate(&pool).await;
            }
            assert!(pool.region_moves().relocations > 500);
            pool.remove_vdev(VDEV).await.expect("it begins");
            ended(&pool).await;
            assert_eq!(pool.vdevs().status().len(), 1);
            check(&pool).await;
            // blocks at places of copies stay, others move
            relocate(&pool).await;
            check(&pool).await;
            close(pool).await;
            clean(2).await;
            let pool = import(0..2).await.expect("it has everything");
            check(&pool).await;
            pool.destroy_volume("clone").await.expect("destroyed");
            pool.destroy_snapshot("vm", "one").await.expect("destroyed");
            pool.destroy_volume("vm").await.expect("destroyed");
            free_all(&pool).await;
            assert!(pool.region_moves().relocations < 4);
            assert!(pool.space().used < 1 << 20, "{:?}", pool.space());
            sound(&pool).await;
            close(pool).await;
            clean(2).await;
        });
    }
}

/// A removal begins while blocks are relocated, and is given up.
#[test]
fn a_removal_begins_while_blocks_are_relocated() {
    for seed in 71..75 {
        simulated(seed, async move || {
            let pool = furnished(DISK).await;
            relocate(&pool).await;
            pool.empty_regions();
            io::time::sleep(Duration::from_millis(5 * (seed - 70))).await;
            pool.remove_vdev(VDEV).await.expect("it begins");
            if seed % 2 == 0 {
                io::time::sleep(Duration::from_millis(20)).await;
                pool.stop_removal().await.expect("given up");
            }
            ended(&pool).await;
            rested(&pool).await;
            check(&pool).await;
            relocate(&pool).await;
            check(&pool).await;
            let disks = if pool.vdevs().status().len() == 2 {
                3
            } else {
                2
            };
            close(pool).await;
            clean(disks).await;
        });
    }
}

/// Opens the pool on three disks.
async fn open(rewind: Option<u64>, options: Options) -> Pool {
    let chosen = OpenOptions {
        rewind,
        ..open_options()
    };
    let opened = devices(0..3, chosen).await.expect("its disks");
    Pool::open(opened, options).await.expect("open")
}

/// A pool has at most as many relocations as it may have, and reports it. Blocks that have one move again.
#[test]
fn relocations_are_limited() {
    simulated(91, async || {
        close(furnished(DISK).await).await;
        let options = Options {
            relocations_max: 100,
            ..Options::default()
        };
        let pool = open(None, options).await;
        for _ in 0..4 {
            relocate(&pool).await;
            check(&pool).await;
        }
        let moves = pool.region_moves();
        assert!((90..=100).contains(&moves.relocations), "{moves:?}");
        assert!(moves.is_full, "{moves:?}");
        close(pool).await;
        clean(3).await;
        let pool = open(None, Options::default()).await;
        relocate(&pool).await;
        let moves = pool.region_moves();
        assert!(moves.relocations > 100 && !moves.is_full, "{moves:?}");
        check(&pool).await;
        close(pool).await;
    });
}

/// A rewind to before the relocation finds the blocks at their old places.
#[test]
fn a_rewind_goes_back_to_before_a_relocation() {
    simulated(81, async || {
        let pool = furnished(DISK).await;
        assert!(relocate(&pool).await > 0);
        check(&pool).await;
        let moved = pool.region_moves().relocations;
        let before = pool.sequence();
        relocate(&pool).await;
        close(pool).await;
        let pool = open(Some(before), Options::default()).await;
        assert_eq!(pool.region_moves().relocations, moved);
        check(&pool).await;
        relocate(&pool).await;
        check(&pool).await;
        close(pool).await;
        clean(3).await;
    });
}
