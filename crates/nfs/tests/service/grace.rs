//! The grace period after a restart: what clients may reclaim is not changed by others (§8.4.2).

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, config, open_with, simulated};
use crate::v3::client::{at, mode, mounted};
use backend::file::{Caller, IfExists, Name, NewFile, NewKind, SetAttributes, Stability, WriteAt};
use nfs::service::ServiceConfig;
use nfs::v3::wire::{Arguments, CreateHow, Status as Status3};
use nfs::wire::files::{Claim, Lock, Locker};
use nfs::wire::minor2::{Minor2, Span};
use nfs::wire::{Attrs, Bitmap, Op, Owner, Stateid, Status, operation};
use std::net::SocketAddr;
use std::time::Duration;

const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];

fn set_size() -> Attrs<'static> {
    Attrs {
        mask: Bitmap::of(&[4]),
        values: &[0; 8],
    }
}

fn set_mode() -> Attrs<'static> {
    Attrs {
        mask: Bitmap::of(&[33]),
        values: &[0, 0, 1, 0o200],
    }
}

fn set(stateid: Stateid, attributes: Attrs<'static>) -> Op<'static> {
    Op::SetAttr {
        stateid,
        attributes,
    }
}

/// A server after a restart: client "old" may reclaim, "f" and "g" are there.
async fn restarted() -> Fixture {
    restarted_for(vec![b"old".to_vec(), b"older".to_vec()]).await
}

/// A server after a restart: these clients may reclaim, "f" and "g" are there.
async fn restarted_for(reclaimers: Vec<Vec<u8>>) -> Fixture {
    let fixture = Fixture::with(ServiceConfig {
        reclaimers,
        ..config()
    })
    .await;
    let files = fixture.files.clone();
    for name in ["f", "g"] {
        let new = NewFile {
            kind: NewKind::File,
            mode: 0o666,
            umask: None,
            acl: None,
        };
        let name = Name::new(name.as_bytes()).expect("a name");
        let root = files.root();
        let made = files.create(
            &Caller::root(),
            root,
            &name,
            new,
            IfExists::Fail,
            Stability::Cached,
        );
        made.await.expect("a new file");
    }
    fixture
}

/// All clients have reclaimed everything.
async fn reclaimed(fixture: &Fixture) {
    for owner in ["old", "older"] {
        let mut reclaimer = Client::connect(fixture.addr).await;
        reclaimer.establish(owner.as_bytes(), FORE).await;
        let complete = Op::ReclaimComplete { one_fs: false };
        let mut results = reclaimer.run(&[complete]).await;
        results.ok(operation::RECLAIM_COMPLETE);
    }
}

/// After SIGKILL, another client truncated, removed and renamed files that a client had open with a share reservation or under a
/// delegation; the client then reclaimed it over changed data. Only OPEN, LOCK and data waited for the end of the grace period.
#[test]
fn changes_wait_for_the_end_of_the_grace_period() {
    simulated(|| async {
        let fixture = restarted().await;
        let mut new = fixture.client("new").await;
        new.minor = 2;
        let lookup = |name| Op::Lookup { name };
        let span = Span {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            length: 10,
        };
        let write = Op::Write {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            stable: 2,
            data: b"x",
        };
        let rename = |old, new| Op::Rename { old, new };
        let at_file = vec![
            vec![set(Stateid::ANONYMOUS, set_size())],
            vec![set(Stateid::ANONYMOUS, set_mode())],
            vec![write],
            vec![Op::Minor2(Box::new(Minor2::Allocate(span)))],
            vec![Op::Minor2(Box::new(Minor2::Deallocate(span)))],
            vec![
                Op::SaveFh,
                Op::PutRootFh,
                lookup(b"tank"),
                lookup(b"home"),
                Op::Link { name: b"h" },
            ],
        ];
        for ops in at_file {
            let status = new.at(&PATH, &ops).await.status;
            assert_eq!(status, Status::Grace, "{ops:?}");
        }
        let at_home = vec![
            vec![Op::Remove { name: b"f" }],
            vec![Op::SaveFh, rename(b"f", b"h")],
            vec![Op::SaveFh, rename(b"g", b"f")],
        ];
        for ops in &at_home {
            let status = new.at(HOME, ops).await.status;
            assert_eq!(status, Status::Grace, "{ops:?}");
        }

        reclaimed(&fixture).await;
        for ops in &at_home[1..] {
            assert_eq!(new.at(HOME, ops).await.status, Status::Ok, "{ops:?}");
        }
    });
}

/// The same of version 3: only data and the size waited.
#[test]
fn changes_of_version_3_wait_for_the_end_of_the_grace_period() {
    simulated(|| async {
        let fixture = restarted().await;
        let (mut plain, root) = mounted(&fixture).await;
        let (file, _) = plain.lookup_v3(&root, "f").await;
        let size = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let set = |set| Arguments::SetAttr {
            object: &file,
            set,
            guard: None,
        };
        let calls = [
            set(size),
            set(mode(0o600)),
            Arguments::Write {
                file: &file,
                offset: 0,
                count: 1,
                stable: 2,
                data: b"x",
            },
            Arguments::Create {
                at: at(&root, "f"),
                how: CreateHow::Unchecked(size),
            },
            Arguments::Remove(at(&root, "f")),
            Arguments::Rename {
                from: at(&root, "f"),
                to: at(&root, "h"),
            },
            Arguments::Rename {
                from: at(&root, "g"),
                to: at(&root, "f"),
            },
            Arguments::Link {
                object: &file,
                to: at(&root, "h"),
            },
        ];
        for call in &calls {
            assert_eq!(plain.refused(call).await, Status3::Jukebox, "{call:?}");
        }

        reclaimed(&fixture).await;
        assert_eq!(plain.v3(&calls[0]).await.status, Status3::Ok);
    });
}

/// The same of a mount on the server itself.
#[test]
fn changes_of_a_mount_wait_for_the_end_of_the_grace_period() {
    simulated(|| async {
        let fixture = restarted().await;
        let files = fixture.service.guarded(fixture.files.clone());
        let writing = io::spawn(async move {
            let name = Name::new(b"g").expect("a name");
            let of = files.lookup(&Caller::root(), files.root(), &name).await;
            let data = io::pool().alloc(1).await;
            let of = of.expect("found").handle;
            let written = files.write(
                &Caller::root(),
                of,
                WriteAt::Offset(0),
                data.into(),
                Stability::Cached,
            );
            written.await.expect("written");
        });
        io::time::sleep(Duration::from_secs(10)).await;
        assert!(!writing.is_finished(), "the grace period goes on");

        reclaimed(&fixture).await;
        writing.await;
    });
}

/// What a client reclaimed, it may use at once.
#[test]
fn a_client_changes_in_the_grace_period_what_it_reclaimed() {
    simulated(|| async {
        let fixture = restarted().await;
        let mut old = Client::connect(fixture.addr).await;
        old.establish(b"old", FORE).await;
        let reclaim = |access| open_with(Claim::Previous(0), None, access, 2);
        let opened = old.at(&PATH, &[reclaim(2)]).await.open();
        for attributes in [set_size(), set_mode()] {
            let status = old.at(&PATH, &[set(opened, attributes)]).await.status;
            assert_eq!(status, Status::Ok);
        }
        let refused = old.at(&PATH, &[set(Stateid::ANONYMOUS, set_mode())]).await;
        assert_eq!(refused.status, Status::Grace);
        let write = Op::Write {
            stateid: opened,
            offset: 0,
            stable: 2,
            data: b"x",
        };
        assert_eq!(old.at(&PATH, &[write]).await.status, Status::Ok);
    });
}

/// Number of clients that reclaim at once.
const CROWD: u64 = 1000;

fn lock(is_reclaim: bool, offset: u64, owner: &[u8]) -> Op<'_> {
    let owner = Owner {
        client: 0,
        name: owner,
    };
    Op::Lock(Box::new(Lock {
        kind: 2,
        is_reclaim,
        offset,
        length: 10,
        locker: Locker::New(Stateid::CURRENT, owner),
    }))
}

