//! Hosts that go silent or do not read, disks that hang: each costs itself only, and is ended in time.

use crate::disk::Scripted;
use crate::fixture::{Fixture, ram};
use crate::host::{BLOCK, Host, nqn, pattern, read, run, write};
use backend::StorageError;
use nvmf::controller::{CloseReason, ConnectionState, TargetConfig};
use nvmf::wire::command::{Nsid, Sqe};
use nvmf::wire::copy::{self, CopyRange};
use nvmf::wire::fabrics::{Cc, Csts, Property, property};
use nvmf::wire::nqn::Nqn;
use nvmf::wire::opcode::admin;
use nvmf::wire::pdu::Digests;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerocopy::IntoBytes;

const SHORT: Duration = Duration::from_millis(30);

#[test]
fn half_open_connections_time_out_in_both_phases() {
    run(async {
        let fx = Fixture::with(
            TargetConfig {
                establish_timeout: SHORT,
                ..TargetConfig::default()
            },
            None,
        );
        let mut silent = Host::raw(fx.addr).await;
        assert!(silent.closed().await);
        let mut h = fx.host().await;
        assert!(h.closed().await);
        let counters = fx.target.counters();
        assert_eq!(counters.closed_for(CloseReason::IcReqTimeout), 1);
        assert_eq!(counters.closed_for(CloseReason::ConnectTimeout), 1);
        assert_eq!(counters.open, 0);
    });
}

#[test]
fn a_silent_host_loses_its_controller_and_traffic_keeps_it() {
    run(async {
        let fx = Fixture::new();
        let mut a = fx.host().await;
        a.connect_keep_alive(&nqn(), 1, 1000).await;
        let mut io = fx.host().await;
        io.connect_io(&a, 1, false).await;
        // Traffic on an I/O queue counts (TBKAS): 1.4 s in all, and no Keep Alive.
        for _ in 0..7 {
            io::time::sleep(Duration::from_millis(200)).await;
            assert!(io.command(read(0, 1), &[]).await.status.is_success());
        }
        assert!(io.closed().await && a.closed().await);
        assert_eq!(fx.target.counters().closed_for(CloseReason::KeepAlive), 2);
        assert!(fx.target.sessions().is_empty());
    });
}

#[test]
fn data_that_never_comes_ends_the_connection() {
    run(async {
        let fx = Fixture::with(
            TargetConfig {
                data_timeout: SHORT,
                ..TargetConfig::default()
            },
            Some(ram(4 << 20)),
        );
        let (mut a, mut io) = fx.io(1).await;
        let cid = io.submit(write(0, 64), &[]).await;
        io.r2t(cid).await.expect("an R2T");
        assert!(io.closed().await);
        assert_eq!(fx.target.counters().closed_for(CloseReason::DataTimeout), 1);
        assert!(
            a.command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), &[])
                .await
                .status
                .is_success()
        );
        assert_eq!(io::pool().stats().used, 0, "its buffers are free again");
    });
}

#[test]
fn a_host_that_never_reads_holds_a_bounded_amount_and_is_closed() {
    run(async {
        let config = TargetConfig {
            stall_timeout: Duration::from_millis(50),
            connection_budget: 2 << 20,
            ..TargetConfig::default()
        };
        let fx = Fixture::with(config, Some(ram(4 << 20)));
        let (_a, mut io) = fx
            .io_with(
                1,
                Digests {
                    header: false,
                    data: true,
                },
                false,
            )
            .await;
        let mut bytes = Vec::new();
        for cid in 0..120 {
            let mut sqe = read(0, 2048);
            sqe.cid.set(cid);
            bytes.extend(io.capsule(&sqe, &[]));
        }
        io.send(&bytes).await;
        loop {
            io::time::sleep(Duration::from_millis(5)).await;
            assert!(io::pool().stats().used <= 4 << 20, "bounded by the budget");
            let counters = fx.target.counters();
            if counters.in_state(ConnectionState::Io) == 0 {
                assert_eq!(counters.closed_for(CloseReason::SendStall), 1);
                break;
            }
        }
    });
}

