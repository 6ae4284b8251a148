//! Queue pairs on the simulated verbs device: messages, remote memory, failures, and the life of buffers.

use crate::common::{buffer, done, ended, message, post, received};
use io::rdma::{
    ConnectError, DeviceEvent, Ending, Memory, NoRdma, QueuePair, QueuePairConfig, RdmaListener,
    Remote, RemoteKey, Returned, Verb, WorkError, WorkRequest,
};
use io::sim::{Node, Sim, SimConfig, network, rdma as devices};
use io::time::sleep;
use io::{Error, Payload, pool, spawn, timeout};
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);

fn run<T: 'static>(seed: u64, f: impl Future<Output = T> + 'static) -> T {
    Sim::new(seed, SimConfig::default()).block_on(f)
}

/// Two connected ends: of the machine that listened, and of the machine that connected.
struct Pair {
    server: QueuePair,
    client: QueuePair,
    machines: (Node, Node),
}

async fn pair(server: QueuePairConfig, client: QueuePairConfig) -> Pair {
    let machines = (Node::new(), Node::new());
    let addr = machines.0.addr(4420);
    let accepted = machines.0.spawn(async move {
        let listener = RdmaListener::bind(addr).expect("a free port");
        let mut incoming = listener.accept().await.expect("a request");
        assert_eq!(incoming.private_data(), b"hello");
        let accepted = incoming.accept(server, b"welcome").await;
        accepted.expect("an established connection")
    });
    let connected = machines.1.spawn(async move {
        let connected = QueuePair::connect(addr, client, b"hello").await;
        let (queue_pair, answer) = connected.expect("a connection");
        assert_eq!(answer, b"welcome");
        queue_pair
    });
    Pair {
        client: connected.await.expect("not killed"),
        server: accepted.await.expect("not killed"),
        machines,
    }
}

async fn default_pair() -> Pair {
    pair(QueuePairConfig::default(), QueuePairConfig::default()).await
}

#[test]
fn messages_arrive_in_order_and_requests_end_in_order() {
    run(1, async {
        let p = default_pair().await;
        let text = |n: u64| format!("message {n}");
        post(
            &p.client,
            (0..200).map(|n| (n, message(text(n).as_bytes()))),
        );
        let server = p.server;
        let reader = spawn(async move {
            for n in 0..200 {
                // Each receive is posted again when its message is dropped.
                assert_eq!(&*received(&server).await, text(n).as_bytes());
            }
            server
        });
        for n in 0..200 {
            assert_eq!(done(&p.client, n).await.0, Ok(()));
        }
        reader.await.expect("not killed");
    });
}

#[test]
fn success_without_a_tag_is_not_reported_and_failure_is() {
    run(2, async {
        let p = default_pair().await;
        let quiet = |work| WorkRequest { tag: None, work };
        let loud = WorkRequest {
            tag: Some(7),
            work: message(b"two"),
        };
        p.client.post(&mut vec![quiet(message(b"one")), loud]);
        assert_eq!(done(&p.client, 7).await.0, Ok(()));
        p.server.disconnect();
        assert_eq!(ended(&p.client).await, Ending::Peer);
        p.client.post(&mut vec![quiet(message(b"three"))]);
        assert_eq!(done(&p.client, 0).await.0, Err(WorkError::Flushed));
    });
}

/// A message that finds no receive is sent again until one is posted, if the receiver grants it for ever.
#[test]
fn a_message_waits_for_a_receive() {
    run(3, async {
        let few = QueuePairConfig {
            receives: 1,
            ..QueuePairConfig::default()
        };
        let p = pair(few, QueuePairConfig::default()).await;
        post(&p.client, [(1, message(b"first")), (2, message(b"second"))]);
        let first = received(&p.server).await;
        assert_eq!(done(&p.client, 1).await.0, Ok(()));
        sleep(100 * SEC).await;
        assert!(timeout(SEC, p.client.event()).await.is_err());
        assert!(p.client.info().rnr_retries > Some(100));
        drop(first);
        assert_eq!(&*received(&p.server).await, b"second");
        assert_eq!(done(&p.client, 2).await.0, Ok(()));
    });
}

