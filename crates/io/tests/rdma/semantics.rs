//! One set of tests of queue pairs on the simulated verbs device and on a real one, to show that the two agree.
//!
//! The real device is that of the address in `WIREPOOL_RDMA_ADDRESS`; without it, only the simulated one is tested. A guest with soft RoCE
//! (`rdma link add rxe0 type rxe netdev eth0`) is enough for all of them.

use crate::common::{buffer, done, ended, message, post, received};
use io::rdma::{
    ConnectError, Ending, Memory, QueuePair, QueuePairConfig, QueuePairEvent, RdmaListener, Remote,
    RemoteKey, Returned, Verb, WorkError,
};
use io::sim::{Sim, SimConfig};
use io::{Error, Payload, Runtime, RuntimeConfig, pool, spawn, timeout};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Time limit of one test.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test with an address of a device: simulated, and real if there is one.
fn both<F: Future<Output = ()> + 'static>(test: impl Fn(SocketAddr) -> F) {
    let simulated = Sim::new(1, SimConfig::default());
    simulated.block_on(test("127.0.0.1:0".parse().expect("an address")));
    if let Ok(address) = std::env::var("WIREPOOL_RDMA_ADDRESS") {
        let ip: IpAddr = address.parse().expect("an address of a device");
        let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
        let test = test(SocketAddr::new(ip, 0));
        runtime.block_on(async {
            let ended = timeout(LIMIT, test).await;
            ended.expect("the test came to an end");
        });
    }
}

async fn pair(
    at: SocketAddr,
    server: QueuePairConfig,
    client: QueuePairConfig,
) -> (QueuePair, QueuePair) {
    let listener = RdmaListener::bind(at).expect("a free port");
    let addr = listener.local_addr();
    let accepted = spawn(async move {
        let incoming = listener.accept().await.expect("a request");
        // As if another shard answered it.
        let mut incoming = incoming.detach().attach();
        assert_eq!(&incoming.private_data()[..5], b"hello");
        assert!(incoming.reads_allowed() > 0);
        let accepted = incoming.accept(server, b"welcome").await;
        accepted.expect("an established connection")
    });
    let connected = QueuePair::connect(addr, client, b"hello").await;
    let (client, answer) = connected.expect("a connection");
    assert_eq!(&answer[..7], b"welcome");
    (accepted.await.expect("not killed"), client)
}

async fn default_pair(at: SocketAddr) -> (QueuePair, QueuePair) {
    pair(at, QueuePairConfig::default(), QueuePairConfig::default()).await
}

#[test]
fn messages_of_all_lengths_arrive_in_order() {
    both(|at| async move {
        let (server, client) = default_pair(at).await;
        let lengths = [0, 1, 16, 64, 65, 1000, 4096];
        let text = move |n: usize| vec![n as u8; lengths[n % lengths.len()]];
        post(&client, (0..200).map(|n| (n as u64, message(&text(n)))));
        let reader = spawn(async move {
            for n in 0..200 {
                assert_eq!(*received(&server).await, *text(n));
            }
            server
        });
        for n in 0..200 {
            assert_eq!(done(&client, n).await.0, Ok(()));
        }
        reader.await.expect("not killed");
    });
}

#[test]
fn both_ends_know_their_path() {
    both(|at| async move {
        let config = QueuePairConfig {
            receive_len: 1000,
            ..QueuePairConfig::default()
        };
        let (server, client) = pair(at, config, QueuePairConfig::default()).await;
        let (server, client) = (server.info(), client.info());
        assert_eq!(server.peer_queue_pair, client.queue_pair);
        assert_eq!(client.peer_queue_pair, server.queue_pair);
        assert_eq!(server.path_mtu, client.path_mtu);
        assert!([256, 512, 1024, 2048, 4096].contains(&server.path_mtu));
        assert_eq!((server.receives, server.receive_len), (32, 1000));
        assert!(!server.device.is_empty());
    });
}

