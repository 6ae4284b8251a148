//! Targets that are slow, busy, or temporarily unreachable.

use crate::initiator::fake::{Fake, Peer};
use crate::initiator::{BLOCK, config, connect, run, run_real};
use iscsi::wire::response::{AsyncEvent, TaskResult, async_message, task_response};
use iscsi_initiator::{Config, Error, Event, LinkState, Reconnect, WriteOptions};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const QUICKLY: Reconnect = Reconnect {
    delay_min: Duration::from_millis(1),
    delay_max: Duration::from_millis(10),
    loss_timeout: Duration::from_secs(60),
};

#[test]
fn reads_and_writes_of_all_sizes_over_loopback() {
    run_real(|| async {
        let fake = Fake::disk(true, |_, mut peer: Peer| async move {
            peer.serve().await;
        });
        let (session, unit) = connect(config(&fake)).await;
        for blocks in [1, 3, 8, 33, 128, 400] {
            let (read, buf) = unit.read(0, io::pool().alloc(blocks * BLOCK).await).await;
            read.expect("read");
            assert!(buf.iter().all(|b| *b == 0x5a));
            let written = unit.write(0, Arc::new(buf), WriteOptions::default()).await;
            written.expect("write");
        }
        session.log_out().await;
    });
}

#[test]
fn a_command_without_an_answer_is_aborted_and_the_session_goes_on() {
    for answer in [TaskResult::Complete, TaskResult::NoTask] {
        run(move || async move {
            let fake = Fake::disk(false, move |_, mut peer: Peer| async move {
                let (ignored, _) = peer.command().await.expect("a command");
                let abort = loop {
                    // Pings are answered; the command is not.
                    let (bhs, _) = peer.recv().await.expect("a request");
                    match iscsi::wire::request::Request::parse(&bhs).expect("well formed") {
                        iscsi::wire::request::Request::TaskManagement(t) => break t,
                        iscsi::wire::request::Request::NopOut(n) => {
                            let ttt = iscsi::wire::Ttt::NONE;
                            peer.send(iscsi::wire::response::nop_in(n.itt, ttt, n.lun), &[])
                                .await;
                        }
                        other => panic!("{other:?}"),
                    }
                };
                assert_eq!(
                    (abort.function, abort.referenced, abort.ref_cmd_sn),
                    (1, ignored.itt, ignored.cmd_sn)
                );
                peer.send(task_response(abort.itt, answer), &[]).await;
                peer.serve().await;
            });
            let (session, unit) = connect(config(&fake)).await;
            let begun = io::time::now();
            let (read, buf) = unit.read(0, io::pool().alloc(BLOCK).await).await;
            assert_eq!(read, Err(Error::Timeout));
            assert!(
                begun.elapsed() >= Duration::from_secs(30),
                "not before its time"
            );
            unit.read(0, buf).await.0.expect("the session goes on");
            assert_eq!(
                (session.state(), session.outstanding()),
                (LinkState::Live, 0)
            );
        });
    }
}

#[test]
fn a_target_that_does_not_abort_either_loses_its_connection() {
    run(|| async {
        let fake = Fake::disk(false, |n, mut peer: Peer| async move {
            if n > 0 {
                peer.serve().await;
                return;
            }
            let (stuck, _) = peer.command().await.expect("a command");
            let t = peer.task_management().await;
            assert_eq!(t.referenced, stuck.itt);
            while peer.recv().await.is_some() {}
        });
        let c = Config {
            reconnect: QUICKLY,
            keep_alive: Duration::ZERO,
            ..config(&fake)
        };
        let (session, unit) = connect(c).await;
        let (read, buf) = unit.read(0, io::pool().alloc(BLOCK).await).await;
        assert_eq!(read, Err(Error::Timeout));
        unit.read(0, buf).await.0.expect("over the next connection");
        assert_eq!(session.stats().reconnects, 1);
    });
}

#[test]
fn unanswered_tasks_are_sent_again_after_reinstatement() {
    run(|| async {
        let logins = Rc::new(Cell::new(None));
        let seen = logins.clone();
        let fake = Fake::start(false, move |n, mut peer: Peer| {
            let seen = seen.clone();
            async move {
                let (r, _) = peer.login_request().await.expect("a login");
                assert_eq!(
                    r.tsih, 0,
                    "a new session that takes the place of the old one"
                );
                if let Some(isid) = seen.replace(Some(r.isid)) {
                    assert_eq!(isid, r.isid, "the same initiator port");
                }
                let response = peer.login_response().build();
                peer.send(response, &[]).await;
                peer.login_request().await.expect("the next stage");
                let response = peer.login_response().build();
                peer.send(response, b"DefaultTime2Wait=0\0").await;
                if n == 0 {
                    peer.show_disk().await;
                    peer.command().await.expect("a command that is lost");
                    return;
                }
                assert_eq!(peer.serve().await, 2);
            }
        });
        let c = Config {
            reconnect: QUICKLY,
            ..config(&fake)
        };
        let (session, unit) = connect(c).await;
        let (read, buf) = unit.read(0, io::pool().alloc(BLOCK).await).await;
        read.expect("the second time");
        // A compare is not repeated.
        unit.compare(0, Arc::new(buf)).await.expect("sent once");
        session.log_out().await;
        assert_eq!(fake.connections.get(), 2);
    });
}

