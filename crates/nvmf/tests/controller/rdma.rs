//! The target over RDMA, on the simulated verbs device: the initiator as a good host, and scripted hosts that break the rules.

use crate::fixture::{namespace, ram, subsystem};
use crate::host::{BLOCK, blocks, host_id, host_nqn, nqn, pattern};
use crate::rdma_host::{ENTRIES, RdmaHost, ask, buffer, keyed, sizes};
use io::Payload;
use io::rdma::{Ending, Memory, QueuePairConfig, QueuePairEvent, RdmaListener, WorkError};
use io::sim::{Node, Sim, SimConfig, network, rdma as devices};
use io::time::sleep;
use nvmf::controller::{
    CloseReason, PortInfo, PortRole, Target, TargetConfig, Transport, Transports,
};
use nvmf::wire::command::{Nsid, Sgl, SglDescriptor};
use nvmf::wire::fabrics::{ConnectData, ConnectFault};
use nvmf::wire::opcode::io as nvm;
use nvmf::wire::rdma::{CmRequest, RejectStatus};
use nvmf::wire::status::Status;
use nvmf_initiator::{Config, Controller, Discovery, LinkState, Namespace, WriteOptions};
use session::refused::RefusalReason;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::fairness::{self, BAD_HOSTS, HELD};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

const SEC: Duration = Duration::from_secs(1);

pub(crate) fn run<T: 'static>(seed: u64, test: impl Future<Output = T> + 'static) -> T {
    Sim::new(seed, SimConfig::default()).block_on(test)
}

/// A target that listens for RDMA on a machine of its own.
pub(crate) struct Served {
    pub(crate) target: Target,
    pub(crate) addr: SocketAddr,
    pub(crate) machine: Node,
}

/// Answers connection requests at `addr` until the test ends. A listener that ends with its device is made again.
pub(crate) fn listen(addr: SocketAddr, target: &Target, role: PortRole) {
    let mut listener = Some(RdmaListener::bind(addr).expect("a free port"));
    let target = target.clone();
    drop(io::spawn(async move {
        loop {
            if let Some(listener) = listener.take() {
                while let Ok(incoming) = listener.accept().await {
                    let target = target.clone();
                    drop(io::spawn(async move {
                        target.serve_rdma(incoming, role).await;
                    }));
                }
            }
            sleep(SEC).await;
            listener = RdmaListener::bind(addr).ok();
        }
    }));
}

async fn serve_disk(config: TargetConfig, disk: Arc<dyn backend::BlockBackend>) -> Served {
    let machine = Node::new();
    serve_on(machine, config, disk).await
}

pub(crate) async fn serve_on(
    machine: Node,
    config: TargetConfig,
    disk: Arc<dyn backend::BlockBackend>,
) -> Served {
    let target = Target::new(config);
    target.add_subsystem(subsystem()).expect("a new subsystem");
    target
        .add_namespace(&nqn(), namespace(1, disk))
        .expect("a new namespace");
    let addr = machine.addr(4420);
    let served = target.clone();
    let listening = machine.spawn(async move { listen(addr, &served, PortRole::Io) });
    listening.await.expect("not killed");
    Served {
        target,
        addr,
        machine,
    }
}

async fn serve(config: TargetConfig) -> Served {
    serve_disk(config, ram(4 << 20)).await
}

pub(crate) async fn default_target() -> Served {
    serve(TargetConfig::default()).await
}

/// The configuration of the initiator as host number `host`.
pub(crate) fn config(addr: SocketAddr, host: u8) -> Config {
    Config {
        transport: Transport::Rdma,
        ..Config::new(addr, nqn(), host_nqn(host), host_id(host))
    }
}

pub(crate) async fn connected(config: Config) -> (Controller, Namespace) {
    let controller = Controller::connect(config).await.expect("a connection");
    let namespace = controller.namespace(Nsid(1)).await.expect("namespace 1");
    (controller, namespace)
}

pub(crate) async fn write(ns: &Namespace, slba: u64, bytes: &[u8]) {
    let mut buf = io::pool().alloc(bytes.len()).await;
    buf.copy_from_slice(bytes);
    let written = ns.write(slba, Arc::new(buf), WriteOptions::default()).await;
    written.expect("it writes");
}

