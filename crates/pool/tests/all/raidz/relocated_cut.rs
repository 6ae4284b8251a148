//! Power cuts while blocks that snapshots hold are relocated, and while relocated blocks are freed.

use io::sim::{Node, Sim, SimConfig};
use pool::Pool;

use crate::blocks::{free_all, sound};
use crate::raidz::inspect::inspect;
use crate::raidz::members::import;
use crate::raidz::relocated::rested;
use crate::raidz::remove::{DISK, RAIDZ, check, furnished};

async fn clean(disks: usize) {
    let (findings, _) = inspect(disks, &[]).await;
    assert!(findings.is_empty(), "{findings:?}");
}

/// Runs `work` on a machine whose power is cut after a number of disk steps, and checks the pool; for numbers that are further and
/// further apart, until the work ends before the cut.
fn cut_at_many_steps(
    kind: (pool::vdev::Layout, usize),
    stride: u64,
    work: impl AsyncFn(&Pool) + Copy + 'static,
    judge: impl AsyncFn(&Pool) + Copy + 'static,
) {
    let disks = 2 + kind.1;
    let (mut cuts, mut next) = (0, 0);
    while next < 1 << 20 {
        let step = next;
        next += stride + next / 4;
        let was_cut = Sim::new(step, SimConfig::default()).block_on(async move {
            let node = Node::new();
            let prepared = node.spawn(async move {
                let pool = furnished(kind).await;
                Node::current().power_cut_after(step);
                work(&pool).await;
            });
            let was_cut = prepared.await.is_none();
            node.power_cut();
            node.power_on();
            let second = node.spawn(async move {
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
            second.await.unwrap_or_else(|| panic!("step {step}"));
            was_cut
        });
        if !was_cut {
            assert!(cuts > 8, "{cuts} cuts");
            return;
        }
        cuts += 1;
    }
    panic!("it does not end");
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
        cut_at_many_steps(kind, stride, work, check);
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
    cut_at_many_steps(DISK, 23, work, sound);
}
