//! Clients that wait for locks (CB_NOTIFY_LOCK), and clients with many delegations (CB_RECALL_ANY).

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, config, open, open_with, simulated};
use nfs::service::ServiceConfig;
use nfs::wire::callback::CallbackOp;
use nfs::wire::files::{Claim, CreateHow, Lock, Locker};
use nfs::wire::{Bitmap, Op, Owner, Stateid, Status, operation};
use std::time::Duration;

pub(crate) const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];
const WRITE: u32 = 2;
const READ_AND_WAIT: u32 = 3;
pub(crate) const WRITE_AND_WAIT: u32 = 4;
/// `OPEN4_RESULT_MAY_NOTIFY_LOCK`.
const MAY_NOTIFY: u32 = 32;

fn lock(kind: u32, (offset, length): (u64, u64), open: Stateid) -> Op<'static> {
    Op::Lock(Box::new(Lock {
        kind,
        is_reclaim: false,
        offset,
        length,
        locker: Locker::New(
            open,
            Owner {
                client: 0,
                name: b"locker",
            },
        ),
    }))
}

/// The result of OPEN without a delegation: the stateid, and the flags.
fn opened(results: &mut Results) -> (Stateid, u32) {
    results.ok(operation::OPEN);
    let stateid = results.stateid();
    results.skip(4 + 8 + 8);
    (stateid, results.u32())
}

/// Opens "f" without a wish for a delegation. Returns the stateid and the flags.
pub(crate) async fn open_file(client: &mut Client) -> (Stateid, u32) {
    let create = Some(CreateHow::Unchecked(NO_ATTRS));
    let open = open_with(Claim::Name(b"f"), create, 3 | 0x400, 0);
    opened(&mut client.at(HOME, &[open]).await)
}

pub(crate) async fn lock_file(
    client: &mut Client,
    kind: u32,
    bytes: (u64, u64),
    open: Stateid,
) -> Status {
    client.at(&PATH, &[lock(kind, bytes, open)]).await.status
}

/// The next callback says that the lock of this client is free.
pub(crate) async fn is_told(client: &mut Client) {
    let callback = client.callback().await;
    let CallbackOp::NotifyLock { owner, .. } = callback.op() else {
        panic!("CB_NOTIFY_LOCK, not {:?}", callback.op());
    };
    assert_eq!((owner.client, owner.name), (client.id, &b"locker"[..]));
    client.answer(&callback, Status::Ok, &[]).await;
}

#[test]
fn owners_that_wait_are_told_in_their_order() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = fixture.client("holder").await;
        let (of_holder, flags) = open_file(&mut holder).await;
        assert_eq!(flags & MAY_NOTIFY, 0, "it has no back channel");
        let mut results = holder.at(&PATH, &[lock(WRITE, (0, 10), of_holder)]).await;
        results.ok(operation::LOCK);
        let locked = results.stateid();

        let mut clients = Vec::new();
        for (name, kind) in [
            ("first", WRITE_AND_WAIT),
            ("second", READ_AND_WAIT),
            ("third", READ_AND_WAIT),
            // one that does not wait, and one that waits for other bytes
            ("fourth", WRITE),
        ] {
            let mut client = Client::with_back_channel(&fixture, name).await;
            let (open, flags) = open_file(&mut client).await;
            assert_eq!(flags & MAY_NOTIFY, MAY_NOTIFY);
            let refused = lock_file(&mut client, kind, (5, 10), open).await;
            assert_eq!(refused, Status::Denied);
            clients.push((client, open));
        }
        let unlock = Op::LockU {
            stateid: locked,
            offset: 0,
            length: 5,
        };
        let mut results = holder.at(&PATH, &[unlock]).await;
        results.ok(operation::LOCKU);
        let stateid = results.stateid();
        for (client, _) in &mut clients {
            assert!(client.is_left_alone().await, "its bytes are still locked");
        }
        let unlock = Op::LockU {
            stateid,
            offset: 5,
            length: u64::MAX - 5,
        };
        assert_eq!(holder.at(&PATH, &[unlock]).await.status, Status::Ok);
        let [first, second, third, fourth] = &mut clients[..] else {
            panic!("four clients");
        };
        is_told(&mut first.0).await;
        let taken = lock_file(&mut first.0, WRITE_AND_WAIT, (5, 10), first.1).await;
        assert_eq!(taken, Status::Ok);
        assert!(second.0.is_left_alone().await, "the first one has the lock");
        // shared locks do not wait for each other
        let close = Op::Close { stateid: first.1 };
        assert_eq!(first.0.at(&PATH, &[close]).await.status, Status::Ok);
        is_told(&mut second.0).await;
        is_told(&mut third.0).await;
        assert!(fourth.0.is_left_alone().await, "it did not wait");
        assert_eq!(fixture.service.counters().lock_notices, 3);
    });
}

