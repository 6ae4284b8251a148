//! A namespace over NVMe/RDMA as a target, on the simulated verbs device.

use backend::memory::MemoryDisk;
use io::rdma::RdmaListener;
use io::sim::{Node, Sim, SimConfig, rdma as devices};
use lab::engine::{Setup, run};
use lab::targets::{Address, AnyTarget, OpenAs, Session, Target as _};
use lab::verify::check::Shape;
use lab::verify::journal::Journal;
use lab::verify::run::{Plan, run as verify};
use lab::workload::Workload;
use nvmf::controller::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig, Transports,
};
use nvmf::wire::nqn::Nqn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const NQN: &str = "nqn.2026-11.test:disk";
const SIZE: u64 = 4 << 20;

fn simulated<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    Sim::new(3, SimConfig::default()).block_on(test)
}

/// A disk of [`SIZE`] bytes that a machine of its own serves over RDMA.
async fn served() -> (Node, SocketAddr) {
    let nqn = Nqn::new(NQN).expect("valid");
    let target = Target::new(TargetConfig::default());
    let subsystem = SubsystemConfig {
        nqn: nqn.clone(),
        serial: "disk".into(),
        model: "test".into(),
        hosts: HostPolicy::Any,
        transports: Transports::ALL,
    };
    target.add_subsystem(subsystem).expect("a new subsystem");
    let disk = NamespaceConfig {
        nsid: 1,
        uuid: uuid::Uuid::from_u128(1),
        backend: Arc::new(MemoryDisk::new(SIZE, 4096).expect("a disk")),
        reservations: Arc::new(NoReservationStore),
    };
    target.add_namespace(&nqn, disk).expect("a new namespace");
    let machine = Node::new();
    let addr = machine.addr(4420);
    let listening = machine.spawn(async move {
        let listener = RdmaListener::bind(addr).expect("a free port");
        drop(io::spawn(async move {
            while let Ok(incoming) = listener.accept().await {
                let target = target.clone();
                drop(io::spawn(async move {
                    target.serve_rdma(incoming, PortRole::Io).await;
                }));
            }
        }));
    });
    listening.await.expect("not killed");
    (machine, addr)
}

fn address(at: SocketAddr) -> Address {
    let text = format!("nvme-rdma://{at}/{NQN}?medium=ram");
    text.parse().expect("an address")
}

fn setup() -> Setup {
    Setup {
        inline: true,
        ..Setup::default()
    }
}

/// Rows over RDMA have the device instead of a congestion control, and a depth that the server granted.
#[test]
fn a_namespace_over_rdma_is_measured() {
    let (facts, result) = simulated(async {
        let (_, at) = served().await;
        let target = AnyTarget::open(&address(at), OpenAs::default()).await;
        let target = target.expect("it is served");
        let w = Workload {
            depth: 8,
            bytes: Some(4096 * 200),
            ramp: Duration::ZERO,
            runtime: Duration::from_secs(60),
            ..Workload::default()
        };
        let result = run(&target, &w, &setup()).await.expect("no error");
        (target.facts(), result)
    });
    assert_eq!((facts.size, facts.block_size), (SIZE, 4096));
    assert!(facts.description.contains("NVMe/RDMA"));
    assert!(result.ios() >= 200, "{}", result.ios());
    let transport = result.facts.transport.expect("it is remote");
    assert_eq!(transport.kind, "rdma");
    assert_eq!((transport.queues, transport.depth), (1, 8));
    assert!(transport.fallbacks.is_empty(), "{:?}", transport.fallbacks);
    assert!(transport.connection().starts_with("device "));
    assert!(transport.congestion.is_empty() && transport.congestion_server.is_none());
}

/// A depth beyond the server's queues is said in words.
#[test]
fn a_smaller_queue_is_a_fallback() {
    let transport = simulated(async {
        let (_, at) = served().await;
        let target = AnyTarget::open(&address(at), OpenAs::default()).await;
        let session = target.expect("it is served").connect(512).await;
        let session = session.expect("it is served");
        let transport = session.facts().transport.expect("it is remote");
        assert!(session.tcp().is_none(), "there is no socket");
        session.close().await;
        transport
    });
    assert!(transport.depth < 512);
    assert!(transport.fallbacks[0].contains("512 were requested"));
}

#[test]
fn stamped_blocks_over_rdma_are_verified() {
    let outcome = simulated(async {
        let (_, at) = served().await;
        let how = OpenAs {
            writable: true,
            create: None,
        };
        let target = AnyTarget::open(&address(at), how).await;
        let plan = Plan {
            shape: Shape {
                seed: 5,
                block_size: 4096,
            },
            blocks: 256,
            jobs: 2,
            depth: 8,
            runtime: Duration::from_millis(200),
            read_percent: 30,
            fua_percent: 25,
            flush_every: 16,
            lossy: false,
        };
        let target = target.expect("it is served");
        verify(&target, &plan, &setup(), Arc::new(Journal::none())).await
    });
    let outcome = outcome.expect("no error");
    assert_eq!(outcome.wrong, 0);
    assert!(outcome.writes > 100 && outcome.checked > 100);
}

/// Without a device the error names the device and the command that loads its driver.
#[test]
fn without_a_device_the_error_says_what_is_missing() {
    let refused = simulated(async {
        let (_, at) = served().await;
        devices::remove_device(Node::current());
        AnyTarget::open(&address(at), OpenAs::default()).await.err()
    });
    let refused = refused.expect("there is no device").to_string();
    assert!(
        refused.starts_with("nvme-rdma://") && refused.contains("has no RDMA device"),
        "{refused}"
    );
    assert!(refused.contains("modprobe"), "{refused}");
}
