//! Pools and volumes of a server: power cuts, full file systems, scrubs, refusals.

use crate::simulated::fixture::{
    EMPTY, connect, disk, machine, make, pool, serve_new, start, volume, write,
};
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use io::time::sleep;
use nvmf::wire::status::Status;
use nvmf_initiator::{Error as InitiatorError, Namespace, WriteOptions};
use server::api::{
    DestroyPool, DestroyVolume, DiskState, ExportIscsi, GetProperties, Health, ListEvents,
    NamespaceState, ScanState, ScrubAction, ScrubPool,
};
use server::limits::DISK_RETRY;
use server::{Error, Server};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What the server writes after the changes of [`make`].
const SAVED: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[[pool]]
name = "tank"
disks = ["/a", "/b"]
[[subsystem]]
nqn = "nqn.2026-01.org.example:vm1"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "tank/vm1"
"#;

/// Writes blocks durably from `first` on until that fails, which it must. How many succeeded, and why the next did not.
async fn write_until_full(namespace: &Namespace, first: u64) -> (u64, InitiatorError) {
    for n in 0..4096 {
        let mut data = io::pool().alloc(4096).await;
        data.fill(1 + n as u8 % 200);
        let durably = WriteOptions { fua: true };
        if let Err(error) = namespace.write(first + n, Arc::new(data), durably).await {
            return (n, error);
        }
    }
    panic!("nothing noticed that the file system is full");
}

/// A client's write failed as if the disks were broken, and nothing said why, or that it was over.
#[test]
fn a_full_file_system_below_a_pool_is_named() {
    Sim::new(12, SimConfig::default()).block_on(async {
        let file = DiskConfig {
            kind: io::disk::DiskKind::File,
            ..disk()
        };
        let (node, disks) = machine(["/a", "/b"], &file);
        let server = serve_new(&node, make).await;
        let (_client, namespace) = connect(&node).await;
        disks.iter().for_each(|d| d.set_space(Some(d.used())));
        let (written, error) = write_until_full(&namespace, 0).await;
        let status = match error {
            InitiatorError::Refused(status) => status,
            other => panic!("{other}"),
        };
        assert_eq!(status, Status::CAPACITY_EXCEEDED.dnr());
        sleep(Duration::from_secs(60)).await;
        let look = || {
            let pool = server.pools().remove(0);
            let events = server.events(&ListEvents::default());
            let classes: Vec<String> = events.into_iter().map(|e| e.class).collect();
            (pool, classes)
        };
        let (pool, classes) = look();
        let reason = pool.reason.expect("it takes no writes");
        assert!(
            reason.contains("the file system below /a is full"),
            "{reason}"
        );
        assert_eq!(pool.health, Some(Health::Suspended));
        let member = &pool.vdevs[0].members[0];
        assert_eq!(
            member.fault.as_deref(),
            Some("the file system below is full")
        );
        assert!(
            member.no_space > 0 && member.write_errors == 0,
            "{member:?}"
        );
        assert!(classes.contains(&"member.no_space".into()), "{classes:?}");
        assert!(!classes.contains(&"member.space".into()), "{classes:?}");
        disks.iter().for_each(|d| d.set_space(None));
        sleep(Duration::from_secs(10)).await;
        write(&namespace, written, 1, 0x5a).await;
        namespace.flush().await.expect("flushed");
        let (pool, classes) = look();
        assert_eq!((pool.reason, pool.health), (None, Some(Health::Online)));
        assert!(classes.contains(&"member.space".into()), "{classes:?}");
    });
}

/// Regression: the pool was shown as ONLINE, because no member was faulted, although it took no writes.
#[test]
fn a_pool_whose_members_failed_a_flush_is_suspended() {
    Sim::new(13, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let (_client, namespace) = connect(&node).await;
        disks.iter().for_each(|d| d.error_rates(0.0, 0.0, 1.0));
        write(&namespace, 0, 1, 0x5a).await;
        namespace.flush().await.expect_err("no member flushed");
        let pool = server.pools().remove(0);
        assert_eq!(pool.health, Some(Health::Suspended), "{pool:?}");
        assert!(pool.reason.is_some(), "{pool:?}");
    });
}

