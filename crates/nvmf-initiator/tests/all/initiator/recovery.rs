//! Broken connections: which commands are sent again, which fail, and when the controller is given up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use io::rng::Prng;
use io::sim::{Node, network};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::opcode::io as op;
use nvmf::wire::pdu::Digests;
use nvmf_initiator::{
    Config, Controller, Error, LinkState, Namespace, Offer, Reconnect, WriteOptions,
};

use crate::initiator::fake::{BLOCK, Behavior, Fake};
use crate::initiator::{config, connect, empty, pattern, run, run_simulated};

const QUICKLY: Reconnect = Reconnect {
    delay_min: Duration::from_millis(5),
    delay_max: Duration::from_millis(20),
    ctrl_loss_timeout: Duration::from_secs(30),
};

async fn until(controller: &Controller, state: LinkState) {
    while controller.state() != state {
        io::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn unanswered_reads_and_writes_are_sent_again_and_the_others_fail() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        // The first I/O connection receives six commands and answers none.
        let unanswered = Rc::new(RefCell::new(Vec::new()));
        let seen = unanswered.clone();
        fake.script(|mut peer| async move {
            for _ in 0..6 {
                let (sqe, _) = peer.capsule().await.expect("a command");
                seen.borrow_mut().push(sqe.opcode);
            }
        });
        let (controller, ns) = connect(Config {
            reconnect: QUICKLY,
            ..config(&fake)
        })
        .await;
        let ns = Rc::new(ns);
        fake.disk.borrow_mut()[..512].fill(9);
        let data = pattern(4096, 3).await;
        let spawn = |f: std::pin::Pin<Box<dyn Future<Output = Result<(), Error>>>>| io::spawn(f);
        let (n, d) = (ns.clone(), data.clone());
        let write = spawn(Box::pin(async move {
            n.write(8, d, WriteOptions::default()).await
        }));
        let n = ns.clone();
        let read = io::spawn(async move { n.read(0, empty(512).await).await });
        let n = ns.clone();
        let flush = spawn(Box::pin(async move { n.flush().await }));
        let n = ns.clone();
        let zeroes = spawn(Box::pin(async move {
            n.write_zeroes(100, 1, false, WriteOptions::default()).await
        }));
        let (n, d) = (ns.clone(), data.clone());
        let compare = spawn(Box::pin(async move { n.compare(8, d).await }));
        let n = ns.clone();
        let verify = spawn(Box::pin(async move { n.verify(8, 1).await }));
        assert_eq!(write.await, Some(Ok(())));
        let (result, buf) = read.await.expect("not killed");
        assert_eq!(result, Ok(()));
        assert!(buf.iter().all(|b| *b == 9));
        assert_eq!((flush.await, zeroes.await), (Some(Ok(())), Some(Ok(()))));
        assert_eq!(compare.await, Some(Err(Error::Disconnected)));
        assert_eq!(verify.await, Some(Err(Error::Disconnected)));
        assert!(fake.disk.borrow()[8 * BLOCK..8 * BLOCK + 4096] == data[..]);
        unanswered
            .borrow_mut()
            .retain(|opcode| ![op::COMPARE, op::VERIFY].contains(opcode));
        assert_eq!(*fake.seen.borrow(), *unanswered.borrow(), "in their order");
        assert_eq!(
            (controller.stats().reconnects, fake.admin_connections.get()),
            (1, 2)
        );
        assert_eq!(controller.state(), LinkState::Live);
    });
}

#[test]
fn commands_wait_while_the_controller_is_away() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.script(|mut peer| async move {
            peer.capsule()
                .await
                .expect("the command after which the connection breaks");
        });
        let (controller, ns) = connect(Config {
            reconnect: QUICKLY,
            ..config(&fake)
        })
        .await;
        fake.refusing.set(true);
        assert_eq!(ns.verify(0, 1).await, Err(Error::Disconnected));
        until(&controller, LinkState::Reconnecting).await;
        let ns = Rc::new(ns);
        let n = ns.clone();
        let compare = io::spawn(async move { n.compare(0, pattern(512, 1).await).await });
        io::time::sleep(Duration::from_millis(50)).await;
        assert!(!compare.is_finished());
        fake.refusing.set(false);
        // Never sent before, so it may be sent now.
        assert!(matches!(compare.await, Some(Err(Error::Refused(_)))));
        assert_eq!(controller.state(), LinkState::Live);
    });
}

#[test]
fn a_controller_that_stays_away_is_given_up() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.script(|mut peer| async move {
            peer.capsule()
                .await
                .expect("the command after which the connection breaks");
        });
        let reconnect = Reconnect {
            ctrl_loss_timeout: Duration::from_millis(60),
            ..QUICKLY
        };
        let (controller, ns) = connect(Config {
            reconnect,
            ..config(&fake)
        })
        .await;
        fake.refusing.set(true);
        assert_eq!(ns.verify(0, 1).await, Err(Error::Disconnected));
        let (result, _) = ns.read(0, empty(512).await).await;
        assert_eq!(result, Err(Error::Disconnected));
        until(&controller, LinkState::Lost).await;
        assert_eq!(controller.next_event().await, Err(Error::Disconnected));
        assert_eq!(ns.flush().await, Err(Error::Disconnected));
    });
}

