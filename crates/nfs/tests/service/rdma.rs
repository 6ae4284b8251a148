//! RPC-over-RDMA on the simulated verbs device: calls and replies in messages, in chunks, and in memory of the client.

use crate::client::{Client, FORE, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, open, simulated};
use crate::rdma_link::{INLINE, RdmaLink, buffer};
use io::Payload;
use io::histogram::Times;
use io::rdma::{Memory, RemoteKey};
use io::sim::{Node, rdma as devices};
use io::stage::Stage;
use nfs::rpc::rdma::chunks::{Chunks, ReadChunk, Segment, len_of};
use nfs::rpc::rdma::{Fault, Kind};
use nfs::service::{CloseReason, NfsTransport};
use nfs::wire::files::{CreateHow, NewType, ReadDir};
use nfs::wire::{Bitmap, Op, Stateid, Status, operation};
use nfs::xdr::padding;
use session::latency::CommandKind;
use std::net::SocketAddr;
use std::time::Duration;

const CREATE: Option<CreateHow<'static>> = Some(CreateHow::Unchecked(NO_ATTRS));
pub(crate) const FILE: [&str; 3] = ["tank", "home", "f"];

/// A client over RDMA with a session.
pub(crate) async fn connected(addr: SocketAddr, owner: &[u8], invalidates: bool) -> Client {
    let mut client = Client::over_rdma(RdmaLink::open(addr, invalidates).await);
    client.establish(owner, FORE).await;
    let mut results = client.run(&[Op::ReclaimComplete { one_fs: false }]).await;
    results.ok(operation::RECLAIM_COMPLETE);
    client
}

/// A service with a file, and a client over RDMA.
pub(crate) async fn served(data: &[u8]) -> (Fixture, Client) {
    served_with(data, true).await
}

async fn served_with(data: &[u8], invalidates: bool) -> (Fixture, Client) {
    let fixture = Fixture::new().await;
    let addr = fixture.listen_rdma().await;
    let mut client = connected(addr, b"a", invalidates).await;
    let stateid = Stateid::CURRENT;
    let all = [open("f", CREATE), write(data), Op::Close { stateid }];
    assert_eq!(client.at(HOME, &all).await.status, Status::Ok);
    (fixture, client)
}

pub(crate) fn write(data: &[u8]) -> Op<'_> {
    Op::Write {
        stateid: Stateid::CURRENT,
        offset: 0,
        stable: 2,
        data,
    }
}

pub(crate) fn read(count: usize) -> Op<'static> {
    Op::Read {
        stateid: Stateid::ANONYMOUS,
        offset: 0,
        count: count as u32,
    }
}

pub(crate) fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

/// Waits until no connection is left: then the machine of the service has no queue pair.
pub(crate) async fn quiet(fixture: &Fixture) {
    for _ in 0..100 {
        io::time::sleep(Duration::from_secs(1)).await;
        let states = fixture.service.counters().connections.states;
        if states.iter().all(|(_, count)| *count == 0) {
            io::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(devices::queue_pairs(fixture.machine), 0);
            return;
        }
    }
    panic!("connections stay");
}

pub(crate) fn closed_for(fixture: &Fixture, why: CloseReason) -> u64 {
    fixture.service.counters().connections.closed_for(why)
}

/// The number of a record.
pub(crate) fn xid(record: &[u8]) -> u32 {
    u32::from_be_bytes(*record.first_chunk().expect("a number"))
}

/// A COMPOUND on the file, as a record.
pub(crate) fn on_file(client: &mut Client, op: Op<'_>) -> Vec<u8> {
    let mut all = vec![client.next_sequence(false), Op::PutRootFh];
    all.extend(FILE.iter().map(|name| Op::Lookup {
        name: name.as_bytes(),
    }));
    all.push(op);
    client.encoded(1, &all)
}

/// The results behind the RPC header and up to the last LOOKUP.
fn results(inline: &[u8]) -> Results {
    let mut results = Results::of(inline[24..].to_vec());
    results.sequence();
    results.ok(operation::PUTROOTFH);
    FILE.iter().for_each(|_| results.ok(operation::LOOKUP));
    results
}

