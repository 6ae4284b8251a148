//! Hot spares of a server's pools: when they are taken, and when they wait again.

use crate::simulated::fixture::{
    EMPTY, connect, disk, machine, make_on, pool, start, wait_until, write,
};
use io::sim::{Node, Sim, SimConfig, SimDisk};
use io::time::sleep;
use server::Server;
use server::api::{
    AddVdevs, CreatePool, DetachMember, DiskState, Health, ListEvents, OfflineMember, OnlineMember,
    RemoveDevice, ReplaceMember, Spare, SpareState, VdevClass, VdevLayout, VdevSpec,
};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The configuration of a server that is started again, with every disk that the pool ever had.
const SAVED: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
[[pool]]
name = "tank"
disks = ["/a", "/b", "/c"]
spares = ["/s", "/t"]
"#;
/// Longer than the time after which a spare is taken.
const DELAY: Duration = Duration::from_secs(320);

fn raidz(members: &[&str]) -> CreatePool {
    CreatePool {
        vdevs: vec![VdevSpec {
            layout: VdevLayout::Raidz1,
            class: VdevClass::Normal,
            members: members.iter().map(Into::into).collect(),
        }],
        ..pool(&[])
    }
}

fn with_spares(pool: CreatePool, spares: &[&str]) -> CreatePool {
    CreatePool {
        spares: spares.iter().map(Into::into).collect(),
        ..pool
    }
}

fn spare(server: &Server, pool: &str, path: &str) -> Option<Spare> {
    let pools = server.pools();
    let pool = pools.iter().find(|p| p.name == pool)?;
    let is_it = |s: &&Spare| s.path.as_deref() == Some(Path::new(path));
    pool.spares.iter().find(is_it).cloned()
}

fn is(server: &Server, path: &str, state: SpareState) -> bool {
    spare(server, "tank", path).is_some_and(|s| s.state == state)
}

fn states(server: &Server) -> Vec<(String, String)> {
    let vdevs = server.pools().remove(0).vdevs;
    let members = vdevs.into_iter().flat_map(|v| v.members);
    let name = |path: Option<std::path::PathBuf>| path.unwrap_or_default().display().to_string();
    members.map(|s| (name(s.path), s.state)).collect()
}

fn is_online(server: &Server, path: &str) -> bool {
    let expected = (path.to_owned(), "online".to_owned());
    states(server).contains(&expected)
}

fn events(server: &Server, class: &str) -> usize {
    let all = server.events(&ListEvents {
        pool: None,
        after: 0,
    });
    all.iter().filter(|e| e.class == class).count()
}

/// Waits ten minutes at most.
async fn wait_long(what: &str, server: &Server, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    panic!("{what} does not happen: {:#?}", server.pools());
}

/// A server with this pool, an exported volume, and some blocks in it.
async fn serve(node: Node, pool: CreatePool) -> Rc<Server> {
    let serving = node.spawn(async move {
        let server = start(EMPTY).await;
        make_on(&server, pool).await;
        server
    });
    let server = serving.await.expect("it has power");
    let (_client, namespace) = connect(&node).await;
    write(&namespace, 0, 64, 7).await;
    namespace.flush().await.expect("flushed");
    server
}

fn layouts() -> [(CreatePool, bool); 2] {
    [
        (pool(&["/a", "/b"]), true),
        (raidz(&["/a", "/b", "/c"]), false),
    ]
}

/// Kills a disk under a pool that is written.
async fn fail(node: Node, disk: &SimDisk) {
    disk.kill();
    let (_client, namespace) = connect(&node).await;
    write(&namespace, 0, 8, 9).await;
    namespace.flush().await.expect("the other disks have it");
}

/// A disk that is away for a moment gets no spare, one that stays away does.
#[test]
fn a_spare_is_taken_for_a_disk_that_stays_away() {
    for (seed, (pool, _)) in (1..).zip(layouts()) {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let (node, disks) = machine(["/a", "/b", "/c", "/s"], &disk());
            let server = serve(node, with_spares(pool, &["/s"])).await;
            assert!(is(&server, "/s", SpareState::Avail), "{:?}", server.pools());
            fail(node, &disks[1]).await;
            sleep(DELAY / 2).await;
            disks[1].revive();
            wait_long("the return", &server, || is_online(&server, "/b")).await;
            sleep(DELAY * 2).await;
            assert_eq!(events(&server, "spare.taken"), 0);
            fail(node, &disks[1]).await;
            let taken = || is(&server, "/s", SpareState::Inuse) && is_online(&server, "/s");
            wait_long("the take-over", &server, taken).await;
            let spare = spare(&server, "tank", "/s").expect("a spare");
            assert_eq!(spare.instead_of.as_deref(), Some("/b"));
            assert_eq!(events(&server, "spare.taken"), 1);
            assert_eq!(server.pools()[0].spares_taken, 1);
        });
    }
}

