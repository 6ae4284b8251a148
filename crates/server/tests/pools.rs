//! Pools of a server in the simulated world: volumes, power cuts, disks that are missing.

use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use io::time::sleep;
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::HostId;
use nvmf::wire::status::Status;
use nvmf_initiator::{Config, Controller, Error as InitiatorError, Namespace, WriteOptions};
use pool::vdev::limits::HANG_MAX;
use server::api::{
    AddVdevs, CreatePool, CreateVolume, DestroyPool, DestroyVolume, DiskState, ExportNvme, Health,
    ListEvents, NamespaceState, OfflineSide, OnlineSide, ResilverPool, ScanState, ScrubAction,
    ScrubPool, VolumeSync,
};
use server::config::ConfigFile;
use server::limits::DISK_RETRY;
use server::{ByteSize, Error, Server, Shards};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const NQN: &str = "nqn.2026-01.org.example:vm1";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001";
const EMPTY: &str = "[nvmf]\nlisten = [\"0.0.0.0:4420\"]\n";
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

fn disk() -> DiskConfig {
    DiskConfig {
        size: 96 << 20,
        logical_block: 4096,
        physical_block: 4096,
        atomic_unit: 4096,
        volatile_cache: true,
        ..DiskConfig::default()
    }
}

async fn start(text: &'static str) -> Rc<Server> {
    let file = ConfigFile::unsaved(text).expect("right");
    let shards = Shards::of(vec![io::runtime::Shard::here()]);
    Server::start(file, shards, 100).await.expect("start")
}

async fn connect(addr: SocketAddr) -> Controller {
    let config = Config::new(
        addr,
        NQN.parse().expect("valid"),
        HOST.parse().expect("valid"),
        HostId([7; 16]),
    );
    Controller::connect(config).await.expect("connect")
}

fn pool(disks: &[&str]) -> CreatePool {
    CreatePool {
        name: "tank".into(),
        vdevs: vec![disks.iter().map(Into::into).collect()],
        size: None,
        force: false,
    }
}

fn volume(size: u64) -> CreateVolume {
    CreateVolume {
        name: "tank/vm1".into(),
        size: ByteSize(size),
        block_size: None,
        record_size: None,
        sync: VolumeSync::Standard,
        compression: None,
        checksum: None,
        quota: None,
        reservation: None,
    }
}

async fn make(server: &Rc<Server>) {
    let made = server.create_pool(pool(&["/a", "/b"])).await.expect("pool");
    assert_eq!((made.health, made.vdevs.len()), (Some(Health::Online), 1));
    server.create_volume(volume(1 << 30)).await.expect("volume");
    let export = ExportNvme {
        disk: "tank/vm1".into(),
        nqn: Some(NQN.into()),
        hosts: vec!["any".into()],
    };
    let exported = server.export_nvme(export).await.expect("export");
    assert_eq!(exported.namespaces[0].state, NamespaceState::Served);
}

/// A machine with the disks `/a` and `/b`.
fn machine() -> (Node, [SimDisk; 2]) {
    let node = Node::new();
    let disks = ["/a", "/b"].map(|path| node.create_disk(path, disk()));
    (node, disks)
}

async fn write(namespace: &Namespace, lba: u64, blocks: usize, byte: u8) {
    let mut data = io::pool().alloc(blocks * 4096).await;
    data.fill(byte);
    let write = namespace.write(lba, Arc::new(data), WriteOptions::default());
    write.await.expect("written");
}

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
        let node = Node::new();
        let file = || DiskConfig {
            kind: io::disk::DiskKind::File,
            ..disk()
        };
        let disks = ["/a", "/b"].map(|path| node.create_disk(path, file()));
        let serving = node.spawn(async {
            let server = start(EMPTY).await;
            make(&server).await;
            server
        });
        let server = serving.await.expect("it serves");
        let client = connect(node.addr(4420)).await;
        let namespace = client.namespace(Nsid(1)).await.expect("served");
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
        assert_eq!(pool.health, Some(Health::Online));
        let side = &pool.vdevs[0].sides[0];
        assert_eq!(side.fault.as_deref(), Some("the file system below is full"));
        assert!(side.no_space > 0 && side.write_errors == 0, "{side:?}");
        assert!(classes.contains(&"side.no_space".into()), "{classes:?}");
        assert!(!classes.contains(&"side.space".into()), "{classes:?}");
        disks.iter().for_each(|d| d.set_space(None));
        sleep(Duration::from_secs(10)).await;
        write(&namespace, written, 1, 0x5a).await;
        namespace.flush().await.expect("flushed");
        let (pool, classes) = look();
        assert_eq!((pool.reason, pool.health), (None, Some(Health::Online)));
        assert!(classes.contains(&"side.space".into()), "{classes:?}");
    });
}

