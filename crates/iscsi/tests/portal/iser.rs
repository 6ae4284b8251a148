//! The target over RDMA (iSER), on the simulated verbs device, with scripted initiators that keep the rules or break them.

use crate::fixture::{DISK, Fixture, simulated, target_config};
use crate::initiator::{pattern, rw10};
use crate::iser_host::{IserHost, Way, reads, sizes, writes};
use io::IoBuf;
use io::Payload;
use io::rdma::{
    ConnectError, Ending, Memory, QueuePair, QueuePairConfig, QueuePairEvent, RdmaListener,
    Returned, Verb, WorkError, WorkRequest,
};
use io::sim::{Node, rdma as devices};
use io::stage::Stage;
use io::time::sleep;
use iscsi::portal::{CloseReason, Config, Target};
use iscsi::wire::iser::{Advertised, IserHeader};
use iscsi::wire::request::DataOut;
use iscsi::wire::{Bhs, Lun, Opcode, Sn, Ttt};
use session::latency::CommandKind;
use std::net::SocketAddr;
use std::time::Duration;

const SEC: Duration = Duration::from_secs(1);
const BLOCK: usize = 512;
const READ: u8 = 0x28;
const WRITE: u8 = 0x2a;

struct Served {
    target: Target,
    addr: SocketAddr,
    machine: Node,
}

async fn served() -> Served {
    served_with(Config::default()).await
}

async fn served_with(config: Config) -> Served {
    let machine = Node::new();
    let starting = machine.spawn(async move {
        let target = Target::new(config);
        target
            .add_target(target_config(DISK))
            .expect("a new target");
        let listener = RdmaListener::bind(machine.addr(3260)).expect("a free port");
        let addr = listener.local_addr();
        let serving = target.clone();
        drop(io::spawn(async move {
            while let Ok(incoming) = listener.accept().await {
                let target = serving.clone();
                drop(io::spawn(async move { target.serve_rdma(incoming).await }));
            }
        }));
        (target, addr)
    });
    let (target, addr) = starting.await.expect("not killed");
    Served {
        target,
        addr,
        machine,
    }
}

/// The reasons for which connections were closed.
fn closed(served: &Served) -> Vec<CloseReason> {
    let counters = served.target.counters();
    let mut reasons = CloseReason::ALL.to_vec();
    reasons.retain(|why| counters.closed_for(*why) > 0);
    reasons
}