#[test]
fn a_receiver_may_limit_the_retries() {
    run(4, async {
        let none = QueuePairConfig {
            receives: 0,
            rnr_retries: 3,
            ..QueuePairConfig::default()
        };
        let p = pair(none, QueuePairConfig::default()).await;
        post(&p.client, [(1, message(b"first")), (2, message(b"second"))]);
        assert_eq!(done(&p.client, 1).await.0, Err(WorkError::RnrExceeded));
        assert_eq!(done(&p.client, 2).await.0, Err(WorkError::Flushed));
        let why = Ending::Failed(WorkError::RnrExceeded);
        assert_eq!(ended(&p.client).await, why);
        assert_eq!(p.client.info().rnr_retries, Some(4));
    });
}

#[test]
fn a_message_longer_than_its_receive_ends_both_ends() {
    run(5, async {
        let p = default_pair().await;
        post(
            &p.client,
            [(1, message(&[1; 4096])), (2, message(&[2; 4097]))],
        );
        assert_eq!(received(&p.server).await.len(), 4096);
        assert_eq!(ended(&p.server).await, Ending::BadRequest);
        assert_eq!(done(&p.client, 1).await.0, Ok(()));
        assert_eq!(done(&p.client, 2).await.0, Err(WorkError::RemoteInvalid));
        let why = Ending::Failed(WorkError::RemoteInvalid);
        assert_eq!(ended(&p.client).await, why);
    });
}

#[test]
fn memory_is_read_and_written_by_its_key() {
    run(6, async {
        let p = default_pair().await;
        let out = Payload::from([vec![3; 4096], vec![4; 4096]].concat());
        let readable = p
            .client
            .expose(Memory::Readable(out))
            .expect("it is connected");
        let writable = p
            .client
            .expose(Memory::Writable(buffer(8192, 0).await))
            .expect("it is connected");
        assert_eq!((readable.len, writable.len), (8192, 8192));
        let half = Remote {
            address: readable.at.address + 4096,
            ..readable.at
        };
        let into = buffer(4096, 0).await;
        post(
            &p.server,
            [(
                1,
                Verb::Read {
                    into,
                    at: 0,
                    from: half,
                },
            )],
        );
        let (result, Returned::Buffer(read)) = done(&p.server, 1).await else {
            panic!("a READ gives its buffer back")
        };
        assert_eq!(result, Ok(()));
        assert!(read.iter().all(|b| *b == 4));
        let data = Payload::from(vec![5; 8192]);
        let to = writable.at;
        post(&p.server, [(2, Verb::Write { data, to })]);
        assert_eq!(done(&p.server, 2).await.0, Ok(()));
        let key = writable.at.key;
        post(&p.client, [(3, Verb::Withdraw { key })]);
        let (_, Returned::Memory(Memory::Writable(written))) = done(&p.client, 3).await else {
            panic!("a withdrawal gives the memory back")
        };
        assert!(written.iter().all(|b| *b == 5));
        post(&p.client, [(4, Verb::Withdraw { key })]);
        assert_eq!(done(&p.client, 4).await.0, Err(WorkError::LocalKey));
    });
}

