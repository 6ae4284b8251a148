//! Clients over RDMA that break the rules: lists that lie, keys of others, more calls than credits.

use crate::fixture::{Fixture, simulated};
use crate::rdma::{FILE, closed_for, connected, noise, on_file, quiet, read, served, xid};
use crate::rdma_link::{RdmaLink, buffer, sizes};
use io::Payload;
use io::rdma::{ConnectError, Memory, QueuePair, QueuePairConfig};
use nfs::rpc::rdma::chunks::{Chunks, ReadChunk, Segment};
use nfs::rpc::rdma::{Fault, Kind};
use nfs::service::{CloseReason, ServiceConfig};
use nfs::wire::operation;
use std::time::Duration;

fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn lists_that_lie_are_answered_and_the_connection_goes_on() {
    simulated(|| async {
        let (fixture, mut client) = served(&noise(100)).await;
        let bad: [(&[u32], Fault); 9] = [
            // Another version; RDMA_MSGP; an unknown procedure.
            (&[7, 2, 64, 0, 0, 0, 0], Fault::Version),
            (&[7, 1, 64, 2, 0, 0, 0], Fault::Chunk),
            (&[7, 1, 64, 9, 0, 0, 0], Fault::Chunk),
            // Lists that end with their message, or never.
            (&[7, 1, 64, 0, 1, 4, 5], Fault::Chunk),
            (&[7, 1, 64, 0, 0, 1, u32::MAX, 0, 0], Fault::Chunk),
            // Positions: unaligned, behind the end, and twice the call.
            (&[7, 1, 64, 0, 1, 5, 1, 8, 0, 0, 0, 0, 0], Fault::Chunk),
            (&[7, 1, 64, 0, 1, 400, 1, 8, 0, 0, 0, 0, 0], Fault::Chunk),
            (&[7, 1, 64, 0, 1, 0, 1, 8, 0, 0, 0, 0, 0], Fault::Chunk),
            // A call of 4 GiB.
            (
                &[7, 1, 64, 1, 1, 0, 1, u32::MAX, 0, 0, 0, 0, 0],
                Fault::Chunk,
            ),
        ];
        for (n, (message, fault)) in (1..).zip(bad) {
            client.rdma().message(words(message));
            let answer = client.rdma().answer().await.expect("an answer");
            assert_eq!(answer.header.xid, 7);
            assert_eq!(answer.header.kind, Kind::Error(fault), "{message:?}");
            assert_eq!(fixture.service.counters().rdma_faults, n);
        }
        // RDMA_DONE is ignored.
        client.rdma().message(words(&[7, 1, 64, 3]));
        let mut found = client.at(&FILE, &[read(100)]).await;
        found.ok(operation::READ);
        drop(client);
        quiet(&fixture).await;
    });
}

#[test]
fn messages_that_are_none_end_the_connection() {
    let bad: [&[u32]; 4] = [
        &[7, 1],
        // No call and no reply; a call without an RPC message; a reply to no callback.
        &[7, 1, 64, 0, 0, 0, 0, 7, 5],
        &[7, 1, 64, 1, 0, 0, 0],
        &[7, 1, 64, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0],
    ];
    for message in bad {
        simulated(move || async move {
            let (fixture, mut client) = served(b"").await;
            let mut other = connected(fixture.listening(), b"b", false).await;
            client.rdma().message(words(message));
            client.rdma().ended().await;
            other.run(&[]).await;
            assert_eq!(closed_for(&fixture, CloseReason::Protocol), 1);
            drop((client, other));
            quiet(&fixture).await;
        });
    }
}