/// No spare takes the place of a disk that the operator took offline.
#[test]
fn a_disk_that_is_offline_gets_no_spare() {
    Sim::new(3, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b", "/s"], &disk());
        let server = serve(node, with_spares(pool(&["/a", "/b"]), &["/s"])).await;
        let (pool, disk) = ("tank".into(), "/b".into());
        let offline = OfflineMember { pool, disk };
        server.offline_member(offline).await.expect("offline");
        sleep(DELAY * 2).await;
        assert!(is(&server, "/s", SpareState::Avail));
    });
}

/// A disk with too many errors gets a spare at once, the smallest that is large enough.
#[test]
fn a_disk_with_too_many_errors_gets_the_smallest_spare_that_fits() {
    Sim::new(4, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/s"], &disk());
        let sized = |path: &str, mib: u64| {
            let mut config = disk();
            config.size = mib << 20;
            node.create_disk(path, config)
        };
        for (path, mib) in [("/large", 200), ("/t", 97), ("/small", 64)] {
            sized(path, mib);
        }
        let serving = with_spares(pool(&["/a", "/b"]), &["/large", "/t"]);
        let server = serve(node, serving).await;
        let asked = server.clone();
        let small = node.spawn(async move { asked.add_vdevs(add(&["/small"])).await });
        let refused = small.await.expect("it has power").expect_err("too small");
        assert!(refused.to_string().contains("/small"), "{refused}");
        assert!(spare(&server, "tank", "/small").is_none());
        disks[1].error_rates(1.0, 1.0, 1.0);
        let (_client, namespace) = connect(&node).await;
        for lba in 0..2000 {
            if states(&server)[1].1 == "faulted" {
                break;
            }
            write(&namespace, lba % 64, 1, 3).await;
            namespace.flush().await.expect("the other member flushed");
        }
        wait_until(|| is(&server, "/t", SpareState::Inuse)).await;
        assert!(is(&server, "/large", SpareState::Avail));
    });
}

fn add(spares: &[&str]) -> AddVdevs {
    AddVdevs {
        pool: "tank".into(),
        vdevs: Vec::new(),
        spares: spares.iter().map(Into::into).collect(),
        caches: Vec::new(),
        size: None,
        force: false,
    }
}

fn replace(disk: &str, new: &str) -> ReplaceMember {
    ReplaceMember {
        pool: "tank".into(),
        disk: disk.into(),
        new: Some(new.into()),
        size: None,
        force: false,
    }
}

/// Asks the server on its own machine.
async fn on<T: 'static>(node: Node, asks: impl Future<Output = server::Result<T>> + 'static) -> T {
    let asked = node.spawn(asks).await.expect("it has power");
    asked.unwrap_or_else(|e| panic!("{e}"))
}

/// A spare waits again when the disk that it stands in for was replaced, and serves the next one that fails.
#[test]
fn a_spare_waits_again_when_a_new_disk_has_the_blocks() {
    for (seed, (pool, is_mirror)) in (5..).zip(layouts()) {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let (node, disks) = machine(["/a", "/b", "/c", "/s", "/new"], &disk());
            let server = serve(node, with_spares(pool, &["/s"])).await;
            fail(node, &disks[1]).await;
            wait_long("the take-over", &server, || is_online(&server, "/s")).await;
            let asked = server.clone();
            on(node, async move {
                asked.replace_member(replace("/b", "/new")).await
            })
            .await;
            let ended = || is(&server, "/s", SpareState::Avail) && is_online(&server, "/new");
            wait_long("the return of the spare", &server, ended).await;
            let count = if is_mirror { 2 } else { 3 };
            let whole = || server.pools()[0].health == Some(Health::Online);
            wait_long("the end of the resilver", &server, whole).await;
            assert_eq!(states(&server).len(), count, "{:?}", states(&server));
            fail(node, &disks[4]).await;
            wait_long("the next one", &server, || is_online(&server, "/s")).await;
        });
    }
}

