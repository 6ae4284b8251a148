//! Share reservations and locks of several clients.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, all_rights, config, open, open_with, simulated};
use backend::file::{Access, Caller, FileError, Name, SetAttributes, Stability};
use nfs::export::ExportConfig;
use nfs::wire::files::{Claim, CreateHow, Lock, Locker};
use nfs::wire::{Attrs, Bitmap, Op, Owner, Stateid, Status, operation};

fn owner(name: &[u8]) -> Owner<'_> {
    Owner { client: 0, name }
}

fn lock(kind: u32, offset: u64, length: u64, locker: Locker<'_>) -> Op<'_> {
    Op::Lock(Box::new(Lock {
        kind,
        is_reclaim: false,
        offset,
        length,
        locker,
    }))
}

#[test]
fn share_reservations_hold_against_other_clients() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut a, mut b) = (fixture.client("a").await, fixture.client("b").await);
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        let denies_write = open_with(Claim::Name(b"f"), create, 1, 2);
        let opened = a.at(HOME, &[denies_write]).await.open();
        let writes = || open_with(Claim::Name(b"f"), None, 2, 0);
        assert_eq!(b.at(HOME, &[writes()]).await.status, Status::ShareDenied);
        let path = [HOME[0], HOME[1], "f"];
        let write = Op::Write {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            stable: 2,
            data: b"x",
        };
        assert_eq!(b.at(&path, &[write]).await.status, Status::Locked);
        let close = Op::Close { stateid: opened };
        assert_eq!(
            b.at(&path, std::slice::from_ref(&close)).await.status,
            Status::BadStateid
        );
        assert_eq!(a.at(&path, &[close]).await.status, Status::Ok);
        assert_eq!(b.at(HOME, &[writes()]).await.status, Status::Ok);
    });
}

#[test]
fn a_refused_lock_names_the_other_one() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut a, mut b) = (fixture.client("a").await, fixture.client("b").await);
        let create = || open("f", Some(CreateHow::Unchecked(NO_ATTRS)));
        let new = |name| Locker::New(Stateid::CURRENT, owner(name));
        let mut results = a.at(HOME, &[create(), lock(2, 10, 10, new(b"x"))]).await;
        results.open();
        results.ok(operation::LOCK);
        let locked = results.stateid();
        let mut results = b
            .at(HOME, &[create(), lock(1, 0, u64::MAX, new(b"y"))])
            .await;
        let opened = results.open();
        results.has(operation::LOCK, Status::Denied);
        assert_eq!((results.u64(), results.u64(), results.u32()), (10, 10, 2));
        assert_eq!((results.u64(), results.opaque()), (a.id, b"x".to_vec()));
        let path = [HOME[0], HOME[1], "f"];
        let test = |offset| Op::LockT {
            kind: 2,
            offset,
            length: 1,
            owner: owner(b"y"),
        };
        assert_eq!(b.at(&path, &[test(10)]).await.status, Status::Denied);
        assert_eq!(b.at(&path, &[test(20)]).await.status, Status::Ok);
        let unlock = Op::LockU {
            stateid: locked,
            offset: 0,
            length: u64::MAX,
        };
        assert_eq!(
            a.at(&path, &[unlock, Op::FreeStateid(Stateid::CURRENT)])
                .await
                .status,
            Status::Ok
        );
        let again = lock(1, 0, u64::MAX, Locker::New(opened, owner(b"y")));
        assert_eq!(b.at(&path, &[again]).await.status, Status::Ok);
        let empty = lock(1, 0, 0, Locker::New(opened, owner(b"y")));
        assert_eq!(b.at(&path, &[empty]).await.status, Status::Inval);
        let mut results = b.run(&[Op::TestStateid(vec![opened, locked])]).await;
        results.ok(operation::TEST_STATEID);
        assert_eq!((results.u32(), results.u32()), (2, 0));
        assert_eq!(results.u32(), Status::BadStateid.code());
    });
}

#[test]
fn a_wish_for_a_delegation_is_refused_with_a_reason() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        for (wish, reason) in [(0x100, 2), (0x300, 2), (0x400, 0), (0x500, 7)] {
            let open = open_with(Claim::Name(b"f"), create, 1 | wish, 0);
            let mut results = client.at(HOME, &[open, Op::GetFh]).await;
            let (_, delegation) = results.open_wishing();
            assert_eq!((delegation, results.u32()), (3, reason));
            if reason == 2 {
                assert_eq!(results.u32(), 0);
            }
            results.ok(operation::GETFH);
        }
    });
}

/// SETATTR of the mode of "f", by the superuser.
async fn set_mode(client: &mut Client, mode: u32) {
    let values = mode.to_be_bytes();
    let attributes = Attrs {
        mask: Bitmap::of(&[33]),
        values: &values,
    };
    let stateid = Stateid::ANONYMOUS;
    let set = Op::SetAttr {
        stateid,
        attributes,
    };
    let path = [HOME[0], HOME[1], "f"];
    assert_eq!(client.at(&path, &[set]).await.status, Status::Ok);
}

