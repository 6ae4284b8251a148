//! Connect, properties, Disconnect: refusals and their status.

use crate::fixture::Fixture;
use crate::host::{Host, connect, host_id, host_nqn, nqn, read, run};
use nvmf::controller::{CloseReason, ConnectionState, HostPolicy, TargetConfig};
use nvmf::wire::command::{Nsid, Sgl, SglDescriptor, Sqe};
use nvmf::wire::fabrics::{
    CONNECT_DATA_LEN, Cc, Connect, ConnectData, ConnectFault, Property, disconnect, property,
};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf::wire::opcode::admin;
use nvmf::wire::pdu::FatalErrorStatus;
use nvmf::wire::status::Status;
use std::collections::BTreeSet;
use zerocopy::IntoBytes;

fn data() -> ConnectData {
    ConnectData::new(host_id(1), 0xffff, &nqn(), &host_nqn(1))
}

fn changed(mut data: ConnectData, change: impl FnOnce(&mut ConnectData)) -> ConnectData {
    change(&mut data);
    data
}

async fn refused(
    fx: &Fixture,
    connect: Connect,
    data: ConnectData,
    status: Status,
    fault: Option<ConnectFault>,
) {
    let mut h = fx.host().await;
    let answer = h.connect(connect, &data).await;
    assert!(
        answer.status.is(status),
        "{} instead of {status}",
        answer.status
    );
    if let Some(fault) = fault {
        assert_eq!(ConnectFault::from_result(answer.result), fault);
    }
    // The connection is still there for another try.
    let answer = h.connect(self::connect(0, 31, 0), &self::data()).await;
    assert!(answer.status.is_success(), "{}", answer.status);
}

/// The data of Connect usually lies in the capsule. A host may also send it after an R2T, and may have no other command
/// outstanding meanwhile.
#[test]
fn a_connect_may_send_its_data_after_an_r2t() {
    run(async {
        let fx = Fixture::new();
        let mut h = fx.host().await;
        let sqe = connect(0, 31, 0).to_sqe();
        let answer = h.transfer(sqe, data().as_bytes()).await;
        assert!(answer.status.is_success(), "{}", answer.status);

        let mut h = fx.host().await;
        let mut waits = sqe;
        waits.sgl = SglDescriptor::new(Sgl::Transport {
            length: CONNECT_DATA_LEN as u32,
        });
        let cid = h.submit(waits, &[]).await;
        assert!(h.r2t(cid).await.is_ok());
        h.submit(waits, &[]).await;
        let term = h.terminated().await;
        let limit = FatalErrorStatus::LimitExceeded;
        assert_eq!(FatalErrorStatus::from_code(term.fes), Some(limit));
    });
}

#[test]
fn admin_connects_are_checked_field_by_field() {
    run(async {
        let fx = Fixture::new();
        let invalid = Status::CONNECT_INVALID_PARAMETERS;
        let other = Nqn::new("nqn.2026-11.io.wirepool:other").expect("a name");
        let cases = [
            (
                Connect {
                    record_format: 1,
                    ..connect(0, 31, 0)
                },
                data(),
                Status::CONNECT_INCOMPATIBLE_FORMAT,
                None,
            ),
            (
                connect(0, 0, 0),
                data(),
                invalid,
                Some(ConnectFault::command(44)),
            ),
            (
                connect(0, 4095, 0),
                data(),
                invalid,
                Some(ConnectFault::command(44)),
            ),
            (
                connect(0, 31, 0),
                ConnectData::new(host_id(1), 5, &nqn(), &host_nqn(1)),
                invalid,
                Some(ConnectFault::data(16)),
            ),
            (
                connect(0, 31, 0),
                ConnectData::new(host_id(1), 0xffff, &other, &host_nqn(1)),
                invalid,
                Some(ConnectFault::data(256)),
            ),
            (
                connect(0, 31, 0),
                ConnectData::new(HostId([0; 16]), 0xffff, &nqn(), &host_nqn(1)),
                invalid,
                Some(ConnectFault::data(0)),
            ),
            (
                connect(0, 31, 0),
                changed(data(), |d| {
                    d.hostnqn = nvmf::wire::nqn::NqnField([b'x'; 256])
                }),
                invalid,
                Some(ConnectFault::data(512)),
            ),
            (
                connect(0, 31, u32::MAX),
                data(),
                Status::KEEP_ALIVE_INVALID,
                None,
            ),
        ];
        let n = cases.len() as u64;
        for (c, d, status, fault) in cases {
            refused(&fx, c, d, status, fault).await;
        }
        assert_eq!(fx.target.counters().refused_connects, n);
    });
}