#[test]
fn memory_is_read_and_written_by_its_key() {
    both(|at| async move {
        let (server, client) = default_pair(at).await;
        let out = Payload::from([vec![3; 65536], vec![4; 65536]].concat());
        let readable = client
            .expose(Memory::Readable(out))
            .expect("it is connected");
        let writable = client
            .expose(Memory::Writable(buffer(1 << 20, 0).await))
            .expect("it is connected");
        let half = Remote {
            address: readable.at.address + 65536,
            ..readable.at
        };
        // Behind bytes that stay.
        let (into, at) = (buffer(512 + 65536, 9).await, 512);
        let read = Verb::Read {
            into,
            at,
            from: half,
        };
        post(&server, [(1, read)]);
        let (result, Returned::Buffer(read)) = done(&server, 1).await else {
            panic!("a READ gives its buffer back")
        };
        assert_eq!(result, Ok(()));
        assert!(read[..at].iter().all(|b| *b == 9));
        assert!(read[at..].iter().all(|b| *b == 4));
        // From a buffer of the pool, from the heap, and from memory that takes none.
        let mut to = writable.at;
        let sources = [
            Payload::from(buffer(4096, 5).await),
            Payload::from(vec![6; 100_000]),
            Payload::zeroes(0),
            Payload::from(vec![7; 10]),
        ];
        let mut chain = Vec::new();
        for (n, data) in sources.into_iter().enumerate() {
            let len = data.len() as u64;
            chain.push((2 + n as u64, Verb::Write { data, to }));
            to.address += len;
        }
        post(&server, chain);
        for n in 2..6 {
            assert_eq!(done(&server, n).await.0, Ok(()));
        }
        let key = writable.at.key;
        post(&client, [(7, Verb::Withdraw { key })]);
        let (_, Returned::Memory(Memory::Writable(written))) = done(&client, 7).await else {
            panic!("a withdrawal gives the memory back")
        };
        assert!(written[..4096].iter().all(|b| *b == 5));
        assert!(written[4096..104_096].iter().all(|b| *b == 6));
        assert!(written[104_096..104_106].iter().all(|b| *b == 7));
        assert!(written[104_106..].iter().all(|b| *b == 0));
    });
}

/// A wrong key or a range outside ends both ends, and the reason of each is the right one.
#[test]
fn a_wrong_key_or_range_ends_both_ends() {
    for wrong in [(1, 0), (0, 4096)] {
        for reads in [false, true] {
            both(move |at| async move {
                let (server, client) = default_pair(at).await;
                let memory = match reads {
                    true => Memory::Readable(Payload::from(vec![9; 4096])),
                    false => Memory::Writable(buffer(4096, 9).await),
                };
                let mut from = client.expose(memory).expect("it is connected").at;
                from.key = RemoteKey(from.key.0 ^ wrong.0);
                from.address += wrong.1;
                let work = match reads {
                    true => Verb::Read {
                        into: buffer(4096, 1).await,
                        at: 0,
                        from,
                    },
                    false => Verb::Write {
                        data: Payload::from(vec![1; 4096]),
                        to: from,
                    },
                };
                post(&server, [(1, work), (2, message(b"behind it"))]);
                assert_eq!(done(&server, 1).await.0, Err(WorkError::RemoteAccess));
                assert_eq!(done(&server, 2).await.0, Err(WorkError::Flushed));
                let why = Ending::Failed(WorkError::RemoteAccess);
                assert_eq!(ended(&server).await, why);
                // A real device may hear of the disconnect first.
                let why = ended(&client).await;
                assert!(matches!(why, Ending::BadRequest | Ending::Peer), "{why:?}");
            });
        }
    }
}

#[test]
fn a_message_waits_for_a_receive() {
    both(|at| async move {
        let few = QueuePairConfig {
            receives: 1,
            ..QueuePairConfig::default()
        };
        let (server, client) = pair(at, few, QueuePairConfig::default()).await;
        post(&client, [(1, message(b"first")), (2, message(b"second"))]);
        let first = received(&server).await;
        assert_eq!(done(&client, 1).await.0, Ok(()));
        assert!(
            timeout(Duration::from_secs(2), client.event())
                .await
                .is_err()
        );
        drop(first);
        assert_eq!(&*received(&server).await, b"second");
        assert_eq!(done(&client, 2).await.0, Ok(()));
    });
}

