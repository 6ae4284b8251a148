//! The project's own initiator against the target: every command both know, many queues on two shards, a session
//! that is taken away under load, and the same in the simulated world.

use crate::fixture::{Fixture, namespace, ram};
use crate::host::{host_id, host_nqn, nqn, run};
use io::net::TcpListener;
use io::runtime::{Shard, ShardConfig};
use io::sim::{Node, Sim, SimConfig};
use io::{IoBuf, RuntimeConfig, pool};
use nvmf::controller::{
    CloseReason, HostPolicy, PortRole, SubsystemConfig, Target, TargetConfig, Transports,
};
use nvmf::wire::command::Nsid;
use nvmf::wire::copy::CopyRange;
use nvmf::wire::dsm::DsmRange;
use nvmf::wire::pdu::Digests;
use nvmf::wire::status::Status;
use nvmf_initiator::{Config, Controller, Error, Namespace, Offer, WriteOptions};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn config(addr: SocketAddr, digests: bool, queues: u16) -> Config {
    let digests = Digests {
        header: digests,
        data: digests,
    };
    Config {
        io_queues: queues,
        offer: Offer {
            digests,
            ..Offer::default()
        },
        ..Config::new(addr, nqn(), host_nqn(1), host_id(1))
    }
}

async fn filled(len: usize, seed: u64) -> IoBuf {
    let mut buf = pool().alloc(len).await;
    io::rng::Prng::new(seed).fill(&mut buf);
    buf
}

/// Writes and reads back ranges of its own of the disk, of many sizes, in and out of capsules.
async fn worker(ns: Rc<Namespace>, number: u64, share: u64, rounds: u64) {
    let base = number * share;
    let mut rng = io::rng::Prng::new(number);
    for round in 0..rounds {
        let blocks = [1, 8, 16, 17, 256, 2048][rng.below(6) as usize].min(share);
        let at = base + rng.below(share - blocks + 1);
        let seed = number << 32 | round;
        let data = Arc::new(filled(blocks as usize * 512, seed).await);
        ns.write(
            at,
            data.clone(),
            WriteOptions {
                fua: round % 7 == 0,
            },
        )
        .await
        .expect("written");
        let (result, back) = ns.read(at, pool().alloc(data.len()).await).await;
        result.expect("read");
        assert!(
            back[..] == data[..],
            "worker {number}, round {round}, block {at}"
        );
    }
}

async fn load(controller: &Controller, workers: u64, rounds: u64) {
    let ns = Rc::new(controller.namespace(Nsid(1)).await.expect("a namespace"));
    let share = ns.blocks() / workers;
    let jobs: Vec<_> = (0..workers)
        .map(|n| io::spawn(worker(ns.clone(), n, share, rounds)))
        .collect();
    for job in jobs {
        job.await.expect("not killed");
    }
    ns.flush().await.expect("flushed");
}

#[test]
fn every_command_of_the_initiator_with_and_without_digests() {
    run(async {
        let fx = Fixture::new();
        for digests in [false, true] {
            let controller = Controller::connect(config(fx.addr, digests, 4))
                .await
                .expect("connected");
            load(&controller, 8, 12).await;
            let ns = controller.namespace(Nsid(1)).await.expect("a namespace");
            let (old, new) = (
                Arc::new(filled(4096, 1).await),
                Arc::new(filled(4096, 2).await),
            );
            ns.write(0, old.clone(), WriteOptions::default())
                .await
                .expect("written");
            ns.compare(0, old.clone()).await.expect("equal");
            ns.compare_and_write(0, old.clone(), new.clone())
                .await
                .expect("swapped");
            let again = ns.compare_and_write(0, old.clone(), new.clone()).await;
            assert!(
                matches!(again, Err(Error::Refused(s)) if s.is(Status::COMPARE_FAILURE)),
                "{again:?}"
            );
            ns.copy(100, &[CopyRange::new(0, 8)]).await.expect("copied");
            ns.compare(100, new).await.expect("equal");
            ns.verify(0, ns.blocks()).await.expect("readable");
            ns.write_zeroes(0, 8, true, WriteOptions { fua: true })
                .await
                .expect("zeroed");
            ns.deallocate(&[DsmRange::new(100, 8)])
                .await
                .expect("deallocated");
            assert_eq!(
                controller
                    .smart_log()
                    .await
                    .expect("a page")
                    .critical_warning,
                0
            );
            assert_eq!(controller.ana_log().await.expect("a page").groups.len(), 1);
            controller.keep_alive().await.expect("alive");
            controller.shutdown().await;
        }
        assert_eq!(
            fx.target
                .counters()
                .pdu_errors
                .iter()
                .map(|(_, n)| n)
                .sum::<u64>(),
            0
        );
    });
}

