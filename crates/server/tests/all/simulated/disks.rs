//! Disks of a server and their exports, and the server's addresses.

use crate::simulated::fixture::{self, HOST, try_connect};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig, SimDisk};
use io::time::sleep;
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::HostId;
use nvmf_initiator::{Controller, DiscoveredPath, Discovery, Transport, WriteOptions};
use server::api::{
    AddDisk, AddExport, DiskState, NamespaceState, NewMedium, RemoveDisk, RemoveExport, ResizeDisk,
};
use server::config::ConfigFile;
use server::limits::{BUSY_WAIT_MAX, DISK_REFRESH, DISK_RETRY, FLUSH_MAX};
use server::{ByteSize, Error, Server, Shards};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const NQN: &str = "nqn.2026-01.org.example:a";
const CONFIG: &str = r#"
[server]
disk_wait_s = 0
[nvmf]
listen = ["0.0.0.0:4420"]
[[disk]]
name = "late"
kind = "file"
path = "late"
[[disk]]
name = "ram"
kind = "mem"
size = "1M"
[[subsystem]]
nqn = "nqn.2026-01.org.example:a"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "late"
[[subsystem.namespace]]
nsid = 2
disk = "ram"
"#;

fn run(test: impl Future<Output = ()> + 'static) {
    Sim::new(7, SimConfig::default()).block_on(test);
}

async fn start(text: &str) -> (Rc<Server>, SocketAddr) {
    let server = fixture::start(text).await;
    (server, Node::current().addr(4420))
}

async fn connect(addr: SocketAddr) -> Controller {
    try_connect(addr, NQN).await.expect("connect")
}

fn remove(name: &str) -> RemoveDisk {
    RemoveDisk {
        name: name.into(),
        force: false,
    }
}

async fn active(c: &Controller) -> Vec<u32> {
    c.active_namespaces()
        .await
        .expect("identify")
        .into_iter()
        .map(|Nsid(n)| n)
        .collect()
}

#[test]
fn a_missing_disk_holds_back_its_own_export_alone_until_it_appears() {
    run(async {
        let (server, addr) = start(CONFIG).await;
        let client = connect(addr).await;
        assert_eq!(active(&client).await, [2]);
        let late = &server.disks()[0];
        assert_eq!(
            (late.state, late.reason.as_deref()),
            (DiskState::Held, Some("late does not exist"))
        );
        let namespaces = &server.exports().nvmf.exports[0].namespaces;
        assert_eq!(namespaces[0].state, NamespaceState::Held);
        assert_eq!(namespaces[0].reason.as_deref(), Some("late does not exist"));
        assert_eq!(namespaces[1].state, NamespaceState::Served);

        sleep(Duration::from_secs(3600)).await;
        assert_eq!(server.disks()[0].state, DiskState::Held);
        Node::current().create_disk(
            "late",
            DiskConfig {
                size: 4 << 20,
                ..DiskConfig::default()
            },
        );
        sleep(2 * DISK_RETRY).await;
        assert_eq!(server.disks()[0].state, DiskState::Online);
        client.next_event().await.expect("the client is told");
        assert_eq!(active(&client).await, [1, 2]);
        let namespace = client.namespace(Nsid(1)).await.expect("served");
        assert_eq!(
            namespace.blocks() * u64::from(namespace.block_size()),
            4 << 20
        );
    });
}

#[test]
fn a_size_changed_from_outside_is_seen_and_told() {
    run(async {
        let disk = DiskConfig {
            size: 4 << 20,
            kind: io::disk::DiskKind::File,
            ..DiskConfig::default()
        };
        Node::current().create_disk("late", disk);
        let (server, addr) = start(CONFIG).await;
        let client = connect(addr).await;
        assert_eq!(server.disks()[0].size, 4 << 20);
        let resize = ResizeDisk {
            name: "late".into(),
            size: ByteSize(8 << 20),
            shrink: false,
        };
        let grown = server.resize_disk(resize.clone()).await.expect("resize");
        assert_eq!(grown.size, 8 << 20);
        client.next_event().await.expect("the client is told");
        let shrink = ResizeDisk {
            size: ByteSize(4 << 20),
            ..resize
        };
        assert!(matches!(
            server.resize_disk(shrink.clone()).await,
            Err(Error::Conflict(_))
        ));
        server
            .resize_disk(ResizeDisk {
                shrink: true,
                ..shrink
            })
            .await
            .expect("shrink");
        sleep(2 * DISK_REFRESH).await;
        assert_eq!(server.disks()[0].size, 4 << 20);
        assert_eq!(server.disks()[0].reason, None);
    });
}