/// In a mirror, a disk that comes back after all has its place again, and the spare waits.
#[test]
fn a_spare_of_a_mirror_waits_again_when_the_disk_comes_back() {
    Sim::new(7, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/s"], &disk());
        let server = serve(node, with_spares(pool(&["/a", "/b"]), &["/s"])).await;
        fail(node, &disks[1]).await;
        wait_long("the take-over", &server, || is_online(&server, "/s")).await;
        disks[1].revive();
        let ended = || is(&server, "/s", SpareState::Avail) && is_online(&server, "/b");
        wait_long("the return", &server, ended).await;
        assert_eq!(states(&server).len(), 2);
        assert_eq!(events(&server, "spare.returned"), 1);
    });
}

/// `detach` of the disk that failed keeps the spare; `detach` of the spare sends it back, and it is not taken again at once.
#[test]
fn a_detached_disk_leaves_the_spare_and_a_detached_spare_waits() {
    let detach = |disk: &str| DetachMember {
        pool: "tank".into(),
        disk: disk.into(),
    };
    for (seed, (pool, is_mirror)) in (8..).zip(layouts()) {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let (node, disks) = machine(["/a", "/b", "/c", "/s"], &disk());
            let server = serve(node, with_spares(pool, &["/s"])).await;
            fail(node, &disks[1]).await;
            wait_long("the take-over", &server, || is_online(&server, "/s")).await;
            let asked = server.clone();
            let back = node.spawn(async move { asked.detach_member(detach("/s")).await });
            let back = back.await.expect("it has power");
            assert_eq!(back.is_ok(), is_mirror, "{back:?}");
            if is_mirror {
                sleep(DELAY * 2).await;
                assert!(is(&server, "/s", SpareState::Avail));
                // the operator wants it after all
                let asked = server.clone();
                on(node, async move {
                    asked.replace_member(replace("/b", "/s")).await
                })
                .await;
                wait_long("the take-over", &server, || is_online(&server, "/s")).await;
            }
            let asked = server.clone();
            on(node, async move { asked.detach_member(detach("/b")).await }).await;
            assert!(server.pools()[0].spares.is_empty());
            assert_eq!(server.pools()[0].health, Some(Health::Online));
            assert!(is_online(&server, "/s"));
        });
    }
}

/// The next spare takes over from one that fails while it is resilvered.
#[test]
fn the_next_spare_takes_over_from_one_that_fails() {
    for (seed, (pool, _)) in (10..).zip(layouts()) {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let (node, disks) = machine(["/a", "/b", "/c", "/s", "/t"], &disk());
            let server = serve(node, with_spares(pool, &["/s", "/t"])).await;
            fail(node, &disks[1]).await;
            let one =
                || is(&server, "/s", SpareState::Inuse) || is(&server, "/t", SpareState::Inuse);
            wait_long("the take-over", &server, one).await;
            let first = match is(&server, "/s", SpareState::Inuse) {
                true => ("/s", &disks[3], "/t"),
                false => ("/t", &disks[4], "/s"),
            };
            fail(node, first.1).await;
            let other = || is_online(&server, first.2);
            wait_long("the second take-over", &server, other).await;
            assert!(spare(&server, "tank", first.0).is_none(), "it failed");
            let second = spare(&server, "tank", first.2).expect("a spare");
            assert_eq!(second.instead_of.as_deref(), Some("/b"));
            assert_eq!(events(&server, "spare.failed"), 1);
        });
    }
}

/// Spares survive a restart, and the loss of the notes and of the configuration's list of them.
#[test]
fn spares_are_found_again_after_a_restart() {
    Sim::new(12, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/c", "/s", "/t"], &disk());
        let made = with_spares(raidz(&["/a", "/b", "/c"]), &["/s"]);
        let server = serve(node, made).await;
        let asked = server.clone();
        on(node, async move { asked.add_vdevs(add(&["/t"])).await }).await;
        drop(server);
        node.kill();
        let second = node.spawn(async { start(SAVED).await });
        let server = second.await.expect("it has power");
        wait_until(|| is(&server, "/s", SpareState::Avail)).await;
        wait_until(|| is(&server, "/t", SpareState::Avail)).await;
        drop(server);
        node.kill();
        disks[1].kill();
        let third = node.spawn(async { start(SAVED).await });
        let server = third.await.expect("it has power");
        assert_eq!(server.pools()[0].state, DiskState::Online);
        wait_long("the take-over", &server, || {
            is_online(&server, "/s") || is_online(&server, "/t")
        })
        .await;
    });
}