/// Queue pairs that share receives: one that keeps its messages makes the peers of others wait, until a message is dropped or copied; and
/// one that ends gives the receives of its messages back.
#[test]
fn queue_pairs_share_receives() {
    both(|at| async move {
        let shared = QueuePairConfig {
            shared_receives: 4,
            ..QueuePairConfig::default()
        };
        let (a, to_a) = pair(at, shared, QueuePairConfig::default()).await;
        let (b, to_b) = pair(at, shared, QueuePairConfig::default()).await;
        assert_eq!((a.info().receives, a.info().shared_receives), (4, 4));
        let text = |n: u64| [n as u8; 100];
        post(&to_a, (0..4).map(|n| (n, message(&text(n)))));
        let mut kept = Vec::new();
        for n in 0..4 {
            kept.push(received(&a).await);
            assert_eq!(done(&to_a, n).await.0, Ok(()));
        }
        assert_eq!(b.info().receives, 0);
        post(&to_b, [(9, message(b"waits"))]);
        let early = timeout(Duration::from_secs(2), to_b.event()).await;
        assert!(early.is_err(), "{early:?}");
        kept[0].release_shared();
        assert_eq!(&*received(&b).await, b"waits");
        assert_eq!(done(&to_b, 9).await.0, Ok(()));
        assert_eq!(*kept[0], text(0));
        drop(kept);
        assert_eq!(a.info().receives, 4);
        post(&to_a, (0..4).map(|n| (n, message(&text(n)))));
        for n in 0..4 {
            assert_eq!(done(&to_a, n).await.0, Ok(()));
        }
        drop(a);
        io::time::sleep(Duration::from_secs(1)).await;
        post(&to_b, (0..4).map(|n| (n, message(&text(n)))));
        let mut kept = Vec::new();
        for n in 0..4 {
            kept.push(received(&b).await);
            assert_eq!(done(&to_b, n).await.0, Ok(()));
        }
        assert_eq!(b.info().receives, 0);
    });
}

#[test]
fn a_disconnect_flushes_the_work_of_both_sides() {
    both(|at| async move {
        let none = QueuePairConfig {
            receives: 0,
            ..QueuePairConfig::default()
        };
        let (server, client) = pair(at, none, none).await;
        let into = buffer(4096, 0).await;
        let exposed = client
            .expose(Memory::Writable(into))
            .expect("it is connected");
        assert_eq!(exposed.len, 4096);
        post(&client, [(1, message(b"never received"))]);
        post(&server, [(2, message(b"neither"))]);
        client.disconnect();
        assert_eq!(done(&client, 1).await.0, Err(WorkError::Flushed));
        let QueuePairEvent::Released { key, .. } = client.event().await else {
            panic!("exposed memory comes back")
        };
        assert_eq!(key, exposed.at.key);
        assert_eq!(ended(&client).await, Ending::Here);
        // Regression: the memory was dropped.
        let kept = client.expose(Memory::Writable(buffer(4096, 7).await));
        let Err(Memory::Writable(kept)) = kept else {
            panic!("a queue pair that has ended exposes nothing")
        };
        assert!(kept.iter().all(|byte| *byte == 7));
        assert_eq!(done(&server, 2).await.0, Err(WorkError::Flushed));
        assert_eq!(ended(&server).await, Ending::Peer);
    });
}

#[test]
fn a_rejection_carries_private_data() {
    both(|at| async move {
        let listener = RdmaListener::bind(at).expect("a free port");
        let addr = listener.local_addr();
        let rejecting = spawn(async move {
            let incoming = listener.accept().await.expect("a request");
            incoming.reject(b"no");
            let incoming = listener.accept().await.expect("a request");
            drop(incoming.detach());
        });
        let connected = QueuePair::connect(addr, QueuePairConfig::default(), b"hello").await;
        match connected.map(drop) {
            Err(ConnectError::Rejected(private)) => assert_eq!(&private[..2], b"no"),
            other => panic!("{other:?}"),
        }
        let connected = QueuePair::connect(addr, QueuePairConfig::default(), b"hello").await;
        let dropped = connected.map(drop).expect_err("nobody accepted it");
        assert!(matches!(dropped, ConnectError::Rejected(_)), "{dropped:?}");
        rejecting.await;
        // Its listener is gone.
        let refused = QueuePair::connect(addr, QueuePairConfig::default(), b"hello").await;
        let refused = refused.map(drop).expect_err("nothing listens");
        assert!(
            matches!(refused, ConnectError::Failed(Error::Unreachable(_))),
            "{refused:?}"
        );
    });
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("Linux has it")
        .count()
}

/// Many connections, one after the other, leave no buffer and no descriptor behind.
#[test]
fn connections_leave_nothing_behind() {
    both(|at| async move {
        let mut before = None;
        for n in 0..32 {
            let (server, client) = default_pair(at).await;
            let memory = Memory::Readable(Payload::from(vec![1; 65536]));
            let from = client.expose(memory).expect("it is connected").at;
            let into = buffer(65536, 0).await;
            post(&server, [(n, Verb::Read { into, at: 0, from })]);
            match n % 3 {
                0 => drop((server, client)),
                1 => drop((client, server)),
                _ => drop(done(&server, n).await),
            }
            if n == 8 {
                io::time::sleep(Duration::from_secs(1)).await;
                before = Some(descriptors());
            }
        }
        io::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(pool().stats().used, 0);
        assert!(descriptors() <= before.expect("it was counted") + 2);
    });
}
