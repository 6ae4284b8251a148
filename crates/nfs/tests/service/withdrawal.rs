//! Exports that end and come back, and hosts that are denied: their opens, locks and delegations.

use crate::client::{Client, Results};
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, config, open_with, simulated};
use io::sim::Node;
use nfs::export::{ExportConfig, Hosts, Rule};
use nfs::wire::callback::CallbackOp;
use nfs::wire::files::{Claim, CreateHow, Lock, Locker};
use nfs::wire::{Op, Owner, Stateid, Status, operation};
use std::time::Duration;

const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];
const ADMIN_REVOKED: u32 = 0x20;
const CREATE: Option<CreateHow<'static>> = Some(CreateHow::Unchecked(NO_ATTRS));

fn open(access: u32, deny: u32) -> Op<'static> {
    open_with(Claim::Name(b"f"), CREATE, access, deny)
}

fn lock(open: Stateid) -> Op<'static> {
    Op::Lock(Box::new(Lock {
        kind: 2,
        is_reclaim: false,
        offset: 0,
        length: 10,
        locker: Locker::New(
            open,
            Owner {
                client: 0,
                name: b"locker",
            },
        ),
    }))
}

/// The export of the fixture, to be added again.
fn again(fixture: &Fixture) -> ExportConfig {
    ExportConfig {
        id: 1,
        path: "/tank/home".into(),
        files: fixture.files.clone(),
        rules: vec![all_rights()],
    }
}

/// The statuses of stateids by TEST_STATEID.
async fn tested(client: &mut Client, stateids: &[Stateid]) -> Vec<Status> {
    let mut results = client.run(&[Op::TestStateid(stateids.to_vec())]).await;
    results.ok(operation::TEST_STATEID);
    let count = results.u32();
    let codes = (0..count).map(|_| results.u32());
    codes
        .map(|code| Status::from_code(code).expect("a status"))
        .collect()
}

fn locked(mut results: Results) -> Stateid {
    results.ok(operation::LOCK);
    results.stateid()
}

/// A client with an open, a lock and a delegation for reading of "f".
async fn holder(fixture: &Fixture) -> (Client, [Stateid; 3]) {
    let mut holder = Client::with_back_channel(fixture, "holder").await;
    let opened = holder
        .at(HOME, &[open(3 | 0x400, 0)])
        .await
        .open_wishing()
        .0;
    let lock = locked(holder.at(&PATH, &[lock(opened)]).await);
    let reads = open_with(Claim::Name(b"f"), None, 1, 0);
    let mut results = holder.at(HOME, &[reads]).await;
    let (opened, kind) = results.open_wishing();
    assert_eq!(kind, 1, "a delegation");
    let delegation = results.stateid();
    (holder, [opened, lock, delegation])
}

/// `export remove` and `export nfs`, or sharenfs off and on, dropped delegations and locks without a word: the client kept reading
/// old data, and its lock went to the next client.
#[test]
fn state_goes_on_when_an_export_comes_back_in_time() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut holder, [opened, lock_state, delegation]) = holder(&fixture).await;
        let mut other = fixture.client("other").await;
        let service = &fixture.service;
        service.remove_export("/tank/home").expect("it is there");
        service.sweep().await;
        io::time::sleep(Duration::from_secs(30)).await;
        service.sweep().await;
        holder.run(&[]).await;
        assert_eq!(holder.flags & ADMIN_REVOKED, 0);
        service.add_export(again(&fixture)).expect("it is gone");

        let all = [opened, lock_state, delegation];
        let statuses = tested(&mut holder, &all).await;
        assert!(statuses.iter().all(|s| *s == Status::Ok), "{statuses:?}");
        let writes = || open_with(Claim::Name(b"f"), None, 2 | 0x400, 0);
        assert_eq!(other.at(HOME, &[writes()]).await.status, Status::Delay);
        let callback = holder.callback().await;
        let CallbackOp::Recall { stateid, .. } = callback.op() else {
            panic!("CB_RECALL, not {:?}", callback.op());
        };
        assert_eq!(stateid, delegation);
        holder.answer(&callback, Status::Ok, &[]).await;
        let back = Op::DelegReturn {
            stateid: delegation,
        };
        assert_eq!(holder.at(&PATH, &[back]).await.status, Status::Ok);
        let of_other = other.at(HOME, &[writes()]).await.open_wishing().0;
        let denied = other.at(&PATH, &[lock(of_other)]).await.status;
        assert_eq!(denied, Status::Denied);
        // The file is kept again: it can be used without a name.
        let remove = Op::Remove { name: b"f" };
        let removed = [
            Op::GetFh,
            Op::PutRootFh,
            lookup("tank"),
            lookup("home"),
            remove,
        ];
        let mut results = holder.at(&PATH, &removed).await;
        results.ok(operation::GETFH);
        let handle = results.opaque();
        let write = Op::Write {
            stateid: opened,
            offset: 0,
            stable: 2,
            data: b"x",
        };
        let written = holder.run(&[Op::PutFh(&handle), write]).await;
        assert_eq!(written.status, Status::Ok);
    });
}