#[test]
fn a_disk_that_hangs_holds_up_nobody_else() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::new();
        fx.target
            .add_namespace(&nqn(), crate::fixture::namespace(2, disk.clone()))
            .expect("added");
        let (mut a, mut io) = fx.io(1).await;
        disk.hang.store(true, Ordering::SeqCst);
        let stuck_read = io
            .submit(
                Sqe {
                    nsid: 2.into(),
                    ..read(0, 8)
                },
                &[],
            )
            .await;
        let stuck_write = io
            .submit(
                Sqe {
                    nsid: 2.into(),
                    ..write(0, 8)
                },
                &pattern(4096, 1),
            )
            .await;
        for _ in 0..50 {
            assert!(io.command(read(0, 8), &[]).await.status.is_success());
        }
        assert!(
            a.command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), &[])
                .await
                .status
                .is_success()
        );
        let (_b, mut other) = fx.io(2).await;
        assert!(other.command(read(0, 8), &[]).await.status.is_success());
        disk.hang.store(false, Ordering::SeqCst);
        let mut done = vec![];
        for _ in 0..2 {
            let got = io.recv().await.expect("an answer");
            match got.frame.pdu {
                nvmf::wire::pdu::Pdu::C2hData(d) => {
                    assert_eq!(d.cccid.0, stuck_read);
                    assert!(io.answer(stuck_read).await.status.is_success());
                    done.push(stuck_read);
                }
                nvmf::wire::pdu::Pdu::CapsuleResp(c) => done.push(c.cid.get()),
                other => panic!("{other:?}"),
            }
        }
        done.sort_unstable();
        assert_eq!(done, [stuck_read, stuck_write]);
    });
}

#[test]
fn a_connection_that_ends_under_commands_leaves_nothing_behind() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let (a, mut io) = fx.io(1).await;
        disk.hang.store(true, Ordering::SeqCst);
        for _ in 0..20 {
            io.submit(write(0, 8), &pattern(4096, 1)).await;
        }
        let waiting = io.submit(write(0, 2048), &[]).await;
        io.r2t(waiting).await.expect("an R2T");
        io.close();
        a.close();
        while fx.target.counters().open > 0 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        disk.hang.store(false, Ordering::SeqCst);
        while io::pool().stats().used > 0 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(fx.target.sessions().is_empty());
    });
}

/// Its host may have written newer data over another connection since.
#[test]
fn a_copy_whose_connection_ended_writes_nothing_more() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let (a, mut io) = fx.io(1).await;
        disk.hang.store(true, Ordering::SeqCst);
        let sources = [CopyRange::new(0, 8), CopyRange::new(8, 8)];
        io.submit(copy::command(Nsid(1), 1000, 2), sources.as_bytes())
            .await;
        while disk.reads.load(Ordering::SeqCst) == 0 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        io.close();
        a.close();
        while fx.target.counters().open > 0 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        disk.hang.store(false, Ordering::SeqCst);
        while io::pool().stats().used > 0 {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        io::time::sleep(SHORT).await;
        assert_eq!(disk.plain_writes.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_drain_finishes_what_is_in_flight_flushes_and_closes() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let (mut a, mut io) = fx.io(1).await;
        let by_r2t = io.submit(write(8, 16), &[]).await;
        let r2t = io.r2t(by_r2t).await.expect("an R2T");
        disk.hang.store(true, Ordering::SeqCst);
        let in_flight = io.submit(write(0, 8), &pattern(4096, 5)).await;
        io::time::sleep(Duration::from_millis(10)).await;
        let drained = Rc::new(Cell::new(false));
        let (target, flag) = (fx.target.clone(), drained.clone());
        drop(io::spawn(async move {
            target
                .drain(Duration::from_secs(30))
                .await
                .expect("flushed");
            flag.set(true);
        }));
        assert!(a.closed().await, "an idle queue closes at once");
        let flushes = disk.flushes.load(Ordering::SeqCst);
        let bytes = io.h2c(&r2t, 0, &pattern(16 * BLOCK, 6), true);
        io.send(&bytes).await;
        assert!(!drained.get());
        disk.hang.store(false, Ordering::SeqCst);
        let mut answered = Vec::new();
        while let Some(got) = io.recv().await {
            let nvmf::wire::pdu::Pdu::CapsuleResp(c) = got.frame.pdu else {
                panic!("{got:?}")
            };
            assert!(c.status().is_success());
            answered.push(c.cid.get());
        }
        answered.sort_unstable();
        assert_eq!(answered, [by_r2t, in_flight], "answered before the end");
        while !drained.get() {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(disk.flushes.load(Ordering::SeqCst), flushes + 1);
        let mut late = Host::raw(fx.addr).await;
        assert!(late.closed().await, "nobody is taken any more");
    });
}

