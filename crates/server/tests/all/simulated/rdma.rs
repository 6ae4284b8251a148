//! A server that listens for RDMA, on the simulated verbs device: connections on other shards, transports of exports, devices that vanish.

use crate::simulated::fixture::{HOST, NQN, try_connect, wait_until, write};
use io::rdma::{ConnectError, QueuePair, QueuePairConfig};
use io::runtime::Shard;
use io::sim::{Node, Sim, SimConfig, rdma as devices};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::HostId;
use nvmf::wire::rdma::{CmReject, RejectStatus};
use nvmf_initiator::{Config, Controller, Reconnect, Transport, discover};
use server::api::{SetExportTransports, Transport as Over};
use server::config::ConfigFile;
use server::{Server, Shards};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);

const CONFIG: &str = r#"
[nvmf]
listen = ["0.0.0.0:4420"]
listen_rdma = ["0.0.0.0:4420"]
[[disk]]
name = "ram"
kind = "mem"
size = "1M"
[[subsystem]]
nqn = "nqn.2026-01.org.example:vm1"
hosts = ["any"]
[[subsystem.namespace]]
nsid = 1
disk = "ram"
"#;

pub(super) fn run(seed: u64, test: impl Future<Output = ()> + 'static) {
    Sim::new(seed, SimConfig::default()).block_on(test);
}

/// A server and its shards.
pub(super) type Running = (Rc<Server>, Shards);

/// A server of this configuration with three shards, on `node`.
pub(super) async fn serve(node: Node, text: &'static str) -> Running {
    let started: Rc<RefCell<Option<Running>>> = Rc::default();
    let server = started.clone();
    drop(node.spawn(async move {
        let shards = [Shard::here(), node.new_shard(), node.new_shard()];
        let file = ConfigFile::unsaved(text).expect("right");
        let shards = Shards::of(shards.into());
        let running = Server::start(file, shards.clone(), 100).await;
        *server.borrow_mut() = Some((running.expect("it starts"), shards));
    }));
    wait_until(|| started.borrow().is_some()).await;
    started.take().expect("it was started")
}

/// A host over RDMA that does not connect again.
async fn connect(addr: SocketAddr) -> nvmf_initiator::Result<Controller> {
    let name = |text: &str| text.parse().expect("valid");
    let config = Config {
        transport: Transport::Rdma,
        reconnect: Reconnect::NEVER,
        io_queues: 4,
        ..Config::new(addr, name(NQN), name(HOST), HostId([7; 16]))
    };
    Controller::connect(config).await
}

/// The paths to the subsystem that discovery tells.
async fn told(addr: SocketAddr) -> Vec<(Transport, SocketAddr)> {
    let at = (Transport::Tcp, addr);
    let host = HOST.parse().expect("valid");
    let paths = discover(at, &host, HostId([7; 16])).await;
    let paths = paths.expect("a discovery log").into_iter();
    paths.map(|p| (p.transport, p.addr)).collect()
}

#[test]
fn hosts_are_served_over_either_transport_on_all_shards() {
    run(1, async {
        let node = Node::new();
        let (server, shards) = serve(node, CONFIG).await;
        let addr = node.addr(4420);
        let listening = server.listening();
        let transports: Vec<Over> = listening.iter().map(|l| l.transport).collect();
        assert_eq!(transports, [Over::Tcp, Over::Rdma]);
        let both = [(Transport::Tcp, addr), (Transport::Rdma, addr)];
        assert_eq!(told(addr).await, both);

        let over_tcp = try_connect(addr, NQN).await.expect("a connection");
        let over_rdma = connect(addr).await.expect("a connection");
        let namespace = over_rdma.namespace(Nsid(1)).await.expect("served");
        write(&namespace, 0, 2, 7).await;
        let other = over_tcp.namespace(Nsid(1)).await.expect("served");
        let (read, data) = other.read(0, io::pool().alloc(8192).await).await;
        read.expect("it reads");
        assert!(data.iter().all(|b| *b == 7));
        assert!(over_rdma.links().iter().all(|l| l.rdma.is_some()));
        // Five queues over RDMA and those over TCP are spread.
        let used = shards.status().await;
        assert!(used.iter().all(|s| s.connections > 0), "{used:?}");

        // The first call asks for the queue pairs' numbers.
        let _ = server.sessions();
        io::time::sleep(SEC).await;
        let sessions = server.sessions();
        let of = |transport: &str| {
            let mut all = sessions.iter();
            let found = all.find(|s| s.summary.transport == transport);
            found.expect("a session over each transport")
        };
        let (rdma, tcp) = (of("rdma"), of("tcp"));
        let device = rdma.summary.device.as_deref();
        assert!(device.is_some_and(|d| d.starts_with("sim")), "{device:?}");
        assert_eq!(rdma.queues.len(), 5);
        for queue in &rdma.queues {
            let pair = queue.rdma.as_ref().expect("a queue pair");
            assert!(pair.number != 0 && pair.peer_number != 0 && pair.number != pair.peer_number);
            assert_eq!((pair.path_mtu, queue.path_mtu), (1024, 1024));
            assert_eq!((pair.reads_out, pair.reads_in), (16, 0));
            assert_eq!(pair.rnr_retries, Some(0));
            assert!(pair.receive_len >= 64 && pair.receives > 0);
        }
        assert!(tcp.queues.iter().all(|q| q.rdma.is_none()));
        assert_eq!((&tcp.summary.device, &tcp.summary.not_rdma), (&None, &None));

        over_rdma.shutdown().await;
        over_tcp.shutdown().await;
        wait_until(|| devices::queue_pairs(node) == 0).await;
    });
}

