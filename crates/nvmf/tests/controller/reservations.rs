//! Reservations between hosts, over the wire: conflicts, notices, and persistence through a restart.

use crate::events::{event, request};
use crate::fixture::{Fixture, namespace_kept, ram};
use crate::host::{BLOCK, Host, blocks, nqn, read, run, write};
use nvmf::controller::{ReservationStore, TargetConfig};
use nvmf::wire::command::{Nsid, Sqe};
use nvmf::wire::features::{self, AsyncEvent, ReservationMask, Select, fid};
use nvmf::wire::log::{GetLogPage, lid};
use nvmf::wire::opcode::io as nvm;
use nvmf::wire::reservation::{
    self, AcquireAction, PersistChange, RegisterAction, ReleaseAction, ReservationKeys,
    ReservationStatus, ReservationType,
};
use nvmf::wire::status::Status;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

fn keys(current: u64, other: u64) -> Vec<u8> {
    ReservationKeys {
        current: U64::new(current),
        other: U64::new(other),
    }
    .as_bytes()
    .to_vec()
}

async fn register(h: &mut Host, key: u64, persist: PersistChange) -> Status {
    let sqe = reservation::register(Nsid(1), RegisterAction::Register, false, persist);
    h.command(sqe, &keys(0, key)).await.status
}

async fn acquire(
    h: &mut Host,
    action: AcquireAction,
    key: u64,
    victim: u64,
    kind: ReservationType,
) -> Status {
    h.command(
        reservation::acquire(Nsid(1), action, kind),
        &keys(key, victim),
    )
    .await
    .status
}

async fn release(
    h: &mut Host,
    action: ReleaseAction,
    key: u64,
    kind: Option<ReservationType>,
) -> Status {
    h.command(
        reservation::release(Nsid(1), action, kind),
        &key.to_le_bytes(),
    )
    .await
    .status
}

async fn report(h: &mut Host) -> ReservationStatus {
    let answer = h
        .fetch(reservation::report(Nsid(1), 1024, true), 4096)
        .await;
    assert!(answer.status.is_success());
    ReservationStatus::parse(&answer.data, true).expect("a report")
}

/// A registrant is listed once, however many controllers its host has, and without the identifier of a dynamic controller.
#[test]
fn a_registrant_is_reported_once_and_without_a_controller() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut first) = fx.io(1).await;
        let (_b, _second_controller) = fx.io(1).await;
        let (_c, mut other) = fx.io(2).await;
        for (h, key) in [(&mut first, 1), (&mut other, 2)] {
            assert!(register(h, key, PersistChange::Keep).await.is_success());
        }
        let said = report(&mut other).await;
        let mut listed: Vec<(u16, u64)> =
            said.registrants.iter().map(|r| (r.cntlid, r.key)).collect();
        listed.sort_unstable();
        assert_eq!(listed, [(0xffff, 1), (0xffff, 2)]);
    });
}

