//! Absent and returning members of a server's pool, in the simulated world.

use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use io::time::sleep;
use server::api::{CreatePool, DiskState, Health, OfflineSide, ReplaceSide, ScanPools, Side};
use server::config::ConfigFile;
use server::{Server, Shards};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const EMPTY: &str = "[nvmf]\nlisten = [\"0.0.0.0:4420\"]\n";
/// With every disk that the pool ever had.
const SAVED: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[[pool]]
name = "tank"
disks = ["/a", "/b", "/c"]
"#;
const SIZE: u64 = 96 << 20;

fn machine() -> (Node, [SimDisk; 3]) {
    let node = Node::new();
    let config = DiskConfig {
        size: SIZE,
        ..DiskConfig::default()
    };
    let disks = ["/a", "/b", "/c"].map(|path| node.create_disk(path, config.clone()));
    (node, disks)
}

async fn start(text: &'static str) -> Rc<Server> {
    let file = ConfigFile::unsaved(text).expect("right");
    let shards = Shards::of(vec![io::runtime::Shard::here()]);
    Server::start(file, shards, 100).await.expect("start")
}

async fn make(server: &Rc<Server>) {
    let request = CreatePool {
        name: "tank".into(),
        vdevs: vec![vec!["/a".into(), "/b".into()]],
        size: None,
        force: false,
    };
    server.create_pool(request).await.expect("pool");
}

fn side(server: &Server, path: &str) -> Option<Side> {
    let vdevs = server.pools().remove(0).vdevs;
    let mut sides = vdevs.into_iter().flat_map(|v| v.sides);
    sides.find(|s| s.path.as_deref().is_some_and(|p| p == Path::new(path)))
}

async fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not happen");
}

/// The label of the disk that was away names members that are gone.
#[test]
fn a_disk_that_was_offline_through_a_replacement_does_not_stop_the_pool() {
    Sim::new(21, SimConfig::default()).block_on(async {
        let (node, _) = machine();
        let first = node.spawn(async {
            let server = start(EMPTY).await;
            make(&server).await;
            let offline = OfflineSide {
                pool: "tank".into(),
                disk: "/a".into(),
            };
            server.offline_side(offline).await.expect("offline");
            let replace = ReplaceSide {
                pool: "tank".into(),
                disk: "/b".into(),
                new: Some("/c".into()),
                size: None,
                force: false,
            };
            server.replace_side(replace).await.expect("replaced");
            wait_until(|| side(&server, "/b").is_none()).await;
            assert_eq!(side(&server, "/c").expect("a member").state, "online");
        });
        first.await.expect("it has power");
        node.kill();
        let second = node.spawn(async {
            let server = start(SAVED).await;
            let pool = server.pools().remove(0);
            assert_eq!(pool.state, DiskState::Online, "{:?}", pool.reason);
            assert_eq!(side(&server, "/a").expect("a member").state, "offline");
        });
        second.await.expect("it has power");
    });
}

/// One short disk kept a healthy mirror from opening.
#[test]
fn a_disk_that_is_too_short_does_not_stop_the_pool_and_is_named() {
    Sim::new(22, SimConfig::default()).block_on(async {
        let (node, disks) = machine();
        let short = |s: &Side| {
            let why = s.fault.as_deref().unwrap_or_default();
            s.state == "faulted" && why.starts_with(&format!("device is {} bytes", SIZE / 2))
        };
        let first = node.spawn(async move {
            let server = start(EMPTY).await;
            make(&server).await;
            disks[1].set_size(SIZE / 2);
            wait_until(|| side(&server, "/b").is_some_and(|s| short(&s))).await;
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
            assert!(short(&side(&server, "/b").expect("a member")));
        });
        third.await.expect("it has power");
    });
}