#[test]
fn keep_alives_are_sent_and_their_absence_is_noticed() {
    run_simulated(|| async {
        let keep_alive = Duration::from_millis(40);
        let fake = Fake::start(Behavior::default());
        let (controller, _ns) = connect(Config {
            keep_alive,
            ..config(&fake)
        })
        .await;
        while fake.keep_alives.get() < 3 {
            io::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(controller.stats().keep_alives >= 3);
        assert_eq!(controller.state(), LinkState::Live);
        drop(controller);

        let fake = Fake::start(Behavior {
            answers_keep_alive: false,
            ..Behavior::default()
        });
        let (controller, _ns) = connect(Config {
            keep_alive,
            reconnect: QUICKLY,
            ..config(&fake)
        })
        .await;
        while controller.stats().reconnects < 2 {
            io::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(fake.keep_alives.get() >= 2);
    });
}

#[test]
fn traffic_replaces_keep_alives() {
    run_simulated(|| async {
        let fake = Fake::start(Behavior {
            traffic_based_keep_alive: true,
            ..Behavior::default()
        });
        let keep_alive = Duration::from_millis(40);
        let (controller, ns) = connect(Config {
            keep_alive,
            ..config(&fake)
        })
        .await;
        // Several keep-alive periods in which commands are answered continuously.
        let start = io::time::now();
        while start.elapsed() < keep_alive {
            ns.flush().await.expect("flush");
        }
        assert_eq!(controller.stats().keep_alives, 0);
        while fake.keep_alives.get() == 0 {
            io::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn dropping_the_handle_ends_the_connections() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        let ended = Rc::new(std::cell::Cell::new(false));
        let flag = ended.clone();
        fake.script(|mut peer| async move {
            assert!(peer.capsule().await.is_none());
            flag.set(true);
        });
        let (controller, ns) = connect(Config {
            reconnect: QUICKLY,
            ..config(&fake)
        })
        .await;
        drop(controller);
        while !ended.get() {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(ns.flush().await, Err(Error::Closed));
        assert_eq!(fake.admin_connections.get(), 1, "no reconnect");
    });
}

/// Regression: commands that waited for the connection took every place of a full queue, so the Connect that was to restore
/// the connection waited for a place.
#[test]
fn a_full_queue_is_restored() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        fake.script(|mut peer| async move {
            for _ in 0..2 {
                peer.capsule().await.expect("a read");
            }
        });
        let config = Config {
            reconnect: QUICKLY,
            queue_depth: 2,
            ..config(&fake)
        };
        let (controller, ns) = connect(config).await;
        let ns = Rc::new(ns);
        let reads: Vec<_> = (0..8)
            .map(|i| {
                let ns = ns.clone();
                io::spawn(async move { ns.read(i, empty(512).await).await.0 })
            })
            .collect();
        for read in reads {
            assert_eq!(read.await, Some(Ok(())));
        }
        assert_eq!(controller.stats().reconnects, 1);
    });
}

/// Writes its own blocks repeatedly, in all sizes, and reads each back.
async fn write_and_read(ns: Rc<Namespace>, worker: u64, stop: Rc<Cell<bool>>) -> u64 {
    let mut rng = Prng::new(worker);
    let mut rounds = 0;
    while !stop.get() {
        let blocks = 1 + rng.below(64);
        let slba = worker * 128 + rng.below(128 - blocks);
        let data = pattern(blocks as usize * BLOCK, rng.u64()).await;
        ns.write(slba, data.clone(), WriteOptions::default())
            .await
            .expect("write");
        let (result, buf) = ns.read(slba, empty(data.len()).await).await;
        result.expect("read");
        assert!(
            buf[..] == data[..],
            "worker {worker}, round {rounds}, block {slba}"
        );
        rounds += 1;
    }
    rounds
}

#[test]
fn no_error_and_no_wrong_data_while_connections_break() {
    run_simulated(|| async {
        let (server, here) = (Node::new(), Node::current());
        let digests = Digests {
            header: true,
            data: true,
        };
        let behavior = Behavior {
            digests,
            capsule_data: 1024,
            r2t_max: 9000,
            ..Behavior::default()
        };
        let listening = server.spawn(async move { Fake::listen(behavior, server.addr(4420)).addr });
        let addr = listening.await.expect("not killed");
        let subnqn = Nqn::new("nqn.2026-11.test:disk").expect("valid");
        let hostnqn = Nqn::new("nqn.2026-11.test:host").expect("valid");
        let config = Config {
            reconnect: QUICKLY,
            io_queues: 2,
            queue_depth: 8,
            offer: Offer {
                digests,
                ..Offer::default()
            },
            ..Config::new(addr, subnqn, hostnqn, HostId([3; 16]))
        };
        let (controller, ns) = connect(config).await;
        let (ns, stop) = (Rc::new(ns), Rc::new(Cell::new(false)));
        let workers: Vec<_> = (0..24)
            .map(|i| io::spawn(write_and_read(ns.clone(), i, stop.clone())))
            .collect();
        let mut resets = 0;
        for _ in 0..20 {
            io::time::sleep(Duration::from_micros(io::rng::u64() % 40_000)).await;
            match io::rng::u64() % 4 {
                // Shorter than the time-out of a connection: everything arrives late, and once.
                0 => {
                    network::partition(here, server);
                    io::time::sleep(Duration::from_millis(io::rng::u64() % 500)).await;
                    network::heal(here, server);
                }
                _ => {
                    network::reset_connections(here, server);
                    resets += 1;
                }
            }
        }
        stop.set(true);
        let mut rounds = 0;
        for worker in workers {
            rounds += worker.await.expect("not killed");
        }
        assert!(rounds > 24, "{rounds} rounds");
        assert!((1..=resets).contains(&controller.stats().reconnects));
    });
}