#[test]
fn what_was_flushed_to_a_volume_survives_a_power_cut() {
    Sim::new(11, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        drop(serve_new(&node, make).await);
        let (client, namespace) = connect(&node).await;
        for (lba, byte) in [(0, 0x5a), (7777, 0xa5)] {
            write(&namespace, lba, 1, byte).await;
        }
        namespace.flush().await.expect("flushed");
        node.power_cut();
        node.power_on();
        drop((namespace, client));

        let serving = node.spawn(async {
            let server = start(SAVED).await;
            assert_eq!(server.pools()[0].state, DiskState::Online);
            assert_eq!(server.volumes()[0].name, "tank/vm1");
        });
        serving.await.expect("it serves again");
        let (_client, namespace) = connect(&node).await;
        for (lba, byte) in [(0, 0x5a), (7777, 0xa5), (1, 0)] {
            let (result, data) = namespace.read(lba, io::pool().alloc(4096).await).await;
            result.expect("read");
            assert!(data.iter().all(|b| *b == byte), "block {lba}");
        }
    });
}

#[test]
fn a_pool_whose_disks_are_missing_is_held_back_and_tried_again() {
    Sim::new(12, SimConfig::default()).block_on(async {
        let server = start(SAVED).await;
        let held = &server.pools()[0];
        assert_eq!(held.state, DiskState::Held);
        let reason = held.reason.as_deref().expect("a reason");
        assert!(reason.contains("/a does not exist"), "{reason}");
        let namespace = &server.exports().nvmf.exports[0].namespaces[0];
        assert_eq!(namespace.state, NamespaceState::Held);
        let refused = server.create_volume(volume("tank/vm1", 1 << 20)).await;
        assert!(matches!(refused, Err(Error::Pool { .. })), "{refused:?}");
        Node::current().create_disk("/a", disk());
        sleep(2 * DISK_RETRY).await;
        let reason = server.pools()[0].reason.clone().expect("a reason");
        assert!(reason.contains("no pool label on"), "{reason}");
        assert!(server.drain().await.is_empty());
    });
}