#[test]
fn disks_and_exports_come_and_go_under_a_client() {
    run(async {
        let (server, addr) = start(CONFIG).await;
        let client = connect(addr).await;
        let add = AddDisk {
            name: "new".into(),
            medium: NewMedium::Mem {
                size: ByteSize(2 << 20),
            },
            block_size: Some(512),
            read_only: false,
        };
        server.add_disk(add.clone()).await.expect("add");
        assert!(
            matches!(server.add_disk(add).await, Err(Error::Conflict(_))),
            "the name is taken"
        );
        let export = AddExport {
            nqn: NQN.into(),
            disk: "new".into(),
            nsid: None,
            uuid: None,
            transports: Vec::new(),
        };
        let exported = server.add_export(export.clone()).await.expect("export");
        assert_eq!(
            exported
                .namespaces
                .iter()
                .map(|n| n.nsid)
                .collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert!(
            matches!(server.add_export(export).await, Err(Error::Conflict(_))),
            "it is exported"
        );
        assert_eq!(active(&client).await, [2, 3]);
        assert_eq!(
            client
                .namespace(Nsid(3))
                .await
                .expect("served")
                .block_size(),
            512
        );

        let remove = remove("new");
        assert!(
            matches!(
                server.remove_disk(remove.clone()).await,
                Err(Error::Conflict(_))
            ),
            "it is exported"
        );
        let take_back = RemoveExport {
            nqn: NQN.into(),
            nsid: Some(3),
        };
        server
            .remove_export(take_back.clone())
            .await
            .expect("remove");
        assert!(matches!(
            server.remove_export(take_back).await,
            Err(Error::NoExport(text)) if text.ends_with("has no namespace 3")
        ));
        assert_eq!(active(&client).await, [2]);
        server.remove_disk(remove.clone()).await.expect("remove");
        assert!(matches!(
            server.remove_disk(remove).await,
            Err(Error::NoDisk(_))
        ));
        assert_eq!(server.disks().len(), 2);
    });
}

/// A server with the disk `late` of 1 MiB, to which a host wrote without a flush, and whose export was removed.
async fn with_unflushed_disk() -> (Rc<Server>, SimDisk) {
    let config = DiskConfig {
        size: 1 << 20,
        ..DiskConfig::default()
    };
    let disk = Node::current().create_disk("late", config);
    let (server, addr) = start(CONFIG).await;
    let client = connect(addr).await;
    let namespace = client.namespace(Nsid(1)).await.expect("served");
    fixture::write(&namespace, 0, 1, 7).await;
    let export = RemoveExport {
        nqn: NQN.into(),
        nsid: Some(1),
    };
    server.remove_export(export).await.expect("removed");
    assert!(disk.unflushed_blocks() > 0, "the write is in the cache");
    (server, disk)
}

/// Regression: the disk was closed with acknowledged writes in its cache, which a power cut then lost.
#[test]
fn a_disk_is_flushed_before_it_is_removed() {
    run(async {
        let (server, disk) = with_unflushed_disk().await;
        server.remove_disk(remove("late")).await.expect("removed");
        assert_eq!(disk.unflushed_blocks(), 0);
    });
}

/// Regression: a disk that could not be flushed was removed, and nobody was told.
#[test]
fn a_disk_that_cannot_be_flushed_is_removed_by_force_only() {
    run(async {
        let (server, disk) = with_unflushed_disk().await;
        disk.error_rates(0.0, 0.0, 1.0);
        let refused = server.remove_disk(remove("late")).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("\"late\"") && text.contains("-f"), "{text}");
        assert_eq!(server.disks().len(), 2);
        let forced = RemoveDisk {
            force: true,
            ..remove("late")
        };
        server.remove_disk(forced).await.expect("removed");
        assert_eq!(server.disks().len(), 1);
    });
}

