//! Strangers: silent connections, discovery controllers and unlisted hosts keep no listed host out.
//!
//! Everything happens in simulated time, with the counts of a real attack.

use crate::fixture::{listen_at, namespace, ram};
use crate::host::{BLOCK, Host, connect, host_id, host_nqn, nqn, read};
use io::sim::{Node, Sim, SimConfig};
use nvmf::controller::{
    CloseReason, ConnectionState, HostPolicy, PortRole, SubsystemConfig, Target, TargetConfig,
    Transports,
};
use nvmf::wire::fabrics::ConnectData;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::pdu::Digests;
use session::refused::RefusalReason;
use std::net::SocketAddr;
use std::time::Duration;

/// The host on the list.
const LISTED: u8 = 1;
/// Pause of an attacker before it connects again.
const AGAIN: Duration = Duration::from_secs(1);
/// Discovery controllers' keep alive timeout.
const HOUR_MS: u32 = 3_600_000;

fn open_nqn() -> Nqn {
    Nqn::new("nqn.2026-11.io.wirepool:open").expect("a valid name")
}

/// A subsystem for one listed host, and one for all hosts.
async fn serve(config: TargetConfig) -> (Target, SocketAddr) {
    let target = Target::new(config);
    let subsystem = |nqn, hosts| SubsystemConfig {
        nqn,
        serial: "WP0001".into(),
        model: "Wirepool test".into(),
        hosts,
        transports: Transports::ALL,
    };
    let listed = HostPolicy::List([host_nqn(LISTED)].into());
    target
        .add_subsystem(subsystem(nqn(), listed))
        .expect("a new subsystem");
    target
        .add_subsystem(subsystem(open_nqn(), HostPolicy::Any))
        .expect("a new subsystem");
    target
        .add_namespace(&nqn(), namespace(1, ram(1 << 20)))
        .expect("a new namespace");
    let machine = Node::new();
    let addr = machine.addr(4420);
    let served = target.clone();
    machine
        .spawn(async move { listen_at(addr, &served, PortRole::Io) })
        .await
        .expect("not killed");
    (target, addr)
}

fn simulated<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + 'static) {
    Sim::new(11, SimConfig::default()).block_on(async move { test().await });
}

async fn crowd<F: Future<Output = Host> + 'static>(
    from: Node,
    count: usize,
    one: impl Fn() -> F + 'static,
) -> Vec<Host> {
    from.spawn(async move {
        let mut held = Vec::new();
        for _ in 0..count {
            held.push(one().await);
        }
        held
    })
    .await
    .expect("not killed")
}

/// The listed host connects an admin queue and `queues` I/O queues, all opened before the first Connect as Linux does,
/// and reads a block through each.
async fn works(from: Node, addr: SocketAddr, queues: u16) {
    from.spawn(async move {
        let mut admin = Host::initialized(addr, Digests::default()).await;
        admin.connect_keep_alive(&nqn(), LISTED, 5000).await;
        let mut io = Vec::new();
        for _ in 0..queues {
            io.push(Host::initialized(addr, Digests::default()).await);
        }
        for (q, qid) in io.iter_mut().zip(1..) {
            let cqe = q.connect_io(&admin, qid, false).await;
            assert!(cqe.status().is_success(), "{}", cqe.status());
            let answer = q.command(read(0, 1), &[]).await;
            assert!(answer.status.is_success() && answer.data.len() == BLOCK);
        }
    })
    .await
    .expect("not killed");
}

/// Connections that say nothing, of which each that is closed comes again.
fn flood(from: Node, addr: SocketAddr, count: usize, says: bool) {
    for _ in 0..count {
        drop(from.spawn(async move {
            loop {
                if let Some(mut h) = Host::try_raw(addr).await {
                    if says {
                        h.try_initialize().await;
                    }
                    h.closed().await;
                }
                io::time::sleep(AGAIN).await;
            }
        }));
    }
}

#[test]
fn thousands_of_silent_connections_keep_no_listed_host_out() {
    simulated(|| async {
        let (target, addr) = serve(TargetConfig::default()).await;
        let (attacker, host) = (Node::new(), Node::new());
        flood(attacker, addr, 6000, false);
        io::time::sleep(Duration::from_secs(1)).await;
        works(host, addr, 64).await;
        // Behind the same address as the attacker, too.
        works(attacker, addr, 8).await;
        assert!(target.counters().closed_for(CloseReason::Limit) > 0);
        attacker.kill();
    });
}

