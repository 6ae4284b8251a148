//! Delegations over the wire: grants, recalls, revocation, attributes, other users of the files.

use crate::back::Callback;
use crate::client::{Client, FORE, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, config, export, open_with, simulated};
use crate::v3::client::{mode, mounted};
use backend::file::{Access, Caller, Name, SetAttributes, Stability};
use nfs::service::{Delegations, ServiceConfig};
use nfs::v3::wire::{Arguments, At};
use nfs::wire::callback::CallbackOp;
use nfs::wire::files::{Claim, CreateHow};
use nfs::wire::{Attrs, Bitmap, Op, Stateid, Status, operation};
use nfs::xdr::Writer;
use nfs::xdr::Xdr;
use std::time::Duration;

const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];
const REVOKED: u32 = 0x40;
const CHANGE_AND_SIZE: Bitmap = Bitmap::of(&[3, 4]);

/// The delegation in the result of OPEN: its type, stateid, and whether it is recalled. The result is read.
fn delegation(results: &mut Results) -> (Stateid, u32, Option<Stateid>, bool) {
    let (open, kind) = results.open_wishing();
    match kind {
        1 | 2 => {
            let stateid = results.stateid();
            let is_recalled = results.u32() == 1;
            results.skip(if kind == 2 { 12 } else { 0 } + 16);
            (open, kind, Some(stateid), is_recalled)
        }
        _ => (open, kind, None, false),
    }
}

fn name() -> Claim<'static> {
    Claim::Name(b"f")
}

const CREATE: Option<CreateHow<'static>> = Some(CreateHow::Unchecked(NO_ATTRS));

/// A client opens "f" with these bits and gets a delegation: its stateid, and that of the open.
async fn delegated(client: &mut Client, access: u32) -> (Stateid, Stateid) {
    let open = open_with(name(), CREATE, access, 0);
    let mut results = client.at(HOME, &[open]).await;
    let (open, kind, stateid, _) = delegation(&mut results);
    assert_eq!(kind, if access == 1 { 1 } else { 2 });
    (stateid.expect("a delegation"), open)
}

fn recalled(callback: &Callback) -> Stateid {
    match callback.op() {
        CallbackOp::Recall { stateid, .. } => stateid,
        other => panic!("CB_RECALL, not {other:?}"),
    }
}

async fn give_back(client: &mut Client, stateid: Stateid) -> Status {
    client
        .at(&PATH, &[Op::DelegReturn { stateid }])
        .await
        .status
}

/// A client with a delegation, and another one.
async fn pair(access: u32) -> (Fixture, Client, Stateid, Client) {
    let fixture = Fixture::new().await;
    let mut holder = Client::with_back_channel(&fixture, "holder").await;
    let (stateid, _) = delegated(&mut holder, access).await;
    let other = fixture.client("other").await;
    (fixture, holder, stateid, other)
}

#[test]
fn clients_that_can_be_called_get_delegations() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut deaf = fixture.client("deaf").await;
        let mut client = Client::with_back_channel(&fixture, "a").await;
        let kinds = [(&mut deaf, 1, 0), (&mut client, 2, 0)];
        for (client, access, wanted) in kinds {
            let open = open_with(name(), CREATE, access, 0);
            let mut results = client.at(HOME, &[open]).await;
            let (stateid, kind, _, _) = delegation(&mut results);
            assert_eq!(kind, wanted);
            let close = Op::Close { stateid };
            assert_eq!(client.at(&PATH, &[close]).await.status, Status::Ok);
        }
        for (access, wanted) in [(1, 1), (0x101, 1), (0x201, 1), (3, 2), (0x303, 2)] {
            let open = open_with(name(), CREATE, access, 0);
            let mut results = client.at(HOME, &[open, Op::GetFh]).await;
            let (open, kind, stateid, is_recalled) = delegation(&mut results);
            assert_eq!((kind, is_recalled), (wanted, false));
            results.ok(operation::GETFH);
            let read = Op::Read {
                stateid: stateid.expect("a delegation"),
                offset: 0,
                count: 1,
            };
            assert_eq!(client.at(&PATH, &[read]).await.status, Status::Ok);
            assert_eq!(give_back(&mut client, stateid.unwrap()).await, Status::Ok);
            let close = Op::Close { stateid: open };
            assert_eq!(client.at(&PATH, &[close]).await.status, Status::Ok);
        }
        assert_eq!(fixture.service.counters().delegations, 5);
    });
}

#[test]
fn delegations_can_be_limited() {
    simulated(|| async {
        for (delegations, wanted) in [(Delegations::None, 0), (Delegations::Read, 1)] {
            let fixture = Fixture::with(ServiceConfig {
                delegations,
                ..config()
            })
            .await;
            let mut client = Client::with_back_channel(&fixture, "a").await;
            let open = |access| open_with(name(), CREATE, access, 0);
            let mut results = client.at(HOME, &[open(3)]).await;
            assert_eq!(delegation(&mut results).1, 0);
            let mut results = client.at(HOME, &[open(1)]).await;
            assert_eq!(delegation(&mut results).1, wanted);
        }
    });
}

