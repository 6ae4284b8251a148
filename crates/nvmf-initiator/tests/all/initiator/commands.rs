//! Commands to a peer that obeys the protocol, and their answers.

use std::rc::Rc;
use std::time::Duration;

use nvmf::wire::command::Nsid;
use nvmf::wire::dsm::DsmRange;
use nvmf::wire::features::{AsyncEvent, Select, fid};
use nvmf::wire::log::{DiscoveryEntry, DiscoveryLog};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::opcode::io as op;
use nvmf::wire::pdu::{Digests, Pda};
use nvmf::wire::status::Status;
use nvmf::wire::text;
use nvmf_initiator::{
    Config, Discovery, Error, LinkState, Offer, Transport, WriteOptions, discover,
};
use zerocopy::FromZeros;

use crate::initiator::fake::{BLOCK, BLOCKS, Behavior, Fake};
use crate::initiator::{config, connect, empty, pattern, run};

/// Writes and reads back in many sizes, many at a time, then compares the peer's disk directly.
async fn round_trips(behavior: Behavior, offer: Offer) {
    let fake = Fake::start(behavior);
    let (controller, ns) = connect(Config {
        offer,
        io_queues: 2,
        queue_depth: 32,
        ..config(&fake)
    })
    .await;
    let ns = Rc::new(ns);
    let mut at = 0;
    let mut tasks = Vec::new();
    for (i, blocks) in [1u64, 8, 9, 64, 256, 2, 1, 33, 1024, 8]
        .into_iter()
        .enumerate()
    {
        let (ns, slba) = (ns.clone(), at);
        at += blocks;
        tasks.push(io::spawn(async move {
            let data = pattern(blocks as usize * BLOCK, i as u64).await;
            ns.write(slba, data.clone(), WriteOptions { fua: i % 2 == 0 })
                .await
                .expect("write");
            let (result, buf) = ns.read(slba, empty(data.len()).await).await;
            result.expect("read");
            assert!(buf[..] == data[..], "transfer {i} of {blocks} blocks");
            (slba, data)
        }));
    }
    for task in tasks {
        let (slba, data) = task.await.expect("not killed");
        let start = slba as usize * BLOCK;
        assert!(fake.disk.borrow()[start..start + data.len()] == data[..]);
    }
    assert_eq!(controller.stats().io_completed, 20);
    controller.shutdown().await;
    assert_eq!(fake.shutdowns.get(), 1, "the controller was told");
}

#[test]
fn data_moves_both_ways_plain() {
    run(|| round_trips(Behavior::default(), Offer::default()));
}

#[test]
fn data_moves_both_ways_with_digests_and_padding() {
    let digests = Digests {
        header: true,
        data: true,
    };
    let behavior = Behavior {
        digests,
        cpda: Pda::new(17).expect("an alignment"),
        success: false,
        c2h_max: 20_000,
        r2t_max: 10_000,
        ..Behavior::default()
    };
    let offer = Offer {
        digests,
        hpda: Pda::new(31).expect("an alignment"),
        ..Offer::default()
    };
    run(|| round_trips(behavior.clone(), offer.clone()));
}

#[test]
fn data_moves_both_ways_without_in_capsule_data() {
    let behavior = Behavior {
        capsule_data: 0,
        c2h_max: 512,
        max_h2c_data: 4096,
        ..Behavior::default()
    };
    run(|| {
        round_trips(
            behavior.clone(),
            Offer {
                digests: Digests {
                    header: false,
                    data: true,
                },
                ..Offer::default()
            },
        )
    });
}

#[test]
fn every_kind_of_io_command() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        let (controller, ns) = connect(config(&fake)).await;
        assert_eq!(
            (ns.block_size(), ns.blocks()),
            (BLOCK as u32, BLOCKS as u64)
        );
        let (old, new) = (pattern(4096, 1).await, pattern(4096, 2).await);
        ns.write(8, old.clone(), WriteOptions::default())
            .await
            .expect("write");
        ns.flush().await.expect("flush");
        ns.compare(8, old.clone()).await.expect("equal");
        assert_eq!(
            ns.compare(8, new.clone()).await,
            Err(Error::Refused(Status::COMPARE_FAILURE))
        );
        ns.verify(8, 8).await.expect("verify");
        let refused = ns.compare_and_write(8, new.clone(), old.clone()).await;
        assert_eq!(refused, Err(Error::Refused(Status::COMPARE_FAILURE)));
        ns.compare_and_write(8, old.clone(), new.clone())
            .await
            .expect("equal, so written");
        ns.compare(8, new.clone()).await.expect("written");
        ns.write_zeroes(8, 4, true, WriteOptions { fua: true })
            .await
            .expect("zeroes");
        ns.deallocate(&[DsmRange::new(12, 2), DsmRange::new(14, 2)])
            .await
            .expect("deallocate");
        let (result, buf) = ns.read(8, empty(4096).await).await;
        result.expect("read");
        assert!(buf.iter().all(|b| *b == 0));
        let (refused, _) = ns.read(BLOCKS as u64, empty(512).await).await;
        assert_eq!(refused, Err(Error::Refused(Status::LBA_OUT_OF_RANGE.dnr())));
        let (refused, _) = ns.read(0, empty(100).await).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
        let unsupported = ns.reservation_report(true).await;
        assert_eq!(
            unsupported,
            Err(Error::Refused(Status::INVALID_OPCODE.dnr()))
        );
        let fused: Vec<u8> = fake
            .seen
            .borrow()
            .iter()
            .copied()
            .filter(|o| [op::COMPARE, op::WRITE].contains(o))
            .collect();
        assert_eq!(
            fused[fused.len() - 5..],
            [op::COMPARE, op::WRITE, op::COMPARE, op::WRITE, op::COMPARE]
        );
        controller.shutdown().await;
        let (closed, _) = ns.read(0, empty(512).await).await;
        assert_eq!(closed, Err(Error::Closed));
    });
}