#[test]
fn silent_connections_from_many_addresses_keep_no_listed_host_out() {
    simulated(|| async {
        let (_target, addr) = serve(TargetConfig::default()).await;
        let attackers: Vec<Node> = (0..120).map(|_| Node::new()).collect();
        for a in &attackers {
            flood(*a, addr, 50, true);
        }
        io::time::sleep(Duration::from_secs(1)).await;
        works(Node::new(), addr, 64).await;
        attackers.iter().for_each(|a| a.kill());
    });
}

#[test]
fn discovery_controllers_take_no_places_of_io_controllers() {
    simulated(|| async {
        let (target, addr) = serve(TargetConfig::default()).await;
        let held = crowd(Node::new(), 1500, move || async move {
            let mut h = Host::initialized(addr, Digests::default()).await;
            h.connect_keep_alive(&Nqn::discovery(), 9, HOUR_MS).await;
            h
        })
        .await;
        works(Node::new(), addr, 4).await;
        // Discovery itself works as well, and the newest keep their places.
        let mut again = crowd(Node::new(), 1, move || async move {
            let mut h = Host::initialized(addr, Digests::default()).await;
            h.connect_keep_alive(&Nqn::discovery(), 8, HOUR_MS).await;
            h
        })
        .await;
        let alive = nvmf::wire::command::Sqe::new(
            nvmf::wire::opcode::admin::KEEP_ALIVE,
            nvmf::wire::command::Nsid::NONE,
        );
        assert!(again[0].command(alive, &[]).await.status.is_success());
        let discovering = target.counters().in_state(ConnectionState::Discovery);
        assert!(discovering <= 256, "{discovering}");
        drop(held);
    });
}

#[test]
fn hosts_on_no_list_leave_a_reserve_for_those_on_one() {
    simulated(|| async {
        let (target, addr) = serve(TargetConfig {
            controllers_max: 64,
            ..TargetConfig::default()
        })
        .await;
        let held = crowd(Node::new(), 80, move || async move {
            let mut h = Host::initialized(addr, Digests::default()).await;
            let data = ConnectData::new(host_id(9), 0xffff, &open_nqn(), &host_nqn(9));
            h.connect(connect(0, 31, HOUR_MS), &data).await;
            h
        })
        .await;
        assert_eq!(target.sessions().len(), 56);
        works(Node::new(), addr, 4).await;
        drop(held);
    });
}

#[test]
fn a_host_that_vanished_without_a_keep_alive_timer_loses_its_controller() {
    simulated(|| async {
        let (target, addr) = serve(TargetConfig::default()).await;
        let connect = move || async move {
            let mut h = Host::initialized(addr, Digests::default()).await;
            h.connect_keep_alive(&nqn(), LISTED, 0).await;
            h
        };
        let (stays, vanishes) = (Node::new(), Node::new());
        let held = crowd(stays, 1, connect).await;
        let gone = crowd(vanishes, 1, connect).await;
        vanishes.power_cut();
        io::time::sleep(Duration::from_secs(3600)).await;
        let left = target.sessions();
        assert_eq!(left.len(), 1, "an idle host that is there stays");
        assert_eq!(left[0].queues[0].peer.ip(), stays.ip());
        drop((held, gone));
    });
}

#[test]
fn a_forbidden_subsystem_looks_like_none() {
    simulated(|| async {
        let (target, addr) = serve(TargetConfig::default()).await;
        let missing = Nqn::new("nqn.2026-11.io.wirepool:missing").expect("a valid name");
        let mut seen = Vec::new();
        for (subsystem, id) in [
            (nqn(), host_id(9)),
            (missing.clone(), host_id(9)),
            (nqn(), HostId([0; 16])),
            (missing, HostId([0; 16])),
        ] {
            let mut h = Host::initialized(addr, Digests::default()).await;
            let data = ConnectData::new(id, 0xffff, &subsystem, &host_nqn(9));
            let answer = h.connect(connect(0, 31, 0), &data).await;
            seen.push((answer.status, answer.result, answer.sqhd));
        }
        assert!(seen.iter().all(|s| *s == seen[0]), "{seen:?}");
        // The server knows the difference.
        let c = target.counters();
        assert_eq!((c.refused_connects, c.forbidden_connects), (4, 2));
        // Regression: it did not tell the operator who asked, so that nobody could allow the host.
        let (hosts, totals) = target.refused();
        let (host, refusals) = &hosts[0];
        assert_eq!((hosts.len(), refusals.count), (1, 2));
        assert_eq!(totals[0], (RefusalReason::NotListed, 2));
        assert_eq!(host.name, host_nqn(9).as_str());
        assert_eq!(host.export, nqn().as_str());
    });
}
