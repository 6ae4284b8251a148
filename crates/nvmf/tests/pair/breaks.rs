//! Connections that break under load.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::rng::Prng;
use io::sim::{Node, network};
use nvmf::initiator::{Config, Namespace, Offer, Reconnect, State, WriteOptions};
use nvmf::target::TargetConfig;
use nvmf::wire::pdu::Digests;

use crate::{BLOCK, config, connect, listen, pattern, read, run, run_simulated, serve, target};

const QUICKLY: Reconnect = Reconnect {
    delay_min: Duration::from_millis(5),
    delay_max: Duration::from_millis(50),
    ctrl_loss_timeout: Duration::from_secs(60),
};

/// Writes its own blocks over and over, in all sizes, and reads each back.
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
        let buf = read(&ns, slba, data.len()).await;
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
        let serving = target(TargetConfig {
            in_capsule: 2048,
            ..TargetConfig::default()
        });
        let addr = server
            .spawn(async move { listen(&serving, server.addr(4420)) })
            .await
            .expect("not killed");
        let digests = Digests {
            header: true,
            data: true,
        };
        let config = Config {
            reconnect: QUICKLY,
            io_queues: 2,
            queue_depth: 8,
            offer: Offer {
                digests,
                ..Offer::default()
            },
            ..config(addr)
        };
        let (controller, ns) = connect(config).await;
        let (ns, stop) = (Rc::new(ns), Rc::new(Cell::new(false)));
        let workers: Vec<_> = (0..24)
            .map(|i| io::spawn(write_and_read(ns.clone(), i, stop.clone())))
            .collect();
        let mut resets = 0;
        for _ in 0..10 {
            io::time::sleep(Duration::from_micros(io::rng::u64() % 40_000)).await;
            if io::rng::u64().is_multiple_of(4) {
                // Shorter than what ends a connection: everything arrives late, and once.
                network::partition(here, server);
                io::time::sleep(Duration::from_millis(io::rng::u64() % 500)).await;
                network::heal(here, server);
            } else {
                network::reset_connections(here, server);
                resets += 1;
            }
        }
        stop.set(true);
        let mut rounds = 0;
        for worker in workers {
            rounds += worker.await.expect("not killed");
        }
        assert!(rounds > 12, "{rounds} rounds");
        assert!((1..=resets).contains(&controller.stats().reconnects));
    });
}

#[test]
fn a_controller_that_the_target_ends_comes_back() {
    run(|| async {
        let target = target(TargetConfig::default());
        let addr = serve(&target);
        let (controller, ns) = connect(Config {
            reconnect: QUICKLY,
            ..config(addr)
        })
        .await;
        let data = pattern(BLOCK, 1).await;
        for round in 1..=3 {
            target
                .disconnect(controller.info().cntlid)
                .expect("it is connected");
            ns.write(0, data.clone(), WriteOptions::default())
                .await
                .expect("write");
            while controller.stats().reconnects < round || controller.state() != State::Live {
                io::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert!(read(&ns, 0, BLOCK).await[..] == data[..]);
    });
}

#[test]
fn keep_alives_keep_an_idle_controller() {
    run_simulated(|| async {
        let target = target(TargetConfig::default());
        let keep_alive = Duration::from_secs(2);
        let (controller, ns) = connect(Config {
            keep_alive,
            ..config(serve(&target))
        })
        .await;
        io::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            (controller.state(), controller.stats().reconnects),
            (State::Live, 0)
        );
        ns.flush().await.expect("flush");
    });
}
