//! The target and its hosts when RDMA devices fail or are removed under load.

use crate::fixture::ram;
use crate::host::pattern;
use crate::rdma::{Served, closed, config, connected, listen, quiet, read, run, serve_on, write};
use io::rdma::DeviceEvent;
use io::sim::{Node, rdma as devices};
use io::time::sleep;
use nvmf::controller::{CloseReason, PortRole, TargetConfig};
use nvmf_initiator::{Controller, LinkState, Namespace, Reconnect};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);
/// Commands that each host has outstanding.
const WORKERS: u64 = 8;
/// Blocks that belong to one worker.
const BLOCKS: u64 = 512;
/// Pause between the commands of a worker once the device has failed.
const PAUSE: Duration = Duration::from_millis(200);

/// The failure of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// The device reports an event, and goes on.
    Event(DeviceEvent),
    /// The device is away for some seconds.
    Removal,
}

/// The load of a host.
#[derive(Default)]
struct Load {
    /// Rounds of all workers.
    rounds: Cell<u64>,
    /// Pause after each round.
    pause: Cell<Duration>,
    is_over: Cell<bool>,
}

/// A host under load: it writes, and reads back, until it is told to stop.
struct Host {
    machine: Node,
    load: Rc<Load>,
    controller: io::JoinHandle<Controller>,
}

impl Host {
    /// Host number `number` on a machine of its own.
    fn start(addr: SocketAddr, number: u8, reconnect: Reconnect) -> Host {
        let machine = Node::new();
        let load = Rc::new(Load::default());
        let of_workers = load.clone();
        let controller = machine.spawn(async move {
            let config = nvmf_initiator::Config {
                io_queues: 2,
                reconnect,
                ..config(addr, number)
            };
            let (controller, ns) = connected(config).await;
            let ns = Rc::new(ns);
            let first = u64::from(number - 1) * WORKERS;
            let workers: Vec<_> = (first..first + WORKERS)
                .map(|worker| io::spawn(work(ns.clone(), worker, of_workers.clone())))
                .collect();
            for worker in workers {
                worker.await.expect("not killed");
            }
            assert_eq!(controller.state(), LinkState::Live);
            controller
        });
        Host {
            machine,
            load,
            controller,
        }
    }

    /// Waits until its workers have finished some rounds since now.
    async fn goes_on(&self, within: Duration) {
        let wanted = self.load.rounds.get() + 4 * WORKERS;
        let waiting = async {
            while self.load.rounds.get() < wanted {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = io::timeout(within, waiting).await;
        waited.expect("commands go on");
    }

    /// Ends the load. Returns how often the connection was made again.
    async fn stop(self) -> u64 {
        self.load.is_over.set(true);
        let ended = io::timeout(600 * SEC, self.controller).await;
        let controller = ended.expect("the load ends").expect("not killed");
        let reconnects = controller.stats().reconnects;
        controller.shutdown().await;
        reconnects
    }
}

/// Writes and reads the blocks of one worker, with the data in the capsule, by one READ and by a long one.
async fn work(ns: Rc<Namespace>, worker: u64, load: Rc<Load>) {
    let mut round = 0;
    while !load.is_over.get() {
        let len = [4096, 16384, BLOCKS as usize * 512][round % 3];
        let bytes = pattern(len, (worker as u8).wrapping_add(round as u8));
        write(&ns, worker * BLOCKS, &bytes).await;
        assert!(read(&ns, worker * BLOCKS, len).await == bytes);
        load.rounds.set(load.rounds.get() + 1);
        round += 1;
        if !load.pause.get().is_zero() {
            sleep(load.pause.get()).await;
        }
    }
}

/// A device fails while its host has commands outstanding, at the target's end or at the host's: the session ends, at the target's end with
/// the reason, the host goes on when the device is back, a host on another device of the target does not notice, and all buffers come back.
fn a_failure_under_load(seed: u64, failure: Failure, is_targets: bool) {
    run(seed, async move {
        let served = serve_on(Node::new(), TargetConfig::default(), ram(16 << 20)).await;
        let other = Node::new();
        let (addr, target) = (other.addr(4420), served.target.clone());
        let listening = other.spawn(async move { listen(addr, &target, PortRole::Io) });
        listening.await.expect("not killed");
        let hit = Host::start(served.addr, 1, Reconnect::default());
        let beside = Host::start(addr, 2, Reconnect::NEVER);
        hit.goes_on(10 * SEC).await;
        beside.goes_on(10 * SEC).await;
        let (failing, peer) = match is_targets {
            true => (served.machine, hit.machine),
            false => (hit.machine, served.machine),
        };
        for host in [&hit, &beside] {
            host.load.pause.set(PAUSE);
        }
        match failure {
            Failure::Event(event) => devices::raise(failing, peer, event),
            Failure::Removal => removed_for_a_while(&served, failing, &beside).await,
        }
        hit.goes_on(100 * SEC).await;
        beside.goes_on(10 * SEC).await;
        let ended: Vec<_> = closed(&served);
        assert_eq!(
            ended.contains(&CloseReason::Device),
            is_targets,
            "{ended:?}"
        );
        assert!(!ended.contains(&CloseReason::Protocol), "{ended:?}");
        assert_eq!(beside.stop().await, 0, "another device");
        assert!(hit.stop().await > 0);
        quiet(&served).await;
        assert_eq!(io::pool().stats().used, 0);
    });
}

/// Removes the device of `node` for half a minute. Without it, nothing of the session stays at the target.
async fn removed_for_a_while(served: &Served, node: Node, beside: &Host) {
    devices::remove_device(node);
    sleep(20 * SEC).await;
    assert_eq!(devices::queue_pairs(served.machine), 0);
    assert_eq!(served.target.sessions().len(), 1);
    beside.goes_on(10 * SEC).await;
    devices::restore_device(node);
}

#[test]
fn a_queue_pair_that_fails_under_load_is_made_again() {
    let events = [
        DeviceEvent::QueuePairFatal,
        DeviceEvent::CompletionQueueError,
        DeviceEvent::PathMigration,
    ];
    for (seed, event) in events.into_iter().enumerate() {
        for is_targets in [true, false] {
            a_failure_under_load(seed as u64, Failure::Event(event), is_targets);
        }
    }
}

#[test]
fn a_device_that_fails_under_load_ends_its_sessions() {
    let failure = Failure::Event(DeviceEvent::DeviceFatal);
    for seed in 0..3 {
        for is_targets in [true, false] {
            a_failure_under_load(seed, failure, is_targets);
        }
    }
}

#[test]
fn a_device_that_is_removed_under_load_may_come_back() {
    for seed in 0..3 {
        for is_targets in [true, false] {
            a_failure_under_load(seed, Failure::Removal, is_targets);
        }
    }
}