pub(crate) async fn read(ns: &Namespace, slba: u64, len: usize) -> Vec<u8> {
    let (result, buf) = ns.read(slba, io::pool().alloc(len).await).await;
    result.expect("it reads");
    buf.to_vec()
}

/// The reasons for which connections were closed.
pub(crate) fn closed(served: &Served) -> Vec<CloseReason> {
    let counters = served.target.counters();
    let mut reasons = CloseReason::ALL.to_vec();
    reasons.retain(|why| counters.closed_for(*why) > 0);
    reasons
}

/// Waits until the target has no connection left, and its machine no queue pair.
pub(crate) async fn quiet(served: &Served) {
    for _ in 0..100 {
        sleep(SEC).await;
        if served.target.counters().open == 0 {
            sleep(SEC).await;
            assert_eq!(devices::queue_pairs(served.machine), 0);
            assert!(served.target.sessions().is_empty());
            return;
        }
    }
    panic!("connections stay");
}

#[test]
fn a_host_reads_and_writes() {
    for seed in 0..4 {
        run(seed, async move {
            let served = default_target().await;
            let addr = served.addr;
            let host = Node::new().spawn(async move {
                let (controller, ns) = connected(Config {
                    io_queues: 2,
                    ..config(addr, 1)
                })
                .await;
                // In the capsule, by one READ, and by the largest one.
                for (slba, len) in [(0, 512), (8, 4096), (64, 8192), (128, 1 << 20)] {
                    let bytes = pattern(len, slba as u8);
                    write(&ns, slba, &bytes).await;
                    assert!(read(&ns, slba, len).await == bytes, "{len} bytes");
                }
                ns.flush().await.expect("it flushes");
                let whole = pattern(4096, 8);
                let mut same = io::pool().alloc(4096).await;
                same.copy_from_slice(&whole);
                ns.compare(8, Arc::new(same)).await.expect("equal");
                assert!(controller.links().iter().all(|l| l.rdma.is_some()));
                let capsule = controller.info().identify.in_capsule_data_max();
                assert_eq!(capsule, 4096);
                controller
            });
            let controller = host.await.expect("not killed");
            let sessions = served.target.sessions();
            let [session] = sessions.as_slice() else {
                panic!("one session")
            };
            assert_eq!((session.transport, session.queues.len()), ("RDMA", 3));
            sleep(2 * SEC).await;
            assert_eq!(served.target.counters().closed_for(CloseReason::Peer), 0);
            controller.shutdown().await;
            quiet(&served).await;
        });
    }
}

#[test]
fn commands_in_parallel_get_their_own_data() {
    run(5, async {
        let served = default_target().await;
        let (_controller, ns) = connected(config(served.addr, 1)).await;
        let ns = std::rc::Rc::new(ns);
        let all: Vec<_> = (0..100u64)
            .map(|n| {
                let ns = ns.clone();
                io::spawn(async move {
                    let len = [512, 4096, 16384][n as usize % 3];
                    let bytes = pattern(len, n as u8);
                    for _ in 0..3 {
                        write(&ns, n * 32, &bytes).await;
                        assert!(read(&ns, n * 32, len).await == bytes);
                    }
                })
            })
            .collect();
        for one in all {
            one.await.expect("not killed");
        }
    });
}

#[test]
fn discovery_shows_each_port_with_its_transport() {
    run(6, async {
        let served = default_target().await;
        let port = |id, transport| PortInfo {
            id,
            transport,
            addr: served.addr,
            role: PortRole::Io,
        };
        served
            .target
            .set_ports(vec![port(1, Transport::Tcp), port(2, Transport::Rdma)]);
        let at = (Transport::Rdma, served.addr);
        let discovery = Discovery::connect(at, host_nqn(1), host_id(1), Duration::ZERO).await;
        let log = discovery.expect("a connection").log().await.expect("a log");
        let types: Vec<u8> = log.entries.iter().map(|e| e.trtype).collect();
        assert_eq!(types, [3, 1, 3, 1], "each port for discovery and disk");
        // Queue pair type, provider and connection manager: reserved over TCP without TLS, reserved if zero over RDMA.
        let specific: Vec<u8> = log.entries.iter().map(|e| e.tsas[0]).collect();
        assert_eq!(specific, [0, 1, 0, 1]);
        let paths = nvmf_initiator::discover(at, &host_nqn(1), host_id(1)).await;
        let paths = paths.expect("it answers");
        let transports: Vec<_> = paths.iter().map(|p| p.transport).collect();
        assert_eq!(transports, [Transport::Tcp, Transport::Rdma]);
    });
}

