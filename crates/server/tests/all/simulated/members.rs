//! Absent and returning members of a server's pool.

use crate::simulated::fixture::{
    EMPTY, connect, disk, machine, make, pool, serve_new, start, wait_until, write,
};
use io::sim::{DiskConfig, Sim, SimConfig};
use io::time::sleep;
use nvmf_initiator::WriteOptions;
use pool::vdev::limits::HANG_MAX;
use server::Server;
use server::api::{
    DiskState, Health, Member, OfflineMember, OnlineMember, ReplaceMember, ScanPools,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// With every disk that the pool ever had.
const SAVED: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[[pool]]
name = "tank"
disks = ["/a", "/b", "/c"]
"#;
const SIZE: u64 = 96 << 20;

fn small() -> DiskConfig {
    DiskConfig {
        size: SIZE,
        ..DiskConfig::default()
    }
}

fn member(server: &Server, path: &str) -> Option<Member> {
    let vdevs = server.pools().remove(0).vdevs;
    let mut members = vdevs.into_iter().flat_map(|v| v.members);
    members.find(|s| s.path.as_deref().is_some_and(|p| p == Path::new(path)))
}

/// The label of the disk that was away names members that are gone.
#[test]
fn a_disk_that_was_offline_through_a_replacement_does_not_stop_the_pool() {
    Sim::new(21, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b", "/c"], &small());
        let first = node.spawn(async {
            let server = start(EMPTY).await;
            server.create_pool(pool(&["/a", "/b"])).await.expect("pool");
            let offline = OfflineMember {
                pool: "tank".into(),
                disk: "/a".into(),
            };
            server.offline_member(offline).await.expect("offline");
            let replace = ReplaceMember {
                pool: "tank".into(),
                disk: "/b".into(),
                new: Some("/c".into()),
                size: None,
                force: false,
            };
            server.replace_member(replace).await.expect("replaced");
            wait_until(|| member(&server, "/b").is_none()).await;
            assert_eq!(member(&server, "/c").expect("a member").state, "online");
        });
        first.await.expect("it has power");
        node.kill();
        let second = node.spawn(async {
            let server = start(SAVED).await;
            let pool = server.pools().remove(0);
            assert_eq!(pool.state, DiskState::Online, "{:?}", pool.reason);
            assert_eq!(member(&server, "/a").expect("a member").state, "offline");
        });
        second.await.expect("it has power");
    });
}

/// One short disk kept a healthy mirror from opening.
#[test]
fn a_disk_that_is_too_short_does_not_stop_the_pool_and_is_named() {
    Sim::new(22, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/c"], &small());
        let short = |s: &Member| {
            let why = s.fault.as_deref().unwrap_or_default();
            s.state == "faulted" && why.starts_with(&format!("device is {} bytes", SIZE / 2))
        };
        let first = node.spawn(async move {
            let server = start(EMPTY).await;
            server.create_pool(pool(&["/a", "/b"])).await.expect("pool");
            disks[1].set_size(SIZE / 2);
            wait_until(|| member(&server, "/b").is_some_and(|s| short(&s))).await;
            disks[1].set_size(SIZE);
            let whole = || server.pools()[0].health == Some(Health::Online);
            wait_until(whole).await;
        });
        first.await.expect("it has power");
        node.kill();
        disks[1].set_size(SIZE / 2);
        let second = node.spawn(async move {
            let server = start(EMPTY).await;
            let scan = ScanPools {
                disks: vec!["/a".into(), "/b".into()],
            };
            let found = server.scan_pools(scan).await.expect("scanned").remove(0);
            assert_eq!((found.missing, found.short.len()), (1, 1), "{found:?}");
            assert!(found.short[0].starts_with("/b: device is"), "{found:?}");
        });
        second.await.expect("it has power");
        node.kill();
        let third = node.spawn(async move {
            let server = start(SAVED).await;
            let pool = server.pools().remove(0);
            assert_eq!(pool.state, DiskState::Online, "{:?}", pool.reason);
            assert_eq!(pool.health, Some(Health::Degraded));
            assert!(short(&member(&server, "/b").expect("a member")));
        });
        third.await.expect("it has power");
    });
}

/// A disk is gone under the pool, or hangs, while a client writes; it is back, and then the other one fails.
#[test]
fn a_disk_that_was_taken_out_is_used_again_by_itself() {
    for (seed, hangs) in [(15, false), (16, true)] {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let (node, disks) = machine(["/a", "/b"], &disk());
            let server = serve_new(&node, make).await;
            let (_client, namespace) = connect(&node).await;
            match hangs {
                true => disks[1].stall_next(HANG_MAX * 3),
                false => disks[1].kill(),
            }
            for lba in 0..64 {
                let mut data = io::pool().alloc(4096).await;
                data.fill(lba as u8 + 1);
                let write = namespace.write(lba, Arc::new(data), WriteOptions::default());
                write.await.expect("written");
            }
            namespace.flush().await.expect("the other disk has it");
            let wait_for = async |state: &str| {
                for _ in 0..600 {
                    let member = server.pools()[0].vdevs[0].members[1].clone();
                    if member.state == state {
                        return member;
                    }
                    sleep(Duration::from_millis(100)).await;
                }
                panic!("not {state}: {:?}", server.pools());
            };
            let faulted = wait_for("faulted").await;
            let why = if hangs { "hung" } else { "gone" };
            assert_eq!(faulted.fault.as_deref(), Some(why));
            if !hangs {
                disks[1].revive();
            }
            wait_for("online").await;
            assert_eq!(server.pools()[0].health, Some(Health::Online));
            disks[0].fail_reads(0..96 << 20);
            for lba in 0..64 {
                let (result, data) = namespace.read(lba, io::pool().alloc(4096).await).await;
                result.expect("read");
                assert!(data.iter().all(|b| *b == lba as u8 + 1), "block {lba}");
            }
        });
    }
}

/// Regression: a member that failed too often and whose device came back at its path could not be brought online, because the
/// descriptor of the device that was gone was used again.
#[test]
fn a_disk_that_failed_and_came_back_at_its_path_is_opened_again() {
    Sim::new(24, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b"], &disk());
        let server = serve_new(&node, make).await;
        let (_client, namespace) = connect(&node).await;
        disks[0].error_rates(1.0, 1.0, 1.0);
        let is_faulted = || member(&server, "/a").is_some_and(|s| s.state == "faulted");
        for lba in 0..1000 {
            if is_faulted() {
                break;
            }
            write(&namespace, lba, 1, 0x11).await;
            namespace.flush().await.expect("the other member flushed");
        }
        assert!(is_faulted(), "{:?}", member(&server, "/a"));
        disks[0].kill();
        disks[0].revive();
        disks[0].heal();
        let online = OnlineMember {
            pool: "tank".into(),
            disk: "/a".into(),
            path: None,
            expand: false,
        };
        let there = server.clone();
        let opened = node.spawn(async move { there.online_member(online).await });
        opened.await.expect("it has power").expect("it is back");
        let is_whole = || server.pools()[0].health == Some(Health::Online);
        wait_until(is_whole).await;
        assert_eq!(member(&server, "/a").expect("a member").state, "online");
    });
}