#[test]
fn commands_that_may_not_be_sent_twice_fail_with_their_connection() {
    run(|| async {
        let fake = Fake::disk(false, |n, mut peer: Peer| async move {
            if n == 0 {
                peer.command().await.expect("a command that is lost");
                return;
            }
            peer.serve().await;
        });
        let c = Config {
            reconnect: QUICKLY,
            ..config(&fake)
        };
        let (_session, unit) = connect(c).await;
        let buf = Arc::new(io::pool().alloc(BLOCK).await);
        let compared = unit.compare(0, buf.clone()).await;
        assert_eq!(compared, Err(Error::Disconnected));
        unit.compare(0, buf)
            .await
            .expect("over the next connection");
    });
}

#[test]
fn commands_that_the_unit_did_not_start_are_repeated() {
    run(|| async {
        let fake = Fake::disk(false, |_, mut peer: Peer| async move {
            let attention = [0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0];
            for (status, sense) in [(2, &attention[..]), (8, &[]), (0x28, &[])] {
                let (c, _) = peer.command().await.expect("the command");
                peer.respond(c.itt, status, sense).await;
            }
            peer.serve().await;
        });
        let (session, unit) = connect(config(&fake)).await;
        let (read, _) = unit.read(0, io::pool().alloc(BLOCK).await).await;
        read.expect("the fourth time");
        assert_eq!(session.stats().resets, 1);
        let event = session.next_event().await.expect("an event");
        assert!(
            matches!(event, Event::Attention(_, s) if s.asc == 0x2900),
            "{event:?}"
        );
    });
}

#[test]
fn units_that_are_never_ready_do_not_keep_a_command_for_ever() {
    for status in [2, 8] {
        run(move || async move {
            let fake = Fake::disk(false, move |_, mut peer: Peer| async move {
                while let Some((c, _)) = peer.command().await {
                    peer.respond(c.itt, status, &[0x72, 6, 0x29, 0, 0, 0, 0, 0])
                        .await;
                }
            });
            let (_session, unit) = connect(config(&fake)).await;
            let (read, _) = unit.read(0, io::pool().alloc(BLOCK).await).await;
            let busy = status == 8 && read == Err(Error::Busy);
            assert!(busy || matches!(read, Err(Error::NotReady(_))), "{read:?}");
        });
    }
}

#[test]
fn a_logout_request_of_the_target_is_followed_by_a_new_login() {
    run(|| async {
        let fake = Fake::disk(false, |n, mut peer: Peer| async move {
            if n == 0 {
                let ask = async_message(AsyncEvent::LogoutRequest(2));
                peer.send(ask, &[]).await;
            }
            peer.serve().await;
        });
        let c = Config {
            reconnect: QUICKLY,
            ..config(&fake)
        };
        let (session, unit) = connect(c).await;
        assert_eq!(session.next_event().await, Ok(Event::LogoutRequested));
        let (read, _) = unit.read(0, io::pool().alloc(BLOCK).await).await;
        read.expect("over the next connection");
        assert_eq!(session.stats().reconnects, 1);
    });
}

#[test]
fn a_ping_of_the_user_is_answered() {
    run(|| async {
        let fake = Fake::disk(false, |_, mut peer: Peer| async move {
            peer.serve().await;
        });
        let (session, unit) = connect(config(&fake)).await;
        for _ in 0..3 {
            session.ping().await.expect("answered");
        }
        let (read, _) = unit.read(0, io::pool().alloc(BLOCK).await).await;
        read.expect("the session goes on");
        session.log_out().await;
    });
}

#[test]
fn a_ping_of_the_user_ends_with_its_connection() {
    run(|| async {
        let fake = Fake::disk(false, |_, mut peer: Peer| async move {
            // The ping is read, and the connection closed instead of an answer.
            peer.recv().await;
        });
        let c = Config {
            reconnect: Reconnect::NEVER,
            ..config(&fake)
        };
        let (session, _unit) = connect(c).await;
        let failed = session.ping().await;
        assert_eq!(failed, Err(Error::Disconnected));
    });
}

#[test]
fn an_abandoned_ping_has_a_late_answer() {
    run(|| async {
        let fake = Fake::disk(false, |_, mut peer: Peer| async move {
            let (bhs, _) = peer.recv().await.expect("a ping");
            io::time::sleep(Duration::from_millis(50)).await;
            let pong = iscsi::wire::response::nop_in(bhs.itt(), iscsi::wire::Ttt::NONE, bhs.lun());
            peer.send(pong, &[]).await;
            peer.serve().await;
        });
        let (session, unit) = connect(config(&fake)).await;
        let hasty = io::timeout(Duration::from_millis(1), session.ping()).await;
        assert!(hasty.is_err(), "no answer yet");
        let again = session.ping().await;
        assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
        let (read, _) = unit.read(0, io::pool().alloc(BLOCK).await).await;
        read.expect("the late answer broke nothing");
        session.ping().await.expect("answered");
        session.log_out().await;
    });
}
