//! A server that serves NFS over RDMA, on the simulated verbs device.

use crate::simulated::fixture::wait_until;
use crate::simulated::rdma::{run, serve};
use io::rdma::{QueuePair, QueuePairConfig, QueuePairEvent, Verb, WorkRequest};
use io::sim::{Node, rdma as devices};
use nfs::rpc::rdma::chunks::Chunks;
use nfs::rpc::rdma::{Kind, RdmaHeader};
use nfs::rpc::{Call, Credential, Reply};
use nfs::xdr::{Reader, Writer};
use nfs_initiator::{Config, Session};
use server::api::Transport;
use std::net::SocketAddr;

const CONFIG: &str = r#"
[nvmf]
listen = []
[nfs]
listen = ["0.0.0.0:2049"]
listen_rdma = ["0.0.0.0:20049"]
"#;

/// Calls NULL of version 3, and checks the reply.
async fn null(addr: SocketAddr) -> QueuePair {
    let connected = QueuePair::connect(addr, QueuePairConfig::default(), &[]).await;
    let (queue_pair, _) = connected.expect("it is accepted");
    let header = RdmaHeader {
        xid: 9,
        credits: 1,
        kind: Kind::Inline(Chunks::default()),
    };
    let mut call = Writer::new();
    Call {
        xid: 9,
        program: 100_003,
        version: 3,
        procedure: 0,
        credential: Credential::None,
    }
    .encode(&mut call);
    queue_pair.post(&mut vec![WorkRequest {
        tag: None,
        work: Verb::Send {
            head: [header.encode(), call.to_vec()].concat(),
            data: None,
            invalidate: None,
        },
    }]);
    let message = loop {
        match queue_pair.event().await {
            QueuePairEvent::Received(message) => break message,
            QueuePairEvent::Ended(why) => panic!("the connection ended: {why}"),
            QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
        }
    };
    let mut reader = Reader::new(&message);
    let header = RdmaHeader::decode(&mut reader).expect("a header");
    assert_eq!((header.xid, header.credits), (9, 64));
    assert_eq!(Reply::decode(&mut reader), Ok((9, Reply::Success)));
    drop(message);
    queue_pair
}

#[test]
fn nfs_is_served_over_either_transport() {
    run(1, async {
        let node = Node::new();
        let (server, _) = serve(node, CONFIG).await;
        let listening = server.listening();
        let found: Vec<_> = listening.iter().map(|l| (l.transport, l.address)).collect();
        let any = |port| SocketAddr::from(([0; 4], port));
        let expected = [(Transport::Tcp, any(2049)), (Transport::Rdma, any(20049))];
        assert_eq!(found, expected);
        let client = null(node.addr(20049)).await;
        let sessions = server.sessions();
        let shown = sessions
            .iter()
            .map(|s| (&*s.summary.protocol, &*s.summary.transport));
        assert_eq!(shown.collect::<Vec<_>>(), [("nfs", "rdma")]);
        drop(client);
        wait_until(|| devices::queue_pairs(node) == 0).await;
    });
}

/// A device that is not there at the start, and comes: the server says why, and listens then.
#[test]
fn a_device_may_come_later() {
    run(2, async {
        let node = Node::new();
        devices::remove_device(node);
        let (server, _) = serve(node, CONFIG).await;
        wait_until(|| !server.not_listening().is_empty()).await;
        let missing = server.not_listening();
        assert_eq!(missing[0].setting, "[nfs] listen_rdma");
        let over_tcp = Session::connect(Config::new(node.addr(2049))).await;
        let over_tcp = over_tcp.expect("it serves");
        let not_rdma = || server.sessions()[0].summary.not_rdma.clone();
        assert_eq!(not_rdma().as_ref(), Some(&missing[0].reason));
        devices::restore_device(node);
        wait_until(|| server.not_listening().is_empty()).await;
        assert_eq!(not_rdma(), None, "nothing that the server knows");
        over_tcp.close().await;
        drop(null(node.addr(20049)).await);
    });
}
