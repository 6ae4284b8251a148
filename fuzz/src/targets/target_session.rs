//! A whole session of the target against a host that sends random PDUs in any state of its connection, in the
//! simulated world.
//!
//! The first byte chooses the state up to which the host behaves. Then come chunks of bytes, unchanged or with a
//! fitting PDU header, so that code behind the first checks is reached. Invariant: the connection ends, its buffers
//! are released, and the next host is served.

use io::sim::{Node, Sim, SimConfig};
use nvmf_initiator::Offer;
use nvmf_initiator::raw::RawConnection;
use nvmf::controller::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target, TargetConfig, Transports,
};
use nvmf::wire::command::{Cid, Nsid, Sqe};
use nvmf::wire::fabrics::{Cc, Connect, ConnectAccepted, ConnectAttributes, ConnectData, Property, property};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::opcode::admin;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-11.fuzz:disk").expect("valid")
}

async fn queue(addr: SocketAddr, qid: u16, cntlid: u16) -> (RawConnection, u16) {
    let mut h = RawConnection::open(addr).await.expect("the target listens");
    h.initialize(&Offer::default()).await.expect("initialized");
    let connect = Connect { record_format: 0, qid, sqsize: 31, attributes: ConnectAttributes::empty(), kato_ms: 0 };
    let data = ConnectData::new(HostId([1; 16]), cntlid, &nqn(), &nqn());
    let cqe = h.connect(&connect, &data).await.expect("connected");
    (h, ConnectAccepted::from_result(cqe.result()).cntlid)
}

async fn admin_queue(addr: SocketAddr) -> (RawConnection, u16) {
    let (mut h, cntlid) = queue(addr, 0, 0xffff).await;
    let enable = Property::set(property::CC, false, u64::from(Cc::enabled(0).bits()));
    h.command(enable, Cid(1), &[]).await.expect("enabled");
    (h, cntlid)
}

/// A chunk as a PDU of a kind that a host sends.
fn framed(kind: u8, piece: &[u8]) -> Vec<u8> {
    let (code, hlen) = [(0, 128), (2, 24), (4, 72), (6, 24)][usize::from(kind & 3)];
    let mut pdu = vec![code, 0, hlen, hlen, 0, 0, 0, 0];
    pdu.extend_from_slice(piece);
    pdu.resize(pdu.len().max(usize::from(hlen)), 0);
    if code == 4 {
        pdu[9] = pdu[9] & 3 | 0x40;
    }
    let len = pdu.len() as u32;
    if code == 6 {
        let data = len - 24;
        pdu[16..20].copy_from_slice(&data.to_le_bytes());
    }
    pdu[4..8].copy_from_slice(&len.to_le_bytes());
    pdu
}

async fn hostile(addr: SocketAddr, input: Vec<u8>) {
    let Some((stage, mut rest)) = input.split_first() else { return };
    let (mut h, _admin) = match stage & 3 {
        0 => (RawConnection::open(addr).await.expect("the target listens"), None),
        1 => {
            let mut h = RawConnection::open(addr).await.expect("the target listens");
            h.initialize(&Offer::default()).await.expect("initialized");
            (h, None)
        }
        2 => (admin_queue(addr).await.0, None),
        _ => {
            let (a, cntlid) = admin_queue(addr).await;
            (queue(addr, 1, cntlid).await.0, Some(a))
        }
    };
    while let Some((head, tail)) = rest.split_first() {
        let len = usize::from(head >> 2).saturating_mul(3).min(tail.len());
        let (piece, next) = tail.split_at(len);
        let sent = if head & 3 == 3 { h.send(piece).await } else { h.send(&framed(head & 3 | stage >> 6, piece)).await };
        if sent.is_err() {
            return;
        }
        rest = next;
    }
}

async fn session(input: Vec<u8>) {
    let target = Target::new(TargetConfig::default());
    let subsystem =
        SubsystemConfig { nqn: nqn(), serial: "F".into(), model: "fuzz".into(), hosts: HostPolicy::Any, transports: Transports::ALL };
    target.add_subsystem(subsystem).expect("new");
    let namespace = NamespaceConfig {
        nsid: 1,
        uuid: uuid::Uuid::from_u128(1),
        backend: Arc::new(backend::memory::MemoryDisk::new(1 << 20, 512).expect("a RAM disk")),
        reservations: Arc::new(NoReservationStore),
    };
    target.add_namespace(&nqn(), namespace).expect("new");
    let machine = Node::new();
    let addr = machine.addr(4420);
    let served = target.clone();
    machine.spawn(async move {
        let listener = io::net::TcpListener::bind(addr).expect("a free port");
        while let Ok(stream) = listener.accept().await {
            let target = served.clone();
            drop(io::spawn(async move { target.serve(stream, PortRole::Io).await }));
        }
    });
    io::time::sleep(Duration::from_millis(1)).await;
    let client = Node::new();
    client.spawn(hostile(addr, input)).await.expect("not killed");
    let (mut next, _) = client.spawn(admin_queue(addr)).await.expect("not killed");
    let alive = next.command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), Cid(7), &[]).await;
    assert!(alive.expect("an answer").0.status().is_success());
    drop(next);
    // Every timeout has passed.
    io::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(target.counters().open, 0, "a connection did not end");
    assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
}

pub fn run(input: &[u8]) {
    let input = input.to_vec();
    Sim::new(1, SimConfig::default()).block_on(session(input));
}
