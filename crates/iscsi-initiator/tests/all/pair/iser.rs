//! The initiator against our server over RDMA (iSER), on the simulated verbs device.

use crate::pair::breaks::{QUICKLY, write_and_read};
use crate::pair::commands::move_data;
use crate::pair::{BLOCK, config, connect, name, pattern, read, run_simulated, serve, target};
use io::rdma::RdmaListener;
use io::sim::{Node, network, rdma as devices};
use iscsi::portal::{CloseReason, Config as Settings, IscsiTransport, Target};
use iscsi_initiator::{Config, LinkState, Proposal, WriteOptions, discover_over};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use testkit::breaks;

const SEC: Duration = Duration::from_secs(1);

/// Answers connection requests at `addr` until the test ends.
fn listen(target: &Target, addr: SocketAddr) -> SocketAddr {
    let listener = RdmaListener::bind(addr).expect("a free port");
    let addr = listener.local_addr();
    let target = target.clone();
    drop(io::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            let target = target.clone();
            drop(io::spawn(async move { target.serve_rdma(incoming).await }));
        }
    }));
    addr
}

/// A server on a machine of its own.
struct Served {
    target: Target,
    addr: SocketAddr,
    machine: Node,
}

async fn served() -> Served {
    served_on(Node::new()).await
}

async fn served_on(machine: Node) -> Served {
    let starting = machine.spawn(async move {
        let target = target(Settings::default());
        let addr = listen(&target, machine.addr(3260));
        (target, addr)
    });
    let (target, addr) = starting.await.expect("not killed");
    Served {
        target,
        addr,
        machine,
    }
}

fn over_rdma(addr: SocketAddr) -> Config {
    Config {
        transport: IscsiTransport::Iser,
        ..config(addr)
    }
}

/// Waits until the target has no connection left: then its machine has no queue pair, and all buffers are back.
async fn quiet(served: &Served) {
    for _ in 0..100 {
        io::time::sleep(SEC).await;
        if served.target.counters().open == 0 {
            io::time::sleep(SEC).await;
            assert_eq!(devices::queue_pairs(served.machine), 0);
            assert!(served.target.sessions().is_empty());
            assert_eq!(io::pool().stats().used, 0, "a buffer did not come back");
            return;
        }
    }
    panic!("connections stay");
}

#[test]
fn data_of_all_sizes_arrives() {
    for bits in 0..8 {
        run_simulated(move || async move {
            let served = served().await;
            let c = Config {
                remote_invalidation: bits & 1 != 0,
                proposal: Proposal {
                    immediate_data: bits & 2 != 0,
                    initial_r2t: bits & 4 != 0,
                    ..Proposal::default()
                },
                queue_depth: 7,
                ..over_rdma(served.addr)
            };
            move_data(c).await;
            quiet(&served).await;
            let ended = |why| served.target.counters().closed_for(why);
            assert_eq!(ended(CloseReason::Logout), 1);
        });
    }
}

#[test]
fn the_session_tells_its_transport_and_what_it_negotiated() {
    run_simulated(|| async {
        let served = served().await;
        let proposal = Proposal {
            header_digest: true,
            data_digest: true,
            ..Proposal::default()
        };
        let (session, unit) = connect(Config {
            proposal,
            ..over_rdma(served.addr)
        })
        .await;
        let link = session.link().expect("connected");
        let p = link.parameters;
        assert!(
            !p.header_digest && !p.data_digest,
            "RDMA has its own checks"
        );
        assert!(p.initial_r2t && p.immediate_data);
        assert_eq!((p.max_send_data, p.max_recv_data), (8192, 8192));
        assert_eq!((p.max_connections, p.error_recovery_level), (1, 0));
        assert!(link.rdma.is_some());
        let shown = served.target.sessions();
        assert_eq!(shown[0].transport, IscsiTransport::Iser);
        io::time::sleep(2 * SEC).await;
        unit.flush().await.expect("flush");
        drop(unit);
        session.log_out().await;
        quiet(&served).await;
    });
}