/// Rot on one member is mended by a scrub; on both members it is named.
#[test]
fn a_scrub_mends_what_it_can_and_names_what_is_lost() {
    Sim::new(14, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let (_client, namespace) = connect(&node).await;
        for lba in 0..256 {
            let mut data = io::pool().alloc(4096).await;
            data.fill(lba as u8);
            data[..8].copy_from_slice(&(lba | 1u64 << 63).to_le_bytes());
            let write = namespace.write(lba, Arc::new(data), WriteOptions::default());
            write.await.expect("written");
        }
        namespace.flush().await.expect("flushed");
        // Where the record of block 77 lies on both members: the only place with its first bytes.
        let wanted = (77u64 | 1 << 63).to_le_bytes();
        let image = disks[0].durable();
        let found = image.bytes().chunks(4096).position(|c| c[..8] == wanted);
        let at = found.expect("it is durable") as u64 * 4096;
        disks[0].rot(at..at + 4096);
        let scrub = |server: Rc<Server>| async move {
            let request = ScrubPool {
                name: "tank".into(),
                action: ScrubAction::Start,
                rate: None,
            };
            server.scrub_pool(request).await.expect("begun");
            loop {
                let pool = server.pools_now().await.remove(0);
                let scrub = pool.scrub.clone().expect("a scrub");
                if scrub.state == ScanState::Finished {
                    return (scrub, pool.damage);
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let mending = node.spawn(scrub(server.clone()));
        let (mended, damage) = mending.await.expect("it has power");
        assert_eq!((mended.repaired, mended.lost), (1, 0), "{mended:?} {at}");
        assert_eq!(damage, []);
        assert_eq!(disks[0].durable().bytes().len(), image.bytes().len());
        for disk in disks {
            disk.rot(at..at + 4096);
        }
        let losing = node.spawn(scrub(server));
        let (lost, damage) = losing.await.expect("it has power");
        assert_eq!((lost.repaired, lost.lost), (0, 1));
        let [damage] = &damage[..] else {
            panic!("one range: {damage:?}");
        };
        assert_eq!(
            (damage.dataset.as_str(), damage.offset, damage.len),
            ("tank/vm1", Some(77 * 4096), Some(4096))
        );
    });
}

/// The list and the property had only exports over NVMe.
#[test]
fn an_export_over_iscsi_is_shown_with_its_volume() {
    const IQN: &str = "iqn.2026-01.org.example:vm1";
    Sim::new(19, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, async |server| {
            server.create_pool(pool(&["/a", "/b"])).await.expect("pool");
            let request = volume("tank/vm1", 1 << 20);
            server.create_volume(request).await.expect("volume");
            let export = ExportIscsi {
                disk: "tank/vm1".into(),
                iqn: Some(IQN.into()),
                lun: None,
                uuid: None,
                read_only: false,
                threshold: None,
                initiators: Vec::new(),
                chap: None,
            };
            server.export_iscsi(export).await.expect("export");
        })
        .await;
        let shown = server.volumes()[0].exported_as.words();
        assert_eq!(shown, Some(format!("{IQN} 0")));
        let request = GetProperties {
            names: vec!["tank/vm1".into()],
            properties: vec!["exported".into()],
        };
        let properties = server.properties(&request).await.expect("it exists");
        assert_eq!(properties[0].value, IQN);
    });
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    Sim::new(13, SimConfig::default()).block_on(async {
        let node = Node::current();
        let small = DiskConfig {
            size: 1 << 20,
            ..disk()
        };
        node.create_disk("/a", disk());
        node.create_disk("/b", disk());
        node.create_disk("/small", small);
        let server = start(EMPTY).await;
        for name in ["", "a/b", "a b", &"x".repeat(300)] {
            let mut request = pool(&["/a", "/b"]);
            request.name = name.into();
            let refused = server.create_pool(request).await;
            assert!(
                matches!(refused, Err(Error::Invalid(_))),
                "{name:?}: {refused:?}"
            );
        }
        let refused = server.create_pool(pool(&["/a", "/small"])).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        assert!(server.pools().is_empty());
        make(&server).await;
        assert!(matches!(
            server.create_pool(pool(&["/a"])).await,
            Err(Error::Conflict(_))
        ));
        for size in [0, 1, 4097, 1 << 63] {
            let mut request = volume("tank/vm1", size);
            request.name = "tank/other".into();
            let refused = server.create_volume(request).await;
            assert!(
                matches!(refused, Err(Error::Invalid(_))),
                "{size}: {refused:?}"
            );
        }
        for name in ["tank", "tank/", "tank/a/b", "tank/a b", "/x"] {
            let mut request = volume("tank/vm1", 1 << 20);
            request.name = name.into();
            let refused = server.create_volume(request).await;
            assert!(
                matches!(refused, Err(Error::Invalid(_))),
                "{name:?}: {refused:?}"
            );
        }
        let twice = server.create_volume(volume("tank/vm1", 1 << 20)).await;
        assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");
        let destroy = DestroyVolume {
            name: "tank/vm1".into(),
            force: true,
            recursive: false,
        };
        let exported = server.destroy_volume(destroy).await;
        assert!(matches!(exported, Err(Error::Conflict(_))), "{exported:?}");
        let destroy = DestroyPool {
            name: "tank".into(),
            force: true,
        };
        let exported = server.destroy_pool(destroy).await;
        assert!(matches!(exported, Err(Error::Conflict(_))), "{exported:?}");
        assert_eq!((server.pools().len(), server.volumes().len()), (1, 1));
        assert_eq!(server.volumes()[0].size, 1 << 30);
    });
}
