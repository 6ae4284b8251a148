//! The back channel over the wire.

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, config, simulated};
use nfs::service::ServiceConfig;
use nfs::wire::callback::CallbackOp;
use nfs::wire::channel::Channel;
use nfs::wire::{Op, Status};
use std::time::Duration;

const PATH_DOWN: u32 = 1;
const PATH_DOWN_SESSION: u32 = 0x200;
const FAULT: u32 = 0x400;

/// A service with few slots.
async fn crowded() -> Fixture {
    Fixture::with(ServiceConfig {
        slots_max: 64,
        ..config()
    })
    .await
}

/// Clients without a back channel take the last slots, so that a client with one is called.
async fn crowd(fixture: &Fixture) {
    let mut other = Client::connect(fixture.addr).await;
    for owner in 0..20u8 {
        other.establish(&[owner], FORE).await;
    }
    io::time::sleep(Duration::from_millis(10)).await;
}

#[test]
fn a_session_without_a_back_channel_is_not_called() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        assert!(client.is_left_alone().await);
        assert_eq!(client.flags, 0);
    });
}

#[test]
fn connections_are_bound_for_callbacks() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        for (direction, granted) in [
            (1, Ok(1)),
            (2, Ok(2)),
            (3, Ok(3)),
            (7, Ok(3)),
            (4, Err(Status::Inval)),
        ] {
            assert_eq!(client.bind(direction).await, granted);
        }
        client.session[0] ^= 1;
        assert_eq!(client.bind(3).await, Err(Status::Badsession));
    });
}

#[test]
fn a_silent_callback_path_is_shown_until_it_is_bound_again() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::connect(fixture.addr).await;
        client.create_session(b"a", FORE, 2).await;
        client.run(&[]).await;
        assert_eq!(client.flags, 0, "it was not tried yet");
        io::time::sleep(Duration::from_secs(11)).await;
        client.run(&[]).await;
        assert_eq!(client.flags, PATH_DOWN | PATH_DOWN_SESSION);
        client.callbacks.clear();
        assert_eq!(client.bind(3).await, Ok(3));
        client.run(&[]).await;
        assert_eq!(client.flags, 0);
        client.answer_null().await;
        io::time::sleep(Duration::from_secs(11)).await;
        client.run(&[]).await;
        assert_eq!(client.flags, 0);
    });
}

#[test]
fn a_session_that_lost_its_callback_path_is_told() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        let mut second = Client::connect(fixture.addr).await;
        (second.session, second.sequence) = (client.session, client.sequence);
        client.stream().tcp().shutdown();
        assert_eq!(client.receive().await, None);
        second.run(&[]).await;
        assert_eq!(second.flags, PATH_DOWN | PATH_DOWN_SESSION);
        assert_eq!(second.bind(7).await, Ok(3));
        second.answer_null().await;
        second.run(&[]).await;
        assert_eq!(second.flags, 0);
    });
}

#[test]
fn sessions_are_asked_to_shrink_near_the_limit() {
    simulated(|| async {
        let fixture = crowded().await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        client.run(&[]).await;
        let before = client.target;
        crowd(&fixture).await;
        let callback = client.callback().await;
        let CallbackOp::RecallSlot { target_highest } = callback.op() else {
            panic!("CB_RECALL_SLOT");
        };
        client.answer(&callback, Status::Ok, &[]).await;
        assert!(target_highest < before, "{target_highest} of {before}");
        let slots = fixture.service.state_counts().2;
        client.run(&[]).await;
        assert_eq!(client.target, target_highest);
        assert_eq!(fixture.service.state_counts().2, slots, "it was only told");
        client.run(&[]).await;
        assert!(fixture.service.state_counts().2 < slots);
        assert_eq!(client.at(HOME, &[]).await.status, Status::Ok);
        assert_eq!(fixture.service.counters().callbacks, 1);
    });
}

#[test]
fn a_callback_is_sent_again_on_another_connection() {
    simulated(|| async {
        let fixture = crowded().await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        crowd(&fixture).await;
        let first = client.callback().await;
        let mut second = Client::connect(fixture.addr).await;
        (second.session, second.sequence) = (client.session, client.sequence);
        client.stream().tcp().shutdown();
        assert_eq!(client.receive().await, None);
        assert_eq!(second.bind(3).await, Ok(3));
        // CB_NULL and the retry come in one of two orders.
        let mut calls = [
            second.next_call(10).await.expect("a call"),
            second.next_call(10).await.expect("a call"),
        ];
        calls.sort_by_key(Vec::len);
        let [null, again] = calls;
        second.callbacks.extend([null, again]);
        second.answer_null().await;
        let retry = second.callback().await;
        assert_eq!(retry.sequence, first.sequence);
        assert_eq!(retry.op(), first.op());
        second.answer(&retry, Status::Ok, &[]).await;
        second.run(&[]).await;
        assert_eq!(second.flags, 0);
    });
}

#[test]
fn a_client_that_disagrees_about_slots_must_make_a_new_session() {
    simulated(|| async {
        let fixture = crowded().await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        crowd(&fixture).await;
        let callback = client.callback().await;
        client.refuse(&callback, Status::SeqMisordered).await;
        client.run(&[]).await;
        assert_eq!(client.flags, FAULT);
    });
}

#[test]
fn a_reply_to_no_callback_ends_the_connection() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        client.send(vec![0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0]).await;
        assert_eq!(client.receive().await, None);
        let mut other = fixture.client("b").await;
        assert_eq!(other.at(HOME, &[]).await.status, Status::Ok);
    });
}

#[test]
fn garbage_as_an_answer_is_an_answer_that_never_came() {
    simulated(|| async {
        let fixture = crowded().await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        crowd(&fixture).await;
        let record = client.next_call(10).await.expect("a call");
        let mut reply = record[..4].to_vec();
        reply.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        client.send(reply).await;
        io::time::sleep(Duration::from_secs(1)).await;
        client.run(&[]).await;
        assert_eq!(client.flags, PATH_DOWN | PATH_DOWN_SESSION);
        assert_eq!(fixture.service.counters().callback_failures, 1);
    });
}

#[test]
fn the_back_channel_needs_a_credential_and_room() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        let change = |security| {
            Op::BackchannelCtl(nfs::wire::channel::BackchannelCtl {
                program: 5,
                security,
            })
        };
        use nfs::wire::channel::CallbackSecurity::{Gss, None};
        assert_eq!(client.run(&[change(vec![Gss])]).await.status, Status::Noent);
        assert_eq!(
            client.run(&[change(vec![Gss, None])]).await.status,
            Status::Ok
        );
        let mut tiny = Client::connect(fixture.addr).await;
        tiny.back = Channel {
            operations_max: 1,
            ..FORE
        };
        assert_eq!(tiny.create_session(b"b", FORE, 2).await, 0);
        assert_eq!(tiny.bind(2).await, Err(Status::Inval));
        assert_eq!(tiny.bind(3).await, Ok(1));
    });
}