/// Which commands every type lets a registrant and a stranger do (NVM figure 22).
#[test]
fn every_command_meets_every_type() {
    run(async {
        let fx = Fixture::new();
        let (_a, mut holder) = fx.io(1).await;
        let (_b, mut registrant) = fx.io(2).await;
        let (_c, mut stranger) = fx.io(3).await;
        assert!(
            register(&mut holder, 1, PersistChange::Keep)
                .await
                .is_success()
        );
        assert!(
            register(&mut registrant, 2, PersistChange::Keep)
                .await
                .is_success()
        );
        use ReservationType::*;
        // Type; may the registrant read, write; may the stranger read, write.
        for (kind, allowed) in [
            (WriteExclusive, [true, false, true, false]),
            (ExclusiveAccess, [false, false, false, false]),
            (WriteExclusiveRegistrants, [true, true, true, false]),
            (ExclusiveAccessRegistrants, [true, true, false, false]),
            (WriteExclusiveAllRegistrants, [true, true, true, false]),
            (ExclusiveAccessAllRegistrants, [true, true, false, false]),
        ] {
            let status = acquire(&mut holder, AcquireAction::Acquire, 1, 0, kind).await;
            assert!(status.is_success(), "{kind:?}: {status}");
            for (who, h) in [&mut holder, &mut registrant, &mut stranger]
                .into_iter()
                .enumerate()
            {
                let (reads, writes) = match who {
                    0 => (true, true),
                    w => (allowed[2 * w - 2], allowed[2 * w - 1]),
                };
                let trim = nvmf::wire::dsm::command(
                    Nsid(1),
                    1,
                    nvmf::wire::dsm::DsmAttributes::DEALLOCATE,
                );
                let range = nvmf::wire::dsm::DsmRange::new(9, 1);
                let copy = nvmf::wire::copy::command(Nsid(1), 20, 1);
                let source = nvmf::wire::copy::CopyRange::new(30, 1);
                let commands: [(Sqe, Vec<u8>, bool); 8] = [
                    (read(0, 1), Vec::new(), reads),
                    (blocks(nvm::COMPARE, 5, 1), vec![0; BLOCK], reads),
                    (blocks(nvm::VERIFY, 5, 1), Vec::new(), reads),
                    (write(0, 1), vec![0; BLOCK], writes),
                    (blocks(nvm::WRITE_ZEROES, 0, 1), Vec::new(), writes),
                    (Sqe::new(nvm::FLUSH, Nsid(1)), Vec::new(), writes),
                    (trim, range.as_bytes().to_vec(), writes),
                    (copy, source.as_bytes().to_vec(), reads && writes),
                ];
                for (sqe, data, fine) in commands {
                    let status = h.command(sqe, &data).await.status;
                    let as_expected = if fine {
                        status.is_success()
                    } else {
                        status.is(Status::RESERVATION_CONFLICT)
                    };
                    assert!(as_expected, "{kind:?}, host {who}, {sqe:?}: {status}");
                }
            }
            let conflict = acquire(&mut stranger, AcquireAction::Acquire, 3, 0, kind).await;
            assert!(conflict.is(Status::RESERVATION_CONFLICT));
            assert!(
                release(&mut holder, ReleaseAction::Release, 1, Some(kind))
                    .await
                    .is_success()
            );
        }
    });
}

#[test]
fn a_preempted_host_is_told_and_shut_out() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut old) = fx.io(1).await;
        let (_b, mut new) = fx.io(2).await;
        register(&mut old, 1, PersistChange::Keep).await;
        register(&mut new, 2, PersistChange::Keep).await;
        let kind = ReservationType::WriteExclusive;
        acquire(&mut old, AcquireAction::Acquire, 1, 0, kind).await;
        let cid = request(&mut a).await;
        assert!(
            acquire(&mut new, AcquireAction::Preempt, 2, 1, kind)
                .await
                .is_success()
        );
        assert_eq!(event(&mut a, cid).await, AsyncEvent::RESERVATION_NOTICE);
        let page = a
            .fetch(
                GetLogPage::new(lid::RESERVATION_NOTIFICATION, 64).to_sqe(Nsid::ALL),
                64,
            )
            .await;
        assert_eq!(
            (page.data[8], page.data[12]),
            (3, 1),
            "reservation preempted, namespace 1"
        );
        assert!(
            old.command(write(0, 1), &[0; BLOCK])
                .await
                .status
                .is(Status::RESERVATION_CONFLICT)
        );
        let status = report(&mut new).await;
        assert_eq!((status.kind, status.registrants.len()), (Some(kind), 1));
        assert!(status.registrants[0].holder && status.registrants[0].key == 2);
        let short = new
            .fetch(reservation::report(Nsid(1), 64, false), 256)
            .await;
        assert!(short.status.is(Status::HOST_ID_INCONSISTENT));
        assert!(
            release(&mut new, ReleaseAction::Clear, 2, None)
                .await
                .is_success()
        );
        assert!(report(&mut old).await.registrants.is_empty());
        assert!(
            old.command(write(0, 1), &[0; BLOCK])
                .await
                .status
                .is_success()
        );
    });
}

