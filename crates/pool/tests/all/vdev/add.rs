//! Adding a vdev: success, refusals, and power cuts at every step.

use pool::vdev::{OpenOptions, PoolSpec, SetupError, create, open};

use crate::vdev::world::{
    disk, disks, find, get_all, host, import, machine, make, on, put_all, run,
};

/// More disk steps than an addition takes.
const STEPS_MAX: u64 = 400;

#[test]
fn a_vdev_is_added_and_found_again_with_the_others() {
    run(1, async {
        let (node, _) = machine(5);
        on(node, async {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            put_all(&vdevs, 0..20, 1).await;
            let info = vdevs.add(disks(&[2, 3]).await, false).await.expect("added");
            let area = vdevs.table()[0].first_free;
            assert_eq!((info.id.0, info.first_free), (1, area));
            assert_eq!(vdevs.ring().segments.len(), 4);
            let info = vdevs.add(disks(&[4]).await, false).await.expect("added");
            assert_eq!(info.id.0, 2);
            put_all(&vdevs, 20..80, 2).await;
            let _stable = vdevs.flush().await.expect("durable");
            get_all(&vdevs, 20..80, 2).await;
        })
        .await
        .expect("it ran");
        node.power_cut();
        node.power_on();
        on(node, async {
            let vdevs = import(&[4, 2, 1, 3, 0]).await.expect("opened").vdevs;
            assert_eq!(vdevs.table().len(), 3);
            assert_eq!(vdevs.ring().segments.len(), 4);
            get_all(&vdevs, 20..80, 2).await;
            drop(vdevs);
            let missing = import(&[0, 1, 2, 3]).await.err();
            assert!(matches!(missing, Some(SetupError::VdevMissing { vdev, .. }) if vdev.0 == 2));
        })
        .await
        .expect("it ran");
    });
}

#[test]
fn a_disk_of_another_pool_is_added_only_by_force() {
    run(2, async {
        let (node, _) = machine(2);
        on(node, async {
            let other = PoolSpec::new("other", vec![disks(&[1]).await], host());
            drop(create(other).await.expect("made"));
            let vdevs = make(&[&[0]]).await.expect("made").vdevs;
            let refused = vdevs.add(disks(&[1]).await, false).await;
            assert!(matches!(refused, Err(SetupError::InUse { name, .. }) if name == "other"));
            let none = vdevs.add(Vec::new(), false).await;
            assert_eq!(none.err(), Some(SetupError::Shape { got: 0 }));
            assert_eq!(vdevs.table().len(), 1);
            vdevs.add(vec![disk(1).await], true).await.expect("added");
        })
        .await
        .expect("it ran");
    });
}

/// If labels named a vdev before each of its disks had a label, the import would be refused for ever.
#[test]
fn adding_that_is_cut_short_leaves_the_pool_with_or_without_the_vdev() {
    let mut outcomes = [0; 2];
    for step in 0..STEPS_MAX {
        let (done, added) = run(step, async move {
            let (node, _) = machine(4);
            let life = on(node, async move {
                let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
                put_all(&vdevs, 0..20, 1).await;
                let _stable = vdevs.flush().await.expect("durable");
                node.power_cut_after(step);
                vdevs.add(disks(&[2, 3]).await, false).await.expect("added");
            });
            let done = life.await.is_some();
            node.power_cut();
            node.power_on();
            let added = on(node, async {
                let found = find(&[3, 2, 1, 0]).await.expect("it is there");
                let opened = open(found, OpenOptions::new(host())).await;
                let vdevs = opened.expect("it opens").vdevs;
                let added = vdevs.table().len() - 1;
                let info = vdevs.table()[0];
                for n in 0..20 {
                    let at = pool::format::Address {
                        vdev: info.id,
                        offset: pool::format::VdevOffset(info.first_free.0 + n * 4096),
                    };
                    crate::vdev::world::get(&vdevs, at, 1)
                        .await
                        .expect("it is there");
                }
                if added == 0 {
                    // The second attempt must also work with the remains of the first.
                    let added = vdevs.add(disks(&[2, 3]).await, false).await;
                    added.expect("added");
                }
                added
            });
            (done, added.await.expect("it ran"))
        });
        outcomes[added] += 1;
        if done {
            assert_eq!(added, 1);
            assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
            return;
        }
    }
    panic!("it takes more than {STEPS_MAX} steps");
}