#[test]
fn io_connects_are_checked_against_their_controller() {
    run(async {
        let fx = Fixture::new();
        let a = fx.admin(1).await;
        let fine = ConnectData::new(host_id(1), a.cntlid, &nqn(), &host_nqn(1));
        let invalid = Status::CONNECT_INVALID_PARAMETERS;
        for (c, d, status, result) in [
            (
                connect(1, 127, 0),
                changed(fine, |d| d.cntlid.set(999)),
                invalid,
                1 << 16 | 16,
            ),
            (
                connect(1, 127, 0),
                changed(fine, |d| d.host_id = host_id(2)),
                invalid,
                1 << 16,
            ),
            (
                connect(1, 127, 0),
                changed(fine, |d| d.hostnqn = (&host_nqn(2)).into()),
                invalid,
                1 << 16 | 512,
            ),
            (
                connect(1, 127, 0),
                changed(fine, |d| d.subnqn = (&host_nqn(2)).into()),
                invalid,
                1 << 16 | 256,
            ),
            (connect(1, 0, 0), fine, invalid, 44),
            (connect(1, 1024, 0), fine, invalid, 44),
            (connect(129, 127, 0), fine, invalid, 42),
        ] {
            let mut h = fx.host().await;
            let answer = h.connect(c, &d).await;
            assert!(answer.status.is(status), "{}", answer.status);
            assert_eq!(answer.result, result);
        }
        let mut h = fx.host().await;
        assert!(
            h.connect(connect(1, 127, 0), &fine)
                .await
                .status
                .is_success()
        );
        let mut twin = fx.host().await;
        assert!(
            twin.connect(connect(1, 127, 0), &fine)
                .await
                .status
                .is(Status::COMMAND_SEQUENCE_ERROR)
        );
        assert!(h.command(read(0, 1), &[]).await.status.is_success());
    });
}

#[test]
fn commands_before_connect_and_before_enable_are_out_of_sequence() {
    run(async {
        let fx = Fixture::new();
        let mut h = fx.host().await;
        for sqe in [
            read(0, 1),
            Property::get(property::CAP, true),
            Sqe::new(admin::KEEP_ALIVE, Nsid::NONE),
        ] {
            assert!(
                h.command(sqe, &[])
                    .await
                    .status
                    .is(Status::COMMAND_SEQUENCE_ERROR)
            );
        }
        assert!(
            h.connect(connect(0, 31, 0), &data())
                .await
                .status
                .is_success()
        );
        let early = h
            .command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), &[])
            .await;
        assert!(early.status.is(Status::COMMAND_SEQUENCE_ERROR));
        let again = h.connect(connect(0, 31, 0), &data()).await;
        assert!(again.status.is(Status::COMMAND_SEQUENCE_ERROR));
    });
}

#[test]
fn properties_enable_reset_and_shut_down() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut io) = fx.io(1).await;
        let cap = a
            .command(Property::get(property::CAP, true), &[])
            .await
            .result;
        assert_eq!(cap & 0xffff, 1023, "MQES");
        assert_eq!(
            a.command(Property::get(property::VS, false), &[])
                .await
                .result,
            0x0002_0000
        );
        assert_eq!(
            a.command(Property::get(0x68, false), &[]).await.result,
            15,
            "CRTO"
        );
        for bad in [
            Property::get(property::NSSR, false),
            Property::get(property::CAP, false),
        ] {
            assert!(a.command(bad, &[]).await.status.is(Status::INVALID_FIELD));
        }
        assert!(
            a.command(Property::set(property::VS, false, 1), &[])
                .await
                .status
                .is(Status::INVALID_FIELD)
        );
        let shutdown = Cc::enabled(0).with_shn(1);
        a.command(
            Property::set(property::CC, false, u64::from(shutdown.bits())),
            &[],
        )
        .await;
        loop {
            let csts = a
                .command(Property::get(property::CSTS, false), &[])
                .await
                .result;
            if csts >> 2 & 3 == 2 {
                break;
            }
            io::yield_now().await;
        }
        a.command(Property::set(property::CC, false, 0), &[]).await;
        assert_eq!(
            a.command(Property::get(property::CSTS, false), &[])
                .await
                .result,
            0
        );
        assert!(io.closed().await, "a reset deletes the I/O queues");
        // Entry sizes that do not exist.
        a.command(Property::set(property::CC, false, 1), &[]).await;
        assert_eq!(
            a.command(Property::get(property::CSTS, false), &[])
                .await
                .result,
            2,
            "CFS"
        );
    });
}