#[test]
fn each_bad_connection_request_is_rejected_with_its_status() {
    run(7, async {
        let served = default_target().await;
        let good = CmRequest::new(0, ENTRIES, 0);
        let with = |change: fn(&mut CmRequest)| {
            let mut request = good;
            change(&mut request);
            request.as_bytes().to_vec()
        };
        let without_reads = QueuePairConfig {
            reads_in: 0,
            ..sizes()
        };
        let cases = [
            (
                good.as_bytes()[..31].to_vec(),
                sizes(),
                RejectStatus::InvalidLength,
            ),
            (Vec::new(), sizes(), RejectStatus::InvalidLength),
            (
                with(|r| r.record_format = U16::new(1)),
                sizes(),
                RejectStatus::InvalidRecordFormat,
            ),
            (
                with(|r| r.qid = U16::new(129)),
                sizes(),
                RejectStatus::InvalidQid,
            ),
            (
                with(|r| r.hsqsize = U16::new(128)),
                sizes(),
                RejectStatus::InvalidHsqsize,
            ),
            (
                with(|r| r.hsqsize = U16::new(0)),
                sizes(),
                RejectStatus::InvalidHsqsize,
            ),
            (
                with(|r| r.hrqsize = U16::new(0)),
                sizes(),
                RejectStatus::InvalidHrqsize,
            ),
            (
                good.as_bytes().to_vec(),
                without_reads,
                RejectStatus::InvalidIrd,
            ),
        ];
        for (private, config, status) in cases {
            let asked = ask(served.addr, config, &private).await;
            assert_eq!(asked.map(drop), Err(status));
        }
        let counters = served.target.counters();
        assert_eq!(counters.accepted, 0);
        assert_eq!(counters.admitted[1], (Transport::Rdma, 0));
        let counted = [
            (RejectStatus::InvalidLength, 2),
            (RejectStatus::InvalidRecordFormat, 1),
            (RejectStatus::InvalidQid, 1),
            (RejectStatus::InvalidHsqsize, 2),
            (RejectStatus::InvalidHrqsize, 1),
            (RejectStatus::InvalidIrd, 1),
        ];
        assert_eq!(counters.rejected_requests, counted);
        let longer = [good.as_bytes(), &[0; 24]].concat();
        assert!(ask(served.addr, sizes(), &longer).await.is_ok());
        quiet(&served).await;
    });
}

/// A subsystem that is served over TCP only: its hosts over RDMA are disconnected, and refused as if it did not exist.
#[test]
fn a_subsystem_may_be_served_over_one_transport() {
    run(31, async {
        let served = default_target().await;
        let addr = served.addr;
        let port = |id, transport| PortInfo {
            id,
            transport,
            addr,
            role: PortRole::Io,
        };
        let ports = vec![port(1, Transport::Tcp), port(2, Transport::Rdma)];
        served.target.set_ports(ports);
        let admin = RdmaHost::admin(addr, 1, 0).await;
        let only_tcp = Transports::from_iter([Transport::Tcp]);
        let set = served.target.set_transports(&nqn(), only_tcp);
        set.expect("it is there");
        sleep(SEC).await;
        assert_eq!(admin.ended().await, Ending::Peer);
        assert_eq!(closed(&served), [CloseReason::Administrator]);

        let data = ConnectData::new(host_id(1), 0xffff, &nqn(), &host_nqn(1));
        let mut refused = RdmaHost::open(addr, 0, sizes()).await;
        let reply = refused.connect(0, 0, &data).await;
        let fault = ConnectFault::data(ConnectData::SUBNQN_OFFSET);
        assert!(reply.status().is(fault.status()), "{}", reply.status());
        assert_eq!(reply.cqe.result(), fault.to_result());
        let (hosts, totals) = served.target.refused();
        assert_eq!(totals[3], (RefusalReason::Transport, 1));
        assert_eq!(totals[0], (RefusalReason::NotListed, 0));
        let (host, refusals) = &hosts[0];
        assert_eq!(
            (host.name.as_str(), refusals.count),
            (host_nqn(1).as_str(), 1)
        );
        assert_eq!(served.target.counters().forbidden_connects, 0);

        let at = (Transport::Rdma, addr);
        let told = async || {
            let paths = nvmf_initiator::discover(at, &host_nqn(1), host_id(1)).await;
            let paths = paths.expect("it answers").into_iter();
            paths.map(|p| p.transport).collect::<Vec<_>>()
        };
        assert_eq!(told().await, [Transport::Tcp]);
        let set = served.target.set_transports(&nqn(), Transports::ALL);
        set.expect("it is there");
        assert_eq!(told().await, [Transport::Tcp, Transport::Rdma]);
        drop(RdmaHost::admin(addr, 1, 0).await);
        drop(refused);
        quiet(&served).await;
    });
}

