//! Connections that break under load.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::sim::Node;
use nvmf::controller::TargetConfig;
use nvmf::wire::pdu::Digests;
use nvmf_initiator::{Config, LinkState, Namespace, Offer, Reconnect, WriteOptions};
use testkit::breaks;

use crate::pair::{
    BLOCK, config, connect, listen, pattern, read, run, run_simulated, serve, target,
};

const QUICKLY: Reconnect = Reconnect {
    delay_min: Duration::from_millis(5),
    delay_max: Duration::from_millis(50),
    ctrl_loss_timeout: Duration::from_secs(60),
};

async fn write_and_read(ns: Rc<Namespace>, worker: u64, stop: Rc<Cell<bool>>) -> u64 {
    let write = async |at, data| {
        let written = ns.write(at, data, WriteOptions::default()).await;
        written.expect("write");
    };
    let read = async |at, len| read(&ns, at, len).await;
    breaks::write_and_read(worker, stop, Duration::ZERO, write, read).await
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
        let resets = breaks::disturb(here, server, 10, Duration::from_millis(40)).await;
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
            while controller.stats().reconnects < round || controller.state() != LinkState::Live {
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
            (LinkState::Live, 0)
        );
        ns.flush().await.expect("flush");
    });
}
