//! The rules of RFC 8881 about delegations.

use crate::Origin;
use crate::entry::REST;
use crate::{
    Asked, BOTH, DelegationArgs, OpenArgs, READ, Refused, ReportedTimes, Seen, Table, WRITE, Why,
};
use crate::{Revocation, StateError, Stateid};
use backend::file::{Handle, Hold, Timestamp};
use io::time::Instant;
use std::time::Duration;

const FILE: Handle = Handle {
    filesystem: 1,
    object: 20,
    generation: 1,
};

fn hold() -> Hold {
    Hold::new(|| {})
}

fn open(table: &mut Table, client: u64, access: u32, deny: u32) -> Result<Stateid, Refused> {
    let args = OpenArgs {
        client,
        owner: b"owner",
        file: FILE,
        access,
        deny,
        truncates: false,
    };
    table.open(&args, &mut Some(hold()))
}

/// A delegation of [`FILE`].
pub(crate) fn args(client: u64, is_write: bool) -> DelegationArgs {
    DelegationArgs {
        client,
        file: FILE,
        export: 1,
        is_write,
        origin: Origin {
            session: [1; 16],
            sequence: 1,
            slot: 0,
        },
        change: 5,
        is_reclaim: false,
        held: None,
    }
}

fn delegate(table: &mut Table, client: u64, is_write: bool, now: Instant) -> Result<Stateid, Why> {
    table.delegate(&args(client, is_write), hold(), now)
}

#[test]
fn delegations_are_granted_beside_opens_that_do_not_conflict() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    open(&mut table, 1, READ, 0).unwrap();
    open(&mut table, 2, READ, 0).unwrap();
    assert_eq!(delegate(&mut table, 1, true, now), Err(Why::Contention));
    delegate(&mut table, 1, false, now).unwrap();
    delegate(&mut table, 2, false, now).unwrap();
    assert_eq!(delegate(&mut table, 2, false, now), Err(Why::Upgrade));
    assert_eq!(table.delegation_clients().count(), 2);
    let mut table = Table::new(1, [7; 16]);
    let writer = open(&mut table, 1, BOTH, 0).unwrap();
    assert_eq!(delegate(&mut table, 2, false, now), Err(Why::Contention));
    delegate(&mut table, 1, true, now).unwrap();
    assert_eq!(delegate(&mut table, 1, true, now), Err(Why::Downgrade));
    assert_eq!(delegate(&mut table, 2, false, now), Err(Why::Contention));
    // The delegation lives on without opens.
    table.close(1, &writer, FILE).unwrap();
    assert_eq!(open(&mut table, 2, READ, 0), Err(Refused::Delegation));
}

#[test]
fn opens_that_conflict_wait_for_the_return() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    open(&mut table, 1, READ, 0).unwrap();
    let stateid = delegate(&mut table, 1, false, now).unwrap();
    assert!(
        open(&mut table, 1, WRITE, 0).is_ok(),
        "its own client may write"
    );
    let mut table_of_reader = Table::new(1, [7; 16]);
    delegate(&mut table_of_reader, 1, false, now).unwrap();
    let reader = open(&mut table_of_reader, 2, READ, WRITE).unwrap();
    table_of_reader.close(2, &reader, FILE).unwrap();
    for (access, deny) in [(WRITE, 0), (BOTH, 0), (READ, READ)] {
        let refused = open(&mut table_of_reader, 3, access, deny);
        assert_eq!(refused, Err(Refused::Delegation), "{access} {deny}");
    }
    let begun = table.recall(FILE, Some(2), true, now);
    assert_eq!(begun.len(), 1);
    assert_eq!((begun[0].client, begun[0].stateid), (1, stateid));
    assert!(table.recall(FILE, Some(2), true, now).is_empty(), "once");
    assert!(table.recall(FILE, Some(1), true, now).is_empty(), "its own");
    table.give_back(1, &stateid, FILE).unwrap();
    assert_eq!(table.progress(begun[0].id), None);
    let again = delegate(&mut table, 1, false, now);
    assert_eq!(again, Err(Why::Contention), "it was recalled just now");
    let later = now + REST + Duration::from_secs(1);
    assert!(delegate(&mut table, 1, false, later).is_ok());
}

#[test]
fn data_is_used_with_the_stateid_of_a_delegation() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    let read = delegate(&mut table, 1, false, now).unwrap();
    assert_eq!(table.check_io(1, &read, FILE, false), Ok(()));
    let refused = Err(Refused::State(StateError::Mode));
    assert_eq!(table.check_io(1, &read, FILE, true), refused);
    let other = Err(Refused::State(StateError::Unknown));
    assert_eq!(table.check_io(2, &read, FILE, false), other);
    for (client, is_write, result) in [
        (1, true, Ok(())),
        (2, false, Ok(())),
        (2, true, Err(Refused::Delegation)),
    ] {
        let checked = table.check_io(client, &Stateid::ANONYMOUS, FILE, is_write);
        assert_eq!(checked, result, "{client} {is_write}");
    }
    let held = Err(Refused::State(StateError::InUse));
    assert_eq!(table.free(1, &read), held);
}