fn lookup(name: &str) -> Op<'_> {
    Op::Lookup {
        name: name.as_bytes(),
    }
}

/// Their clients are told, and can free what was revoked.
#[test]
fn state_of_an_export_that_does_not_come_back_is_revoked() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut holder, all) = holder(&fixture).await;
        let service = &fixture.service;
        service.remove_export("/tank/home").expect("it is there");
        for _ in 0..4 {
            io::time::sleep(config().lease / 3).await;
            service.sweep().await;
            holder.run(&[]).await;
        }
        assert_eq!(holder.flags & ADMIN_REVOKED, ADMIN_REVOKED);
        let statuses = tested(&mut holder, &all).await;
        assert_eq!(statuses, [Status::AdminRevoked; 3]);
        service.add_export(again(&fixture)).expect("it is gone");
        let mut other = fixture.client("other").await;
        let of_other = other.at(HOME, &[open(3 | 0x400, 2)]).await.open_wishing().0;
        locked(other.at(&PATH, &[lock(of_other)]).await);
        for stateid in all {
            let free = Op::FreeStateid(stateid);
            assert_eq!(holder.run(&[free]).await.status, Status::Ok);
        }
        holder.run(&[]).await;
        assert_eq!(holder.flags & ADMIN_REVOKED, 0);
    });
}

/// A rollback gave delegations up without a word.
#[test]
fn an_export_that_is_rolled_back_recalls_its_delegations_first() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut holder, [.., delegation]) = holder(&fixture).await;
        let service = fixture.service.clone();
        let recalling = io::spawn(async move { service.recall_export("/tank/home").await });
        let callback = holder.callback().await;
        assert!(matches!(callback.op(), CallbackOp::Recall { .. }));
        holder.answer(&callback, Status::Ok, &[]).await;
        assert!(!recalling.is_finished(), "it is not returned");
        let back = Op::DelegReturn {
            stateid: delegation,
        };
        assert_eq!(holder.at(&PATH, &[back]).await.status, Status::Ok);
        recalling.await;
        io::time::sleep(Duration::from_secs(40)).await;
        let kind = |mut results: Results| results.open_wishing().1;
        let reads = || open_with(Claim::Name(b"f"), None, 1, 0);
        let none = kind(holder.at(HOME, &[reads()]).await);
        assert_eq!(none, 0, "the files are about to change");
        let service = &fixture.service;
        service.remove_export("/tank/home").expect("it is there");
        service.add_export(again(&fixture)).expect("it is gone");
        let one = kind(holder.at(HOME, &[reads()]).await);
        assert_eq!(one, 1, "the files have changed");
    });
}

/// A host that was denied kept its opens and share reservations, and nobody else could open the files.
#[test]
fn a_host_that_is_denied_loses_its_state() {
    simulated(|| async {
        let (denied, good) = (Node::new(), Node::new());
        let fixture = Fixture::new().await;
        let addr = fixture.addr;
        let opens = denied.spawn(async move {
            let mut client = Client::with_session(addr, b"denied").await;
            client.at(HOME, &[open(3 | 0x400, 3)]).await.open_wishing();
            client
        });
        let mut client = opens.await.expect("not killed");
        let tries = move |owner: &'static str| {
            good.spawn(async move {
                let mut client = Client::with_session(addr, owner.as_bytes()).await;
                client.at(HOME, &[open(3 | 0x400, 0)]).await.status
            })
        };
        assert_eq!(tries("before").await, Some(Status::ShareDenied));
        let only_good = Rule {
            hosts: Hosts::Network(good.addr(1).ip(), 32),
            ..all_rights()
        };
        let set = fixture.service.set_rules("/tank/home", vec![only_good]);
        set.expect("it is there");
        assert_eq!(tries("after").await, Some(Status::Ok));
        let told = denied.spawn(async move {
            client.run(&[]).await;
            client.flags & ADMIN_REVOKED
        });
        assert_eq!(told.await, Some(ADMIN_REVOKED));
    });
}