/// What is refused changes nothing.
#[test]
fn bad_spares_are_refused() {
    Sim::new(13, SimConfig::default()).block_on(async {
        let (node, _) = machine(["/a", "/b", "/c", "/s"], &disk());
        let first = node.spawn(async move {
            let server = start(EMPTY).await;
            for (made, said) in [
                (with_spares(pool(&["/a", "/b"]), &["/b"]), "named twice"),
                (
                    with_spares(pool(&["/a", "/b"]), &["/s", "/s"]),
                    "named twice",
                ),
                (
                    CreatePool {
                        vdevs: Vec::new(),
                        ..with_spares(pool(&[]), &["/s"])
                    },
                    "beside its spares",
                ),
                (with_spares(pool(&["/a", "/b"]), &["s"]), "not absolute"),
            ] {
                let refused = server.create_pool(made).await.expect_err(said).to_string();
                assert!(refused.contains(said), "{refused}");
                assert!(server.pools().is_empty());
            }
            let made = with_spares(pool(&["/a", "/b"]), &["/s"]);
            server.create_pool(made).await.expect("made");
            for (spares, said) in [
                (vec!["/a"], "belongs to the pool"),
                (vec!["/s"], "is a spare of this pool already"),
                (vec!["/c", "/c"], "named twice"),
                (vec![], "name the disks"),
            ] {
                let refused = server.add_vdevs(add(&spares)).await;
                let refused = refused.expect_err(said).to_string();
                assert!(refused.contains(said), "{refused}");
                assert_eq!(server.pools()[0].spares.len(), 1);
            }
            let other = CreatePool {
                name: "other".into(),
                ..pool(&["/s"])
            };
            let refused = server.create_pool(other).await.expect_err("a spare");
            assert!(refused.to_string().contains("is a spare of"), "{refused}");
            let remove = |disk: &str| RemoveDevice {
                pool: "tank".into(),
                disk: disk.into(),
            };
            let refused = server
                .remove_device(remove("/a"))
                .await
                .expect_err("a member");
            assert!(refused.to_string().contains("is the last one"), "{refused}");
            server.remove_device(remove("/s")).await.expect("removed");
            assert!(server.pools()[0].spares.is_empty());
            let other = CreatePool {
                name: "other".into(),
                ..pool(&["/s"])
            };
            server.create_pool(other).await.expect("the disk is free");
        });
        first.await.expect("it has power");
    });
}

/// Two pools name the same spare: the one that needs it first takes it, the other one sees it in use.
#[test]
fn pools_of_a_server_share_a_spare() {
    Sim::new(14, SimConfig::default()).block_on(async {
        let (node, disks) = machine(["/a", "/b", "/c", "/d", "/s"], &disk());
        let server = serve(node, with_spares(pool(&["/a", "/b"]), &["/s"])).await;
        let asked = server.clone();
        let other = CreatePool {
            name: "other".into(),
            ..with_spares(pool(&["/c", "/d"]), &["/s"])
        };
        on(node, async move { asked.create_pool(other).await }).await;
        assert_eq!(
            spare(&server, "other", "/s").expect("shared").state,
            SpareState::Avail
        );
        fail(node, &disks[1]).await;
        wait_long("the take-over", &server, || is_online(&server, "/s")).await;
        let used =
            || spare(&server, "other", "/s").is_some_and(|s| s.in_pool.as_deref() == Some("tank"));
        wait_until(used).await;
        disks[1].revive();
        let free = || {
            let of = |pool| spare(&server, pool, "/s").map(|s| s.state);
            of("other") == Some(SpareState::Avail) && of("tank") == Some(SpareState::Avail)
        };
        wait_long("the return", &server, free).await;
        let online = OnlineMember {
            pool: "tank".into(),
            disk: "/b".into(),
            path: None,
            expand: false,
        };
        let asked = server.clone();
        on(node, async move { asked.online_member(online).await }).await;
    });
}