#[test]
fn records_of_all_lengths_arrive() {
    for invalidates in [false, true] {
        simulated(move || async move {
            let (fixture, mut client) = served_with(b"", invalidates).await;
            client.rdma().reply_len = 1_100_000;
            // Around the length of a message, in a chunk, and the longest.
            for len in [0, 1, 5, 3700, 3800, 3900, 4000, 4096, 40_001, 1 << 20] {
                let data = noise(len);
                let all = [open("f", CREATE), write(&data)];
                let mut written = client.at(HOME, &all).await;
                written.open();
                written.ok(operation::WRITE);
                assert_eq!(written.u32() as usize, len);
                let mut found = client.at(&FILE, &[read(len)]).await;
                found.ok(operation::READ);
                found.u32();
                assert!(found.opaque() == data, "{len}");
            }
            let counters = fixture.service.counters();
            assert_eq!((counters.rdma_faults, client.rdma().granted), (0, 64));
            drop(client);
            quiet(&fixture).await;
            assert_eq!(closed_for(&fixture, CloseReason::Peer), 1);
        });
    }
}

#[test]
fn a_connection_tells_its_transport() {
    simulated(|| async {
        let (fixture, mut client) = served(b"").await;
        // The first call asks for the queue pair's numbers.
        let _ = fixture.service.clients();
        io::time::sleep(Duration::from_secs(2)).await;
        client.run(&[]).await;
        let clients = fixture.service.clients();
        let shown = &clients[0].connections[0];
        assert_eq!(shown.transport, NfsTransport::Rdma);
        let pair = shown.rdma.as_ref().expect("a queue pair");
        assert!(pair.queue_pair > 0 && pair.receives > 0);
        let over_tcp = fixture.client("b").await;
        let of = |c: &nfs::service::ClientInfo| c.connections[0].transport;
        let all: Vec<_> = fixture.service.clients().iter().map(of).collect();
        assert_eq!(all, [NfsTransport::Rdma, NfsTransport::Tcp]);
        drop(over_tcp);
    });
}

/// Data in a read chunk at its position, in several segments, with and without padding in the chunk.
#[test]
fn data_of_a_write_is_read_from_the_client() {
    simulated(|| async {
        let (fixture, mut client) = served(b"").await;
        for (len, is_padded) in [(1, false), (4096, false), (4097, true), (300_003, false)] {
            let data = noise(len);
            let stateid = Stateid::ANONYMOUS;
            let op = Op::Write {
                stateid,
                offset: 0,
                stable: 2,
                data: &data,
            };
            // GETATTR behind the data.
            let mut all = vec![client.next_sequence(false), Op::PutRootFh];
            all.extend(FILE.iter().map(|name| Op::Lookup {
                name: name.as_bytes(),
            }));
            all.push(op);
            let before = client.encoded(1, &all).len() - len - padding(len);
            all.push(Op::GetAttr(Bitmap::of(&[4])));
            let record = client.encoded(1, &all);
            let behind = before + len + padding(len);
            let inline = [&record[..before], &record[behind..]].concat();
            let mut moved = data.clone();
            if is_padded {
                moved.resize(len + padding(len), 0);
            }
            let parts = moved.chunks(moved.len().div_ceil(3));
            let expose = |part: &[u8]| {
                let memory = Memory::Readable(Payload::from(part.to_vec()));
                client.rdma().expose(memory)
            };
            let segments: Vec<Segment> = parts.map(expose).collect();
            let keys: Vec<u32> = segments.iter().map(|s| s.key).collect();
            let chunks = Chunks {
                reads: vec![ReadChunk {
                    position: before as u32,
                    segments,
                }],
                ..Chunks::default()
            };
            client
                .rdma()
                .put(xid(&record), Kind::Inline(chunks), &inline);
            let answer = client.rdma().answer().await.expect("a reply");
            assert!(answer.chunks().is_empty());
            let is_only = keys.len() == 1;
            assert_eq!(answer.withdrawn.is_some(), is_only, "several keys stay");
            let mut found = results(&answer.inline);
            found.ok(operation::WRITE);
            assert_eq!(found.u32() as usize, len);
            found.skip(4 + 8);
            found.ok(operation::GETATTR);
            client.rdma().reply_len = 400_000;
            let mut found = client.at(&FILE, &[read(len)]).await;
            found.ok(operation::READ);
            found.u32();
            assert!(found.opaque() == data, "{len}");
        }
        assert_eq!(fixture.service.counters().rdma_faults, 0);
        // `why` sees writes and reads, until the device has sent the replies.
        let stages = fixture.service.stages().read();
        for (kind, requests) in [(CommandKind::Write, 5), (CommandKind::Read, 4)] {
            let mut of_kind = stages.iter().filter(|k| k.kind == kind);
            let found = of_kind.next().expect("there were such calls");
            assert_eq!(found.requests, requests);
            let is_sent = |(stage, _): &(Stage, Times)| *stage == Stage::Send;
            assert!(found.stages.iter().any(is_sent), "{kind:?}");
        }
    });
}