/// A range outside of the memory, a wrong key, the wrong direction, or a key that was withdrawn: nothing is transferred, and both ends
/// see the error.
#[test]
fn a_key_gives_access_to_its_memory_and_to_nothing_else() {
    #[derive(Debug, Clone, Copy)]
    enum Wrong {
        Key,
        Beyond,
        Before,
        Direction,
        Withdrawn,
    }
    let ways = [
        Wrong::Key,
        Wrong::Beyond,
        Wrong::Before,
        Wrong::Direction,
        Wrong::Withdrawn,
    ];
    for (seed, (wrong, reads)) in ways
        .into_iter()
        .flat_map(|w| [(w, false), (w, true)])
        .enumerate()
    {
        run(seed as u64, async move {
            let p = default_pair().await;
            let writable = async || Memory::Writable(buffer(4096, 9).await);
            let readable = async || Memory::Readable(Payload::from(vec![9; 4096]));
            let memory = match reads == matches!(wrong, Wrong::Direction) {
                true => writable().await,
                false => readable().await,
            };
            let mut at = p.client.expose(memory).expect("it is connected").at;
            match wrong {
                Wrong::Key => at.key = RemoteKey(at.key.0 ^ 1),
                Wrong::Beyond => at.address += 1,
                Wrong::Before => at.address -= 1,
                Wrong::Direction => {}
                Wrong::Withdrawn => {
                    post(&p.client, [(1, Verb::Withdraw { key: at.key })]);
                    assert_eq!(done(&p.client, 1).await.0, Ok(()));
                }
            }
            let work = match reads {
                true => Verb::Read {
                    into: buffer(4096, 1).await,
                    at: 0,
                    from: at,
                },
                false => Verb::Write {
                    data: Payload::from(vec![1; 4096]),
                    to: at,
                },
            };
            post(&p.server, [(1, work), (2, message(b"behind it"))]);
            let (result, returned) = done(&p.server, 1).await;
            assert_eq!(result, Err(WorkError::RemoteAccess), "{wrong:?}");
            if let Returned::Buffer(buf) = returned {
                assert!(buf.iter().all(|b| *b == 1), "nothing was read");
            }
            assert_eq!(done(&p.server, 2).await.0, Err(WorkError::Flushed));
            let why = Ending::Failed(WorkError::RemoteAccess);
            assert_eq!(ended(&p.server).await, why);
            assert_eq!(ended(&p.client).await, Ending::BadRequest, "{wrong:?}");
        });
    }
}

#[test]
fn keys_of_another_queue_pair_give_no_access() {
    run(7, async {
        let (a, b) = (default_pair().await, default_pair().await);
        let memory = Memory::Readable(Payload::from(vec![1; 4096]));
        let from = a.client.expose(memory).expect("it is connected").at;
        let into = buffer(4096, 0).await;
        post(&b.server, [(1, Verb::Read { into, at: 0, from })]);
        assert_eq!(done(&b.server, 1).await.0, Err(WorkError::RemoteAccess));
        let into = buffer(4096, 0).await;
        post(&a.server, [(1, Verb::Read { into, at: 0, from })]);
        assert_eq!(done(&a.server, 1).await.0, Ok(()));
    });
}

#[test]
fn a_message_withdraws_memory_and_gives_it_back() {
    run(8, async {
        let p = default_pair().await;
        let exposed = p
            .client
            .expose(Memory::Writable(buffer(4096, 0).await))
            .expect("it is connected");
        let write = Verb::Write {
            data: Payload::from(vec![6; 4096]),
            to: exposed.at,
        };
        let reply = |bytes: &[u8]| Verb::Send {
            head: bytes.to_vec(),
            data: Some(Payload::from(b" data".to_vec())),
            invalidate: Some(exposed.at.key),
        };
        post(&p.server, [(1, write), (2, reply(b"with"))]);
        let mut reply_received = received(&p.client).await;
        assert_eq!(&*reply_received, b"with data");
        let (key, memory) = reply_received.withdrawn.take().expect("it withdraws");
        assert_eq!(key, exposed.at.key);
        let Memory::Writable(buf) = memory else {
            panic!("the memory was writable")
        };
        assert!(buf.iter().all(|b| *b == 6));
        assert_eq!(done(&p.server, 1).await.0, Ok(()));
        assert_eq!(done(&p.server, 2).await.0, Ok(()));
        // The key is gone.
        post(&p.server, [(3, reply(b"again"))]);
        assert_eq!(done(&p.server, 3).await.0, Err(WorkError::RemoteAccess));
        assert_eq!(ended(&p.client).await, Ending::BadRequest);
    });
}

/// READs beyond what the peer serves wait, and requests behind them too.
#[test]
fn reads_are_bounded_by_what_the_peer_allows() {
    run(9, async {
        let client = QueuePairConfig {
            reads_in: 2,
            ..QueuePairConfig::default()
        };
        let p = pair(QueuePairConfig::default(), client).await;
        assert_eq!(p.server.info().reads_out, 2);
        let memory = Memory::Readable(Payload::from(vec![1; 4096]));
        let from = p.client.expose(memory).expect("it is connected").at;
        let mut reads = Vec::new();
        for tag in 0..20 {
            let into = buffer(4096, 0).await;
            reads.push((tag, Verb::Read { into, at: 0, from }));
        }
        post(&p.server, reads);
        for tag in 0..20 {
            assert_eq!(done(&p.server, tag).await.0, Ok(()));
        }
    });
}