/// Waits until the target has no connection left, and its machine no queue pair.
async fn quiet(served: &Served) {
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

async fn buffer(blocks: usize, byte: u8) -> IoBuf {
    let mut buf = io::pool().alloc(blocks * BLOCK).await;
    buf.fill(byte);
    buf
}

/// Reads and writes one block: the connection works.
async fn works(host: &mut IserHost) {
    let data = pattern(BLOCK, 7);
    let c = host.command(&rw10(WRITE, 0, 1), BLOCK as u32, Way::Write);
    host.pdu(IserHeader::default(), c.build(), &data);
    assert_eq!(host.expect(Opcode::ScsiResponse).await.bhs.0[3], 0);
    let at = host.expose(Memory::Writable(buffer(1, 0).await));
    let c = host.command(&rw10(READ, 0, 1), BLOCK as u32, Way::Read);
    host.pdu(reads(at), c.build(), &[]);
    let response = host.expect(Opcode::ScsiResponse).await;
    assert_eq!(response.bhs.0[3], 0);
    let Some(Memory::Writable(read)) = response.withdrawn else {
        panic!("the response withdraws the memory")
    };
    assert!(read[..] == data[..]);
}

/// A write whose first part is immediate data, and whose rest is read from memory that has the rest only.
#[test]
fn solicited_data_is_read_from_behind_the_immediate_data() {
    simulated(|| async {
        let served = served().await;
        let mut host = IserHost::session(served.addr, true, 1).await;
        for immediate in [0, 512, 8192] {
            let data = pattern(64 * BLOCK, immediate as u8);
            let rest = Payload::from(data[immediate..].to_vec());
            let at = host.expose(Memory::Readable(rest));
            let c = host.command(&rw10(WRITE, 8, 64), data.len() as u32, Way::Write);
            host.pdu(writes(at), c.build(), &data[..immediate]);
            let response = host.expect(Opcode::ScsiResponse).await;
            assert_eq!(response.bhs.0[3], 0);
            assert!(matches!(response.withdrawn, Some(Memory::Readable(_))));
            let at = host.expose(Memory::Writable(buffer(64, 0).await));
            let c = host.command(&rw10(READ, 8, 64), data.len() as u32, Way::Read);
            host.pdu(reads(at), c.build(), &[]);
            let response = host.expect(Opcode::ScsiResponse).await;
            let Some(Memory::Writable(read)) = response.withdrawn else {
                panic!("the response withdraws the memory")
            };
            assert!(read[..] == data[..], "{immediate} bytes of immediate data");
        }
        drop(host);
        quiet(&served).await;
        assert_eq!(closed(&served), [CloseReason::Peer]);
        // `why` sees the time in which the data was read, and until the device has sent the responses.
        let stages = served.target.stages()[0].1.read();
        let sums = |kind: CommandKind| -> Vec<Stage> {
            let mut of_kind = stages.iter().filter(|k| k.kind == kind);
            let found = of_kind.next().expect("there were such commands");
            assert_eq!(found.requests, 3);
            found.stages.iter().map(|(stage, _)| *stage).collect()
        };
        let written = sums(CommandKind::Write);
        assert!(written.contains(&Stage::Receive), "{written:?}");
        for seen in [written, sums(CommandKind::Read)] {
            assert!(seen.contains(&Stage::Send), "{seen:?}");
        }
    });
}

/// A key is withdrawn by the response only if the initiator announced that it can be, and with an error, too.
#[test]
fn keys_are_withdrawn_where_that_was_announced() {
    simulated(|| async {
        let served = served().await;
        for invalidates in [false, true] {
            let mut host = IserHost::session(served.addr, invalidates, 1).await;
            let at = host.expose(Memory::Writable(buffer(1, 0).await));
            let beyond = rw10(READ, 1 << 30, 1);
            let c = host.command(&beyond, BLOCK as u32, Way::Read);
            host.pdu(reads(at), c.build(), &[]);
            let response = host.expect(Opcode::ScsiResponse).await;
            assert_eq!(response.bhs.0[3], 2, "CHECK CONDITION");
            assert!(response.data.len() > 2, "sense data");
            assert_eq!(response.withdrawn.is_some(), invalidates);
            let inquiry = [0x12, 0, 0, 0, 96, 0];
            let at = host.expose(Memory::Writable(buffer(1, 0).await));
            let c = host.command(&inquiry, 96, Way::Read);
            host.pdu(reads(at), c.build(), &[]);
            let response = host.expect(Opcode::ScsiResponse).await;
            assert_eq!(response.bhs.0[3], 0);
            assert_eq!(response.withdrawn.is_some(), invalidates);
        }
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
    for wrong in [Wrong::Key, Wrong::Length, Wrong::Direction] {
        for way in [Way::Read, Way::Write] {
            simulated(move || async move {
                let served = served().await;
                let mut good = IserHost::session(served.addr, true, 9).await;
                let mut host = IserHost::session(served.addr, true, 1).await;
                let blocks = match wrong {
                    Wrong::Length => 8,
                    Wrong::Key | Wrong::Direction => 16,
                };
                let writable = (way == Way::Read) != matches!(wrong, Wrong::Direction);
                let memory = match writable {
                    true => Memory::Writable(buffer(blocks, 0).await),
                    false => Memory::Readable(Payload::from(vec![0; blocks * BLOCK])),
                };
                let mut at = host.expose(memory);
                if let Wrong::Key = wrong {
                    at.key ^= 1;
                }
                let (opcode, header) = match way {
                    Way::Read => (READ, reads(at)),
                    _ => (WRITE, writes(at)),
                };
                let c = host.command(&rw10(opcode, 0, 16), 16 * BLOCK as u32, way);
                host.pdu(header, c.build(), &[]);
                assert_eq!(host.ended().await, Ending::BadRequest, "{wrong:?}");
                sleep(SEC).await;
                assert_eq!(closed(&served), [CloseReason::MemoryAccess]);
                works(&mut good).await;
            });
        }
    }
}

#[test]
fn messages_that_are_no_pdus_end_the_connection() {
    simulated(|| async {
        let served = served().await;
        let mut good = IserHost::session(served.addr, true, 9).await;
        let header = IserHeader::default().build();
        let mut claims_data = Bhs::new(Opcode::NopOut);
        claims_data.set_data_len(100);
        let mut claims_headers = Bhs::new(Opcode::ScsiCommand);
        claims_headers.0[4] = 255;
        let bad = [
            Vec::new(),
            vec![0x10; 27],
            [&[0x20; 28][..], &[0; 48]].concat(),
            header.to_vec(),
            [&header[..], &[0; 47]].concat(),
            [&header[..], &claims_data.0, &[0; 99]].concat(),
            [&header[..], &claims_data.0, &[0; 101]].concat(),
            [&header[..], &claims_headers.0].concat(),
        ];
        let count = bad.len() as u64;
        for message in bad {
            let host = IserHost::session(served.addr, true, 1).await;
            let len = message.len();
            host.message(message);
            assert_eq!(host.ended().await, Ending::Peer, "{len} bytes");
            sleep(SEC).await;
        }
        let counters = served.target.counters();
        assert_eq!(counters.closed_for(CloseReason::Protocol), count);
        // A data segment that is longer than was declared, and a message that is longer than a receive.
        let mut long = Bhs::new(Opcode::NopOut);
        long.set_data_len(8193);
        let host = IserHost::session(served.addr, true, 1).await;
        host.message([&header[..], &long.0].concat());
        assert_eq!(host.ended().await, Ending::Peer);
        let host = IserHost::session(served.addr, true, 1).await;
        host.message(vec![0; 16 << 10]);
        let why = Ending::Failed(WorkError::RemoteInvalid);
        assert_eq!(host.ended().await, why);
        works(&mut good).await;
    });
}

/// Commands that name no memory for their data, and Data-Outs where data is read: both are refused, and their connection ends.
#[test]
fn pdus_that_break_the_rules_of_iser_end_the_connection() {
    simulated(|| async {
        let served = served().await;
        let mut good = IserHost::session(served.addr, true, 9).await;
        let nowhere = IserHeader::default();
        let other = Advertised { key: 1, address: 0 };
        for (way, header) in [
            (Way::Read, nowhere),
            (Way::Read, writes(other)),
            (Way::Write, nowhere),
            (Way::Write, reads(other)),
        ] {
            let mut host = IserHost::session(served.addr, true, 1).await;
            let opcode = if way == Way::Read { READ } else { WRITE };
            let c = host.command(&rw10(opcode, 0, 16), 16 * BLOCK as u32, way);
            host.pdu(header, c.build(), &[]);
            host.expect(Opcode::Reject).await;
            assert_eq!(host.ended().await, Ending::Peer, "{way:?}");
        }
        let mut host = IserHost::session(served.addr, true, 1).await;
        let at = host.expose(Memory::Readable(Payload::from(vec![5; 1 << 20])));
        let c = host.command(&rw10(WRITE, 0, 2048), 1 << 20, Way::Write);
        host.pdu(writes(at), c.build(), &[]);
        for ttt in 0..4 {
            let pdu = DataOut {
                last: true,
                lun: Lun::default(),
                itt: c.itt,
                ttt: Ttt(ttt),
                exp_stat_sn: Sn(0),
                data_sn: 0,
                offset: 0,
            };
            host.pdu(nowhere, pdu.build(), &[1; 512]);
        }
        assert_eq!(host.ended().await, Ending::Peer);
        let counters = served.target.counters();
        assert_eq!(counters.closed_for(CloseReason::Protocol), 5);
        works(&mut good).await;
    });
}

/// An aborted write whose data is being read ends when the READ has ended: the initiator may withdraw its memory after the answer.
#[test]
fn an_abort_waits_for_the_data_that_is_being_read() {
    simulated(|| async {
        let served = served().await;
        let mut host = IserHost::session(served.addr, false, 1).await;
        let at = host.expose(Memory::Readable(Payload::from(vec![5; 1 << 20])));
        let c = host.command(&rw10(WRITE, 0, 2048), 1 << 20, Way::Write);
        host.pdu(writes(at), c.build(), &[]);
        let abort = host.abort(&c);
        host.pdu(IserHeader::default(), abort, &[]);
        let first = host.receive().await;
        assert_eq!(first.bhs.opcode(), Some(Opcode::TaskResponse));
        assert_eq!(first.bhs.0[2], 0, "function complete");
        let work = Verb::Withdraw {
            key: io::rdma::RemoteKey(at.key),
        };
        let tag = Some(9);
        host.queue_pair.post(&mut vec![WorkRequest { tag, work }]);
        loop {
            match host.queue_pair.event().await {
                QueuePairEvent::Done {
                    tag: 9,
                    returned: Returned::Memory(_),
                    ..
                } => break,
                QueuePairEvent::Ended(why) => panic!("{why}"),
                _ => {}
            }
        }
        let ping = host.ping();
        host.pdu(IserHeader::default(), ping, b"alive");
        assert_eq!(host.expect(Opcode::NopIn).await.data, b"alive");
        sleep(SEC).await;
        assert_eq!(served.target.sessions()[0].connections[0].in_flight, 0);
        assert_eq!(io::pool().stats().used, 0);
    });
}

/// Far more requests at once than receives: the initiator's device sends them again, and none is lost.
#[test]
fn a_storm_of_requests_loses_nothing() {
    const PINGS: usize = 1000;
    simulated(|| async {
        let served = served().await;
        let mut host = IserHost::session(served.addr, true, 1).await;
        let mut tags = Vec::new();
        for _ in 0..PINGS {
            let ping = host.ping();
            tags.push(ping.itt());
            host.pdu(IserHeader::default(), ping, b"ping");
        }
        for itt in tags {
            assert_eq!(host.expect(Opcode::NopIn).await.bhs.itt(), itt);
        }
        works(&mut host).await;
    });
}

/// A host that takes no responses is closed when they are late, and gives all buffers back.
#[test]
fn a_host_without_receives_is_closed_in_time() {
    simulated(|| async {
        // A ping would find no receive either, and its answer would be late at the same time.
        let served = served_with(Config {
            nop_interval: Duration::ZERO,
            ..Config::default()
        })
        .await;
        let few = QueuePairConfig {
            receives: 1,
            ..sizes()
        };
        let mut host = IserHost::open(served.addr, true, few).await;
        host.login(1).await;
        let c = host.command(&[0; 6], 0, Way::None);
        host.pdu(IserHeader::default(), c.build(), &[]);
        // The only receive is kept.
        let kept = loop {
            if let QueuePairEvent::Received(message) = host.queue_pair.event().await {
                break message;
            }
        };
        for _ in 0..100 {
            let at = host.expose(Memory::Writable(buffer(8, 0).await));
            let c = host.command(&rw10(READ, 0, 8), 8 * BLOCK as u32, Way::Read);
            host.pdu(reads(at), c.build(), &[]);
        }
        assert_eq!(host.ended().await, Ending::Peer);
        sleep(SEC).await;
        assert_eq!(closed(&served), [CloseReason::SendStall]);
        drop((kept, host));
        quiet(&served).await;
    });
}

/// A host that ends amid a READ, and one that loses its power: buffers and places come back.
#[test]
fn hosts_that_die_amid_a_read_leave_nothing_behind() {
    for step in 0..10u64 {
        simulated(move || async move {
            let served = served().await;
            let machine = Node::new();
            let addr = served.addr;
            let dying = machine.spawn(async move {
                let mut host = IserHost::session(addr, true, 1).await;
                for _ in 0..32 {
                    let at = host.expose(Memory::Readable(Payload::from(vec![1; 1 << 20])));
                    let c = host.command(&rw10(WRITE, 0, 2048), 1 << 20, Way::Write);
                    host.pdu(writes(at), c.build(), &[]);
                }
                sleep(Duration::from_micros(40 * step)).await;
                host
            });
            let host = dying.await;
            match step % 2 {
                0 => machine.power_cut(),
                _ => drop(host),
            }
            quiet(&served).await;
            assert_eq!(io::pool().stats().used, 0);
        });
    }
}

/// A connection without a login, one that sends something else, and requests that are refused.
#[test]
fn strangers_are_closed_in_time() {
    simulated(|| async {
        let served = served().await;
        let silent = IserHost::open(served.addr, true, sizes()).await;
        let mut rude = IserHost::open(served.addr, true, sizes()).await;
        let ping = rude.ping();
        rude.pdu(IserHeader::default(), ping, &[]);
        assert_eq!(rude.ended().await, Ending::Peer);
        assert_eq!(silent.ended().await, Ending::Peer);
        sleep(SEC).await;
        assert_eq!(
            closed(&served),
            [CloseReason::Protocol, CloseReason::LoginTimeout]
        );
        let without_reads = QueuePairConfig {
            reads_in: 0,
            ..sizes()
        };
        let asked = QueuePair::connect(served.addr, without_reads, &[0x80, 0, 0, 0]).await;
        assert!(matches!(asked, Err(ConnectError::Rejected(_))));
        sleep(SEC).await;
        let counters = served.target.counters();
        assert_eq!(counters.closed_for(CloseReason::Protocol), 2);
        drop((silent, rude));
        quiet(&served).await;
    });
}

/// A connection of one transport joins no session of another one.
#[test]
fn sessions_have_one_transport() {
    simulated(|| async {
        let served = served().await;
        let host = IserHost::session(served.addr, true, 1).await;
        let tsih = served.target.sessions()[0].tsih;
        let over_tcp = Fixture {
            target: served.target.clone(),
            addr: crate::fixture::listen(&served.target, "127.0.0.1:0".parse().expect("one")),
        };
        let mut other = over_tcp.connect().await;
        (other.tsih, other.cid) = (tsih, 1);
        other.isid = iscsi::wire::Isid([0x80, 0, 0, 0, 0, 1]);
        let (response, _) = other.try_login(DISK, &[]).await;
        let refused = iscsi::wire::response::LoginStatus::CANNOT_INCLUDE;
        assert_eq!(response.status, refused);
        drop(host);
    });
}