/// A subsystem that is served over one transport: the choice is stored, discovery follows it, and sessions over the other end.
#[test]
fn an_export_is_served_over_the_chosen_transports() {
    run(2, async {
        let node = Node::new();
        let (server, _) = serve(node, CONFIG).await;
        let addr = node.addr(4420);
        let host = connect(addr).await.expect("a connection");
        let set = async |transports: &[Over]| {
            let request = SetExportTransports {
                nqn: NQN.into(),
                transports: transports.to_vec(),
            };
            let server = server.clone();
            let changed = node.spawn(async move { server.set_export_transports(request).await });
            changed.await.expect("it has power")
        };
        let export = set(&[Over::Tcp]).await.expect("changed");
        assert_eq!(export.transports, [Over::Tcp]);
        let stored = &server.config().nvmf.subsystems[0].transports;
        assert!(stored.iter().eq(&[Over::Tcp]));
        wait_until(|| devices::queue_pairs(node) == 0).await;
        drop(host);
        assert_eq!(told(addr).await, [(Transport::Tcp, addr)]);
        let refused = connect(addr).await.map(drop);
        assert!(
            matches!(refused, Err(nvmf_initiator::Error::ConnectRefused(_))),
            "{refused:?}"
        );
        try_connect(addr, NQN).await.expect("a connection");

        let nothing = set(&[]).await.expect_err("nothing would be served");
        assert!(nothing.to_string().contains("export remove"), "{nothing}");
        let export = set(&[Over::Rdma, Over::Tcp, Over::Rdma]).await;
        let export = export.expect("changed");
        assert_eq!(export.transports, [Over::Tcp, Over::Rdma]);
        connect(addr).await.expect("a connection");
    });
}

/// A device that is not there at the start, comes, and is removed: the server serves TCP meanwhile, says why, and listens again.
#[test]
fn a_device_may_come_and_go() {
    run(3, async {
        let node = Node::new();
        devices::remove_device(node);
        let (server, _) = serve(node, CONFIG).await;
        let addr = node.addr(4420);
        wait_until(|| !server.not_listening().is_empty()).await;
        let missing = server.not_listening();
        assert_eq!(missing.len(), 1);
        assert_eq!(
            (missing[0].transport, missing[0].address.port()),
            (Over::Rdma, 4420)
        );
        assert_eq!(missing[0].setting, "[nvmf] listen_rdma");
        assert!(missing[0].reason.contains("no RDMA device"), "{missing:?}");
        assert_eq!(server.listening().len(), 1);
        assert_eq!(told(addr).await, [(Transport::Tcp, addr)]);
        let over_tcp = try_connect(addr, NQN).await.expect("a connection");
        let not_rdma = || {
            let sessions = server.sessions();
            let session = sessions.iter().find(|s| s.summary.kind == "io");
            session.expect("one session").summary.not_rdma.clone()
        };
        assert_eq!(not_rdma().as_ref(), Some(&missing[0].reason));

        devices::restore_device(node);
        wait_until(|| server.not_listening().is_empty()).await;
        assert_eq!(server.listening().len(), 2);
        let both = [(Transport::Tcp, addr), (Transport::Rdma, addr)];
        assert_eq!(told(addr).await, both);
        assert_eq!(not_rdma(), None, "nothing that the server knows");
        over_tcp.shutdown().await;
        let host = connect(addr).await.expect("a connection");

        devices::remove_device(node);
        wait_until(|| !server.not_listening().is_empty()).await;
        assert_eq!(told(addr).await, [(Transport::Tcp, addr)]);
        drop(host);
        devices::restore_device(node);
        wait_until(|| server.not_listening().is_empty()).await;
        connect(addr).await.expect("a connection");
    });
}

/// A server that drains finishes its connections over RDMA, and takes no new ones.
#[test]
fn a_drain_ends_connections_over_rdma() {
    run(4, async {
        let node = Node::new();
        let (server, _) = serve(node, CONFIG).await;
        let addr = node.addr(4420);
        let host = connect(addr).await.expect("a connection");
        let drained = node.spawn(async move { server.drain().await });
        assert_eq!(drained.await, Some(Vec::new()));
        wait_until(|| devices::queue_pairs(node) == 0).await;
        drop(host);
        let late = QueuePair::connect(addr, QueuePairConfig::default(), &[]).await;
        assert!(
            matches!(
                late.map(drop),
                Err(ConnectError::Failed(io::Error::Unreachable(_)))
            ),
            "nothing listens"
        );
    });
}

/// Bad connection requests are rejected on the shard that was to serve them, and cost nothing.
#[test]
fn bad_requests_are_rejected_with_their_status() {
    run(5, async {
        let node = Node::new();
        let _server = serve(node, CONFIG).await;
        for _ in 0..20 {
            let asked = QueuePair::connect(node.addr(4420), QueuePairConfig::default(), b"x");
            let Err(ConnectError::Rejected(private)) = asked.await.map(drop) else {
                panic!("it has no private data of NVMe")
            };
            let status = CmReject::parse(&private);
            assert_eq!(status, Some(RejectStatus::InvalidLength));
        }
        io::time::sleep(SEC).await;
        assert_eq!(devices::queue_pairs(node), 0);
    });
}