#[test]
fn a_disconnect_flushes_the_work_of_both_sides() {
    run(10, async {
        let none = QueuePairConfig {
            receives: 0,
            ..QueuePairConfig::default()
        };
        let p = pair(none, none).await;
        post(&p.client, [(1, message(b"never received"))]);
        post(&p.server, [(2, message(b"neither"))]);
        sleep(SEC).await;
        p.client.disconnect();
        assert_eq!(done(&p.client, 1).await.0, Err(WorkError::Flushed));
        assert_eq!(ended(&p.client).await, Ending::Here);
        assert_eq!(done(&p.server, 2).await.0, Err(WorkError::Flushed));
        assert_eq!(ended(&p.server).await, Ending::Peer);
    });
}

/// The peer ends amid a READ: the buffer belongs to the device until the READ has ended, even if the queue pair was dropped.
#[test]
fn the_buffer_of_a_read_is_held_until_its_end() {
    for seed in 0..20 {
        run(seed, async move {
            let p = default_pair().await;
            let memory = Memory::Readable(Payload::from(vec![1; 4096]));
            let from = p.client.expose(memory).expect("it is connected").at;
            let into = buffer(4096, 0).await;
            assert_eq!(pool().stats().used, 4096);
            post(&p.server, [(1, Verb::Read { into, at: 0, from })]);
            match seed % 2 {
                0 => {
                    drop(p.server);
                    assert_eq!(pool().stats().used, 4096, "the device has the buffer");
                    sleep(SEC).await;
                }
                _ => {
                    drop(p.client);
                    let (result, returned) = done(&p.server, 1).await;
                    assert!(matches!(result, Ok(()) | Err(WorkError::Flushed)));
                    assert!(matches!(returned, Returned::Buffer(_)));
                }
            }
            assert_eq!(pool().stats().used, 0);
        });
    }
}

#[test]
fn exposed_memory_is_given_back_with_the_queue_pair() {
    run(11, async {
        let p = default_pair().await;
        let exposed = p
            .client
            .expose(Memory::Writable(buffer(4096, 0).await))
            .expect("it is connected");
        assert_eq!(exposed.len, 4096);
        drop(p.client);
        sleep(SEC).await;
        assert_eq!(pool().stats().used, 0);
        assert_eq!(ended(&p.server).await, Ending::Peer);
        drop(p.server);
        sleep(SEC).await;
        assert_eq!(devices::queue_pairs(p.machines.0), 0);
        assert_eq!(devices::queue_pairs(p.machines.1), 0);
    });
}

/// A requester finds a cut link by itself; the idle other end does not.
#[test]
fn a_cut_link_fails_requests_after_their_retries() {
    run(12, async {
        let p = default_pair().await;
        network::partition(p.machines.0, p.machines.1);
        post(&p.client, [(1, message(b"lost"))]);
        assert_eq!(done(&p.client, 1).await.0, Err(WorkError::RetriesExceeded));
        let why = Ending::Failed(WorkError::RetriesExceeded);
        assert_eq!(ended(&p.client).await, why);
        assert!(timeout(10 * SEC, p.server.event()).await.is_err());
    });
}

#[test]
fn a_short_cut_only_delays() {
    run(13, async {
        let p = default_pair().await;
        network::partition(p.machines.0, p.machines.1);
        post(&p.client, [(1, message(b"late"))]);
        sleep(Duration::from_millis(500)).await;
        network::heal(p.machines.0, p.machines.1);
        assert_eq!(&*received(&p.server).await, b"late");
        assert_eq!(done(&p.client, 1).await.0, Ok(()));
    });
}

#[test]
fn a_machine_without_power_is_silent() {
    run(14, async {
        let p = default_pair().await;
        p.machines.0.power_cut();
        post(&p.client, [(1, message(b"lost"))]);
        assert_eq!(done(&p.client, 1).await.0, Err(WorkError::RetriesExceeded));
    });
}

