//! Power cuts while blocks that snapshots hold are relocated, and while relocated blocks are freed.

use io::sim::Node;
use pool::Pool;

use crate::blocks::{free_all, sound};
use crate::raidz::cut_at_many_steps;
use crate::raidz::members::import;
use crate::raidz::relocated::{clean, rested};
use crate::raidz::remove::{DISK, Kind, RAIDZ, check, furnished};

/// Runs `work` with power cuts at many steps, and judges the pool after each.
fn relocate_with_cuts(
    kind: Kind,
    stride: u64,
    work: impl AsyncFn(&Pool) + Copy + 'static,
    judge: impl AsyncFn(&Pool) + Copy + 'static,
) {
    let disks = 2 + kind.1;
    let first = async move |step, _| {
        let pool = furnished(kind).await;
        Node::current().power_cut_after(step);
        work(&pool).await;
    };
    cut_at_many_steps(stride, 8, first, async move |_, _| {
        clean(disks).await;
        let pool = import(0..disks).await.expect("all members");
        judge(&pool).await;
        pool.empty_regions();
        rested(&pool).await;
        judge(&pool).await;
        pool.close().await.expect("closed");
        clean(disks).await;
        let pool = import(0..disks).await.expect("all members");
        for name in ["clone", "vm"] {
            let snapshot = pool.snapshots(name).into_iter().next();
            if snapshot.is_some() {
                pool.destroy_snapshot(name, "one").await.expect("gone");
            }
            if pool.volume(name).is_some() {
                pool.destroy_volume(name).await.expect("destroyed");
            }
        }
        free_all(&pool).await;
        assert!(pool.region_moves().relocations < 4);
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn relocations_survive_a_power_cut() {
    for (kind, stride) in [(DISK, 11), (RAIDZ, 29)] {
        let work = async |pool: &Pool| {
            for _ in 0..2 {
                pool.empty_regions();
                rested(pool).await;
            }
        };
        relocate_with_cuts(kind, stride, work, check);
    }
}

#[test]
fn frees_of_relocated_blocks_survive_a_power_cut() {
    let work = async |pool: &Pool| {
        pool.empty_regions();
        rested(pool).await;
        pool.destroy_volume("clone").await.expect("destroyed");
        pool.destroy_snapshot("vm", "one").await.expect("destroyed");
        pool.empty_regions();
        free_all(pool).await;
        rested(pool).await;
    };
    relocate_with_cuts(DISK, 23, work, sound);
}