#[test]
fn a_target_that_shuts_down_rejects_for_want_of_resources() {
    run(8, async {
        let served = default_target().await;
        let drained = served.target.drain(SEC).await;
        drained.expect("the disk is flushed");
        let request = CmRequest::new(0, ENTRIES, 0);
        let asked = ask(served.addr, sizes(), request.as_bytes()).await;
        assert_eq!(asked.map(drop), Err(RejectStatus::NoResources));
    });
}

/// Keys that give no access, and ranges beyond the memory: the connection ends, for this reason, and no other one.
#[test]
fn keys_and_ranges_outside_of_the_offer_end_the_connection() {
    #[derive(Debug, Clone, Copy)]
    enum Wrong {
        Key,
        Length,
        Direction,
    }
    for (seed, wrong) in [Wrong::Key, Wrong::Length, Wrong::Direction]
        .into_iter()
        .enumerate()
    {
        for opcode in [nvm::READ, nvm::WRITE] {
            run(seed as u64, async move {
                let served = default_target().await;
                let (_controller, good) = connected(config(served.addr, 9)).await;
                let admin = RdmaHost::admin(served.addr, 1, 0).await;
                let mut io = RdmaHost::io(served.addr, &admin, 1, (1, sizes())).await;
                let small = match wrong {
                    Wrong::Length => 8,
                    Wrong::Key | Wrong::Direction => 16,
                };
                let writable = (opcode == nvm::READ) != matches!(wrong, Wrong::Direction);
                let memory = match writable {
                    true => Memory::Writable(buffer(small, 0).await),
                    false => Memory::Readable(Payload::from(vec![0; small as usize * BLOCK])),
                };
                let mut exposed = io.queue_pair.expose(memory).expect("it is connected");
                exposed.len = 16 * BLOCK as u32;
                if let Wrong::Key = wrong {
                    exposed.at.key.0 ^= 1;
                }
                let mut sqe = blocks(opcode, 0, 16);
                sqe.sgl = keyed(exposed);
                io.send(sqe, &[]);
                assert_eq!(io.ended().await, Ending::BadRequest, "{wrong:?}");
                sleep(SEC).await;
                let counters = served.target.counters();
                assert_eq!(counters.closed_for(CloseReason::MemoryAccess), 1);
                write(&good, 0, &pattern(8192, 1)).await;
                drop((admin, io));
            });
        }
    }
}

