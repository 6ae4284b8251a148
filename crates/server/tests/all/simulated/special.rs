//! Special vdevs by the control API: refused with a reason, added, shown, and removed.

use crate::simulated::fixture::{connect, disk, machine, make, serve_new, wait_until, write};
use crate::simulated::removal::{BLOCKS, byte, on, read_all, remove, wait_for};
use io::sim::{DiskConfig, Sim, SimConfig};
use server::Server;
use server::api::{
    AddVdevs, Event, ListEvents, SetProperty, SpecialClass, VdevClass, VdevLayout, VdevSpec,
};
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

async fn set_small(server: &Rc<Server>, value: &str) -> server::Result<server::api::Property> {
    let set = SetProperty {
        name: "tank".into(),
        property: "special_small_blocks".into(),
        value: value.into(),
    };
    server.set_property(set).await
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
            let asked = server.clone();
            let set = on(&node, async move { set_small(&asked, value).await });
            assert_eq!(set.await.is_ok(), is_taken, "{value}");
        }
        let asked = server.clone();
        let set = on(&node, async move { set_small(&asked, "1M").await });
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

/// Small records fill a special class beside a client, which is not held up: there is one event, with the dataset and the command that helps.
#[test]
fn a_special_class_without_room_is_told_once() {
    Sim::new(24, SimConfig::default()).block_on(async {
        let large = DiskConfig {
            size: 512 << 20,
            ..disk()
        };
        let (node, _) = machine(["/a", "/b"], &large);
        for path in ["/c", "/d"] {
            node.create_disk(path, disk());
        }
        let server = serve_new(&node, async |server| {
            make(server).await;
            let mirror = special(&["/c", "/d"], VdevLayout::Mirror);
            server.add_vdevs(mirror).await.expect("added");
            set_small(server, "4K").await.expect("set");
        })
        .await;
        let (_client, namespace) = connect(&node).await;
        let spilled = || class(&server).expect("a class").spilled_bytes();
        for round in 0..2 {
            let before = spilled();
            let mut lba = round << 15;
            while spilled() < before + (1 << 20) {
                write(&namespace, lba, 16, byte(lba)).await;
                lba += 16;
                assert!(lba < (round + 1) << 15, "128 MiB have room in it");
            }
            namespace.flush().await.expect("flushed");
            wait_until(|| events(&server).len() == 1).await;
        }
        let event = events(&server).remove(0);
        let says = event.text.contains("most of it of tank/vm1")
            && event.text.contains("pool add tank special");
        assert!(says && event.class == "special.full", "{event:?}");
        drop(server);
    });
}

fn events(server: &Rc<Server>) -> Vec<Event> {
    let all = server.events(&ListEvents::default()).into_iter();
    all.filter(|event| event.class.starts_with("special"))
        .collect()
}
