//! Connections that break under load, and keep-alive.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::sim::{Node, network};
use iscsi::portal::Config as Settings;
use iscsi_initiator::{Config, Error, Event, LinkState, Proposal, Reconnect, Unit, WriteOptions};
use testkit::breaks;

use crate::pair::{
    BLOCK, config, connect, listen, pattern, read, run, run_simulated, serve, target,
};

pub(super) const QUICKLY: Reconnect = Reconnect {
    delay_min: Duration::from_millis(5),
    delay_max: Duration::from_millis(50),
    loss_timeout: Duration::from_secs(60),
};

pub(super) async fn write_and_read(unit: Rc<Unit>, worker: u64, stop: Rc<Cell<bool>>) -> u64 {
    let write = async |at, data| {
        let written = unit.write(at, data, WriteOptions::default()).await;
        written.expect("write");
    };
    let read = async |at, len| read(&unit, at, len).await;
    breaks::write_and_read(worker, stop, Duration::from_millis(100), write, read).await
}

#[test]
fn no_error_and_no_wrong_data_while_connections_break() {
    run_simulated(|| async {
        let (server, here) = (Node::new(), Node::current());
        let serving = target(Settings::default());
        let addr = server
            .spawn(async move { listen(&serving, server.addr(3260)) })
            .await
            .expect("not killed");
        let c = Config {
            reconnect: QUICKLY,
            queue_depth: 12,
            proposal: Proposal {
                header_digest: true,
                data_digest: true,
                max_recv_data: 8192,
                ..Proposal::default()
            },
            ..config(addr)
        };
        let (session, unit) = connect(c).await;
        let (unit, stop) = (Rc::new(unit), Rc::new(Cell::new(false)));
        let workers: Vec<_> = (0..24)
            .map(|i| io::spawn(write_and_read(unit.clone(), i, stop.clone())))
            .collect();
        let resets = breaks::disturb(here, server, 6, Duration::from_secs(3)).await;
        stop.set(true);
        let mut rounds = 0;
        for worker in workers {
            rounds += worker.await.expect("not killed");
        }
        assert!(rounds > 12, "{rounds} rounds");
        let stats = session.stats();
        assert!((1..=resets).contains(&stats.reconnects), "{stats:?}");
        assert!(
            stats.resets >= 1,
            "the target tells of a lost nexus: {stats:?}"
        );
    });
}

#[test]
fn a_session_that_the_target_ends_comes_back() {
    run(|| async {
        let target = target(Settings::default());
        let addr = serve(&target);
        let (session, unit) = connect(Config {
            reconnect: QUICKLY,
            ..config(addr)
        })
        .await;
        let data = pattern(BLOCK, 1).await;
        let tsih = session.link().expect("connected").tsih;
        target.disconnect(tsih).expect("it is connected");
        // Nothing may be sent meanwhile: it could meet a closed socket, and the reset could discard the message.
        while session.stats().reconnects < 1 || session.state() != LinkState::Live {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        let options = WriteOptions::default();
        unit.write(0, data.clone(), options).await.expect("write");
        assert!(read(&unit, 0, BLOCK).await[..] == data[..]);
        let mut dropped = false;
        while let Ok(Ok(event)) = io::timeout(Duration::ZERO, session.next_event()).await {
            dropped |= event == Event::Dropped;
        }
        assert!(dropped, "the target says so before it does");
    });
}

#[test]
fn a_server_that_drains_gets_a_logout_and_a_new_login() {
    run_simulated(|| async {
        let server = Node::new();
        let start = move || async move {
            let serving = target(Settings::default());
            let served = serving.clone();
            let listening = async move { listen(&served, server.addr(3260)) };
            let addr = server.spawn(listening).await.expect("not killed");
            (serving, addr)
        };
        let (first, addr) = start().await;
        let (session, unit) = connect(Config {
            reconnect: QUICKLY,
            ..config(addr)
        })
        .await;
        first.drain(Duration::from_secs(10)).await;
        assert_eq!(first.counters().open, 0);
        server.kill();
        // The kernel closes a killed process's sockets with a delay.
        io::time::sleep(Duration::from_millis(100)).await;
        let (_second, _) = start().await;
        let data = pattern(BLOCK, 3).await;
        let options = WriteOptions::default();
        unit.write(0, data.clone(), options).await.expect("write");
        assert!(read(&unit, 0, BLOCK).await[..] == data[..]);
        assert_eq!(session.stats().reconnects, 1);
    });
}

#[test]
fn without_reconnection_commands_fail_with_their_connection() {
    run(|| async {
        let target = target(Settings::default());
        let (session, unit) = connect(config(serve(&target))).await;
        let tsih = session.link().expect("connected").tsih;
        target.disconnect(tsih).expect("it is connected");
        while session.state() != LinkState::Lost {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        let data = pattern(BLOCK, 1).await;
        let written = unit.write(0, data, WriteOptions::default()).await;
        assert_eq!(written, Err(Error::Disconnected));
    });
}

#[test]
fn pings_keep_an_idle_session_and_find_a_dead_one() {
    run_simulated(|| async {
        let (server, here) = (Node::new(), Node::current());
        let serving = target(Settings::default());
        let addr = server
            .spawn(async move { listen(&serving, server.addr(3260)) })
            .await
            .expect("not killed");
        let (session, unit) = connect(Config {
            keep_alive: Duration::from_secs(2),
            reconnect: QUICKLY,
            ..config(addr)
        })
        .await;
        io::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            (session.state(), session.stats().reconnects),
            (LinkState::Live, 0)
        );
        assert!(session.stats().pings > 10);
        network::partition(here, server);
        io::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(session.state(), LinkState::Reconnecting);
        network::heal(here, server);
        unit.flush().await.expect("flush");
        assert_eq!(session.stats().reconnects, 1);
    });
}

#[test]
fn two_sessions_of_one_initiator_do_not_end_each_other() {
    run(|| async {
        let target = target(Settings::default());
        let addr = serve(&target);
        let (one, first) = connect(config(addr)).await;
        let (two, second) = connect(config(addr)).await;
        let data = pattern(BLOCK, 1).await;
        let options = WriteOptions { fua: true };
        first.write(0, data.clone(), options).await.expect("write");
        assert!(read(&second, 0, BLOCK).await[..] == data[..]);
        assert_eq!(target.sessions().len(), 2);
        one.log_out().await;
        second.flush().await.expect("flush");
        two.log_out().await;
        assert!(target.sessions().is_empty());
    });
}