#[test]
fn a_removed_device_ends_its_queue_pairs_and_listeners() {
    run(15, async {
        let p = default_pair().await;
        let addr = p.machines.0.addr(4421);
        let listening = p.machines.0.spawn(async move {
            let listener = RdmaListener::bind(addr).expect("a free port");
            listener.accept().await.map(drop)
        });
        sleep(SEC).await;
        devices::remove_device(p.machines.0);
        assert!(matches!(listening.await, Some(Err(Error::Gone(_)))));
        assert_eq!(ended(&p.server).await, Ending::DeviceRemoved);
        let bound = p
            .machines
            .0
            .spawn(async move { RdmaListener::bind(addr).map(drop) });
        assert!(matches!(bound.await, Some(Err(Error::Unsupported(_)))));
        let support = p.machines.0.spawn(async { io::rdma::support() });
        assert_eq!(support.await, Some(Err(NoRdma::NoDevice)));
        devices::restore_device(p.machines.0);
        let bound = p
            .machines
            .0
            .spawn(async move { RdmaListener::bind(addr).map(drop) });
        assert_eq!(bound.await, Some(Ok(())));
    });
}

/// An event of a device ends its queue pairs with the reason, and their requests as flushed; the peer's retries find no answer. Events of
/// ports end nothing, and all are counted.
#[test]
fn events_of_a_device_end_queue_pairs_with_the_reason() {
    for (event, expected) in [
        (
            DeviceEvent::DeviceFatal,
            Some(Ending::Device(DeviceEvent::DeviceFatal)),
        ),
        (
            DeviceEvent::CompletionQueueError,
            Some(Ending::Device(DeviceEvent::CompletionQueueError)),
        ),
        (
            DeviceEvent::QueuePairFatal,
            Some(Ending::Device(DeviceEvent::QueuePairFatal)),
        ),
        (DeviceEvent::QueuePairAccess, Some(Ending::BadRequest)),
        (DeviceEvent::PortError, None),
        (DeviceEvent::PortActive, None),
        (DeviceEvent::LastWorkReached, None),
    ] {
        run(16, async move {
            let count = || {
                let all = io::rdma::device_events();
                all.iter().find(|(e, _)| *e == event).map_or(0, |(_, n)| *n)
            };
            let (p, before) = (default_pair().await, count());
            devices::raise(p.machines.0, p.machines.1, event);
            assert_eq!(count(), before + 1);
            post(&p.server, [(1, message(b"after"))]);
            let Some(expected) = expected else {
                assert_eq!(done(&p.server, 1).await.0, Ok(()), "{event}");
                return;
            };
            assert_eq!(done(&p.server, 1).await.0, Err(WorkError::Flushed));
            assert_eq!(ended(&p.server).await, expected, "{event}");
            post(&p.client, [(1, message(b"unheard"))]);
            assert!(done(&p.client, 1).await.0.is_err());
        });
    }
}

/// Connects to a listener that answers with `answer`.
async fn answered(answer: impl FnOnce(io::rdma::Incoming) + 'static) -> ConnectError {
    let machine = Node::new();
    let addr = machine.addr(4420);
    drop(machine.spawn(async move {
        let listener = RdmaListener::bind(addr).expect("a free port");
        answer(listener.accept().await.expect("a request"));
        sleep(100 * SEC).await;
        drop(listener);
    }));
    let connected = QueuePair::connect(addr, QueuePairConfig::default(), b"hello").await;
    connected.map(drop).expect_err("it is refused")
}

#[test]
fn a_rejection_carries_private_data() {
    run(16, async {
        let rejected = answered(|incoming| incoming.reject(b"no")).await;
        assert_eq!(rejected, ConnectError::Rejected(b"no".to_vec()));
        let dropped = answered(drop).await;
        assert_eq!(dropped, ConnectError::Rejected(Vec::new()));
        let silent = answered(std::mem::forget).await;
        assert_eq!(silent, ConnectError::Failed(Error::TimedOut));
        let nobody = Node::new().addr(4420);
        let unknown = QueuePair::connect(nobody, QueuePairConfig::default(), &[]).await;
        let refused = ConnectError::Failed(Error::Unreachable(libc::ECONNREFUSED));
        assert_eq!(unknown.map(drop), Err(refused));
    });
}