#[test]
fn a_revoked_delegation_stays_until_it_is_freed() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    let stateid = delegate(&mut table, 1, true, now).unwrap();
    let recall = table.recall(FILE, None, false, now)[0];
    assert!(table.revoke(recall.id).is_some());
    assert!(table.revoke(recall.id).is_none(), "once");
    assert!(table.has_revoked(1).0 && table.delegation_clients().count() == 0);
    assert!(open(&mut table, 2, BOTH, 0).is_ok());
    assert_eq!(
        table.test(1, &stateid),
        Err(StateError::Revoked(Revocation::Recall))
    );
    let revoked = Err(Refused::State(StateError::Revoked(Revocation::Recall)));
    assert_eq!(table.check_io(1, &stateid, FILE, false), revoked);
    assert!(table.give_back(1, &stateid, FILE).is_err());
    assert_eq!(table.test(2, &stateid), Err(StateError::Unknown));
    table.free(1, &stateid).unwrap();
    assert!(!table.has_revoked(1).0);
    assert_eq!(table.test(1, &stateid), Err(StateError::Unknown));
}

#[test]
fn nothing_is_left_of_a_client_that_is_forgotten() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    delegate(&mut table, 1, true, now).unwrap();
    let id = table.recall(FILE, None, true, now)[0].id;
    table.revoke(id);
    assert_eq!(table.forget(1).len(), 0);
    assert!(table.is_empty() && table.has_revoked(1) == (false, false));
    let later = now + REST + Duration::from_secs(1);
    delegate(&mut table, 1, true, later).unwrap();
    assert_eq!(table.forget(1).len(), 1);
    assert!(table.is_empty() && table.delegation_clients().count() == 0);
}

#[test]
fn no_delegation_is_granted_while_the_file_is_changed() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    assert!(table.change_file(FILE, Some(2)) && table.change_file(FILE, Some(3)));
    assert_eq!(delegate(&mut table, 1, false, now), Err(Why::Contention));
    table.changed_file(FILE);
    assert_eq!(delegate(&mut table, 1, false, now), Err(Why::Contention));
    table.changed_file(FILE);
    delegate(&mut table, 1, false, now).unwrap();
    assert!(!table.change_file(FILE, Some(2)));
    assert!(table.change_file(FILE, Some(1)), "its own change");
}

/// §10.4.3.
#[test]
fn others_see_the_attributes_that_the_holder_tells() {
    let now = io::time::now();
    let mut table = Table::new(1, [7; 16]);
    delegate(&mut table, 1, true, now).unwrap();
    assert_eq!(table.ask(FILE, 1, false, now), None, "the holder itself");
    let Some(Asked::Ask(recall)) = table.ask(FILE, 2, false, now) else {
        panic!("it must be asked");
    };
    assert_eq!(
        table.ask(FILE, 3, false, now),
        Some(Asked::Known),
        "it is asked once"
    );
    assert_eq!(table.told_to(FILE, 2, now), Some(None));
    let answer = |own| Some((own, ReportedTimes::default()));
    table.told(recall.id, answer((5, 100)), 5, (now, Timestamp(0)));
    let seen = |seen: Option<Seen>| seen.map(|seen| (seen.change, seen.size));
    let told = table.told_to(FILE, 2, now).map(seen);
    assert_eq!(told, Some(Some((5, 100))), "unchanged");
    assert_eq!(
        table.ask(FILE, 2, false, now),
        Some(Asked::Known),
        "a moment ago"
    );
    let mut at = now;
    let mut tell = |own: Option<(u64, u64)>| {
        at = at + Duration::from_secs(2);
        assert_eq!(table.told_to(FILE, 2, at), Some(None), "too old");
        assert_eq!(table.ask(FILE, 2, false, at), Some(Asked::Ask(recall)));
        table.told(recall.id, own.and_then(answer), 5, (at, Timestamp(0)));
        seen(table.told_to(FILE, 2, at).unwrap())
    };
    assert_eq!(tell(Some((6, 200))), Some((6, 200)));
    assert_eq!(tell(Some((6, 200))), Some((6, 200)), "no further change");
    assert_eq!(tell(Some((7, 200))), Some((7, 200)), "a further one");
    assert_eq!(tell(None), None);
}

#[test]
fn an_open_is_taken_back_as_it_was() {
    let mut table = Table::new(1, [7; 16]);
    let of = |access| OpenArgs {
        client: 1,
        owner: b"owner",
        file: FILE,
        access,
        deny: 0,
        truncates: true,
    };
    let before = table.open_before(&of(WRITE));
    table.open(&of(WRITE), &mut Some(hold())).unwrap();
    assert!(table.undo_open(&of(WRITE), before).is_some());
    assert!(table.is_empty());
    let first = table.open(&of(READ), &mut Some(hold())).unwrap();
    let before = table.open_before(&of(WRITE));
    table.open(&of(WRITE), &mut Some(hold())).unwrap();
    assert!(table.undo_open(&of(WRITE), before).is_none());
    assert_eq!(table.test(1, &first), Ok(()));
    let refused = Err(Refused::State(StateError::Mode));
    assert_eq!(table.check_io(1, &first, FILE, true), refused);
}

/// Two opens of one owner ran side by side; the first one was taken back, and with it the open whose stateid the second one had.
#[test]
fn an_open_that_another_request_knows_is_not_taken_back() {
    let mut table = Table::new(1, [7; 16]);
    let of = OpenArgs {
        client: 1,
        owner: b"owner",
        file: FILE,
        access: READ,
        deny: 0,
        truncates: false,
    };
    let before = table.open_before(&of);
    table.open(&of, &mut Some(hold())).unwrap();
    let second = table.open(&of, &mut Some(hold())).unwrap();
    assert!(table.undo_open(&of, before).is_none());
    assert_eq!(table.test(1, &second), Ok(()));
}