#[test]
fn disconnect_ends_an_io_queue_and_not_the_admin_queue() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut io) = fx.io(1).await;
        assert!(io.command(disconnect(), &[]).await.status.is_success());
        assert!(io.closed().await);
        assert!(
            a.command(disconnect(), &[])
                .await
                .status
                .is(Status::CONNECT_INVALID_QUEUE_TYPE)
        );
        let mut again = fx.host().await;
        assert!(
            again.connect_io(&a, 1, false).await.status().is_success(),
            "its place is free"
        );
    });
}

#[test]
fn hosts_off_the_list_are_refused_and_disconnected() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut io) = fx.io(1).await;
        let list = HostPolicy::List(BTreeSet::from([host_nqn(2)]));
        fx.target.set_hosts(&nqn(), list).expect("a subsystem");
        assert!(a.closed().await && io.closed().await);
        let mut h = fx.host().await;
        let answer = h.connect(connect(0, 31, 0), &data()).await;
        assert!(answer.status.is(Status::CONNECT_INVALID_PARAMETERS) && answer.status.is_dnr());
        fx.admin(2).await;
    });
}

#[test]
fn a_controller_ends_with_its_admin_queue() {
    run(async {
        let fx = Fixture::new();
        let (a, mut io) = fx.io(1).await;
        assert_eq!(fx.target.sessions().len(), 1);
        a.close();
        assert!(io.closed().await);
        assert!(fx.target.sessions().is_empty());
        let (_a, _io) = fx.io(1).await;
        assert_eq!(fx.target.sessions()[0].reconnects, 1);
    });
}

#[test]
fn limits_on_connections_and_controllers_are_told() {
    run(async {
        let fx = Fixture::with(
            TargetConfig {
                connections_max: 2,
                ..TargetConfig::default()
            },
            None,
        );
        let (_a, _io) = fx.io(1).await;
        let mut c = fx.host().await;
        let answer = c.connect(connect(0, 31, 0), &data()).await;
        assert!(answer.status.is(Status::CONNECT_CONTROLLER_BUSY) && !answer.status.is_dnr());
        // Beside the established ones half of the reserve stays, the oldest go first.
        let mut crowd = Vec::new();
        for _ in 0..64 {
            crowd.push(Host::raw(fx.addr).await);
        }
        assert!(c.closed().await && crowd[0].closed().await);
        assert!(fx.target.counters().closed_for(CloseReason::Limit) >= 2);
        let fx = Fixture::with(
            TargetConfig {
                controllers_max: 1,
                ..TargetConfig::default()
            },
            None,
        );
        let _a = fx.admin(1).await;
        let mut b = fx.host().await;
        let answer = b.connect(connect(0, 31, 0), &data()).await;
        assert!(answer.status.is(Status::CONNECT_CONTROLLER_BUSY));
    });
}

#[test]
fn the_same_host_may_connect_several_times() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut x) = fx.io(1).await;
        let (_b, mut y) = fx.io(1).await;
        assert!(x.command(read(0, 1), &[]).await.status.is_success());
        assert!(y.command(read(0, 1), &[]).await.status.is_success());
        assert_eq!(fx.target.sessions().len(), 2);
        assert_eq!(fx.target.counters().in_state(ConnectionState::Io), 2);
    });
}