/// The shard of the listener takes a request, and another shard answers it and serves the connection.
#[test]
fn a_request_is_answered_on_another_shard() {
    run(20, async {
        let machine = Node::new();
        let addr = machine.addr(4420);
        let other = machine.new_shard();
        let listening = machine.spawn(async move {
            let listener = RdmaListener::bind(addr).expect("a free port");
            let incoming = listener.accept().await.expect("a request");
            assert_eq!(incoming.private_data(), b"hello");
            let (peer, request) = (incoming.peer_addr(), incoming.detach());
            assert_eq!(request.peer_addr(), peer);
            let handed = other.spawn(move || async move {
                let mut incoming = request.attach();
                assert_eq!(incoming.private_data(), b"hello");
                assert_eq!((incoming.local_addr(), incoming.peer_addr()), (addr, peer));
                assert!(incoming.reads_allowed() > 0);
                let config = QueuePairConfig::default();
                let accepted = incoming.accept(config, b"welcome").await;
                let queue_pair = accepted.expect("an established connection");
                let echo = message(&received(&queue_pair).await);
                post(&queue_pair, [(1, echo)]);
                assert_eq!(done(&queue_pair, 1).await.0, Ok(()));
                assert_eq!(ended(&queue_pair).await, Ending::Peer);
            });
            handed.expect("the shard is there");
            listener
        });
        let config = QueuePairConfig::default();
        let connected = QueuePair::connect(addr, config, b"hello").await;
        let (queue_pair, answer) = connected.expect("a connection");
        assert_eq!(answer, b"welcome");
        drop(listening);
        post(&queue_pair, [(1, message(b"echo"))]);
        assert_eq!(done(&queue_pair, 1).await.0, Ok(()));
        assert_eq!(&*received(&queue_pair).await, b"echo");
        queue_pair.disconnect();
        sleep(SEC).await;
        assert_eq!(devices::queue_pairs(machine), 0);
    });
}

/// A request that no shard takes is rejected when it is dropped on its way.
#[test]
fn a_request_that_is_dropped_between_shards_is_rejected() {
    run(21, async {
        let rejected = answered(|incoming| drop(incoming.detach())).await;
        assert_eq!(rejected, ConnectError::Rejected(Vec::new()));
        let there_and_back = answered(|i| i.detach().attach().reject(b"no")).await;
        assert_eq!(there_and_back, ConnectError::Rejected(b"no".to_vec()));
    });
}

/// Connection requests beyond the backlog are refused, and requests that their peers gave up cost nothing.
#[test]
fn a_flood_of_requests_is_bounded() {
    run(17, async {
        let machine = Node::new();
        let addr = machine.addr(4420);
        let bind = async move { RdmaListener::bind(addr).expect("a free port") };
        let listener = machine.spawn(bind).await.expect("not killed");
        let flood = Node::new().spawn(async move {
            let small = QueuePairConfig {
                receives: 0,
                ..QueuePairConfig::default()
            };
            let connect = || spawn(QueuePair::connect(addr, small, b"hello"));
            let all: Vec<_> = (0..10_000).map(|_| connect()).collect();
            let mut refused = 0;
            for connecting in all {
                let connected = connecting.await.expect("not killed");
                refused += usize::from(matches!(
                    connected,
                    Err(ConnectError::Failed(Error::Unreachable(_)))
                ));
            }
            refused
        });
        assert_eq!(flood.await, Some(10_000 - io::limits::RDMA_BACKLOG));
        assert_eq!(devices::queue_pairs(machine), io::limits::RDMA_BACKLOG);
        let mut late = listener.accept().await.expect("a request");
        let accepted = late.accept(QueuePairConfig::default(), &[]).await;
        assert!(accepted.is_err(), "its peer has gone");
        drop(listener);
        sleep(SEC).await;
        assert_eq!(devices::queue_pairs(machine), 0);
    });
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| {
        let sim = Sim::new(seed, SimConfig::default());
        sim.block_on(async {
            let p = default_pair().await;
            post(&p.client, (0..50).map(|n| (n, message(&[n as u8; 100]))));
            for _ in 0..50 {
                received(&p.server).await;
            }
        });
        sim.trace_hash()
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}