/// The statuses of READ and WRITE with the stateid of an open.
async fn data(client: &mut Client, stateid: Stateid) -> (Status, Status) {
    let path = [HOME[0], HOME[1], "f"];
    let read = Op::Read {
        stateid,
        offset: 0,
        count: 1,
    };
    let write = Op::Write {
        stateid,
        offset: 0,
        stable: 2,
        data: b"x",
    };
    let read = client.at(&path, &[read]).await.status;
    (read, client.at(&path, &[write]).await.status)
}

#[test]
fn permissions_are_checked_with_each_read_and_write() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let (mut root, mut user) = (fixture.client("root").await, fixture.client("user").await);
        let create = Some(CreateHow::Unchecked(NO_ATTRS));
        root.at(HOME, &[open("f", create)]).await.open();
        set_mode(&mut root, 0o666).await;
        user.uid = 1000;
        let opened = user.at(HOME, &[open("f", None)]).await.open();
        assert_eq!(data(&mut user, opened).await, (Status::Ok, Status::Ok));
        set_mode(&mut root, 0o604).await;
        assert_eq!(data(&mut user, opened).await, (Status::Ok, Status::Access));
        // a program is read to be executed
        set_mode(&mut root, 0o601).await;
        assert_eq!(data(&mut user, opened).await, (Status::Ok, Status::Access));
        set_mode(&mut root, 0o600).await;
        let refused = (Status::Access, Status::Access);
        assert_eq!(data(&mut user, opened).await, refused);
        // the owner may with every mode
        set_mode(&mut root, 0o666).await;
        let owner = 1000u32.to_string();
        let mut values = nfs::xdr::Writer::new();
        values.opaque(owner.as_bytes());
        let values = values.to_vec();
        let attributes = Attrs {
            mask: Bitmap::of(&[36]),
            values: &values,
        };
        let stateid = Stateid::ANONYMOUS;
        let path = [HOME[0], HOME[1], "f"];
        let set = Op::SetAttr {
            stateid,
            attributes,
        };
        assert_eq!(root.at(&path, &[set]).await.status, Status::Ok);
        set_mode(&mut root, 0).await;
        assert_eq!(data(&mut user, opened).await, (Status::Ok, Status::Ok));
    });
}

/// Regression: a mount on the server and clients of an export did not see each other's opens: a program wrote to a file that a client
/// had open with DENY_BOTH, and a client denied writing to a file that a program had open for writing.
#[test]
fn share_reservations_hold_against_a_mount() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mount = fixture.service.guarded(fixture.files.clone());
        let root = Caller::root();
        let mut client = fixture.client("a").await;
        let opens = |deny| {
            let create = Some(CreateHow::Unchecked(NO_ATTRS));
            open_with(Claim::Name(b"f"), create, 1 | 0x400, deny)
        };
        let opened = client.at(HOME, &[opens(2)]).await.open_wishing().0;
        let name = Name::new(b"f").expect("a name");
        let file = mount.lookup(&root, mount.root(), &name).await;
        let file = file.expect("found").handle;
        let size = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let read = mount.open(&root, file, Access::READ).await;
        let refused = mount.open(&root, file, Access::WRITE).await;
        assert_eq!(refused.err(), Some(FileError::Busy));
        let refused = mount.set_attributes(&root, file, size, Stability::Cached);
        assert_eq!(refused.await.err(), Some(FileError::Busy));
        drop(read.expect("reading is not denied"));
        let close = Op::Close { stateid: opened };
        let path = [HOME[0], HOME[1], "f"];
        assert_eq!(client.at(&path, &[close]).await.status, Status::Ok);

        let write = mount.open(&root, file, Access::WRITE).await;
        let write = write.expect("nobody denies it");
        let denied = client.at(HOME, &[opens(2)]).await.status;
        assert_eq!(denied, Status::ShareDenied);
        // The mount goes on without the export, and nobody's lease ends its opens.
        let removed = fixture.service.remove_export("/tank/home");
        removed.expect("it is there");
        io::time::sleep(config().lease * 3).await;
        fixture.service.sweep().await;
        let again = ExportConfig {
            id: 1,
            path: "/tank/home".into(),
            files: fixture.files.clone(),
            rules: vec![all_rights()],
        };
        fixture.service.add_export(again).expect("it is gone");
        let mut client = fixture.client("b").await;
        let denied = client.at(HOME, &[opens(2)]).await.status;
        assert_eq!(denied, Status::ShareDenied);
        drop(write);
        assert_eq!(client.at(HOME, &[opens(2)]).await.status, Status::Ok);
    });
}