#[test]
fn a_drain_does_not_wait_for_ever() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut io) = fx.io(1).await;
        let cid = io.submit(write(0, 64), &[]).await;
        io.r2t(cid).await.expect("an R2T");
        fx.target.drain(SHORT).await.expect("flushed");
        assert!(io.closed().await);
        assert_eq!(fx.target.counters().open, 0);
    });
}

#[test]
fn a_thousand_idle_connections_are_held_and_served() {
    run(async {
        let fx = Fixture::with(
            TargetConfig {
                controllers_max: 2000,
                ..TargetConfig::default()
            },
            Some(ram(4 << 20)),
        );
        let mut crowd = Vec::new();
        for _ in 0..1000 {
            crowd.push(fx.admin(1).await);
        }
        assert_eq!(fx.target.counters().in_state(ConnectionState::Admin), 1000);
        let (_a, mut io) = fx.io(2).await;
        assert!(io.command(read(0, 1), &[]).await.status.is_success());
        for h in &mut crowd {
            assert!(
                h.command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), &[])
                    .await
                    .status
                    .is_success()
            );
        }
        assert_eq!(io::pool().stats().used, 0, "idle queues hold no buffers");
    });
}

#[test]
fn the_administrator_ends_sessions_and_subsystems() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut io) = fx.io(1).await;
        fx.target.disconnect(a.cntlid).expect("there");
        assert!(a.closed().await && io.closed().await);
        let (mut a, mut io) = fx.io(1).await;
        let mut discovery = Host::initialized(fx.discovery, Digests::default()).await;
        discovery.connect_admin(&Nqn::discovery(), 1).await;
        fx.target.remove_subsystem(&nqn()).expect("there");
        assert!(a.closed().await && io.closed().await);
        let alive = discovery
            .command(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), &[])
            .await;
        assert!(alive.status.is_success());
        assert_eq!(
            fx.target.counters().closed_for(CloseReason::Administrator),
            4
        );
    });
}

async fn set_cc(a: &mut Host, cc: Cc) {
    let set = Property::set(property::CC, false, u64::from(cc.bits()));
    assert!(a.command(set, &[]).await.status.is_success());
}

async fn csts(a: &mut Host) -> Csts {
    let get = Property::get(property::CSTS, false);
    Csts::from_bits_retain(a.command(get, &[]).await.result as u32)
}

#[test]
fn a_shutdown_whose_flush_failed_is_never_complete() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let mut a = fx.admin(1).await;
        disk.fail_with(Some(StorageError::MediaWrite));
        set_cc(&mut a, Cc::enabled(0).with_shn(1)).await;
        let told = loop {
            let csts = csts(&mut a).await;
            if csts.intersects(Csts::FATAL | Csts::SHUTDOWN_COMPLETE) {
                break csts;
            }
            io::yield_now().await;
        };
        assert_eq!(
            told,
            Csts::READY | Csts::FATAL | Csts::SHUTDOWN_OCCURRING,
            "SHST stays 01b and CFS says why"
        );
        // A reset leads out of it, and a flush that succeeds to 10b.
        disk.fail_with(None);
        set_cc(&mut a, Cc::empty()).await;
        assert_eq!(csts(&mut a).await, Csts::empty());
        set_cc(&mut a, Cc::enabled(0)).await;
        set_cc(&mut a, Cc::enabled(0).with_shn(1)).await;
        while csts(&mut a).await != Csts::READY | Csts::SHUTDOWN_COMPLETE {
            io::yield_now().await;
        }
    });
}

#[test]
fn a_shutdown_that_a_reset_overtook_says_nothing_later() {
    run(async {
        let disk = Scripted::new(true);
        let fx = Fixture::with(TargetConfig::default(), Some(disk.clone()));
        let mut a = fx.admin(1).await;
        disk.hang.store(true, Ordering::SeqCst);
        set_cc(&mut a, Cc::enabled(0).with_shn(1)).await;
        set_cc(&mut a, Cc::empty()).await;
        set_cc(&mut a, Cc::enabled(0)).await;
        disk.hang.store(false, Ordering::SeqCst);
        // As long as the flush that hung takes, and longer.
        for _ in 0..20 {
            io::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(csts(&mut a).await, Csts::READY);
        }
    });
}