#[test]
fn operations_that_conflict_recall_a_delegation() {
    simulated(|| async {
        let remove = Op::Remove { name: b"f" };
        let rename = Op::Rename {
            old: b"f",
            new: b"g",
        };
        let link = Op::Link { name: b"h" };
        let set = Op::SetAttr {
            stateid: Stateid::ANONYMOUS,
            attributes: Attrs {
                mask: Bitmap::of(&[33]),
                values: &[0, 0, 1, 0o200],
            },
        };
        let write = Op::Write {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            stable: 2,
            data: b"x",
        };
        let read = Op::Read {
            stateid: Stateid::BYPASS,
            offset: 0,
            count: 1,
        };
        let lookup = |name| Op::Lookup { name };
        let in_home = [Op::PutRootFh, lookup(b"tank"), lookup(b"home")];
        let to_file = [&in_home[..], &[lookup(b"f")]].concat();
        let cases = [
            (1, [&in_home[..], &[open_with(name(), None, 2, 0)]].concat()),
            (3, [&in_home[..], &[open_with(name(), None, 1, 0)]].concat()),
            (1, [&in_home[..], &[remove]].concat()),
            (1, [&in_home[..], &[Op::SaveFh, rename]].concat()),
            (
                1,
                [&to_file[..], &[Op::SaveFh], &in_home[..], &[link]].concat(),
            ),
            (1, [&to_file[..], &[set]].concat()),
            (1, [&to_file[..], &[write]].concat()),
            (3, [&to_file[..], &[read]].concat()),
        ];
        for (access, operations) in cases {
            let (fixture, mut holder, stateid, mut other) = pair(access).await;
            let refused = other.run(&operations).await.status;
            assert_eq!(refused, Status::Delay, "{operations:?}");
            let callback = holder.callback().await;
            assert_eq!(recalled(&callback), stateid);
            holder.answer(&callback, Status::Ok, &[]).await;
            // Nothing is recalled twice, and the holder may still use the file.
            assert_eq!(other.run(&operations).await.status, Status::Delay);
            assert_eq!(give_back(&mut holder, stateid).await, Status::Ok);
            io::time::sleep(Duration::from_secs(2)).await;
            let status = other.run(&operations).await.status;
            assert_eq!(status, Status::Ok, "{operations:?}");
            assert!(holder.is_left_alone().await);
            let counters = fixture.service.counters();
            assert_eq!((counters.recalls, counters.revocations), (1, 0));
        }
    });
}

#[test]
fn a_reply_that_may_be_on_its_way_is_named_in_the_recall() {
    simulated(|| async {
        let (_fixture, mut holder, stateid, mut other) = pair(1).await;
        let write = || open_with(name(), None, 2, 0);
        other.at(HOME, &[write()]).await;
        let callback = holder.callback().await;
        let referring = &callback.sequence.referring;
        assert_eq!(referring.len(), 1);
        assert_eq!(
            (referring[0].slot, referring[0].sequence),
            (0, holder.sequence)
        );
        holder.answer(&callback, Status::Ok, &[]).await;
        give_back(&mut holder, stateid).await;
    });
}

#[test]
fn a_delegation_becomes_opens_before_it_is_returned() {
    simulated(|| async {
        let (_fixture, mut holder, stateid, mut other) = pair(3).await;
        other.at(HOME, &[open_with(name(), None, 3, 0)]).await;
        let callback = holder.callback().await;
        holder.answer(&callback, Status::Ok, &[]).await;
        let by_name = open_with(Claim::DelegateCurrent(stateid, b"f"), None, 1, 0);
        let mut results = holder.at(HOME, &[by_name]).await;
        assert_eq!(delegation(&mut results).1, 0);
        let by_handle = open_with(Claim::DelegateCurrentHandle(stateid), None, 3, 0);
        assert_eq!(holder.at(&PATH, &[by_handle]).await.status, Status::Ok);
        let wrong = Stateid {
            seqid: 9,
            ..stateid
        };
        let refused = open_with(Claim::DelegateCurrentHandle(wrong), None, 3, 0);
        let refused = holder.at(&PATH, &[refused]).await.status;
        assert_eq!(refused, Status::BadStateid);
        let earlier = open_with(Claim::DelegatePrevious(b"f"), None, 1, 0);
        assert_eq!(holder.at(HOME, &[earlier]).await.status, Status::Notsupp);
        assert_eq!(give_back(&mut holder, stateid).await, Status::Ok);
        let purge = [Op::Unsupported(operation::DELEGPURGE)];
        assert_eq!(holder.run(&purge).await.status, Status::Notsupp);
    });
}

