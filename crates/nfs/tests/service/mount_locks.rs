//! Byte-range locks of clients and of programs in a mount: one table.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, config, open_with, simulated};
use backend::file::{Caller, FileBackend, FileLock, Handle, LockKind, Name};
use nfs::service::ServiceConfig;
use nfs::wire::files::{Claim, CreateHow, Lock, Locker};
use nfs::wire::{Op, Owner, Stateid, Status, operation};
use std::sync::Arc;
use std::time::Duration;

const PATH: [&str; 3] = [HOME[0], HOME[1], "f"];

fn lock(owner: u64, start: u64, end: u64, kind: LockKind) -> FileLock {
    FileLock {
        owner,
        start,
        end,
        kind,
    }
}

fn wire_lock(open: Stateid, is_reclaim: bool) -> Op<'static> {
    Op::Lock(Box::new(Lock {
        kind: 2,
        is_reclaim,
        offset: 5,
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

async fn opened(client: &mut Client) -> Stateid {
    let create = Some(CreateHow::Unchecked(NO_ATTRS));
    let open = open_with(Claim::Name(b"f"), create, 3 | 0x400, 0);
    client.at(HOME, &[open]).await.open_wishing().0
}

async fn found(mount: &Arc<dyn FileBackend>) -> Handle {
    let name = Name::new(b"f").expect("a name");
    let file = mount.lookup(&Caller::root(), mount.root(), &name).await;
    file.expect("found").handle
}

/// Regression: an NFS client and a program in a mount of the same file system both had an exclusive lock of the same bytes.
#[test]
fn locks_of_clients_and_mounts_exclude_each_other() {
    simulated(|| async {
        let fixture = Fixture::new().await;
        let mut client = fixture.client("a").await;
        let open = opened(&mut client).await;
        let mount = fixture.service.guarded(fixture.files.clone());
        let file = found(&mount).await;
        let exclusive = |start, end| lock(1, start, end, LockKind::Exclusive);
        let granted = mount.lock(file, exclusive(0, 9)).await;
        assert_eq!(granted, Ok(None));
        let mut results = client.at(&PATH, &[wire_lock(open, false)]).await;
        results.has(operation::LOCK, Status::Denied);
        assert_eq!((results.u64(), results.u64()), (0, 10));
        // Another owner of this mount, and the same number in another mount.
        let other = fixture.service.guarded(fixture.files.clone());
        // An owner of the mount that asks is named.
        for (mount, owner, holder) in [(&mount, 2, 1), (&other, 1, 0)] {
            let denying = lock(holder, 0, 9, LockKind::Exclusive);
            let shared = lock(owner, 9, u64::MAX, LockKind::Shared);
            assert_eq!(mount.lock(file, shared).await, Ok(Some(denying)));
            assert_eq!(mount.test_lock(file, shared).await, Ok(Some(denying)));
        }
        // A part is unlocked.
        let unlock = lock(1, 5, u64::MAX, LockKind::Unlocked);
        assert_eq!(mount.lock(file, unlock).await, Ok(None));
        let locked = client.at(&PATH, &[wire_lock(open, false)]).await;
        assert_eq!(locked.status, Status::Ok);
        let of_client = lock(0, 5, 14, LockKind::Exclusive);
        assert_eq!(mount.lock(file, exclusive(0, 9)).await, Ok(Some(of_client)));
        assert_eq!(mount.lock(file, exclusive(0, 4)).await, Ok(None));
        // Nothing is left of a mount that unlocks everything.
        let all = lock(1, 0, u64::MAX, LockKind::Unlocked);
        assert_eq!(mount.lock(file, all).await, Ok(None));
        assert_eq!(fixture.service.state_counts().3, 2, "the client's");
        // A client without a lease is in nobody's way.
        io::time::sleep(config().lease * 2).await;
        assert_eq!(mount.lock(file, exclusive(0, 9)).await, Ok(None));
        assert_eq!(fixture.service.state_counts().3, 1);
    });
}

/// A mount does not take what a client may reclaim.
#[test]
fn locks_of_mounts_wait_for_the_end_of_the_grace_period() {
    simulated(|| async {
        let fixture = Fixture::with(ServiceConfig {
            reclaimers: vec![b"old".to_vec()],
            ..config()
        })
        .await;
        let mount = fixture.service.guarded(fixture.files.clone());
        let root = mount.root();
        let locking = io::spawn(async move {
            let exclusive = lock(1, 0, 9, LockKind::Exclusive);
            mount.lock(root, exclusive).await
        });
        io::time::sleep(Duration::from_secs(30)).await;
        assert!(!locking.is_finished());
        assert_eq!(locking.await, Some(Ok(None)));
    });
}
