//! Reservations against the table of NVM 7.2 and random sequences of commands.

use super::*;
use proptest::prelude::*;

const A: HostId = HostId([1; 16]);
const B: HostId = HostId([2; 16]);
const C: HostId = HostId([3; 16]);

fn registered(hosts: &[(HostId, u64)]) -> Reservations {
    let mut r = Reservations::default();
    for (h, k) in hosts {
        r.register(*h, *k, PersistChange::Keep).expect("new");
    }
    r
}

fn kind() -> impl Strategy<Value = ReservationType> {
    (1u8..=6).prop_map(|c| ReservationType::from_code(c).expect("a type"))
}

#[test]
fn registering_again_is_a_conflict_unless_it_is_the_same_key() {
    let mut r = registered(&[(A, 1)]);
    assert_eq!(r.register(A, 1, PersistChange::Keep), Ok(()));
    assert_eq!(
        r.register(A, 2, PersistChange::Keep),
        Err(Refusal::Conflict)
    );
    assert_eq!(
        r.replace(A, 9, 2, false, PersistChange::Keep),
        Err(Refusal::Conflict)
    );
    assert_eq!(r.replace(A, 1, 2, false, PersistChange::Keep), Ok(()));
    assert_eq!(
        r.replace(A, 9, 3, true, PersistChange::Keep),
        Ok(()),
        "IEKEY"
    );
    assert_eq!(
        r.replace(B, 0, 4, true, PersistChange::Keep),
        Ok(()),
        "IEKEY registers"
    );
    assert_eq!(
        r.unregister(C, 0, true, PersistChange::Keep),
        Err(Refusal::Conflict)
    );
    assert_eq!(r.generation(), 4);
}

#[test]
fn the_last_of_all_registrants_releases() {
    let all = ReservationType::WriteExclusiveAllRegistrants;
    let mut r = registered(&[(A, 1), (B, 2)]);
    r.acquire(A, 1, all).expect("free");
    assert_eq!(
        r.unregister(A, 1, false, PersistChange::Keep),
        Ok(Notices::new())
    );
    assert_eq!(r.kind(), Some(all));
    r.unregister(B, 2, false, PersistChange::Keep)
        .expect("registered");
    assert_eq!(r.kind(), None);
}

#[test]
fn who_leaves_with_a_registrants_only_reservation_releases_it_and_says_so() {
    let mut r = registered(&[(A, 1), (B, 2)]);
    r.acquire(A, 1, ReservationType::WriteExclusiveRegistrants)
        .expect("free");
    let told = r
        .unregister(A, 1, false, PersistChange::Keep)
        .expect("registered");
    assert_eq!(
        (told, r.kind()),
        (vec![(B, Notice::ReservationReleased)], None)
    );
}

#[test]
fn preempting_follows_the_key() {
    let we = ReservationType::WriteExclusive;
    let ea = ReservationType::ExclusiveAccess;
    // A registrant that does not hold the reservation: only its registration ends.
    let mut r = registered(&[(A, 1), (B, 2), (C, 3)]);
    r.acquire(A, 1, we).expect("free");
    assert_eq!(
        r.preempt(B, 2, 3, ea),
        Ok(vec![(C, Notice::RegistrationPreempted)])
    );
    assert_eq!((r.kind(), r.access(A).write), (Some(we), true));
    // The holder: its reservation goes over.
    assert_eq!(
        r.preempt(B, 2, 1, ea),
        Ok(vec![(A, Notice::ReservationPreempted)])
    );
    assert_eq!(
        (r.kind(), r.access(A).read, r.access(B).write),
        (Some(ea), false, true)
    );
    // No registrant, zero, a key of another host.
    assert_eq!(r.preempt(B, 2, 77, ea), Err(Refusal::Conflict));
    assert_eq!(r.preempt(B, 2, 0, ea), Err(Refusal::InvalidField));
    assert_eq!(r.preempt(B, 3, 2, ea), Err(Refusal::Conflict));
    // Zero takes over from all registrants.
    let mut r = registered(&[(A, 1), (B, 2), (C, 3)]);
    r.acquire(A, 1, ReservationType::ExclusiveAccessAllRegistrants)
        .expect("free");
    let told = r.preempt(B, 2, 0, we).expect("allowed");
    assert_eq!(
        told,
        [
            (A, Notice::ReservationPreempted),
            (C, Notice::ReservationPreempted)
        ]
    );
    assert_eq!(r.registrants().collect::<Vec<_>>(), [(B, 2, true)]);
    // The host itself: the type changes, and hosts that relied on it are told.
    let mut r = registered(&[(A, 1), (B, 2)]);
    r.acquire(A, 1, ReservationType::WriteExclusiveRegistrants)
        .expect("free");
    assert_eq!(
        r.preempt(A, 1, 1, ea),
        Ok(vec![(B, Notice::ReservationReleased)])
    );
    assert_eq!(r.kind(), Some(ea));
}

