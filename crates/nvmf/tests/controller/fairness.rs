//! 64 bad hosts beside a good one: the good one's latency stays as it is, with all buffers that the others hold.
//!
//! Everything happens in simulated time, on a disk whose reads need buffers of the pool.

use crate::fixture::{namespace, subsystem};
use crate::host::{BLOCK, Host, host_id, host_nqn, nqn, read, write};
use io::sim::Node;
use io::time::sleep;
use nvmf::controller::{CloseReason, PortRole, Target, TargetConfig};
use nvmf::wire::fabrics::{ConnectAccepted, ConnectData};
use nvmf::wire::pdu::{Digests, Pdu};
use session::Ledger;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::fairness::{self, BAD_HOSTS, HELD, POOL_SIZE, disk};

/// I/O queues of each.
const BAD_QUEUES: u16 = 2;
/// Commands that each of these queues sends and does not let end.
const BAD_DEPTH: usize = 120;
/// The good host's number.
const GOOD: u8 = 200;

/// How a bad host holds buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Reads whose data it does not receive.
    Reads,
    /// Writes whose data it does not send.
    Writes,
    /// Writes whose data comes four bytes at a time.
    Drip,
}

/// How bad hosts are told apart.
#[derive(Debug, Clone, Copy, PartialEq)]
enum From {
    /// Each from an address of its own.
    ManyAddresses,
    /// All from one address, under many names.
    OneAddress,
    /// All from one address, under one name.
    OneName,
}

#[derive(Debug, Clone, Copy)]
struct Attack {
    way: Way,
    from: From,
    /// Bytes of each of their commands.
    len: u32,
}

async fn serve(machine: Node) -> (Target, SocketAddr) {
    let addr = machine.addr(4420);
    let served = machine.spawn(async move {
        let disk = disk(machine).await;
        let target = Target::new(TargetConfig::default());
        target.add_subsystem(subsystem()).expect("a new subsystem");
        target
            .add_namespace(&nqn(), namespace(1, Arc::new(disk)))
            .expect("a new namespace");
        let all = target.clone();
        testkit::listen(addr, move |stream| {
            let target = all.clone();
            async move { target.serve(stream, PortRole::Io).await }
        });
        target
    });
    (served.await.expect("not killed"), addr)
}

/// A new queue of a bad host, if the target still lets one be made.
async fn bad_queue(addr: SocketAddr, name: u8, cntlid: u16, qid: u16) -> Option<Host> {
    let mut h = Host::initialized(addr, Digests::default()).await;
    let data = ConnectData::new(host_id(name), cntlid, &nqn(), &host_nqn(name));
    let answer = h.connect(crate::host::connect(qid, 127, 0), &data).await;
    h.cntlid = ConnectAccepted::from_result(answer.result).cntlid;
    answer.status.is_success().then_some(h)
}

/// Sends commands and lets none of them end, until the target closes the connection.
async fn hold(mut h: Host, attack: Attack) {
    let blocks = attack.len / BLOCK as u32;
    let mut bytes = Vec::new();
    for cid in 0..BAD_DEPTH {
        let mut sqe = match attack.way {
            Way::Reads => read(0, blocks),
            Way::Writes | Way::Drip => write(0, blocks),
        };
        sqe.cid.set(cid as u16);
        bytes.extend(h.capsule(&sqe, &[]));
    }
    h.send(&bytes).await;
    match attack.way {
        // The target's data fills the socket, and the host does not receive it.
        Way::Reads => {
            sleep(HELD).await;
            h.close();
        }
        Way::Writes => while h.recv().await.is_some() {},
        Way::Drip => drip(h, attack.len).await,
    }
}

/// One R2T is answered, as slowly as can be.
async fn drip(mut h: Host, len: u32) {
    let r2t = loop {
        match h.recv().await {
            Some(got) => {
                if let Pdu::R2t(r2t) = got.frame.pdu {
                    break r2t;
                }
            }
            None => return,
        }
    };
    let whole = h.h2c(&r2t, 0, &vec![0; len as usize], true);
    for piece in whole.chunks(4) {
        sleep(Duration::from_millis(200)).await;
        if !h.send(piece).await {
            return;
        }
    }
}