#[test]
fn masked_notices_are_not_sent() {
    run(async {
        let fx = Fixture::new();
        let (mut a, mut old) = fx.io(1).await;
        let (_b, mut new) = fx.io(2).await;
        let mask = ReservationMask::all().bits();
        let set = features::set(fid::RESERVATION_NOTIFICATION_MASK, mask, Nsid(1));
        assert!(a.command(set, &[]).await.status.is_success());
        let get = features::get(fid::RESERVATION_NOTIFICATION_MASK, Select::Current, Nsid(1));
        assert_eq!(a.command(get, &[]).await.result, u64::from(mask));
        register(&mut old, 1, PersistChange::Keep).await;
        register(&mut new, 2, PersistChange::Keep).await;
        release(&mut new, ReleaseAction::Clear, 2, None).await;
        let page = a
            .fetch(
                GetLogPage::new(lid::RESERVATION_NOTIFICATION, 64).to_sqe(Nsid::ALL),
                64,
            )
            .await;
        assert_eq!(page.data, vec![0; 64]);
    });
}

#[derive(Default)]
struct Kept {
    bytes: Mutex<Option<Vec<u8>>>,
    /// The next saves to fail.
    fails: AtomicUsize,
    /// A save that fails leaves its bytes on the medium all the same.
    lies: bool,
}

