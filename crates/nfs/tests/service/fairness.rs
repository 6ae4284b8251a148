//! 200 bad clients beside a good one: the good one's latency stays as it is, with all buffers that the others hold.

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, NO_ATTRS, open};
use io::sim::Node;
use io::time::sleep;
use nfs::wire::channel::Sequence;
use nfs::wire::files::CreateHow;
use nfs::wire::{Op, Stateid, Status, operation};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::fairness::{self, HELD};

const MIB: u32 = 1 << 20;
const FILE: &str = "large";
/// Clients that take no reply. 200 of them held up a good one for 1 to 12 s before output was bounded by connection and address.
const BAD_CLIENTS: u8 = 200;

/// How bad clients are told apart.
#[derive(Debug, Clone, Copy, PartialEq)]
enum From {
    /// Each from an address of its own.
    ManyAddresses,
    /// All from the good client's address.
    OneAddress,
}

/// READ of the first MiB of the file, on one slot.
fn read(client: &Client, slot: u32) -> [Op<'static>; 6] {
    [
        Op::Sequence(Sequence {
            session: client.session,
            sequence: 1,
            slot,
            highest_slot: FORE.slots - 1,
            cache_this: false,
        }),
        Op::PutRootFh,
        Op::Lookup { name: b"tank" },
        Op::Lookup { name: b"home" },
        Op::Lookup {
            name: FILE.as_bytes(),
        },
        Op::Read {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            count: MIB,
        },
    ]
}

/// A client that asks for a MiB on each slot and takes no reply, again and again.
async fn attack_from(addr: SocketAddr, name: u8) {
    loop {
        let mut client = Client::connect(addr).await;
        client.establish(&[b'b', name], FORE).await;
        for slot in 0..FORE.slots {
            let record = client.encoded(1, &read(&client, slot));
            client.send(record).await;
        }
        sleep(HELD).await;
        drop(client);
        sleep(Duration::from_millis(5)).await;
    }
}

/// The 99th percentile of the latency of reads and of writes of 64 KiB, µs.
async fn p99(client: &mut Client) -> [u64; 2] {
    let data = vec![0x5a; 64 << 10];
    fairness::p99(async |writes| {
        let command = match writes {
            true => Op::Write {
                stateid: Stateid::ANONYMOUS,
                offset: 0,
                stable: 0,
                data: &data,
            },
            false => Op::Read {
                stateid: Stateid::ANONYMOUS,
                offset: 0,
                count: data.len() as u32,
            },
        };
        let results = client.at(&[HOME[0], HOME[1], FILE], &[command]).await;
        assert_eq!(results.status, Status::Ok);
    })
    .await
}

fn good_client_is_as_fast_as_alone(from: From) {
    fairness::run(13, async move {
        let here = Node::new();
        let good = here.spawn(async move {
            let fixture = Fixture::new().await;
            let addr = fixture.addr;
            let mut client = fixture.client("good").await;
            let create = CreateHow::Unchecked(NO_ATTRS);
            let write = Op::Write {
                stateid: Stateid::CURRENT,
                offset: 0,
                stable: 0,
                data: &vec![7; MIB as usize],
            };
            let mut results = client.at(HOME, &[open(FILE, Some(create)), write]).await;
            let stateid = results.open();
            results.ok(operation::WRITE);
            let close = Op::Close { stateid };
            client.at(&[HOME[0], HOME[1], FILE], &[close]).await;
            let alone = p99(&mut client).await;
            for name in 1..=BAD_CLIENTS {
                let machine = match from {
                    From::ManyAddresses => Node::new(),
                    From::OneAddress => here,
                };
                drop(machine.spawn(attack_from(addr, name)));
            }
            sleep(Duration::from_secs(1)).await;
            let beside = p99(&mut client).await;
            fairness::compare(&from, 64 << 10, alone, beside);
        });
        fairness::finish(good).await;
    });
}

#[test]
fn a_good_client_beside_bad_ones_at_other_addresses() {
    good_client_is_as_fast_as_alone(From::ManyAddresses);
}

/// Regression: all connections of an address had one share of the buffers, so that clients that took no replies held up
/// a good one beside them (behind address translation, or on the same machine) for as long as they liked.
#[test]
fn a_good_client_beside_bad_ones_at_its_address() {
    good_client_is_as_fast_as_alone(From::OneAddress);
}
