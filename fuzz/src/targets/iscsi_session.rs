//! A whole session of the target against an initiator that sends random PDUs in any state of its connection, in the
//! simulated world.
//!
//! The first byte chooses the state up to which the initiator behaves. Then come chunks of bytes, unchanged or as the
//! data of a PDU with a fitting header. Invariant: the connection ends, its buffers are released, and the next one is
//! served.

use io::net::{TcpListener, TcpStream};
use io::sim::{Node, Sim, SimConfig};
use io::{Payload, RecvBuf, SendBatch};
use iscsi::portal::{Acl, Authentication, Config, Target, TargetConfig};
use iscsi::wire::request::LoginRequest;
use iscsi::wire::{Bhs, IscsiName, Isid, Itt, Opcode, Sn};
use scsi::{Device, DeviceConfig, Lun, NoReservationStore, TargetPort, UnitConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "iqn.2026-11.fuzz:disk";

fn config() -> TargetConfig {
    let device = Device::new(DeviceConfig {
        name: NAME.into(),
        vendor: "F".into(),
        product: "F".into(),
        revision: "0".into(),
        ports: vec![TargetPort { relative: 1, portal_group: 1, group: 1 }],
    })
    .expect("one port");
    let unit = UnitConfig {
        backend: Arc::new(backend::memory::MemoryDisk::new(1 << 20, 512).expect("a RAM disk")),
        uuid: uuid::Uuid::from_u128(1),
        serial: "F".into(),
        read_only: false,
        reservations: Arc::new(NoReservationStore),
        threshold_percent: None,
    };
    device.add_unit(Lun::new(0).expect("small"), unit).expect("new");
    TargetConfig {
        name: IscsiName::new(NAME).expect("valid"),
        alias: None,
        portal_group: 1,
        relative_port: 1,
        acl: Acl::Any,
        authentication: Authentication::None,
        redirect: None,
        device,
    }
}

fn pdu(mut bhs: Bhs, data: &[u8]) -> Vec<u8> {
    bhs.set_data_len(data.len() as u32);
    let mut out = bhs.0.to_vec();
    out.extend(data);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn login(level: u8, port: u8) -> Vec<u8> {
    let r = LoginRequest {
        transit: true,
        more: false,
        csg: 1,
        nsg: 3,
        version_min: 0,
        isid: Isid([port; 6]),
        tsih: 0,
        itt: Itt(0),
        cid: 0,
        cmd_sn: Sn(1),
        exp_stat_sn: Sn(0),
    };
    let keys = format!(
        "InitiatorName=iqn.2026-11.f:i\0TargetName={NAME}\0InitialR2T=No\0FirstBurstLength=512\0\
         MaxBurstLength=512\0MaxOutstandingR2T=2\0ErrorRecoveryLevel={level}\0"
    );
    pdu(r.build(), keys.as_bytes())
}

async fn send(s: &TcpStream, bytes: Vec<u8>) -> bool {
    let mut batch = SendBatch::new();
    batch.put_payload(Payload::from(bytes));
    s.send(batch).await.0.is_ok()
}

/// A chunk as a PDU of a kind that an initiator sends: its first 8 bytes go to the interesting fields.
fn framed(kind: u8, cmd_sn: u32, piece: &[u8]) -> Vec<u8> {
    let (fields, data) = piece.split_at(piece.len().min(12));
    let mut f = [0; 12];
    f[..fields.len()].copy_from_slice(fields);
    let code = [Opcode::ScsiCommand, Opcode::DataOut, Opcode::TaskManagement, Opcode::TextRequest,
        Opcode::Snack, Opcode::NopOut, Opcode::LogoutRequest, Opcode::ScsiCommand][usize::from(kind & 7)];
    let mut b = Bhs::new(code);
    b.0[0] |= f[0] & 0x40;
    b.0[1] = f[1];
    b.0[19] = f[2] & 7;
    b.0[22..24].copy_from_slice(&f[3..5]);
    b.0[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
    if code == Opcode::ScsiCommand {
        b.0[32..39].copy_from_slice(&f[5..12]);
        b.0[40] = f[4] & 3;
    } else {
        b.0[36..43].copy_from_slice(&f[5..12]);
    }
    pdu(b, data)
}

async fn hostile(addr: SocketAddr, input: Vec<u8>) {
    let Some((stage, mut rest)) = input.split_first() else { return };
    let s = TcpStream::connect(addr).await.expect("the target listens");
    if stage & 3 != 0 {
        send(&s, login(stage >> 2 & 1, 1)).await;
        drop(s.recv(RecvBuf::new(4096)).await);
    }
    let mut cmd_sn = 1;
    while let Some((head, tail)) = rest.split_first() {
        let len = usize::from(head >> 3).saturating_mul(5).min(tail.len());
        let (piece, next) = tail.split_at(len);
        rest = next;
        let bytes = if stage & 3 < 2 { piece.to_vec() } else { framed(*head, cmd_sn, piece) };
        cmd_sn += u32::from(matches!(head & 7, 0 | 7));
        if !send(&s, bytes).await {
            return;
        }
    }
    io::time::sleep(Duration::from_secs(1)).await;
}

async fn session(input: Vec<u8>) {
    let target = Target::new(Config::default());
    target.add_target(config()).expect("new");
    let machine = Node::new();
    let addr = machine.addr(3260);
    let served = target.clone();
    machine.spawn(async move {
        let listener = TcpListener::bind(addr).expect("a free port");
        while let Ok(stream) = listener.accept().await {
            let target = served.clone();
            drop(io::spawn(async move { target.serve(stream).await }));
        }
    });
    io::time::sleep(Duration::from_millis(1)).await;
    let client = Node::new();
    client.spawn(hostile(addr, input)).await.expect("not killed");
    let next = client.spawn(async move {
        let s = TcpStream::connect(addr).await.expect("the target listens");
        send(&s, login(0, 2)).await;
        let mut answer = RecvBuf::new(4096);
        while answer.readable().len() < 48 {
            let (n, back) = s.recv(answer).await;
            assert!(n.is_ok_and(|n| n > 0), "no answer to a login");
            answer = back;
        }
        assert_eq!(answer.readable()[36..38], [0, 0], "logged in");
    });
    next.await.expect("not killed");
    // Every timeout has passed.
    io::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(target.counters().open, 0, "a connection did not end");
    assert!(target.sessions().is_empty(), "a session did not end");
    assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
}

pub fn run(input: &[u8]) {
    let input = input.to_vec();
    Sim::new(1, SimConfig::default()).block_on(session(input));
}