#[test]
fn a_delegation_that_is_not_returned_is_revoked() {
    simulated(|| async {
        let (fixture, mut holder, stateid, mut other) = pair(1).await;
        let write = || open_with(name(), None, 2, 0);
        let mut waited = 0;
        while other.at(HOME, &[write()]).await.status == Status::Delay {
            // The holder renews its lease, and neither answers nor returns anything.
            holder.run(&[]).await;
            io::time::sleep(Duration::from_secs(5)).await;
            waited += 5;
            assert!(waited < 80, "it is revoked in time");
        }
        assert_eq!(fixture.service.counters().revocations, 1);
        holder.run(&[]).await;
        assert_ne!(holder.flags & REVOKED, 0);
        let read = Op::Read {
            stateid,
            offset: 0,
            count: 1,
        };
        let refused = holder.at(&PATH, &[read]).await.status;
        assert_eq!(refused, Status::DelegRevoked);
        assert_eq!(give_back(&mut holder, stateid).await, Status::DelegRevoked);
        let mut results = holder.run(&[Op::TestStateid(vec![stateid])]).await;
        results.ok(operation::TEST_STATEID);
        assert_eq!(
            (results.u32(), results.u32()),
            (1, Status::DelegRevoked.code())
        );
        let freed = holder.run(&[Op::FreeStateid(stateid)]).await.status;
        assert_eq!(freed, Status::Ok);
        holder.run(&[]).await;
        assert_eq!(holder.flags & REVOKED, 0);
    });
}

#[test]
fn a_client_that_vanished_loses_its_delegation_with_its_lease() {
    simulated(|| async {
        let fixture = Fixture::with(ServiceConfig {
            recall_timeout: Duration::from_secs(3600),
            ..config()
        })
        .await;
        let mut holder = Client::with_back_channel(&fixture, "holder").await;
        delegated(&mut holder, 3).await;
        let mut other = fixture.client("other").await;
        io::time::sleep(Duration::from_secs(91)).await;
        let read = || open_with(name(), None, 1, 0);
        assert_eq!(other.at(HOME, &[read()]).await.status, Status::Delay);
        io::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(other.at(HOME, &[read()]).await.status, Status::Ok);
        let sequence = holder.next_sequence(false);
        let refused = holder.compound(&[sequence]).await.status;
        assert_eq!(refused, Status::Badsession);
    });
}

#[test]
fn others_see_what_the_holder_of_a_write_delegation_wrote() {
    simulated(|| async {
        let (_fixture, mut holder, stateid, mut other) = pair(3).await;
        let look = || Op::GetAttr(CHANGE_AND_SIZE);
        let attributes = |mut results: Results| {
            results.ok(operation::GETATTR);
            results.bitmap();
            results.u32();
            (results.u64(), results.u64())
        };
        let (change, _) = attributes(holder.at(&PATH, &[look()]).await);
        assert!(holder.callbacks.is_empty(), "the holder is not asked");
        // It does not answer in time: the other client is told to ask again.
        assert_eq!(other.at(&PATH, &[look()]).await.status, Status::Delay);
        let callback = holder.callback().await;
        assert!(matches!(
            callback.op(),
            CallbackOp::GetAttr {
                wanted: CHANGE_AND_SIZE,
                ..
            }
        ));
        let mut body = Writer::new();
        CHANGE_AND_SIZE.encode(&mut body);
        body.u32(16);
        body.u64(change + 1);
        body.u64(4711);
        holder.answer(&callback, Status::Ok, &body.to_vec()).await;
        let seen = attributes(other.at(&PATH, &[look()]).await);
        assert_eq!(seen, (change + 1, 4711));
        // A holder that cannot tell them loses the delegation.
        io::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(other.at(&PATH, &[look()]).await.status, Status::Delay);
        let callback = holder.callback().await;
        holder.answer(&callback, Status::BadStateid, &[]).await;
        let callback = holder.callback().await;
        assert_eq!(recalled(&callback), stateid);
        holder.answer(&callback, Status::Ok, &[]).await;
        give_back(&mut holder, stateid).await;
        assert_eq!(attributes(other.at(&PATH, &[look()]).await).1, 0);
    });
}