/// READ into two write chunks, of which the second is not used.
#[test]
fn data_of_a_read_goes_to_the_clients_memory() {
    simulated(|| async {
        let data = noise(100_001);
        let (_fixture, mut client) = served(&data).await;
        for len in [0, 1, 4095, 100_001] {
            let first = client.rdma().expose(Memory::Writable(buffer(60_000).await));
            let second = client.rdma().expose(Memory::Writable(buffer(60_000).await));
            let unused = client.rdma().expose(Memory::Writable(buffer(64).await));
            let chunks = Chunks {
                writes: vec![vec![first, second], vec![unused]],
                ..Chunks::default()
            };
            let record = on_file(&mut client, read(len));
            client
                .rdma()
                .put(xid(&record), Kind::Inline(chunks), &record);
            let answer = client.rdma().answer().await.expect("a reply");
            let writes = &answer.chunks().writes;
            assert_eq!(writes.len(), 2, "all chunks come back");
            assert_eq!((len_of(&writes[0]), len_of(&writes[1])), (len, 0));
            let mut found = results(&answer.inline);
            found.ok(operation::READ);
            found.u32();
            assert_eq!(found.u32() as usize, len);
            assert_eq!(
                found.rest(),
                0,
                "neither data nor padding is in the message"
            );
            let mut all = Vec::new();
            for segment in [first, second, unused] {
                let memory = client.rdma().withdraw(RemoteKey(segment.key)).await;
                let Memory::Writable(buf) = memory else {
                    panic!("it was writable");
                };
                all.push(buf.to_vec());
            }
            let moved = [&all[0][..], &all[1]].concat();
            assert!(moved[..len] == data[..len] && moved[len..].iter().all(|b| *b == 0));
            assert!(all[2].iter().all(|b| *b == 0));
        }
    });
}

#[test]
fn a_link_is_an_item_and_a_failure_uses_no_chunk() {
    simulated(|| async {
        let (_fixture, mut client) = served(b"data").await;
        let text = noise(1000)
            .iter()
            .map(|b| b'a' + b % 26)
            .collect::<Vec<_>>();
        let create = Op::Create {
            kind: NewType::Symlink(&text),
            name: b"link",
            attributes: NO_ATTRS,
        };
        assert_eq!(client.at(HOME, &[create]).await.status, Status::Ok);
        let record = {
            let mut all = vec![client.next_sequence(false), Op::PutRootFh];
            all.extend(["tank", "home", "link"].iter().map(|name| Op::Lookup {
                name: name.as_bytes(),
            }));
            all.push(Op::ReadLink);
            client.encoded(1, &all)
        };
        let to = client.rdma().expose(Memory::Writable(buffer(2000).await));
        let chunks = Chunks {
            writes: vec![vec![to]],
            ..Chunks::default()
        };
        let kind = Kind::Inline(chunks.clone());
        client.rdma().put(xid(&record), kind, &record);
        let answer = client.rdma().answer().await.expect("a reply");
        assert_eq!(len_of(&answer.chunks().writes[0]), 1000);
        assert_eq!(answer.withdrawn, Some(RemoteKey(to.key)));
        let Some(Memory::Writable(buf)) = answer.memory else {
            panic!("the memory comes with the message");
        };
        assert!(buf[..1000] == text[..]);
        drop(buf);
        // READLINK of a file fails.
        let to = client.rdma().expose(Memory::Writable(buffer(2000).await));
        let chunks = Chunks {
            writes: vec![vec![to]],
            ..Chunks::default()
        };
        let record = on_file(&mut client, Op::ReadLink);
        let kind = Kind::Inline(chunks);
        client.rdma().put(xid(&record), kind, &record);
        let answer = client.rdma().answer().await.expect("a reply");
        assert_eq!(len_of(&answer.chunks().writes[0]), 0);
        results(&answer.inline).has(operation::READLINK, Status::WrongType);
    });
}

#[test]
fn long_listings_go_to_the_memory_for_replies() {
    simulated(|| async {
        let (_fixture, mut client) = served(b"").await;
        for n in 0..200 {
            let name = format!("a file with a long name {n:040}");
            let all = [
                open(&name, CREATE),
                Op::Close {
                    stateid: Stateid::CURRENT,
                },
            ];
            assert_eq!(client.at(HOME, &all).await.status, Status::Ok);
        }
        let list = |bytes_max| {
            Op::ReadDir(ReadDir {
                cookie: 0,
                verifier: [0; 8],
                names_max: bytes_max,
                bytes_max,
                attributes: Bitmap::default(),
            })
        };
        client.rdma().reply_len = 40_000;
        let mut found = client.at(HOME, &[list(32_000)]).await;
        found.ok(operation::READDIR);
        assert!(found.rest() > 201 * 64, "the whole listing");
        // Without memory a listing is as long as a message.
        client.rdma().reply_len = 0;
        let mut found = client.at(HOME, &[list(32_000)]).await;
        found.ok(operation::READDIR);
        let len = found.rest();
        assert!((2000..INLINE as usize).contains(&len), "{len}");
    });
}

