//! Every command between the initiator and the server, with its effect.

use std::rc::Rc;

use nvmf::controller::{HostPolicy, TargetConfig};
use nvmf::wire::command::Nsid;
use nvmf::wire::copy::CopyRange;
use nvmf::wire::dsm::DsmRange;
use nvmf::wire::identify::NamespaceDescriptor;
use nvmf::wire::nqn::HostId;
use nvmf::wire::pdu::{Digests, Pda};
use nvmf::wire::reservation::{
    AcquireAction, PersistChange, RegisterAction, ReleaseAction, ReservationType,
};
use nvmf::wire::status::Status;
use nvmf_initiator::{Config, Controller, Error, Offer, WriteOptions};

use crate::pair::{BLOCK, BLOCKS, config, connect, nqn, pattern, read, run, serve, target};

async fn transfers(target_config: TargetConfig, offer: Offer) {
    let target = target(target_config);
    let addr = serve(&target);
    let (controller, ns) = connect(Config {
        io_queues: 4,
        queue_depth: 16,
        offer: offer.clone(),
        ..config(addr)
    })
    .await;
    assert_eq!(controller.io_queues(), (4, 16));
    assert!(
        controller
            .links()
            .iter()
            .all(|link| link.digests == offer.digests)
    );
    let ns = Rc::new(ns);
    let tasks: Vec<_> = (0..48u64)
        .map(|i| {
            let ns = ns.clone();
            let blocks = [1, 2, 8, 15, 16, 17, 64, 256][i as usize % 8];
            io::spawn(async move {
                let slba = i * 256;
                for round in 0..3 {
                    let data = pattern(blocks * BLOCK, i * 3 + round).await;
                    ns.write(slba, data.clone(), WriteOptions { fua: round == 1 })
                        .await
                        .expect("write");
                    assert!(
                        read(&ns, slba, data.len()).await[..] == data[..],
                        "{blocks} blocks at {slba}"
                    );
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("not killed");
    }
    ns.flush().await.expect("flush");
    let whole = ns.transfer_max() as usize;
    let data = pattern(whole, 99).await;
    ns.write(0, data.clone(), WriteOptions::default())
        .await
        .expect("the largest write");
    assert!(read(&ns, 0, whole).await[..] == data[..]);
    controller.shutdown().await;
}

#[test]
fn transfers_plain() {
    run(|| transfers(TargetConfig::default(), Offer::default()));
}

#[test]
fn transfers_with_digests_and_alignment() {
    let digests = Digests {
        header: true,
        data: true,
    };
    let hpda = Pda::new(31).expect("an alignment");
    run(|| {
        transfers(
            TargetConfig::default(),
            Offer {
                digests,
                hpda,
                max_r2t: 1,
            },
        )
    });
}

#[test]
fn transfers_with_data_digests_and_without_in_capsule_data() {
    let digests = Digests {
        header: false,
        data: true,
    };
    let plain = TargetConfig {
        in_capsule: 0,
        mdts: 256 << 10,
        ..TargetConfig::default()
    };
    run(|| {
        transfers(
            plain.clone(),
            Offer {
                digests,
                ..Offer::default()
            },
        )
    });
}

#[test]
fn every_kind_of_io_command() {
    run(|| async {
        let target = target(TargetConfig::default());
        let (_controller, ns) = connect(config(serve(&target))).await;
        assert_eq!((ns.block_size(), ns.blocks()), (BLOCK as u32, BLOCKS));
        let (old, new) = (pattern(8 * BLOCK, 1).await, pattern(8 * BLOCK, 2).await);
        ns.write(8, old.clone(), WriteOptions { fua: true })
            .await
            .expect("write");
        ns.compare(8, old.clone()).await.expect("equal");
        let different = ns.compare(8, new.clone()).await;
        assert!(
            matches!(different, Err(Error::Refused(s)) if s.is(Status::COMPARE_FAILURE)),
            "{different:?}"
        );
        ns.verify(8, 8).await.expect("verify");
        let (expected, wrong) = (pattern(BLOCK, 5).await, pattern(BLOCK, 6).await);
        ns.write(40, expected.clone(), WriteOptions::default())
            .await
            .expect("write");
        let refused = ns.compare_and_write(40, wrong.clone(), wrong.clone()).await;
        assert!(
            matches!(refused, Err(Error::Refused(s)) if s.is(Status::COMPARE_FAILURE)),
            "{refused:?}"
        );
        assert!(
            read(&ns, 40, BLOCK).await[..] == expected[..],
            "a failed compare writes nothing"
        );
        ns.compare_and_write(40, expected, wrong.clone())
            .await
            .expect("equal, so written");
        assert!(read(&ns, 40, BLOCK).await[..] == wrong[..]);
        ns.copy(100, &[CopyRange::new(12, 4), CopyRange::new(8, 2)])
            .await
            .expect("copy");
        let copied = read(&ns, 100, 6 * BLOCK).await;
        assert!(copied[..4 * BLOCK] == old[4 * BLOCK..] && copied[4 * BLOCK..] == old[..2 * BLOCK]);
        ns.write_zeroes(8, 3, false, WriteOptions { fua: true })
            .await
            .expect("zeroes");
        ns.write_zeroes(11, 1, true, WriteOptions::default())
            .await
            .expect("zeroes, deallocated");
        ns.deallocate(&[DsmRange::new(12, 2), DsmRange::new(14, 2)])
            .await
            .expect("deallocate");
        assert!(read(&ns, 8, 8 * BLOCK).await.iter().all(|b| *b == 0));
        let past = ns
            .write(BLOCKS - 1, new.clone(), WriteOptions::default())
            .await;
        assert!(
            matches!(past, Err(Error::Refused(s)) if s.is(Status::LBA_OUT_OF_RANGE)),
            "{past:?}"
        );
        ns.flush().await.expect("flush");
    });
}

#[test]
fn admin_commands() {
    run(|| async {
        let target = target(TargetConfig::default());
        let (controller, _ns) = connect(config(serve(&target))).await;
        assert_eq!(controller.active_namespaces().await, Ok(vec![Nsid(1)]));
        let uuid = uuid::Uuid::from_u128(1).into_bytes();
        let descriptors = controller
            .namespace_descriptors(Nsid(1))
            .await
            .expect("descriptors");
        assert!(
            descriptors.contains(&NamespaceDescriptor::Uuid(uuid)),
            "{descriptors:?}"
        );
        controller
            .identify_namespace(Nsid(2))
            .await
            .expect("inactive: all zero");
        controller.smart_log().await.expect("smart");
        controller.firmware_log().await.expect("firmware");
        assert_eq!(
            controller.command_effects().await.expect("effects").io[1].get() & 1,
            1
        );
        assert!(controller.error_log(4).await.is_ok());
        let ana = controller.ana_log().await.expect("ana");
        assert!(
            ana.groups
                .iter()
                .any(|group| group.nsids.contains(&Nsid(1)))
        );
        assert_eq!(controller.host_identifier().await, Ok([3; 16]));
        assert_eq!(
            controller.abort(1, nvmf::wire::command::Cid(77)).await,
            Ok(false)
        );
        controller.keep_alive().await.expect("keep alive");
        let unknown = controller.identify(0x99, Nsid::NONE, 0).await;
        assert!(matches!(unknown, Err(Error::Refused(s)) if s.is(Status::INVALID_FIELD)));
    });
}

#[test]
fn a_host_that_is_not_on_the_list_is_refused() {
    run(|| async {
        let target = target(TargetConfig::default());
        let addr = serve(&target);
        target
            .set_hosts(&nqn("disk"), HostPolicy::List([nqn("friend")].into()))
            .expect("a subsystem");
        let stranger = Controller::connect(config(addr)).await;
        // The answer is the same as for a subsystem that does not exist.
        assert!(matches!(stranger.err(), Some(Error::ConnectRefused(_))));
        let unknown = Controller::connect(Config {
            subnqn: nqn("other"),
            ..config(addr)
        })
        .await;
        assert!(matches!(unknown.err(), Some(Error::ConnectRefused(fault)) if fault.offset == 256));
        assert!(
            Controller::connect(Config {
                hostnqn: nqn("friend"),
                ..config(addr)
            })
            .await
            .is_ok()
        );
    });
}

#[test]
fn reservations_between_two_hosts() {
    run(|| async {
        let target = target(TargetConfig::default());
        let addr = serve(&target);
        let (_a, ours) = connect(config(addr)).await;
        let other = Config {
            hostnqn: nqn("other"),
            host_id: HostId([9; 16]),
            ..config(addr)
        };
        let (_b, theirs) = connect(other).await;
        let conflict = |result: Result<(), Error>| {
            assert!(
                matches!(result, Err(Error::Refused(s)) if s.is(Status::RESERVATION_CONFLICT)),
                "{result:?}"
            );
        };
        let data = pattern(BLOCK, 1).await;
        let exclusive = ReservationType::WriteExclusive;
        ours.reservation_register(RegisterAction::Register, None, 0xa, PersistChange::Keep)
            .await
            .expect("register");
        ours.reservation_acquire(AcquireAction::Acquire, exclusive, 0xa, 0)
            .await
            .expect("acquire");
        conflict(theirs.write(0, data.clone(), WriteOptions::default()).await);
        read(&theirs, 0, BLOCK).await;
        ours.write(0, data.clone(), WriteOptions::default())
            .await
            .expect("the holder writes");
        let status = theirs.reservation_report(true).await.expect("report");
        assert_eq!(
            (status.kind, status.registrants.len()),
            (Some(exclusive), 1)
        );
        let holder = status.registrants[0];
        assert_eq!(
            (holder.holder, holder.key, holder.host_id),
            (true, 0xa, HostId([3; 16]))
        );
        conflict(
            theirs
                .reservation_acquire(AcquireAction::Preempt, exclusive, 0xb, 0xa)
                .await,
        );
        theirs
            .reservation_register(RegisterAction::Register, None, 0xb, PersistChange::Keep)
            .await
            .expect("register");
        theirs
            .reservation_acquire(AcquireAction::Preempt, exclusive, 0xb, 0xa)
            .await
            .expect("preempt");
        conflict(ours.write(0, data.clone(), WriteOptions::default()).await);
        theirs
            .reservation_release(ReleaseAction::Release, Some(exclusive), 0xb)
            .await
            .expect("release");
        ours.write(0, data, WriteOptions::default())
            .await
            .expect("nobody holds it");
    });
}