#[test]
fn only_the_holder_releases_and_only_its_type() {
    let we = ReservationType::WriteExclusive;
    let mut r = registered(&[(A, 1), (B, 2)]);
    r.acquire(A, 1, we).expect("free");
    assert_eq!(r.release(B, 2, Some(we)), Ok(Notices::new()));
    assert_eq!(r.kind(), Some(we), "not the holder: nothing happens");
    assert_eq!(
        r.release(A, 1, Some(ReservationType::ExclusiveAccess)),
        Err(Refusal::InvalidField)
    );
    assert_eq!(r.release(C, 3, Some(we)), Err(Refusal::Conflict));
    assert_eq!(r.release(A, 1, Some(we)), Ok(Notices::new()));
    assert_eq!(r.kind(), None);
}

#[test]
fn only_what_persists_is_stored() {
    let mut r = registered(&[(A, 1)]);
    r.acquire(A, 1, ReservationType::WriteExclusive)
        .expect("free");
    let back = Reservations::parse(&r.to_bytes()).expect("sound");
    assert_eq!((back.kind(), back.registrants().count()), (None, 0));
    r.set_persistence(PersistChange::On);
    assert_eq!(Reservations::parse(&r.to_bytes()), Some(r));
}

proptest! {
    /// After any sequence of changes: a holder is registered, a holder has full access, the stored form reads back.
    #[test]
    fn invariants_hold_under_any_history(
        steps in proptest::collection::vec((0u8..8, 0u8..3, 0u64..4, 0u64..4, kind(), any::<bool>()), 0..60),
    ) {
        let mut r = Reservations::default();
        r.set_persistence(PersistChange::On);
        for (what, host, key, other, kind, flag) in steps {
            let host = [A, B, C][usize::from(host)];
            let _ = match what {
                0 => r.register(host, other, PersistChange::Keep).map(|()| Notices::new()),
                1 => r.replace(host, key, other, flag, PersistChange::Keep).map(|()| Notices::new()),
                2 => r.unregister(host, key, flag, PersistChange::Keep),
                3 | 4 => r.acquire(host, key, kind).map(|()| Notices::new()),
                5 => r.preempt(host, key, other, kind),
                6 => r.release(host, key, Some(kind)),
                _ => r.clear(host, key),
            };
            if r.kind().is_some() {
                prop_assert!(r.registrants().any(|(_, _, holder)| holder), "somebody holds what is held");
            }
            for (h, _, holder) in r.registrants() {
                prop_assert!(!holder || r.access(h) == Access::FULL);
            }
            prop_assert_eq!(Reservations::parse(&r.to_bytes()), Some(r.clone()));
        }
    }

    /// Stored bytes are not trusted.
    #[test]
    fn damaged_bytes_are_refused_not_believed(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if bytes.len() > 5 {
            bytes[..5].copy_from_slice(b"WPRS\x01");
        }
        if let Some(r) = Reservations::parse(&bytes) {
            prop_assert!(r.registrants().count() <= REGISTRANTS_MAX);
        }
    }
}