/// SGLs that do not suit the command or the transport fail the command and not the connection.
#[test]
fn unsuitable_sgls_fail_their_command() {
    run(9, async {
        let served = default_target().await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        let mut io = RdmaHost::io(served.addr, &admin, 1, (1, sizes())).await;
        let data = vec![7; 512];
        let in_capsule = |offset, length| Sgl::InCapsule { offset, length };
        let of_length = |length| Sgl::Keyed {
            address: 1 << 40,
            length,
            key: 1,
            invalidate: false,
        };
        let length = Status::DATA_SGL_LENGTH_INVALID;
        for (sgl, status) in [
            (Sgl::Transport { length: 512 }, Status::SGL_TYPE_INVALID),
            (
                Sgl::Unsupported { identifier: 0x41 },
                Status::SGL_TYPE_INVALID,
            ),
            (Sgl::Empty, length),
            (of_length(511), length),
            (of_length(513), length),
            (in_capsule(0, 513), length),
            (in_capsule(0, 511), length),
            (in_capsule(513, 512), Status::SGL_OFFSET_INVALID),
        ] {
            let mut sqe = blocks(nvm::WRITE, 0, 1);
            sqe.sgl = SglDescriptor::new(sgl);
            let reply = io.command(sqe, &data).await;
            assert!(reply.status().is(status), "{sgl:?}: {}", reply.status());
        }
        let mut sqe = blocks(nvm::READ, 0, 1);
        sqe.sgl = SglDescriptor::new(in_capsule(0, 512));
        let reply = io.command(sqe, &data).await;
        assert!(reply.status().is(Status::SGL_TYPE_INVALID));
        let mut sqe = blocks(nvm::WRITE, 0, 1);
        sqe.sgl = SglDescriptor::new(in_capsule(0, 512));
        assert!(io.command(sqe, &data).await.status().is_success());
    });
}

/// The reply to a command invalidates the key of its memory if the host asks for it, also with an error.
#[test]
fn replies_invalidate_the_keys_that_hosts_want_invalidated() {
    run(10, async {
        let served = default_target().await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        let mut io = RdmaHost::io(served.addr, &admin, 1, (1, sizes())).await;
        let exposed = io
            .queue_pair
            .expose(Memory::Writable(buffer(1, 9).await))
            .expect("it is connected");
        let mut sqe = blocks(nvm::READ, 0, 1);
        sqe.sgl = keyed(exposed);
        let reply = io.command(sqe, &[]).await;
        assert!(reply.status().is_success());
        let Some(Memory::Writable(buf)) = reply.withdrawn else {
            panic!("the memory comes back with the reply")
        };
        assert!(buf.iter().all(|b| *b == 0), "the disk is empty");
        let exposed = io
            .queue_pair
            .expose(Memory::Writable(buf))
            .expect("it is connected");
        let mut sqe = blocks(nvm::READ, u64::MAX / 2, 1);
        sqe.sgl = keyed(exposed);
        let reply = io.command(sqe, &[]).await;
        assert!(reply.status().is(Status::LBA_OUT_OF_RANGE));
        let Some(memory) = reply.withdrawn else {
            panic!("also with an error")
        };
        let exposed = io.queue_pair.expose(memory).expect("it is connected");
        let mut sqe = blocks(nvm::READ, 0, 1);
        sqe.sgl = SglDescriptor::new(Sgl::Keyed {
            address: exposed.at.address,
            length: exposed.len,
            key: exposed.at.key.0,
            invalidate: false,
        });
        let reply = io.command(sqe, &[]).await;
        assert!(reply.status().is_success() && reply.withdrawn.is_none());
    });
}

#[test]
fn messages_that_are_no_capsules_end_the_connection() {
    run(11, async {
        let served = default_target().await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        for len in [0, 1, 63] {
            let io = RdmaHost::io(served.addr, &admin, 1, (1, sizes())).await;
            io.message(vec![0; len]);
            assert_eq!(io.ended().await, Ending::Peer);
            sleep(SEC).await;
        }
        let counters = served.target.counters();
        assert_eq!(counters.closed_for(CloseReason::Protocol), 3);
        // Longer than a receive: the device refuses it.
        let io = RdmaHost::io(served.addr, &admin, 1, (1, sizes())).await;
        io.message(vec![0; 64 + 4096 + 1]);
        let why = Ending::Failed(WorkError::RemoteInvalid);
        assert_eq!(io.ended().await, why);
    });
}