/// A key of another connection, one that was withdrawn, one for writing only, and a range behind the end.
#[test]
fn keys_and_ranges_outside_of_the_offer_end_the_connection() {
    for case in 0..5 {
        simulated(move || async move {
            let (fixture, mut client) = served(&noise(5000)).await;
            let mut other = connected(fixture.listening(), b"b", false).await;
            let record = on_file(&mut client, read(5000));
            let readable = Memory::Readable(Payload::from(record.clone()));
            let writable = Memory::Writable(buffer(8000).await);
            let len = record.len() as u32;
            let at = match case {
                0 => other.rdma().expose(readable),
                1 => client.rdma().expose(writable),
                2 => Segment {
                    key: 0x1234,
                    len,
                    address: 0,
                },
                3 => {
                    let at = client.rdma().expose(readable);
                    Segment {
                        address: at.address + 4,
                        ..at
                    }
                }
                _ => client.rdma().expose(readable),
            };
            let kind = match case {
                // Data goes to memory that may be read only.
                4 => {
                    let chunks = Chunks {
                        writes: vec![vec![Segment { len: 5000, ..at }]],
                        ..Chunks::default()
                    };
                    Kind::Inline(chunks)
                }
                _ => Kind::Chunked(Chunks {
                    reads: vec![ReadChunk {
                        position: 0,
                        segments: vec![Segment { len, ..at }],
                    }],
                    ..Chunks::default()
                }),
            };
            client.rdma().put(xid(&record), kind, &record);
            client.rdma().ended().await;
            other.run(&[]).await;
            io::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(closed_for(&fixture, CloseReason::MemoryAccess), 1, "{case}");
            drop((client, other));
            quiet(&fixture).await;
        });
    }
}

#[test]
fn more_calls_than_credits_end_the_connection() {
    simulated(|| async {
        let (fixture, mut client) = served(b"").await;
        // The READs of the first calls last longer than the messages take.
        for _ in 0..65 {
            let record = client.call(100_003, 3, 0).to_vec();
            let chunks = Chunks {
                reads: vec![client.rdma().long(record.clone())],
                ..Chunks::default()
            };
            client.rdma().put(xid(&record), Kind::Chunked(chunks), &[]);
        }
        client.rdma().ended().await;
        io::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(closed_for(&fixture, CloseReason::Protocol), 1);
        drop(client);
        quiet(&fixture).await;
    });
}

/// Long calls wait for the bytes of their connection, and each is answered.
#[test]
fn calls_beyond_the_budget_wait() {
    simulated(|| async {
        let (fixture, mut client) = served(b"").await;
        let mut left = Vec::new();
        for _ in 0..64 {
            let mut record = client.call(100_003, 3, 0).to_vec();
            // NULL has no arguments: the rest is ignored.
            record.resize(1_000_000, 0);
            let chunks = Chunks {
                reads: vec![client.rdma().long(record.clone())],
                ..Chunks::default()
            };
            left.push(xid(&record));
            client.rdma().put(xid(&record), Kind::Chunked(chunks), &[]);
        }
        while !left.is_empty() {
            let answer = client.rdma().answer().await.expect("a reply");
            left.retain(|xid| *xid != answer.header.xid);
            assert!(io::pool().stats().used <= 17 << 20, "beyond the budget");
        }
        drop(client);
        quiet(&fixture).await;
    });
}

#[test]
fn strangers_and_clients_without_reads_get_no_place() {
    simulated(|| async {
        let fixture = Fixture::with(ServiceConfig {
            establish_timeout: Duration::from_secs(5),
            ..crate::fixture::config()
        })
        .await;
        let addr = fixture.listen_rdma().await;
        let none = QueuePairConfig {
            reads_in: 0,
            ..sizes()
        };
        let refused = QueuePair::connect(addr, none, &[]).await.map(drop);
        assert!(
            matches!(refused, Err(ConnectError::Rejected(_))),
            "{refused:?}"
        );
        // One without a call.
        let link = RdmaLink::open(addr, false).await;
        link.ended().await;
        io::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(closed_for(&fixture, CloseReason::NoSession), 1);
        drop(link);
        quiet(&fixture).await;
    });
}

#[test]
fn a_client_without_receives_is_closed_in_time() {
    simulated(|| async {
        let (fixture, mut client) = served(b"").await;
        // 160 receives are kept from the device.
        let mut kept = Vec::new();
        for _ in 0..200 {
            let record = client.call(100_003, 3, 0).to_vec();
            let kind = Kind::Inline(Chunks::default());
            client.rdma().put(xid(&record), kind, &record);
            match io::timeout(Duration::from_secs(1), client.rdma().message_kept()).await {
                Ok(Some(message)) => kept.push(message),
                Ok(None) | Err(_) => break,
            }
        }
        assert!(kept.len() >= 150, "{}", kept.len());
        io::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(closed_for(&fixture, CloseReason::SendStall), 1);
        drop((kept, client));
        quiet(&fixture).await;
    });
}