#[test]
fn admin_commands_and_events() {
    run(|| async {
        let fake = Fake::start(Behavior::default());
        let (controller, _ns) = connect(Config {
            io_queues: 3,
            ..config(&fake)
        })
        .await;
        assert_eq!(controller.io_queues(), (3, 127));
        assert_eq!(controller.links().len(), 4);
        assert_eq!(controller.active_namespaces().await, Ok(vec![Nsid(1)]));
        assert_eq!(
            controller
                .identify_controller()
                .await
                .expect("identify")
                .cntlid
                .get(),
            7
        );
        let refused = controller.identify_namespace(Nsid(2)).await;
        assert_eq!(
            refused.err(),
            Some(Error::Refused(Status::INVALID_FIELD.dnr()))
        );
        assert_eq!(
            controller.smart_log().await.expect("log").temperature.get(),
            0x1111
        );
        let unknown = controller.command_effects().await;
        assert_eq!(
            unknown.err(),
            Some(Error::Refused(Status::INVALID_LOG_PAGE.dnr()))
        );
        let feature = controller
            .get_feature(fid::VOLATILE_WRITE_CACHE, Select::Current, Nsid::NONE)
            .await;
        assert_eq!(feature, Ok(0x106));
        fake.events
            .borrow_mut()
            .extend([AsyncEvent::NAMESPACE_CHANGED, AsyncEvent::ANA_CHANGED]);
        controller.keep_alive().await.expect("keep alive");
        assert_eq!(
            controller.next_event().await,
            Ok(AsyncEvent::NAMESPACE_CHANGED)
        );
        assert_eq!(controller.next_event().await, Ok(AsyncEvent::ANA_CHANGED));
        assert_eq!(
            controller.changed_namespaces().await,
            Ok(Some(vec![Nsid(1)]))
        );
    });
}

#[test]
fn queues_are_as_many_and_as_deep_as_granted() {
    run(|| async {
        let fake = Fake::start(Behavior {
            queues: 2,
            mqes: 63,
            ..Behavior::default()
        });
        let (controller, ns) = connect(Config {
            io_queues: 5,
            queue_depth: 1000,
            ..config(&fake)
        })
        .await;
        assert_eq!(controller.io_queues(), (2, 63));
        assert!(ns.on_queue(1).is_ok() && ns.on_queue(2).is_err());
        // Many more commands than places: all of them complete.
        let ns = Rc::new(ns.on_queue(0).expect("queue"));
        let tasks: Vec<_> = (0..300)
            .map(|i| {
                let ns = ns.clone();
                io::spawn(async move { ns.read(i, empty(512).await).await.0 })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await, Some(Ok(())));
        }
        assert_eq!(controller.state(), LinkState::Live);
    });
}

fn entry(subtype: u8, port: u16, nqn: &Nqn) -> DiscoveryEntry {
    let mut entry = DiscoveryEntry::new_zeroed();
    (entry.trtype, entry.adrfam, entry.subtype) = (3, 1, subtype);
    text::put_padded(&mut entry.traddr, "127.0.0.1");
    text::put_padded(&mut entry.trsvcid, &port.to_string());
    entry.subnqn = nqn.into();
    entry
}

#[test]
fn discovery_follows_referrals_and_hears_of_changes() {
    run(|| async {
        let host = Nqn::new("nqn.2026-11.test:host").expect("valid");
        let [disk, other] =
            ["nqn.2026-11.test:a", "nqn.2026-11.test:b"].map(|n| Nqn::new(n).expect("valid"));
        let (first, second) = (
            Fake::start(Behavior::default()),
            Fake::start(Behavior::default()),
        );
        let discovery = Nqn::discovery();
        *first.discovery.borrow_mut() = DiscoveryLog {
            generation: 5,
            entries: vec![
                entry(2, 4420, &disk),
                entry(1, second.addr.port(), &discovery),
                entry(1, 1, &discovery),
                entry(9, 4420, &disk),
            ],
        };
        // The second service refers back to the first: each is queried once.
        *second.discovery.borrow_mut() = DiscoveryLog {
            generation: 1,
            entries: vec![
                entry(2, 4421, &other),
                entry(1, first.addr.port(), &discovery),
            ],
        };
        let paths = discover((Transport::Tcp, first.addr), &host, HostId([1; 16]))
            .await
            .expect("discover");
        let found: Vec<_> = paths
            .iter()
            .map(|p| (p.subnqn.as_str(), p.addr.port()))
            .collect();
        assert_eq!(found, [(disk.as_str(), 4420), (other.as_str(), 4421)]);
        assert_eq!(
            (
                first.admin_connections.get(),
                second.admin_connections.get()
            ),
            (1, 1)
        );

        let persistent = Discovery::connect(
            (Transport::Tcp, first.addr),
            host,
            HostId([1; 16]),
            Duration::from_secs(30),
        )
        .await;
        let persistent = persistent.expect("connect");
        assert_eq!(persistent.log().await.expect("log").entries.len(), 4);
        first
            .events
            .borrow_mut()
            .push_back(AsyncEvent::DISCOVERY_CHANGED);
        first.discovery.borrow_mut().generation = 6;
        persistent
            .controller()
            .keep_alive()
            .await
            .expect("keep alive");
        persistent.changed().await.expect("changed");
        assert_eq!(persistent.log().await.expect("log").generation, 6);
        persistent.shutdown().await;
    });
}