/// More commands than the queue has entries: a host that has counted wrong is disconnected, before its receives run out.
#[test]
fn more_commands_than_entries_end_the_connection() {
    run(12, async {
        let served = default_target().await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        let mut io = RdmaHost::io(served.addr, &admin, 1, (1, sizes())).await;
        for _ in 0..2 * ENTRIES {
            // The data never comes: the key gives no access, but the READs wait behind the first one.
            let readable = Memory::Readable(Payload::from(vec![0; 16 * BLOCK]));
            let mut sqe = blocks(nvm::WRITE, 0, 16);
            sqe.sgl = keyed(io.queue_pair.expose(readable).expect("it is connected"));
            io.send(sqe, &[]);
        }
        let mut replies = 0;
        let why = loop {
            match io.queue_pair.event().await {
                QueuePairEvent::Received(_) => replies += 1,
                QueuePairEvent::Ended(why) => break Some(why),
                QueuePairEvent::Done { .. } | QueuePairEvent::Released { .. } => {}
            }
            if replies == 2 * ENTRIES {
                // The target was faster than the host.
                break None;
            }
        };
        assert!(matches!(why, None | Some(Ending::Peer)), "{why:?}");
    });
}

#[test]
fn a_connect_must_be_for_the_queue_of_its_connection() {
    run(13, async {
        let served = default_target().await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        let mut other = RdmaHost::open(served.addr, 2, sizes()).await;
        let data = ConnectData::new(host_id(1), admin.cntlid, &nqn(), &host_nqn(1));
        let reply = other.connect(1, 0, &data).await;
        assert!(reply.status().is(Status::CONNECT_INVALID_PARAMETERS));
        let fault = ConnectFault::from_result(reply.cqe.result());
        assert_eq!((fault.in_data, fault.offset), (false, 42));
        assert!(other.connect(2, 0, &data).await.status().is_success());
    });
}

/// A host that ends amid a READ, and one that loses its power: buffers and places come back.
#[test]
fn hosts_that_die_amid_a_read_leave_nothing_behind() {
    for seed in 0..10 {
        run(seed, async move {
            let served = default_target().await;
            let machine = Node::new();
            let addr = served.addr;
            let dying = machine.spawn(async move {
                let admin = RdmaHost::admin(addr, 1, 15_000).await;
                let mut io = RdmaHost::io(addr, &admin, 1, (1, sizes())).await;
                for _ in 0..ENTRIES - 1 {
                    let readable = Memory::Readable(Payload::from(vec![1; 1 << 20]));
                    let mut sqe = blocks(nvm::WRITE, 0, 2048);
                    sqe.sgl = keyed(io.queue_pair.expose(readable).expect("it is connected"));
                    io.send(sqe, &[]);
                }
                sleep(Duration::from_micros(40 * seed)).await;
                (admin, io)
            });
            let hosts = dying.await;
            match seed % 2 {
                0 => machine.power_cut(),
                _ => drop(hosts),
            }
            quiet(&served).await;
            assert_eq!(io::pool().stats().used, 0);
        });
    }
}

/// A host that posts no further receives gets no reply: it is closed when its replies are late, and gives all buffers back.
#[test]
fn a_host_without_receives_is_closed_in_time() {
    run(14, async {
        let served = default_target().await;
        let admin = RdmaHost::admin(served.addr, 1, 0).await;
        let one = QueuePairConfig {
            receives: 1,
            ..sizes()
        };
        let mut io = RdmaHost::io(served.addr, &admin, 1, (1, one)).await;
        for _ in 0..ENTRIES - 1 {
            let memory = Memory::Writable(buffer(8, 0).await);
            let mut sqe = blocks(nvm::READ, 0, 8);
            sqe.sgl = keyed(io.queue_pair.expose(memory).expect("it is connected"));
            io.send(sqe, &[]);
        }
        assert_eq!(io.ended().await, Ending::Peer);
        sleep(SEC).await;
        assert_eq!(closed(&served), [CloseReason::SendStall]);
        drop((admin, io));
        quiet(&served).await;
    });
}

/// A host without a keep alive timer that vanishes while it is idle: the probe finds it.
#[test]
fn an_idle_host_that_vanished_is_found() {
    run(15, async {
        let served = default_target().await;
        let machine = Node::new();
        let addr = served.addr;
        let host = machine.spawn(async move { RdmaHost::admin(addr, 1, 0).await });
        let admin = host.await.expect("not killed");
        sleep(600 * SEC).await;
        assert_eq!(
            served.target.sessions().len(),
            1,
            "silence alone is no reason"
        );
        machine.power_cut();
        sleep(120 * SEC).await;
        assert!(served.target.sessions().is_empty());
        drop(admin);
    });
}

