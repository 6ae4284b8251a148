//! A whole session of the initiator against a target that sends random PDUs in any state of a login or of a session,
//! in the simulated world.
//!
//! The first byte chooses the state up to which the target behaves, and the initiator's options. Then come chunks of
//! bytes, unchanged or as the data of a PDU whose header fits the initiator's tasks. Invariant: every call of the
//! initiator's user ends, and its buffers are released.

use io::net::{TcpListener, TcpStream};
use io::sim::{Node, Sim, SimConfig};
use io::{Payload, RecvBuf, SendBatch};
use iscsi_initiator::{Chap, Config, Proposal, Reconnect, Session, WriteOptions, discover};
use iscsi::login::{Credential, Secret};
use iscsi::wire::{Bhs, IscsiName, Opcode, Sn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn name(text: &str) -> IscsiName {
    IscsiName::new(text).expect("valid")
}

fn pdu(mut bhs: Bhs, data: &[u8]) -> Vec<u8> {
    bhs.set_data_len(data.len() as u32);
    let mut out = bhs.0.to_vec();
    out.extend(data);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

async fn send(s: &TcpStream, bytes: Vec<u8>) -> bool {
    let mut batch = SendBatch::new();
    batch.put_payload(Payload::from(bytes));
    s.send(batch).await.0.is_ok()
}

/// The target's side of one connection.
struct Hostile {
    stream: TcpStream,
    staging: Option<RecvBuf>,
    stat_sn: u32,
}

impl Hostile {
    /// What the initiator says, as far as it says anything within a moment.
    async fn listen(&mut self) -> Option<Bhs> {
        let staging = self.staging.take()?;
        let heard = io::timeout(Duration::from_millis(20), self.stream.recv(staging)).await;
        let (n, back) = heard.ok()?;
        let bhs = back.readable().first_chunk().copied().map(Bhs);
        let mut staging = back;
        staging.consume(staging.readable().len());
        staging.make_room(4096);
        self.staging = Some(staging);
        n.ok().filter(|n| *n > 0).and(bhs)
    }

    fn stamp(&mut self, bhs: &mut Bhs, counts: bool) {
        bhs.0[24..28].copy_from_slice(&Sn(self.stat_sn).0.to_be_bytes());
        self.stat_sn = self.stat_sn.wrapping_add(u32::from(counts));
        bhs.0[28..32].copy_from_slice(&1u32.to_be_bytes());
        bhs.0[32..36].copy_from_slice(&64u32.to_be_bytes());
    }

    /// Answers both stages of a login.
    async fn log_in(&mut self) {
        for _ in 0..2 {
            let Some(request) = self.listen().await else { return };
            let mut bhs = Bhs::new(Opcode::LoginResponse);
            bhs.0[1] = request.0[1];
            bhs.0[8..14].copy_from_slice(&request.0[8..14]);
            bhs.0[15] = 7;
            self.stamp(&mut bhs, true);
            let bytes = pdu(bhs, b"MaxOutstandingR2T=2\0");
            send(&self.stream, bytes).await;
        }
    }

    /// A piece as a PDU of a kind that a target sends: its first 12 bytes go where the interesting fields are.
    fn framed(&mut self, head: u8, piece: &[u8]) -> Vec<u8> {
        let (fields, data) = piece.split_at(piece.len().min(12));
        let mut f = [0; 12];
        f[..fields.len()].copy_from_slice(fields);
        let code = [Opcode::DataIn, Opcode::ScsiResponse, Opcode::R2t, Opcode::NopIn, Opcode::AsyncMessage,
            Opcode::TaskResponse, Opcode::TextResponse, Opcode::DataIn][usize::from(head & 7)];
        let mut b = Bhs::new(code);
        b.0[1] = f[0];
        b.0[2] = f[1] & 1;
        b.0[3] = f[1] & 0x2a;
        // A task's tag: its slot, and how often the slot was used.
        b.0[16] = f[2] & 0xc0;
        b.0[18] = f[2] & 0x3c;
        b.0[19] = f[2] & 3;
        b.0[23] = f[3];
        let counts = match code {
            Opcode::DataIn => f[0] & 1 != 0,
            Opcode::R2t => false,
            Opcode::NopIn => f[2] & 0xc0 != 0xc0,
            _ => true,
        };
        if code == Opcode::NopIn && !counts {
            b.0[16..20].fill(0xff);
        }
        self.stamp(&mut b, counts);
        b.0[39] = f[4] & 0x83;
        b.0[42..44].copy_from_slice(&f[5..7]);
        b.0[46..48].copy_from_slice(&f[7..9]);
        if code == Opcode::AsyncMessage {
            b.0[36] = f[4];
        }
        pdu(b, data)
    }

    async fn run(mut self, input: Vec<u8>) {
        let Some((stage, mut rest)) = input.split_first() else { return };
        if stage & 3 != 0 {
            self.log_in().await;
        } else {
            self.listen().await;
        }
        while let Some((head, tail)) = rest.split_first() {
            let len = usize::from(head >> 3).saturating_mul(5).min(tail.len());
            let (piece, next) = tail.split_at(len);
            rest = next;
            let bytes = if stage & 3 < 2 { piece.to_vec() } else { self.framed(*head, piece) };
            if !send(&self.stream, bytes).await {
                return;
            }
            self.listen().await;
        }
    }
}

async fn use_it(addr: SocketAddr, stage: u8) {
    let mut c = Config::new(addr, name("iqn.2026-11.fuzz:disk"), name("iqn.2026-11.fuzz:i"));
    let credential = |n: &str, s: &[u8]| Credential { name: n.into(), secret: Secret::new(s) };
    c.reconnect = Reconnect::NEVER;
    c.command_timeout = Duration::from_secs(4);
    c.proposal = Proposal { initial_r2t: stage & 8 != 0, immediate_data: stage & 16 != 0, ..Proposal::default() };
    if stage & 32 != 0 {
        let theirs = credential("t", b"another secret");
        c.chap = Some(Chap::new(credential("u", b"one secret"), Some(theirs)));
    }
    if stage & 64 != 0 {
        let _ = discover(addr, &c.initiator, None, Duration::from_secs(5)).await;
        return;
    }
    let Ok(session) = Session::connect(c).await else { return };
    let _ = session.report_luns().await;
    let Ok(unit) = session.unit(0).await else { return };
    let len = (unit.block_size() as usize * 8).min(unit.transfer_max() as usize);
    let _ = unit.read(0, io::pool().alloc(len).await).await;
    let data = Arc::new(io::pool().alloc(len).await);
    let _ = unit.write(0, data, WriteOptions::default()).await;
    let _ = (unit.caching().await, unit.designators().await, unit.provisioning().await);
    session.log_out().await;
}

async fn session(input: Vec<u8>) {
    let stage = input.first().copied().unwrap_or(0);
    let machine = Node::new();
    let addr = machine.addr(3260);
    machine.spawn(async move {
        let listener = TcpListener::bind(addr).expect("a free port");
        while let Ok(stream) = listener.accept().await {
            let hostile = Hostile { stream, staging: Some(RecvBuf::new(64 << 10)), stat_sn: 1 };
            drop(io::spawn(hostile.run(input.clone())));
        }
    });
    io::time::sleep(Duration::from_millis(1)).await;
    let user = Node::new().spawn(use_it(addr, stage));
    io::timeout(Duration::from_secs(600), user).await.expect("every call ends").expect("not killed");
    io::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
}

pub fn run(input: &[u8]) {
    let input = input.to_vec();
    Sim::new(1, SimConfig::default()).block_on(session(input));
}
