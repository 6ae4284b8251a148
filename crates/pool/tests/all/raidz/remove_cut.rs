//! Power cuts while a vdev is removed, and while a removal is given up.

use std::time::Duration;

use io::sim::Node;
use pool::Pool;

use crate::blocks::{free_all, sound};
use crate::raidz::cut_at_many_steps;
use crate::raidz::inspect::inspect;
use crate::raidz::journal_move::import_after_a_cut;
use crate::raidz::members::import;
use crate::raidz::remove::{DISK, Kind, RAIDZ, VDEV, check, ended, furnished};

/// Runs `work` with power cuts at many steps, and checks the pool after each.
fn remove_with_cuts(kind: Kind, stride: u64, work: impl AsyncFn(&Pool) + Copy + 'static) {
    let disks = 2 + kind.1;
    let first = async move |step, _| {
        let pool = furnished(kind).await;
        Node::current().power_cut_after(step);
        work(&pool).await;
    };
    cut_at_many_steps(stride, 8, first, async move |_, _| {
        let pool = import_after_a_cut(disks).await;
        check(&pool).await;
        ended(&pool).await;
        check(&pool).await;
        if pool.vdevs().status().len() == 2 {
            pool.remove_vdev(VDEV).await.expect("it begins");
            ended(&pool).await;
        }
        assert_eq!(pool.vdevs().status().len(), 1);
        check(&pool).await;
        pool.close().await.expect("closed");
        io::time::sleep(Duration::from_secs(1)).await;
        let (findings, _) = inspect(2, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..2).await.expect("the others have everything");
        check(&pool).await;
        pool.destroy_volume("clone").await.expect("destroyed");
        free_all(&pool).await;
        sound(&pool).await;
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_removal_goes_on_after_a_power_cut() {
    for (kind, stride) in [(DISK, 11), (RAIDZ, 29)] {
        remove_with_cuts(kind, stride, async |pool| {
            pool.remove_vdev(VDEV).await.expect("it begins");
            ended(pool).await;
        });
    }
}

#[test]
fn a_removal_is_given_up_across_a_power_cut() {
    remove_with_cuts(DISK, 17, async |pool| {
        pool.remove_vdev(VDEV).await.expect("it begins");
        while pool.removing().is_some_and(|r| r.copied < 6 << 20) {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        let _it_may_be_over = pool.stop_removal().await;
        ended(pool).await;
    });
}
