//! Special vdevs by the control API: refused with a reason, added, shown, and removed.

use crate::simulated::fixture::{connect, disk, machine, make, serve_new, write};
use crate::simulated::removal::{BLOCKS, byte, on, read_all, remove, wait_for};
use io::sim::{Sim, SimConfig};
use server::Server;
use server::api::{AddVdevs, SetProperty, SpecialClass, VdevClass, VdevLayout, VdevSpec};
use std::rc::Rc;

fn special(disks: &[&str], layout: VdevLayout) -> AddVdevs {
    AddVdevs {
        pool: "tank".into(),
        vdevs: vec![VdevSpec {
            layout,
            class: VdevClass::Special,
            members: disks.iter().map(Into::into).collect(),
        }],
        caches: Vec::new(),
        spares: Vec::new(),
        size: None,
        force: false,
    }
}

fn class(server: &Rc<Server>) -> Option<SpecialClass> {
    server.pools().remove(0).special
}

/// A mirror of two gets a special vdev. One without redundancy is refused with what would be lost, and the size of small records is checked. Then small
/// records go to the vdev, until it is removed.
#[test]
fn a_special_vdev_is_added_shown_and_removed() {
    Sim::new(23, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b", "/c", "/d", "/e"], &disk());
        let server = serve_new(&node, async |server| make(server).await).await;
        for (asked, said) in [
            (
                special(&["/c"], VdevLayout::Disk),
                "if its disk fails, the whole pool is lost",
            ),
            (
                special(&["/c", "/d", "/e"], VdevLayout::Raidz1),
                "one disk or a mirror",
            ),
        ] {
            let of = server.clone();
            let refused = on(&node, async move { of.add_vdevs(asked).await });
            let refused = refused.await.expect_err(said).to_string();
            assert!(refused.contains(said), "{refused}");
        }
        assert_eq!(class(&server), None);
        let asked = server.clone();
        let added = on(&node, async move {
            let mirror = special(&["/c", "/d"], VdevLayout::Mirror);
            asked.add_vdevs(mirror).await
        });
        added.await.expect("added");
        for (value, is_taken) in [("5K", false), ("2M", false), ("32K", true), ("0", true)] {
            let (asked, set) = (
                server.clone(),
                SetProperty {
                    name: "tank".into(),
                    property: "special_small_blocks".into(),
                    value: value.into(),
                },
            );
            let set = on(&node, async move { asked.set_property(set).await });
            assert_eq!(set.await.is_ok(), is_taken, "{value}");
        }
        let asked = server.clone();
        let set = SetProperty {
            name: "tank".into(),
            property: "special_small_blocks".into(),
            value: "1M".into(),
        };
        let set = on(&node, async move { asked.set_property(set).await });
        let set = set.await.expect("set");
        assert_eq!(
            (set.value.as_str(), set.is_size),
            ((1 << 20).to_string().as_str(), true)
        );
        let (client, namespace) = connect(&node).await;
        for lba in (0..BLOCKS).step_by(16) {
            write(&namespace, lba, 16, byte(lba)).await;
        }
        namespace.flush().await.expect("flushed");
        drop((client, namespace));
        let shown = class(&server).expect("a special class");
        assert!(shown.used >= 1 << 20, "{shown:?}");
        assert!(shown.takes_small_records, "{shown:?}");
        assert_eq!((shown.spilled, shown.spilled_of_pool), (Vec::new(), 0));
        let asked = server.clone();
        let begun = on(
            &node,
            async move { asked.remove_device(remove("/c")).await },
        );
        begun.await.expect("begun");
        wait_for(&server, "removal.finish").await;
        assert_eq!(class(&server), None);
        read_all(&node).await;
        drop(server);
    });
}