#[test]
fn queues_of_one_controller_on_two_shards() {
    run(async {
        let target = Target::new(TargetConfig::default());
        let subsystem = SubsystemConfig {
            nqn: nqn(),
            serial: "S".into(),
            model: "M".into(),
            hosts: HostPolicy::Any,
            transports: Transports::ALL,
        };
        target.add_subsystem(subsystem).expect("new");
        target
            .add_namespace(&nqn(), namespace(1, ram(4 << 20)))
            .expect("new");
        let start = |name: &str| {
            let config = ShardConfig {
                name: name.into(),
                cpu: None,
                runtime: RuntimeConfig::default(),
            };
            Shard::start(config).expect("io_uring is there")
        };
        let (first, second) = (start("first"), start("second"));
        let (tx, rx) = mpsc::channel();
        let (served, other) = (target.clone(), second.clone());
        let listen = move || async move {
            let listener =
                TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
            tx.send(listener.local_addr()).expect("the test waits");
            let mut turn = false;
            while let Ok(stream) = listener.accept().await {
                let target = served.clone();
                turn = !turn;
                if turn {
                    drop(io::spawn(async move {
                        target.serve(stream, PortRole::Io).await
                    }));
                } else {
                    let stream = stream.detach();
                    other
                        .spawn(move || async move { target.serve(stream.attach(), PortRole::Io).await })
                        .expect("the shard lives");
                }
            }
        };
        first.spawn(listen).expect("the shard lives");
        let addr = rx.recv().expect("an address");
        let controller = Controller::connect(config(addr, false, 4))
            .await
            .expect("connected");
        load(&controller, 8, 20).await;
        let session = target.sessions().remove(0);
        assert_eq!(session.queues.len(), 5);
        let on = |shard: &str| session.queues.iter().filter(|q| q.shard == shard).count();
        assert_eq!((on("first"), on("second")), (3, 2));
        target.remove_namespace(&nqn(), 1).expect("there");
        let gone = controller.namespace(Nsid(1)).await;
        assert!(gone.is_err(), "seen on every shard");
        controller.shutdown().await;
        first.stop();
        second.stop();
    });
}

#[test]
fn a_session_taken_away_under_load_comes_back_and_nothing_is_lost() {
    run(async {
        let fx = Fixture::new();
        let controller = Rc::new(
            Controller::connect(config(fx.addr, false, 2))
                .await
                .expect("connected"),
        );
        let loaded = controller.clone();
        let job = io::spawn(async move { load(&loaded, 4, 60).await });
        for _ in 0..3 {
            io::time::sleep(Duration::from_millis(15)).await;
            for session in fx.target.sessions() {
                // It may have gone meanwhile.
                let _ = fx.target.disconnect(session.cntlid);
            }
        }
        job.await.expect("not killed");
        assert!(fx.target.counters().closed_for(CloseReason::Administrator) > 0);
    });
}

#[test]
fn the_same_in_the_simulated_world() {
    for seed in 0..4 {
        Sim::new(seed, SimConfig::default()).block_on(async {
            let target = Target::new(TargetConfig::default());
            let subsystem = SubsystemConfig {
                nqn: nqn(),
                serial: "S".into(),
                model: "M".into(),
                hosts: HostPolicy::Any,
                transports: Transports::ALL,
            };
            target.add_subsystem(subsystem).expect("new");
            target
                .add_namespace(&nqn(), namespace(1, ram(4 << 20)))
                .expect("new");
            let machine = Node::new();
            let addr = machine.addr(4420);
            let served = target.clone();
            machine.spawn(async move {
                let listener = TcpListener::bind(addr).expect("a free port");
                while let Ok(stream) = listener.accept().await {
                    let target = served.clone();
                    drop(io::spawn(async move {
                        target.serve(stream, PortRole::Io).await
                    }));
                }
            });
            io::time::sleep(Duration::from_millis(1)).await;
            let client = Node::new();
            let work = client.spawn(async move {
                let controller = Controller::connect(config(addr, true, 2))
                    .await
                    .expect("connected");
                load(&controller, 4, 20).await;
                controller.shutdown().await;
            });
            work.await.expect("not killed");
        });
    }
}