#[test]
fn what_was_flushed_to_a_volume_survives_a_power_cut() {
    Sim::new(11, SimConfig::default()).block_on(async {
        let (node, _) = machine();
        let serving = node.spawn(async {
            let server = start(EMPTY).await;
            make(&server).await;
        });
        serving.await.expect("it serves");
        let client = connect(node.addr(4420)).await;
        let namespace = client.namespace(Nsid(1)).await.expect("served");
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
        let client = connect(node.addr(4420)).await;
        let namespace = client.namespace(Nsid(1)).await.expect("served");
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
        let namespace = &server.exports()[0].namespaces[0];
        assert_eq!(namespace.state, NamespaceState::Held);
        let refused = server.create_volume(volume(1 << 20)).await;
        assert!(matches!(refused, Err(Error::Pool { .. })), "{refused:?}");
        Node::current().create_disk("/a", disk());
        sleep(2 * DISK_RETRY).await;
        let reason = server.pools()[0].reason.clone().expect("a reason");
        assert!(reason.contains("no pool label on"), "{reason}");
        assert!(server.drain().await.is_empty());
    });
}

/// Rot on one side is mended by a scrub; on both sides it is named.
#[test]
fn a_scrub_mends_what_it_can_and_names_what_is_lost() {
    Sim::new(14, SimConfig::default()).block_on(async {
        let (node, disks) = machine();
        let serving = node.spawn(async {
            let server = start(EMPTY).await;
            make(&server).await;
            server
        });
        let server = serving.await.expect("it serves");
        let client = connect(node.addr(4420)).await;
        let namespace = client.namespace(Nsid(1)).await.expect("served");
        for lba in 0..256 {
            let mut data = io::pool().alloc(4096).await;
            data.fill(lba as u8);
            data[..8].copy_from_slice(&(lba | 1u64 << 63).to_le_bytes());
            let write = namespace.write(lba, Arc::new(data), WriteOptions::default());
            write.await.expect("written");
        }
        namespace.flush().await.expect("flushed");
        // Where the record of block 77 lies on both sides: the only place with its first bytes.
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

/// A disk is gone under the pool, or hangs, while a client writes; it is back, and then the other one fails.
#[test]
fn a_disk_that_was_taken_out_is_used_again_by_itself() {
    for (seed, hangs) in [(15, false), (16, true)] {
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let (node, disks) = machine();
            let serving = node.spawn(async {
                let server = start(EMPTY).await;
                make(&server).await;
                server
            });
            let server = serving.await.expect("it serves");
            let client = connect(node.addr(4420)).await;
            let namespace = client.namespace(Nsid(1)).await.expect("served");
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
                    let side = server.pools()[0].vdevs[0].sides[1].clone();
                    if side.state == state {
                        return side;
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

/// A resilver that has a rate rests after each part; clients wait neither for that nor for checkpoints that come meanwhile.
#[test]
fn a_resilver_keeps_to_its_rate_and_holds_no_client_up() {
    const RATE: u64 = 1 << 20;
    const BLOCKS: u64 = 8192;
    // parts are of 4 MiB, about
    const PART_MAX: u64 = 8 << 20;
    Sim::new(17, SimConfig::default()).block_on(async {
        let (node, _) = machine();
        let serving = node.spawn(async {
            let server = start(EMPTY).await;
            make(&server).await;
            let offline = OfflineSide {
                pool: "tank".into(),
                disk: "/b".into(),
            };
            server.offline_side(offline).await.expect("offline");
            server
        });
        let server = serving.await.expect("it serves");
        let client = connect(node.addr(4420)).await;
        let namespace = client.namespace(Nsid(1)).await.expect("served");
        for lba in (0..BLOCKS).step_by(16) {
            write(&namespace, lba, 16, 1).await;
        }
        namespace.flush().await.expect("flushed");
        let serving = node.spawn(async move {
            let pace = ResilverPool {
                name: "tank".into(),
                rate: Some(ByteSize(RATE)),
            };
            server.resilver_pool(pace).await.expect("paced");
            let online = OnlineSide {
                pool: "tank".into(),
                disk: "/b".into(),
                path: None,
                expand: false,
            };
            server.online_side(online).await.expect("online");
            server
        });
        let server = serving.await.expect("it serves");
        let began = io::time::now();
        let mut slowest = Duration::ZERO;
        let mut turn = 0;
        let resilvered = loop {
            let asked = io::time::now();
            write(&namespace, turn * 7 % BLOCKS, 1, 2).await;
            namespace.flush().await.expect("flushed");
            let (read, _) = namespace
                .read(turn * 11 % BLOCKS, io::pool().alloc(4096).await)
                .await;
            read.expect("read");
            slowest = slowest.max(asked.elapsed());
            turn += 1;
            let shown = server.pools()[0].resilver.clone().unwrap_or_default();
            let most = RATE as f64 * began.elapsed().as_secs_f64();
            assert!(shown.done <= most as u64 + PART_MAX, "{shown:?}, {most}");
            if shown.state == ScanState::Finished {
                break shown;
            }
            sleep(Duration::from_millis(4)).await;
        };
        // what the client overwrote before it was met need not be copied
        assert!(resilvered.copied >= BLOCKS / 8, "{resilvered:?}");
        let least = Duration::from_secs_f64(resilvered.done as f64 / RATE as f64);
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        assert!(slowest < Duration::from_millis(50), "{slowest:?}");
        assert_eq!(server.pools()[0].health, Some(Health::Online));
    });
}

/// A disk that came back waited for the resilver of another one, which may take hours at its rate; so did a new rate.
#[test]
fn a_slow_resilver_keeps_no_other_disk_out() {
    Sim::new(18, SimConfig::default()).block_on(async {
        let (node, [_, b]) = machine();
        let [_, d] = ["/c", "/d"].map(|path| node.create_disk(path, disk()));
        let serving = node.spawn(async {
            let server = start(EMPTY).await;
            make(&server).await;
            let more = AddVdevs {
                pool: "tank".into(),
                vdevs: vec![["/c", "/d"].map(Into::into).to_vec()],
                size: None,
                force: false,
            };
            server.add_vdevs(more).await.expect("added");
            server
        });
        let server = serving.await.expect("it serves");
        let client = connect(node.addr(4420)).await;
        let namespace = client.namespace(Nsid(1)).await.expect("served");
        let pace = async |rate| {
            let pace = ResilverPool {
                name: "tank".into(),
                rate: Some(ByteSize(rate)),
            };
            server.resilver_pool(pace).await.expect("paced");
        };
        let wait_for = async |vdev: usize, state: &str| {
            for n in 0..600 {
                if server.pools()[0].vdevs[vdev].sides[1].state == state {
                    return;
                }
                write(&namespace, n * 16, 16, 1).await;
                namespace.flush().await.expect("flushed");
                sleep(Duration::from_millis(100)).await;
            }
            panic!("not {state}: {:?}", server.pools());
        };
        pace(1).await;
        b.kill();
        wait_for(0, "faulted").await;
        b.revive();
        wait_for(0, "stale").await;
        d.kill();
        wait_for(1, "faulted").await;
        d.revive();
        wait_for(1, "stale").await;
        assert_eq!(server.pools()[0].vdevs[0].sides[1].state, "stale");
        pace(0).await;
        wait_for(0, "online").await;
        wait_for(1, "online").await;
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
            let mut request = volume(size);
            request.name = "tank/other".into();
            let refused = server.create_volume(request).await;
            assert!(
                matches!(refused, Err(Error::Invalid(_))),
                "{size}: {refused:?}"
            );
        }
        for name in ["tank", "tank/", "tank/a/b", "tank/a b", "/x"] {
            let mut request = volume(1 << 20);
            request.name = name.into();
            let refused = server.create_volume(request).await;
            assert!(
                matches!(refused, Err(Error::Invalid(_))),
                "{name:?}: {refused:?}"
            );
        }
        let twice = server.create_volume(volume(1 << 20)).await;
        assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");
        let destroy = DestroyVolume {
            name: "tank/vm1".into(),
            force: true,
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