#[test]
fn a_reply_that_does_not_fit_is_refused_before_it_is_made() {
    simulated(|| async {
        let data = noise(20_000);
        let (fixture, mut client) = served(&data).await;
        // Version 4 has a status for it.
        let mut found = client.at(&FILE, &[read(5000)]).await;
        assert_eq!(found.status, Status::RepTooBig);
        found.has(operation::READ, Status::RepTooBig);
        assert_eq!(fixture.service.counters().rdma_faults, 0);
        // A chunk that is shorter than its item is an error of the transport; the connection goes on.
        client.rdma().reply_len = 30_000;
        let to = client.rdma().expose(Memory::Writable(buffer(4000).await));
        let whole = client.rdma().expose(Memory::Writable(buffer(30_000).await));
        let chunks = Chunks {
            writes: vec![vec![to]],
            reply: Some(vec![whole]),
            ..Chunks::default()
        };
        let record = on_file(&mut client, read(5000));
        client
            .rdma()
            .put(xid(&record), Kind::Inline(chunks), &record);
        let answer = client.rdma().answer().await.expect("an answer");
        assert_eq!(answer.header.xid, xid(&record));
        assert_eq!(answer.header.kind, Kind::Error(Fault::Chunk));
        assert_eq!(fixture.service.counters().rdma_faults, 1);
        let mut found = client.at(&FILE, &[read(20_000)]).await;
        found.ok(operation::READ);
        found.u32();
        assert!(found.opaque() == data);
    });
}

#[test]
fn many_calls_are_under_way_at_a_time() {
    simulated(|| async {
        let data = noise(70_000);
        let (fixture, mut client) = served(&data).await;
        let mut all = Vec::new();
        // Version 4 has one call for each slot: NULL calls and reads of version 3 have none.
        for _ in 0..64 {
            let record = client.call(100_003, 3, 0).to_vec();
            let chunk = client.rdma().long(record.clone());
            all.push((xid(&record), chunk));
        }
        for (xid, chunk) in &all {
            let chunks = Chunks {
                reads: vec![chunk.clone()],
                ..Chunks::default()
            };
            client.rdma().put(*xid, Kind::Chunked(chunks), &[]);
        }
        let mut answered = Vec::new();
        for _ in &all {
            let answer = client.rdma().answer().await.expect("a reply");
            assert_eq!(answer.inline.len(), 24);
            answered.push(answer.header.xid);
        }
        answered.sort_unstable();
        assert!(answered.iter().eq(all.iter().map(|(xid, _)| xid)));
        drop(client);
        quiet(&fixture).await;
    });
}

/// A client that ends or loses its power amid transfers leaves nothing behind.
#[test]
fn clients_that_die_amid_transfers_leave_nothing_behind() {
    for step in 0..10u64 {
        simulated(move || async move {
            let fixture = Fixture::new().await;
            let addr = fixture.listen_rdma().await;
            let machine = Node::new();
            let dying = machine.spawn(async move {
                let mut client = connected(addr, b"a", true).await;
                for _ in 0..32 {
                    let record = noise(500_000);
                    let chunk = client.rdma().long(record);
                    let chunks = Chunks {
                        reads: vec![chunk],
                        ..Chunks::default()
                    };
                    client.rdma().put(7, Kind::Chunked(chunks), &[]);
                }
                io::time::sleep(Duration::from_micros(40 * step)).await;
                client
            });
            let client = dying.await;
            match step % 2 {
                0 => machine.power_cut(),
                _ => drop(client),
            }
            quiet(&fixture).await;
        });
    }
}

#[test]
fn calls_end_before_the_connection_is_drained() {
    simulated(|| async {
        let (fixture, mut client) = served(&noise(5000)).await;
        let service = fixture.service.clone();
        let draining = io::spawn(async move { service.drain(Duration::from_secs(5)).await });
        assert!(
            client.rdma().answer().await.is_none(),
            "the connection ends"
        );
        draining.await;
        assert_eq!(closed_for(&fixture, CloseReason::Drained), 1);
        quiet(&fixture).await;
    });
}
