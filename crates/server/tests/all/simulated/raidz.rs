//! A server's pool of a raidz.

use crate::simulated::fixture::{connect, machine, make_on, pool, serve_new, wait_until, write};
use io::sim::{DiskConfig, Sim, SimConfig};
use server::Server;
use server::api::{AttachMember, Health, ListEvents, ReplaceMember, VdevLayout};
use std::rc::Rc;

const SIZE: u64 = 96 << 20;
const BLOCKS: u64 = 64;

async fn make_raidz(server: &Rc<Server>) {
    let mut request = pool(&["/a", "/b", "/c"]);
    request.vdevs[0].layout = VdevLayout::Raidz1;
    make_on(server, request).await;
}

/// The disk of a raidz leaves at once, and the configuration forgets it; its data are on the new one after the resilver, so that another
/// disk may fail.
#[test]
fn a_disk_of_a_raidz_is_replaced() {
    Sim::new(31, SimConfig::default()).block_on(async {
        let config = DiskConfig {
            size: SIZE,
            ..DiskConfig::default()
        };
        let (node, disks) = machine(["/a", "/b", "/c", "/d"], &config);
        let server = serve_new(&node, make_raidz).await;
        assert_eq!(server.pools()[0].vdevs[0].name, "raidz1-0");
        let (_client, namespace) = connect(&node).await;
        for lba in 0..BLOCKS {
            write(&namespace, lba, 1, lba as u8 + 1).await;
        }
        namespace.flush().await.expect("durable");
        let replace = ReplaceMember {
            pool: "tank".into(),
            disk: "/b".into(),
            new: Some("/d".into()),
            size: None,
            force: false,
        };
        let there = server.clone();
        let replaced = node.spawn(async move { there.replace_member(replace).await });
        let replaced = replaced.await.expect("it has power").expect("replaced");
        let paths: Vec<_> = replaced
            .disks
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        assert_eq!(paths, ["/a", "/c", "/d"], "the configuration's disks");
        wait_until(|| server.pools()[0].health == Some(Health::Online)).await;
        disks[1].kill();
        disks[0].kill();
        for lba in 0..BLOCKS {
            let (result, data) = namespace.read(lba, io::pool().alloc(4096).await).await;
            result.expect("read from the disks that are left");
            assert!(data.iter().all(|b| *b == lba as u8 + 1), "block {lba}");
        }
        wait_until(|| server.pools()[0].health == Some(Health::Degraded)).await;
    });
}

/// A raidz is expanded by the name of the vdev, not by that of a disk; the pool is larger when all data is moved, and any disk may fail
/// then.
#[test]
fn a_raidz_is_expanded_by_a_disk() {
    Sim::new(32, SimConfig::default()).block_on(async {
        let config = DiskConfig {
            size: SIZE,
            ..DiskConfig::default()
        };
        let (node, disks) = machine(["/a", "/b", "/c", "/d"], &config);
        let server = serve_new(&node, make_raidz).await;
        let before = server.pools()[0].size;
        let (_client, namespace) = connect(&node).await;
        for lba in 0..BLOCKS {
            write(&namespace, lba, 1, lba as u8 + 1).await;
        }
        namespace.flush().await.expect("durable");
        let attach = |disk: &str| AttachMember {
            pool: "tank".into(),
            disk: disk.into(),
            new: "/d".into(),
            size: None,
            force: false,
        };
        let (there, beside) = (server.clone(), attach("/a"));
        let refused = node.spawn(async move { there.attach_member(beside).await });
        let refused = refused.await.expect("it has power");
        let text = refused.expect_err("a disk of a raidz").to_string();
        assert!(text.contains("pool attach tank raidz1-0 /d"), "{text}");
        let (there, wider) = (server.clone(), attach("raidz1-0"));
        let joined = node.spawn(async move { there.attach_member(wider).await });
        let joined = joined.await.expect("it has power").expect("it joins");
        assert_eq!(joined.vdevs[0].members.len(), 4);
        assert!(joined.vdevs[0].expansion.is_some());
        assert_eq!(joined.size, before, "not before the end");
        wait_until(|| server.pools()[0].vdevs[0].expansion.is_none()).await;
        assert!(server.pools()[0].size > before + before / 3);
        let has_event = |class: &str| {
            let all = server.events(&ListEvents::default());
            all.iter().any(|event| event.class == class)
        };
        assert!(has_event("expansion.start"));
        wait_until(|| has_event("expansion.finish")).await;
        disks[1].kill();
        for lba in 0..BLOCKS {
            let (result, data) = namespace.read(lba, io::pool().alloc(4096).await).await;
            result.expect("read from the disks that are left");
            assert!(data.iter().all(|b| *b == lba as u8 + 1), "block {lba}");
        }
    });
}
