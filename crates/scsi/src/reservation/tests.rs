//! Tests of the state machine.

use super::*;
use session::reservation::Stored;

fn who(n: u8) -> Registrant {
    Registrant {
        initiator: InitiatorPort::iscsi("iqn.2026-11.org.example:h", [n; 6]),
        port: 1,
    }
}

fn registered(count: u8) -> Reservations {
    let mut r = Reservations::default();
    for n in 1..=count {
        r.register(&who(n), Some(0), u64::from(n), &[], false)
            .expect("new");
    }
    r
}

#[test]
fn registering_follows_the_keys() {
    let mut r = registered(1);
    assert_eq!(r.generation(), 1);
    assert_eq!(
        r.register(&who(1), Some(7), 2, &[], false),
        Err(ReserveError::Conflict)
    );
    assert_eq!(
        r.register(&who(2), Some(7), 2, &[], false),
        Err(ReserveError::Conflict)
    );
    r.register(&who(1), Some(1), 9, &[], false)
        .expect("own key");
    r.register(&who(1), None, 3, &[], false)
        .expect("ignored key");
    assert_eq!(r.register(&who(2), Some(0), 0, &[], false), Ok(vec![]));
    assert_eq!(r.generation(), 3);
    r.register(&who(1), Some(3), 0, &[], false)
        .expect("unregisters");
    assert!(r.is_empty());
}

#[test]
fn access_is_as_the_table_says() {
    let table = [
        (Type::WriteExclusive, (true, false), (true, false)),
        (Type::ExclusiveAccess, (false, false), (false, false)),
        (
            Type::WriteExclusiveRegistrantsOnly,
            (true, true),
            (true, false),
        ),
        (
            Type::ExclusiveAccessRegistrantsOnly,
            (true, true),
            (false, false),
        ),
        (
            Type::WriteExclusiveAllRegistrants,
            (true, true),
            (true, false),
        ),
        (
            Type::ExclusiveAccessAllRegistrants,
            (true, true),
            (false, false),
        ),
    ];
    for (kind, registrant, stranger) in table {
        let mut r = registered(2);
        r.reserve(&who(1), 1, kind).expect("free");
        let of = |n| {
            let a = r.access(&who(n));
            (a.read, a.write)
        };
        assert_eq!(
            (of(1), of(2), of(3)),
            ((true, true), registrant, stranger),
            "{kind:?}"
        );
    }
}

#[test]
fn release_is_for_the_holder_and_its_type() {
    let mut r = registered(2);
    r.reserve(&who(1), 1, Type::WriteExclusiveRegistrantsOnly)
        .expect("free");
    assert_eq!(
        r.release(&who(1), 1, Some(Type::WriteExclusive)),
        Err(ReserveError::InvalidRelease)
    );
    assert_eq!(
        r.release(&who(2), 2, Some(Type::WriteExclusive)),
        Ok(vec![])
    );
    let told = r.release(&who(1), 1, Some(Type::WriteExclusiveRegistrantsOnly));
    assert_eq!(told, Ok(vec![(who(2), Asc::RESERVATIONS_RELEASED)]));
    assert_eq!(r.kind(), None);
}

#[test]
fn preempt_takes_over_from_the_holder() {
    let mut r = registered(3);
    r.reserve(&who(1), 1, Type::WriteExclusive).expect("free");
    let (told, gone) = r
        .preempt(&who(2), 2, 1, Type::ExclusiveAccess)
        .expect("holder's key");
    assert_eq!(
        (told, gone),
        (vec![(who(1), Asc::REGISTRATIONS_PREEMPTED)], vec![who(1)])
    );
    assert_eq!((r.kind(), r.holder_key()), (Some(Type::ExclusiveAccess), 2));
    let (_, gone) = r
        .preempt(&who(2), 2, 3, Type::WriteExclusive)
        .expect("a registrant's key");
    assert_eq!(
        (gone, r.kind()),
        (vec![who(3)], Some(Type::ExclusiveAccess))
    );
    assert_eq!(
        r.preempt(&who(2), 2, 9, Type::WriteExclusive),
        Err(ReserveError::Conflict)
    );
    assert_eq!(
        r.preempt(&who(2), 2, 0, Type::WriteExclusive),
        Err(ReserveError::InvalidKey)
    );
}

#[test]
fn preempt_of_all_registrants_takes_key_zero() {
    let mut r = registered(3);
    r.reserve(&who(1), 1, Type::WriteExclusiveAllRegistrants)
        .expect("free");
    let (_, gone) = r
        .preempt(&who(2), 2, 0, Type::WriteExclusive)
        .expect("everybody");
    assert_eq!(gone, vec![who(1), who(3)]);
    assert_eq!((r.holder_key(), r.registrants().count()), (2, 1));
}

#[test]
fn the_last_of_all_registrants_releases() {
    let mut r = registered(2);
    r.reserve(&who(1), 1, Type::ExclusiveAccessAllRegistrants)
        .expect("free");
    r.register(&who(1), Some(1), 0, &[], false).expect("leaves");
    assert!(r.kind().is_some());
    r.register(&who(2), Some(2), 0, &[], false).expect("leaves");
    assert_eq!(r.kind(), None);
}

#[test]
fn move_gives_the_reservation_away() {
    let mut r = registered(1);
    assert_eq!(
        r.register_and_move(&who(1), 1, 5, &who(2), (false, false)),
        Err(ReserveError::Conflict)
    );
    r.reserve(&who(1), 1, Type::WriteExclusive).expect("free");
    r.register_and_move(&who(1), 1, 5, &who(2), (true, false))
        .expect("the holder moves it");
    assert_eq!((r.holder_key(), r.is_registered(&who(1))), (5, false));
}

#[test]
fn the_stored_form_is_whole_or_refused() {
    let mut r = registered(2);
    r.register(&who(3), Some(0), 3, &[], true).expect("new");
    r.reserve(&who(2), 2, Type::ExclusiveAccess).expect("free");
    let bytes = r.to_bytes();
    assert_eq!(Reservations::parse(&bytes), Some(r.clone()));
    for cut in 0..bytes.len() {
        assert_eq!(Reservations::parse(&bytes[..cut]), None, "cut at {cut}");
    }
    r.register(&who(3), Some(3), 3, &[], false)
        .expect("own key");
    let kept = Reservations::parse(&r.to_bytes()).expect("sound");
    assert!(kept.is_empty() && kept.kind().is_none());
}

#[test]
fn registrants_are_bounded() {
    let mut r = Reservations::default();
    let of = |n: usize| Registrant {
        port: n as u16,
        ..who(1)
    };
    for n in 0..REGISTRANTS_MAX {
        r.register(&of(n), Some(0), 1, &[], false).expect("room");
    }
    assert_eq!(
        r.register(&of(REGISTRANTS_MAX), Some(0), 1, &[], false),
        Err(ReserveError::Full)
    );
}