#[test]
fn a_drained_server_takes_no_changes() {
    run(async {
        let (server, addr) = start(CONFIG).await;
        let client = connect(addr).await;
        assert_eq!(server.drain().await, Vec::<String>::new());
        assert!(matches!(
            server.remove_disk(remove("late")).await,
            Err(Error::Unavailable(_))
        ));
        drop(client);
    });
}

#[test]
fn a_disk_that_hangs_does_not_keep_a_drain_from_flushing_the_others() {
    run(async {
        let config = DiskConfig {
            size: 1 << 20,
            ..DiskConfig::default()
        };
        let node = Node::current();
        let hung = node.create_disk("late", config.clone());
        let sound = node.create_disk("other", config);
        let text = CONFIG.replace(
            "kind = \"mem\"\nsize = \"1M\"",
            "kind = \"file\"\npath = \"other\"",
        );
        let (server, addr) = start(&text).await;
        let client = connect(addr).await;
        for nsid in [1, 2] {
            let namespace = client.namespace(Nsid(nsid)).await.expect("served");
            let data = Arc::new(io::pool().alloc(4096).await);
            let write = namespace.write(0, data, WriteOptions::default());
            write.await.expect("written");
        }
        assert!(hung.unflushed_blocks() > 0 && sound.unflushed_blocks() > 0);
        hung.slow(Some(Latency {
            base: Duration::from_secs(86_400),
            ..Latency::default()
        }));
        let namespace = client.namespace(Nsid(1)).await.expect("served");
        let reading = io::spawn(async move {
            let buf = io::pool().alloc(4096).await;
            namespace.read(0, buf).await.0.is_ok()
        });
        sleep(Duration::from_millis(10)).await;
        let begun = io::time::now();
        let failures = server.drain().await;
        assert!(begun.elapsed() < 3 * FLUSH_MAX);
        assert!(
            failures.iter().any(|f| f.contains("\"late\"")),
            "{failures:?}"
        );
        assert!(
            !failures.iter().any(|f| f.contains("\"ram\"")),
            "{failures:?}"
        );
        assert_eq!(sound.unflushed_blocks(), 0);
        drop(reading);
    });
}

#[test]
fn discovery_names_an_address_that_can_be_reached() {
    run(async {
        let (_server, addr) = start(CONFIG).await;
        let host = HOST.parse().expect("valid");
        let discovery = Discovery::connect(
            (Transport::Tcp, addr),
            host,
            HostId([7; 16]),
            Duration::ZERO,
        )
        .await;
        let log = discovery.expect("connect").log().await.expect("the log");
        let paths: Vec<_> = log
            .entries
            .iter()
            .filter_map(DiscoveredPath::from_entry)
            .collect();
        assert!(!paths.is_empty());
        // The server listens on every address: a host is told the one it came to.
        assert!(paths.iter().all(|p| p.addr == addr), "{paths:?}");
    });
}

/// A killed server's port stays in use until the kernel has released its rings: the next server waits for it.
#[test]
fn an_address_that_becomes_free_soon_is_waited_for() {
    run(async {
        let any: SocketAddr = "0.0.0.0:4420".parse().expect("an address");
        let before = io::net::TcpListener::bind(any).expect("free");
        let freed = Rc::new(Cell::new(false));
        drop(io::spawn({
            let freed = freed.clone();
            async move {
                // Many attempts later.
                sleep(BUSY_WAIT_MAX / 2).await;
                freed.set(true);
                drop(before);
            }
        }));
        let (server, addr) = start(CONFIG).await;
        assert!(freed.get(), "it cannot listen before that");
        assert_eq!(server.listening()[0].address.port(), addr.port());
    });
}

#[test]
fn an_address_that_another_program_keeps_is_named_after_a_while() {
    run(async {
        let any: SocketAddr = "0.0.0.0:4420".parse().expect("an address");
        let kept = io::net::TcpListener::bind(any).expect("free");
        let began = io::time::now();
        let file = ConfigFile::unsaved(CONFIG).expect("right");
        let shards = Shards::of(vec![io::runtime::Shard::here()]);
        let failed = Server::start(file, shards, 100).await.err();
        // Simulated time: what was waited is exact.
        assert_eq!(began.elapsed(), BUSY_WAIT_MAX);
        let text = failed.expect("it is taken").to_string();
        assert!(
            text.contains("0.0.0.0:4420") && text.contains("[nvmf] listen"),
            "{text}"
        );
        drop(kept);
    });
}