#[test]
fn delegations_are_reclaimed_after_a_restart() {
    simulated(|| async {
        let fixture = Fixture::with(ServiceConfig {
            reclaimers: vec![b"old".to_vec()],
            ..config()
        })
        .await;
        let files = fixture.files.clone();
        let root = Caller::new(0, 0, []);
        let new = backend::file::NewFile {
            kind: backend::file::NewKind::File,
            mode: 0o666,
            umask: None,
            acl: None,
        };
        let entry = Name::new(b"f").unwrap();
        let fail = backend::file::IfExists::Fail;
        let made = files.create(&root, files.root(), &entry, new, fail, Stability::Durable);
        made.await.expect("a new file");
        // Without a back channel; with one whose first call was not answered yet; with one that works.
        for (flags, answers, is_recalled) in [(0, false, true), (2, false, false), (2, true, false)]
        {
            let mut old = Client::connect(fixture.addr).await;
            old.create_session(b"old", FORE, flags).await;
            if answers {
                old.answer_null().await;
            }
            let reclaim = open_with(Claim::Previous(2), None, 3, 0);
            let mut results = old.at(&PATH, &[reclaim]).await;
            let (open, kind, stateid, recalled) = delegation(&mut results);
            assert_eq!((kind, recalled), (2, is_recalled));
            assert_eq!(give_back(&mut old, stateid.unwrap()).await, Status::Ok);
            let close = Op::Close { stateid: open };
            assert_eq!(old.at(&PATH, &[close]).await.status, Status::Ok);
        }
    });
}

#[test]
fn users_that_are_no_clients_wait_for_the_return() {
    simulated(|| async {
        let (fixture, mut holder, stateid, _other) = pair(3).await;
        let guarded = fixture.service.guarded(fixture.files.clone());
        let root = Caller::new(0, 0, []);
        let name = Name::new(b"f").unwrap();
        let file = fixture.files.lookup(&root, guarded.root(), &name).await;
        let file = file.expect("the file").handle;
        let reading = guarded.read(file, 0, 1);
        let waits = io::timeout(Duration::from_secs(1), reading).await;
        assert!(
            waits.is_err(),
            "the client may have data that the server does not have"
        );
        let callback = holder.callback().await;
        assert_eq!(recalled(&callback), stateid);
        holder.answer(&callback, Status::Ok, &[]).await;
        give_back(&mut holder, stateid).await;
        guarded.read(file, 0, 1).await.expect("data");
        assert!(guarded.access(&root, file, Access::READ).await.is_ok());
        let set = SetAttributes {
            size: Some(3),
            ..SetAttributes::default()
        };
        let set = guarded.set_attributes(&root, file, set, Stability::Cached);
        set.await.expect("a change");
        let removed = guarded.remove(
            &root,
            guarded.root(),
            &name,
            backend::file::RemoveKind::Any,
            Stability::Cached,
        );
        removed.await.expect("it is removed");
    });
}

#[test]
fn a_silent_holder_holds_up_nobody_else() {
    simulated(|| async {
        let (fixture, _holder, _stateid, mut other) = pair(3).await;
        fixture
            .service
            .add_export(export(2, "/tank/other", all_rights()))
            .expect("a new export");
        let read = || open_with(name(), None, 1, 0);
        assert_eq!(other.at(HOME, &[read()]).await.status, Status::Delay);
        let before = io::time::now();
        for _ in 0..20 {
            let open = open_with(Claim::Name(b"g"), CREATE, 3, 0);
            assert_eq!(
                other.at(&["tank", "other"], &[open]).await.status,
                Status::Ok
            );
            assert_eq!(other.at(HOME, &[read()]).await.status, Status::Delay);
        }
        assert!(before.elapsed() < Duration::from_secs(1));
    });
}

#[test]
fn changes_by_version_3_recall_delegations() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut holder = Client::with_back_channel(&fixture, "holder").await;
        let (mut other, root) = mounted(&fixture).await;
        let to = |name| At {
            directory: &root,
            name,
        };
        let file = {
            let (stateid, _) = delegated(&mut holder, 1).await;
            assert_eq!(give_back(&mut holder, stateid).await, Status::Ok);
            other.lookup_v3(&root, "f").await.0
        };
        let changes = [
            Arguments::SetAttr {
                object: &file,
                set: mode(0o600),
                guard: None,
            },
            Arguments::Link {
                object: &file,
                to: to(b"g"),
            },
            Arguments::Rename {
                from: to(b"g"),
                to: to(b"h"),
            },
            Arguments::Remove(to(b"h")),
        ];
        for (owner, change) in ["a", "b", "c", "d"].into_iter().zip(&changes) {
            // A file that was recalled is not delegated again at once.
            io::time::sleep(Duration::from_secs(600)).await;
            let mut holder = Client::with_back_channel(&fixture, owner).await;
            let (stateid, _) = delegated(&mut holder, 1).await;
            let refused = other.refused(change).await;
            assert_eq!(refused, nfs::v3::wire::Status::Jukebox, "{change:?}");
            let callback = holder.callback().await;
            assert_eq!(recalled(&callback), stateid);
            holder.answer(&callback, Status::Ok, &[]).await;
            assert_eq!(give_back(&mut holder, stateid).await, Status::Ok);
            let done = other.v3(change).await;
            assert_eq!(done.status, nfs::v3::wire::Status::Ok, "{change:?}");
        }
    });
}