#[test]
fn a_lost_callback_keeps_nobody_waiting() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = fixture.client("holder").await;
        let (open, _) = open_file(&mut holder).await;
        let locked = lock_file(&mut holder, WRITE, (0, 1), open).await;
        assert_eq!(locked, Status::Ok);
        let mut silent = Client::with_back_channel(&fixture, "silent").await;
        let mut other = Client::with_back_channel(&fixture, "other").await;
        for client in [&mut silent, &mut other] {
            let (open, _) = open_file(client).await;
            let refused = lock_file(client, WRITE_AND_WAIT, (0, 1), open).await;
            assert_eq!(refused, Status::Denied);
        }
        let ended = fixture.service.clients().into_iter();
        let holder = ended.into_iter().find(|c| c.owner == b"holder");
        assert!(fixture.service.end_client(holder.expect("it is there").id));
        // the first one of the queue does not answer: its turn ends
        is_told(&mut other).await;
        drop(silent);
        io::time::sleep(Duration::from_secs(5)).await;
    });
}

#[test]
fn clients_with_many_delegations_are_asked_for_some() {
    simulated(|| async {
        let few = ServiceConfig {
            delegations_max: 8,
            ..config()
        };
        let fixture = Fixture::with(few).await;
        let mut client = Client::with_back_channel(&fixture, "holds").await;
        let create = || Some(CreateHow::Unchecked(NO_ATTRS));
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            let mut results = client.at(HOME, &[open(name, create())]).await;
            assert_eq!(results.open_wishing().1, 2);
        }
        assert!(client.is_left_alone().await);
        let mut results = client.at(HOME, &[open("h", create())]).await;
        assert_eq!(results.open_wishing().1, 2);
        let callback = client.callback().await;
        let wanted = CallbackOp::RecallAny {
            objects_to_keep: 4,
            types: Bitmap::of(&[0, 1]),
        };
        assert_eq!(callback.op(), wanted);
        client.answer(&callback, Status::Ok, &[]).await;
        let mut results = client.at(HOME, &[open("i", create())]).await;
        assert_eq!(results.open_wishing().1, 0, "there is no room");
        assert!(client.is_left_alone().await, "it was asked a moment ago");
    });
}

#[test]
fn the_name_of_a_lock_owner_keeps_the_limit_of_replies() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = fixture.client("holder").await;
        let (open, _) = open_file(&mut holder).await;
        let locker = Locker::New(
            open,
            Owner {
                client: 0,
                name: &[b'x'; 1024],
            },
        );
        let locked = Op::Lock(Box::new(Lock {
            kind: WRITE,
            is_reclaim: false,
            offset: 0,
            length: 1,
            locker,
        }));
        assert_eq!(holder.at(&PATH, &[locked]).await.status, Status::Ok);
        let mut small = Client::connect(fixture.addr).await;
        let fore = nfs::wire::channel::Channel {
            reply_max: 1024,
            cached_max: 1024,
            ..crate::client::FORE
        };
        small.establish(b"small", fore).await;
        let done = small.run(&[Op::ReclaimComplete { one_fs: false }]).await;
        assert_eq!(done.status, Status::Ok);
        let (open, _) = open_file(&mut small).await;
        let refused = lock_file(&mut small, WRITE, (0, 1), open).await;
        assert_eq!(refused, Status::RepTooBig);
        let test = Op::LockT {
            kind: WRITE,
            offset: 0,
            length: 1,
            owner: Owner {
                client: 0,
                name: b"y",
            },
        };
        let refused = small.at(&PATH, &[test]).await.status;
        assert_eq!(refused, Status::RepTooBig);
    });
}