/// Connections that break are made again, and commands repeated: no data is lost, and buffers come back whole.
#[test]
fn the_initiator_recovers() {
    for seed in 0..4 {
        run(seed, async move {
            let served = default_target().await;
            let machine = Node::new();
            let addr = served.addr;
            let host = machine.spawn(async move {
                let (controller, ns) = connected(config(addr, 1)).await;
                for n in 0..200u64 {
                    let bytes = pattern(8192, n as u8);
                    write(&ns, n % 16 * 16, &bytes).await;
                    assert!(read(&ns, n % 16 * 16, 8192).await == bytes);
                }
                assert_eq!(controller.state(), LinkState::Live);
                controller.stats().reconnects
            });
            for _ in 0..5 {
                sleep(Duration::from_millis(30)).await;
                network::reset_connections(machine, served.machine);
            }
            network::partition(machine, served.machine);
            sleep(15 * SEC).await;
            network::heal(machine, served.machine);
            let reconnects = io::timeout(600 * SEC, host).await.expect("it ends");
            assert!(reconnects.expect("not killed") > 0);
        });
    }
}

#[test]
fn a_removed_device_ends_its_connections() {
    run(16, async {
        let served = default_target().await;
        let (controller, ns) = connected(config(served.addr, 1)).await;
        write(&ns, 0, &pattern(512, 1)).await;
        devices::remove_device(served.machine);
        quiet(&served).await;
        drop((ns, controller));
    });
}

#[test]
fn a_drain_ends_connections_after_their_commands() {
    run(17, async {
        let served = default_target().await;
        let (controller, ns) = connected(config(served.addr, 1)).await;
        write(&ns, 0, &pattern(512, 1)).await;
        let drained = served.target.drain(10 * SEC).await;
        drained.expect("the disk is flushed");
        assert_eq!(served.target.counters().open, 0);
        drop((ns, controller));
    });
}

#[test]
fn hosts_that_take_nothing_do_not_slow_a_good_one() {
    take_nothing_beside_a_good_one(TargetConfig::default());
}

/// 64 hosts that write and take no reply, beside a good one.
pub(crate) fn take_nothing_beside_a_good_one(of_target: TargetConfig) {
    fairness::run(18, async {
        let machine = Node::new();
        let disk = machine.spawn(fairness::disk(machine)).await;
        let disk = Arc::new(disk.expect("not killed"));
        let served = serve_on(machine, of_target, disk).await;
        let addr = served.addr;
        let good = Node::new().spawn(async move {
            let (_controller, ns) = connected(config(addr, 200)).await;
            let ns = std::rc::Rc::new(ns);
            let p99 = async |ns: &Namespace| {
                fairness::p99(async |writes| match writes {
                    true => write(ns, 0, &pattern(4096, 1)).await,
                    false => drop(read(ns, 0, 4096).await),
                })
                .await
            };
            let alone = p99(&ns).await;
            for host in 1..=BAD_HOSTS {
                drop(Node::new().spawn(take_nothing(addr, host)));
            }
            sleep(SEC).await;
            let beside = p99(&ns).await;
            fairness::compare(&"no receives", 4096, alone, beside);
        });
        fairness::finish(good).await;
    });
}

/// A bad host: it writes much and takes no reply, and opens each connection again that is closed.
async fn take_nothing(addr: SocketAddr, host: u8) {
    let one = QueuePairConfig {
        receives: 1,
        ..sizes()
    };
    loop {
        let admin = RdmaHost::admin(addr, host, 0).await;
        let mut io = RdmaHost::io(addr, &admin, host, (1, one)).await;
        for n in 0..ENTRIES - 1 {
            // The reply to the first one finds no receive, and the data of the others comes behind it.
            let count = if n == 0 { 1 } else { 2048 };
            let memory = Memory::Readable(Payload::zeroes(count as usize * BLOCK));
            let mut sqe = blocks(nvm::WRITE, 0, count);
            sqe.sgl = keyed(io.queue_pair.expose(memory).expect("it is connected"));
            io.send(sqe, &[]);
        }
        let _ = io::timeout(HELD, io.ended()).await;
        sleep(Duration::from_millis(5)).await;
    }
}