/// A bad host: it opens each connection again that is closed.
async fn attack_from(addr: SocketAddr, name: u8, attack: Attack) {
    loop {
        let mut admin = Host::initialized(addr, Digests::default()).await;
        admin.connect_admin(&nqn(), name).await;
        let mut queues = Vec::new();
        for qid in 1..=BAD_QUEUES {
            if let Some(q) = bad_queue(addr, name, admin.cntlid, qid).await {
                queues.push(io::spawn(hold(q, attack)));
            }
        }
        for q in queues {
            q.await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn begin(addr: SocketAddr, attack: Attack) {
    let together = Node::new();
    for i in 1..=BAD_HOSTS {
        let machine = match attack.from {
            From::ManyAddresses => Node::new(),
            From::OneAddress | From::OneName => together,
        };
        let name = if attack.from == From::OneName { 1 } else { i };
        drop(machine.spawn(attack_from(addr, name, attack)));
    }
}

/// The 99th percentile of the latency of reads and of writes of this size, µs.
async fn p99(io: &mut Host, len: u32) -> [u64; 2] {
    let data = vec![0x5a; len as usize];
    let blocks = len / BLOCK as u32;
    fairness::p99(async |writes| {
        let answer = match writes {
            false => io.command(read(0, blocks), &[]).await,
            true => io.transfer(write(0, blocks), &data).await,
        };
        assert!(answer.status.is_success(), "{}", answer.status);
    })
    .await
}

fn good_host_is_as_fast_as_alone(attack: Attack, len: u32) {
    fairness::run(11, async move {
        let (target, addr) = serve(Node::new()).await;
        let good = Node::new().spawn(async move {
            let mut admin = Host::initialized(addr, Digests::default()).await;
            admin.connect_admin(&nqn(), GOOD).await;
            let mut io = Host::initialized(addr, Digests::default()).await;
            let cqe = io.connect_io(&admin, 1, false).await;
            assert!(cqe.status().is_success());
            let alone = p99(&mut io, len).await;
            begin(addr, attack);
            sleep(Duration::from_secs(1)).await;
            fairness::compare(&attack, len, alone, p99(&mut io, len).await);
        });
        fairness::finish(good).await;
        assert_eq!(target.counters().closed_for(CloseReason::KeepAlive), 0);
    });
}

/// Hostile hosts fill the bytes that the ledger grants to strangers, and no more than these.
#[test]
fn memory_reaches_its_limit_and_stays_there() {
    fairness::run(12, async {
        let (_target, addr) = serve(Node::new()).await;
        let attack = Attack {
            way: Way::Writes,
            from: From::ManyAddresses,
            len: 1 << 20,
        };
        begin(addr, attack);
        let mut most = 0;
        for _ in 0..200 {
            sleep(Duration::from_millis(100)).await;
            let (pool, ledger) = (io::pool().stats(), Ledger::of_shard().stats());
            assert!(pool.used + pool.idle <= POOL_SIZE, "{pool:?}");
            assert!(ledger.held <= ledger.limit / 2, "{ledger:?}");
            most = most.max(ledger.held);
        }
        let limit = Ledger::of_shard().stats().limit / 2;
        assert!(most >= limit - (2 << 20), "{most} of {limit} bytes");
    });
}

/// Regression: on a busy machine, a turn took so long that a deadline lay between its start and its end, and the shard span
/// for ever (see `session/tests/session/turns.rs`). Here each reading of the clock takes 20 µs.
#[test]
fn a_good_host_is_served_beside_bad_ones_whose_turns_take_time() {
    for way in [Way::Reads, Way::Writes] {
        fairness::run_slowly(33, Duration::from_micros(20), async move {
            let (_target, addr) = serve(Node::new()).await;
            let good = Node::new().spawn(async move {
                let mut admin = Host::initialized(addr, Digests::default()).await;
                admin.connect_admin(&nqn(), GOOD).await;
                let mut io = Host::initialized(addr, Digests::default()).await;
                assert!(io.connect_io(&admin, 1, false).await.status().is_success());
                let attack = Attack {
                    way,
                    from: From::ManyAddresses,
                    len: 1 << 20,
                };
                begin(addr, attack);
                p99(&mut io, 4096).await;
            });
            fairness::finish(good).await;
        });
    }
}

fn all_ways(from: From, good: u32) {
    for way in [Way::Reads, Way::Writes, Way::Drip] {
        for len in [4096, 1 << 20] {
            good_host_is_as_fast_as_alone(Attack { way, from, len }, good);
        }
    }
}

#[test]
fn small_commands_beside_bad_hosts_at_many_addresses() {
    all_ways(From::ManyAddresses, 4096);
}

#[test]
fn large_commands_beside_bad_hosts_at_many_addresses() {
    all_ways(From::ManyAddresses, 1 << 20);
}

#[test]
fn small_commands_beside_bad_hosts_at_one_address() {
    all_ways(From::OneAddress, 4096);
}

#[test]
fn large_commands_beside_bad_hosts_at_one_address() {
    all_ways(From::OneAddress, 1 << 20);
}

#[test]
fn large_commands_beside_one_bad_host_with_many_connections() {
    all_ways(From::OneName, 1 << 20);
}