impl ReservationStore for Kept {
    fn load(&self) -> Option<Vec<u8>> {
        self.bytes.lock().expect("no panic").clone()
    }
    fn save(&self, bytes: &[u8]) -> std::io::Result<()> {
        let one_less = |n: usize| n.checked_sub(1);
        let order = Ordering::SeqCst;
        let failed = self.fails.fetch_update(order, order, one_less).is_ok();
        if !failed || self.lies {
            *self.bytes.lock().expect("no panic") = Some(bytes.to_vec());
        }
        match failed {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

#[test]
fn a_change_that_cannot_be_saved_has_not_happened() {
    run(async {
        let kept = Arc::new(Kept {
            lies: true,
            ..Kept::default()
        });
        let start = || {
            let fx = Fixture::with(TargetConfig::default(), None);
            fx.target
                .add_namespace(&nqn(), namespace_kept(1, ram(1 << 20), kept.clone()))
                .expect("added");
            fx
        };
        let fx = start();
        let (mut admin, mut holder) = fx.io(1).await;
        let (_b, mut other) = fx.io(2).await;
        let kind = ReservationType::WriteExclusiveRegistrants;
        assert!(
            register(&mut holder, 1, PersistChange::On)
                .await
                .is_success()
        );
        assert!(
            register(&mut other, 2, PersistChange::Keep)
                .await
                .is_success()
        );
        let acquired = acquire(&mut holder, AcquireAction::Acquire, 1, 0, kind).await;
        assert!(acquired.is_success());
        let before = report(&mut other).await;
        let pending = request(&mut admin).await;
        for _ in 0..2 {
            kept.fails.store(1, Ordering::SeqCst);
            let preempt = AcquireAction::Preempt;
            let status = acquire(&mut other, preempt, 2, 1, ReservationType::ExclusiveAccess).await;
            assert!(status.is(Status::INTERNAL_ERROR), "{status}");
            kept.fails.store(1, Ordering::SeqCst);
            let status = release(&mut holder, ReleaseAction::Clear, 1, None).await;
            assert!(status.is(Status::INTERNAL_ERROR), "{status}");
            kept.fails.store(1, Ordering::SeqCst);
            let status = register(&mut other, 2, PersistChange::Off).await;
            assert!(status.is(Status::INTERNAL_ERROR), "{status}");
        }
        assert_eq!(report(&mut other).await, before);
        assert!(holder.command(read(0, 1), &[]).await.status.is_success());
        // Nor does a restart find the refused change.
        let again = start();
        let (_c, mut third) = again.io(3).await;
        let kept_after = report(&mut third).await;
        assert_eq!((kept_after.kind, kept_after.persist), (before.kind, true));
        assert_eq!(kept_after.registrants.len(), 2);
        // No host was notified before the change.
        let preempt = AcquireAction::Preempt;
        let status = acquire(&mut other, preempt, 2, 1, ReservationType::ExclusiveAccess).await;
        assert!(status.is_success(), "{status}");
        event(&mut admin, pending).await;
        let page = admin
            .fetch(
                GetLogPage::new(lid::RESERVATION_NOTIFICATION, 64).to_sqe(Nsid::ALL),
                64,
            )
            .await;
        assert_eq!(page.data[9], 0, "one notice, and no other waits");
    });
}

#[test]
fn reservations_that_persist_survive_a_restart_and_others_do_not() {
    run(async {
        let kept = Arc::new(Kept::default());
        let kind = ReservationType::ExclusiveAccess;
        for (persist, survives) in [(PersistChange::On, true), (PersistChange::Off, false)] {
            let fx = Fixture::with(TargetConfig::default(), None);
            fx.target
                .add_namespace(&nqn(), namespace_kept(1, ram(1 << 20), kept.clone()))
                .expect("added");
            let (_a, mut h) = fx.io(1).await;
            assert!(register(&mut h, 1, persist).await.is_success());
            assert!(
                acquire(&mut h, AcquireAction::Acquire, 1, 0, kind)
                    .await
                    .is_success()
            );
            let again = Fixture::with(TargetConfig::default(), None);
            again
                .target
                .add_namespace(&nqn(), namespace_kept(1, ram(1 << 20), kept.clone()))
                .expect("added");
            let (_b, mut other) = again.io(2).await;
            let status = other.command(read(0, 1), &[]).await.status;
            assert_eq!(
                status.is(Status::RESERVATION_CONFLICT),
                survives,
                "{status}"
            );
            let seen = report(&mut other).await;
            assert_eq!((seen.kind.is_some(), seen.persist), (survives, survives));
        }
    });
}

#[test]
fn damaged_stored_reservations_hold_the_namespace_back() {
    run(async {
        let kept = Arc::new(Kept {
            bytes: Mutex::new(Some(b"WPRS\x01 not what was saved".to_vec())),
            ..Kept::default()
        });
        let fx = Fixture::with(TargetConfig::default(), None);
        assert!(
            fx.target
                .add_namespace(&nqn(), namespace_kept(1, ram(1 << 20), kept))
                .is_err()
        );
    });
}

/// A host that died held the namespace: the operator ends its reservation without the key.
#[test]
fn the_operator_clears_reservations_of_others() {
    run(async {
        let fx = Fixture::new();
        let (mut admin, mut holder) = fx.io(1).await;
        let (_b, mut other) = fx.io(2).await;
        let kind = ReservationType::ExclusiveAccess;
        register(&mut holder, 0xabc, PersistChange::Keep).await;
        acquire(&mut holder, AcquireAction::Acquire, 0xabc, 0, kind).await;
        let refused = other.command(write(0, 1), &[7; BLOCK]).await;
        assert_eq!(refused.status, Status::RESERVATION_CONFLICT.dnr());
        let reserved = fx.target.reservations(&nqn(), 1).expect("served");
        assert_eq!(reserved.kind, Some("exclusive access"));
        let of = &reserved.registrants[..];
        assert!(
            matches!(of, [one] if one.key == 0xabc && one.is_holder),
            "{of:?}"
        );

        assert!(
            fx.target.clear_reservations(&nqn(), 2).is_err(),
            "no such one"
        );
        fx.target.clear_reservations(&nqn(), 1).expect("cleared");
        let reserved = fx.target.reservations(&nqn(), 1).expect("served");
        assert_eq!((reserved.kind, reserved.registrants.len()), (None, 0));
        let written = other.command(write(0, 1), &[7; BLOCK]).await;
        assert!(written.status.is_success(), "{}", written.status);
        let notice = admin
            .fetch(
                GetLogPage::new(lid::RESERVATION_NOTIFICATION, 64).to_sqe(Nsid::ALL),
                64,
            )
            .await;
        assert_eq!(
            notice.data[8], 3,
            "the holder is told: reservation preempted"
        );
    });
}