/// Connects after the restart, and reclaims the open of "f" and the lock of its part of it.
async fn reclaims(addr: SocketAddr, number: u64) -> Client {
    let owner = format!("client {number}");
    let mut client = Client::connect(addr).await;
    client.establish(owner.as_bytes(), FORE).await;
    let open = open_with(Claim::Previous(0), None, 3, 0);
    let lock = lock(true, number * 10, owner.as_bytes());
    let mut results = client.at(&PATH, &[open, lock]).await;
    results.open();
    results.ok(operation::LOCK);
    client
}

/// 1,000 clients of pynfs took longer for their reclaims than the grace period, on a busy machine. Here only waits take time.
#[test]
fn a_thousand_clients_reclaim_opens_and_locks_at_once() {
    simulated(|| async {
        let owners = (0..CROWD).map(|n| format!("client {n}").into_bytes());
        let fixture = restarted_for(owners.collect()).await;
        let addr = fixture.addr;
        let mut new = fixture.client("new").await;
        let all: Vec<_> = (0..CROWD).map(|n| io::spawn(reclaims(addr, n))).collect();
        let mut crowd = Vec::new();
        for one in all {
            crowd.push(one.await.expect("it reclaimed"));
        }
        let open = || open_with(Claim::Name(b"f"), None, 3, 0);
        // Nobody is shut out before the last one has said that it is done.
        let complete = [Op::ReclaimComplete { one_fs: false }];
        for (done, client) in crowd.iter_mut().enumerate() {
            if done % 100 == 99 {
                assert_eq!(new.at(HOME, &[open()]).await.status, Status::Grace);
            }
            client.run(&complete).await.ok(operation::RECLAIM_COMPLETE);
        }

        let (clients, sessions, _, states) = fixture.service.state_counts();
        let crowd_len = CROWD as usize;
        assert_eq!((clients, sessions), (crowd_len + 1, crowd_len + 1));
        assert_eq!(states, 2 * crowd_len, "an open and a lock of each");
        // The period is over at once, and each lock holds against all others.
        for (number, owner) in crowd.iter().enumerate() {
            let at = number as u64 * 10;
            let asked = [open(), lock(false, at, b"new")];
            let mut results = new.at(HOME, &asked).await;
            results.open();
            results.has(operation::LOCK, Status::Denied);
            assert_eq!((results.u64(), results.u64(), results.u32()), (at, 10, 2));
            let name = format!("client {number}").into_bytes();
            assert_eq!((results.u64(), results.opaque()), (owner.id, name));
        }
        let free = [open(), lock(false, CROWD * 10, b"new")];
        assert_eq!(new.at(HOME, &free).await.status, Status::Ok);
    });
}