#[test]
fn discovery_names_the_addresses_of_its_transport() {
    run_simulated(|| async {
        let served = served().await;
        let over_tcp = serve(&served.target);
        let portal = |address, transport| iscsi::portal::Portal {
            address,
            group: 1,
            transport,
        };
        served.target.set_portals(vec![
            portal(over_tcp, IscsiTransport::Tcp),
            portal(served.addr, IscsiTransport::Iser),
        ]);
        let me = name("iqn.2026-11.test:initiator");
        for (transport, addr) in [
            (IscsiTransport::Tcp, over_tcp),
            (IscsiTransport::Iser, served.addr),
        ] {
            let found = discover_over((transport, addr), &me, None, 10 * SEC).await;
            let found = found.expect("answered");
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].portals(addr), [addr], "{transport:?}");
        }
    });
}

/// Connections that break are made again, and tasks repeated: no data is lost, and buffers come back whole.
#[test]
fn no_error_and_no_wrong_data_while_connections_break() {
    for remote_invalidation in [false, true] {
        run_simulated(move || async move {
            let served = served().await;
            let (machine, addr) = (served.machine, served.addr);
            let here = Node::new();
            let loaded = here.spawn(async move {
                let (session, unit) = connect(Config {
                    reconnect: QUICKLY,
                    remote_invalidation,
                    queue_depth: 12,
                    ..over_rdma(addr)
                })
                .await;
                let (unit, stop) = (Rc::new(unit), Rc::new(Cell::new(false)));
                let workers: Vec<_> = (0..24)
                    .map(|i| io::spawn(write_and_read(unit.clone(), i, stop.clone())))
                    .collect();
                let resets = breaks::disturb(here, machine, 6, 3 * SEC).await;
                stop.set(true);
                let mut rounds = 0;
                for worker in workers {
                    rounds += worker.await.expect("not killed");
                }
                assert!(rounds > 12, "{rounds} rounds");
                let stats = session.stats();
                assert!(stats.reconnects <= resets + 6, "{stats:?}");
                drop(unit);
                session.log_out().await;
                stats.reconnects
            });
            assert!(loaded.await.expect("not killed") >= 1);
            quiet(&served).await;
        });
    }
}

#[test]
fn a_link_that_is_lost_for_15_s_costs_no_data() {
    run_simulated(|| async {
        let served = served().await;
        let here = Node::current();
        let (session, unit) = connect(Config {
            reconnect: QUICKLY,
            keep_alive: 2 * SEC,
            ..over_rdma(served.addr)
        })
        .await;
        let data = pattern(128 * BLOCK, 1).await;
        let options = WriteOptions::default();
        unit.write(0, data.clone(), options).await.expect("write");
        network::partition(here, served.machine);
        io::time::sleep(15 * SEC).await;
        assert_eq!(session.state(), LinkState::Reconnecting);
        network::heal(here, served.machine);
        assert!(read(&unit, 0, data.len()).await[..] == data[..]);
        assert_eq!(session.stats().reconnects, 1);
        drop((unit, data));
        session.log_out().await;
        quiet(&served).await;
    });
}

#[test]
fn a_target_that_dies_and_starts_again_gets_its_sessions_back() {
    run_simulated(|| async {
        let first = served().await;
        let machine = first.machine;
        let (session, unit) = connect(Config {
            reconnect: QUICKLY,
            keep_alive: 2 * SEC,
            ..over_rdma(first.addr)
        })
        .await;
        unit.flush().await.expect("flush");
        machine.kill();
        io::time::sleep(10 * SEC).await;
        let second = served_on(machine).await;
        let data = pattern(16 * BLOCK, 3).await;
        let options = WriteOptions::default();
        unit.write(0, data.clone(), options).await.expect("write");
        assert!(read(&unit, 0, data.len()).await[..] == data[..]);
        assert_eq!(session.stats().reconnects, 1);
        drop((unit, data));
        session.log_out().await;
        quiet(&second).await;
    });
}

#[test]
fn an_idle_session_stays_and_a_drain_ends_it() {
    run_simulated(|| async {
        let served = served().await;
        let (session, unit) = connect(Config {
            keep_alive: 2 * SEC,
            ..over_rdma(served.addr)
        })
        .await;
        io::time::sleep(60 * SEC).await;
        assert_eq!(session.state(), LinkState::Live);
        assert!(session.stats().pings > 10);
        served.target.drain(10 * SEC).await;
        assert_eq!(served.target.counters().open, 0);
        let again = iscsi_initiator::Session::connect(over_rdma(served.addr)).await;
        let refused = again.err().expect("the target takes no connection");
        assert_eq!(refused, iscsi_initiator::Error::NotAccepted);
        drop((session, unit));
    });
}
