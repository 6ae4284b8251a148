//! A server that serves iSCSI over RDMA (iSER), on the simulated verbs device.

use crate::simulated::fixture::wait_until;
use crate::simulated::rdma::{run, serve};
use io::sim::{Node, rdma as devices};
use iscsi::portal::IscsiTransport;
use iscsi::wire::IscsiName;
use iscsi_initiator::{Config, Reconnect, Session, WriteOptions, discover_over};
use server::api::Transport;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);
const IQN: &str = "iqn.2026-01.org.example:vm1";

const CONFIG: &str = r#"
[nvmf]
listen = []
[iscsi]
listen = ["0.0.0.0:3260"]
listen_rdma = ["0.0.0.0:3260"]
[[disk]]
name = "ram"
kind = "mem"
size = "1M"
[[target]]
iqn = "iqn.2026-01.org.example:vm1"
initiators = ["any"]
[[target.lun]]
lun = 0
disk = "ram"
"#;

fn name(text: &str) -> IscsiName {
    IscsiName::new(text).expect("valid")
}

async fn log_in(addr: SocketAddr, transport: IscsiTransport) -> Session {
    let config = Config {
        transport,
        reconnect: Reconnect::NEVER,
        ..Config::new(addr, name(IQN), name("iqn.2026-01.org.example:host"))
    };
    Session::connect(config).await.expect("a login")
}

#[test]
fn a_target_is_served_over_either_transport() {
    run(1, async {
        let node = Node::new();
        let (server, _) = serve(node, CONFIG).await;
        let addr = node.addr(3260);
        let listening = server.listening();
        let transports: Vec<Transport> = listening.iter().map(|l| l.transport).collect();
        assert_eq!(transports, [Transport::Tcp, Transport::Rdma]);
        let host = name("iqn.2026-01.org.example:host");
        for transport in [IscsiTransport::Tcp, IscsiTransport::Iser] {
            let found = discover_over((transport, addr), &host, None, 10 * SEC).await;
            let found = found.expect("it answers");
            assert_eq!(found[0].portals(addr), [addr], "{transport:?}");
        }
        let over_rdma = log_in(addr, IscsiTransport::Iser).await;
        let unit = over_rdma.unit(0).await.expect("served");
        let mut data = io::pool().alloc(65536).await;
        data.fill(7);
        let data = Arc::new(data);
        let written = unit.write(0, data.clone(), WriteOptions::default()).await;
        written.expect("it writes");
        let over_tcp = log_in(addr, IscsiTransport::Tcp).await;
        let other = over_tcp.unit(0).await.expect("served");
        let (read, seen) = other.read(0, io::pool().alloc(65536).await).await;
        read.expect("it reads");
        assert!(seen[..] == data[..]);

        // The first call asks for the queue pair's numbers.
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
        let pair = rdma.queues[0].rdma.as_ref().expect("a queue pair");
        assert_eq!((pair.reads_out, pair.reads_in, pair.receives), (16, 0, 160));
        assert!(tcp.queues[0].rdma.is_none() && tcp.summary.device.is_none());

        drop((unit, other));
        over_rdma.log_out().await;
        over_tcp.log_out().await;
        wait_until(|| devices::queue_pairs(node) == 0).await;
    });
}

/// A device that is not there at the start, and comes: the server serves TCP meanwhile, says why, and listens then.
#[test]
fn a_device_may_come_later() {
    run(2, async {
        let node = Node::new();
        devices::remove_device(node);
        let (server, _) = serve(node, CONFIG).await;
        wait_until(|| !server.not_listening().is_empty()).await;
        let missing = server.not_listening();
        assert_eq!(missing[0].setting, "[iscsi] listen_rdma");
        let over_tcp = log_in(node.addr(3260), IscsiTransport::Tcp).await;
        let not_rdma = || server.sessions()[0].summary.not_rdma.clone();
        assert_eq!(not_rdma().as_ref(), Some(&missing[0].reason));
        devices::restore_device(node);
        wait_until(|| server.not_listening().is_empty()).await;
        assert_eq!(not_rdma(), None, "nothing that the server knows");
        let over_rdma = log_in(node.addr(3260), IscsiTransport::Iser).await;
        over_rdma.log_out().await;
        over_tcp.log_out().await;
    });
}
