//! The rules of RFC 8881 about opens, share reservations, locks and stateids.

use crate::limits::{FILE_LOCKS_MAX, STATES_OF_CLIENT_MIN};
use crate::{BOTH, Denied, LockFrom, OpenArgs, READ, Range, Refused, Table, WRITE};
use crate::{StateError, Stateid};
use backend::file::{Handle, Hold};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: Handle = Handle {
    filesystem: 1,
    object: 20,
    generation: 1,
};
const OTHER: Handle = Handle { object: 21, ..FILE };

fn hold() -> Hold {
    Hold::new(|| {})
}

fn args(client: u64, owner: &[u8], access: u32, deny: u32) -> OpenArgs<'_> {
    OpenArgs {
        client,
        owner,
        file: FILE,
        access,
        deny,
        truncates: false,
    }
}

fn open(table: &mut Table, client: u64, access: u32, deny: u32) -> Result<Stateid, Refused> {
    table.open(&args(client, b"owner", access, deny), &mut Some(hold()))
}

fn unusable<T>(error: StateError) -> Result<T, Refused> {
    Err(Refused::State(error))
}

fn bytes(start: u64, end: u64) -> Range {
    Range { start, end }
}

fn lock(
    table: &mut Table,
    client: u64,
    open: Stateid,
    owner: &[u8],
    range: Range,
    is_exclusive: bool,
) -> Result<Stateid, Refused> {
    table.lock(
        client,
        LockFrom::Open(open, owner),
        FILE,
        range,
        is_exclusive,
    )
}

/// §9.7.
#[test]
fn share_reservations_exclude_each_other() {
    let mut table = Table::new(1, [7; 16]);
    open(&mut table, 1, READ, WRITE).unwrap();
    assert_eq!(open(&mut table, 2, WRITE, 0), Err(Refused::Share(1)));
    assert_eq!(open(&mut table, 2, READ, READ), Err(Refused::Share(1)));
    let second = open(&mut table, 2, READ, 0).unwrap();
    assert_eq!(open(&mut table, 1, READ, READ), Err(Refused::Share(2)));
    table.close(2, &second, FILE).unwrap();
    assert!(
        open(&mut table, 1, READ, READ).is_ok(),
        "its own open does not count"
    );
}

/// §8.2.2.
#[test]
fn a_second_open_of_an_owner_changes_the_first() {
    let mut table = Table::new(1, [7; 16]);
    let first = open(&mut table, 1, READ, 0).unwrap();
    let second = open(&mut table, 1, WRITE, 0).unwrap();
    assert_eq!(
        (first.other, first.seqid, second.seqid),
        (second.other, 1, 2)
    );
    assert_eq!(table.test(1, &first), Err(StateError::Old));
    let newest = Stateid { seqid: 0, ..first };
    assert_eq!(table.test(1, &newest), Ok(()));
    let future = Stateid { seqid: 3, ..first };
    assert_eq!(table.test(1, &future), Err(StateError::Unknown));
    assert_eq!(
        table.test(2, &second),
        Err(StateError::Unknown),
        "of another client"
    );
    assert_eq!(
        Table::new(2, [7; 16]).test(1, &second),
        Err(StateError::Stale)
    );
    assert_eq!(table.test(1, &Stateid::INVALID), Err(StateError::Unknown));
    assert_eq!(table.check_io(1, &second, FILE, true), Ok(()));
    assert_eq!(
        table.check_io(1, &second, OTHER, true),
        unusable(StateError::Unknown)
    );
}

/// §18.18.
#[test]
fn a_downgrade_is_a_union_of_opens() {
    let mut table = Table::new(1, [7; 16]);
    let both = open(&mut table, 1, BOTH, 0).unwrap();
    let refused = table.downgrade(1, &both, FILE, (READ, 0));
    assert_eq!(
        refused,
        unusable(StateError::NoUnion),
        "never opened for reading only"
    );
    let both = open(&mut table, 1, READ, WRITE).unwrap();
    let reading = table.downgrade(1, &both, FILE, (READ, WRITE)).unwrap();
    assert_eq!(reading.seqid, 3);
    assert_eq!(
        table.check_io(1, &reading, FILE, true),
        unusable(StateError::Mode)
    );
    assert_eq!(table.check_io(1, &reading, FILE, false), Ok(()));
    let refused = table.downgrade(1, &reading, FILE, (BOTH, WRITE));
    assert_eq!(
        refused,
        unusable(StateError::NoUnion),
        "the larger open is gone"
    );
}

/// §8.2.3.
#[test]
fn special_stateids_obey_share_reservations() {
    let mut table = Table::new(1, [7; 16]);
    open(&mut table, 1, READ, BOTH).unwrap();
    for (stateid, is_write, is_allowed) in [
        (Stateid::ANONYMOUS, false, false),
        (Stateid::ANONYMOUS, true, false),
        (Stateid::BYPASS, false, true),
        (Stateid::BYPASS, true, false),
    ] {
        let allowed = table.check_io(2, &stateid, FILE, is_write).is_ok();
        assert_eq!(allowed, is_allowed, "{stateid:?} {is_write}");
    }
    assert_eq!(table.check_io(2, &Stateid::ANONYMOUS, OTHER, true), Ok(()));
    let current = table.check_io(2, &Stateid::CURRENT, OTHER, true);
    assert_eq!(current, unusable(StateError::Unknown));
}

/// §18.2.
#[test]
fn a_closed_open_takes_its_locks_and_its_hold_with_it() {
    let mut table = Table::new(1, [7; 16]);
    let released = Arc::new(AtomicUsize::new(0));
    let count = released.clone();
    let hold = Hold::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let opened = table
        .open(&args(1, b"o", BOTH, 0), &mut Some(hold))
        .unwrap();
    let locked = lock(&mut table, 1, opened, b"l", bytes(0, 9), true).unwrap();
    assert_eq!(table.len(), 2);
    drop(table.close(1, &opened, FILE).unwrap());
    assert_eq!(released.load(Ordering::SeqCst), 1);
    assert_eq!(table.test(1, &locked), Err(StateError::Unknown));
    assert!(table.is_empty() && !table.has_state(1));
    let again = table.close(1, &opened, FILE).map(drop);
    assert_eq!(again, unusable(StateError::Unknown));
}

/// §18.10.
#[test]
fn locks_of_other_owners_conflict() {
    let mut table = Table::new(1, [7; 16]);
    let (a, b) = (
        open(&mut table, 1, BOTH, 0).unwrap(),
        open(&mut table, 2, BOTH, 0).unwrap(),
    );
    let first = lock(&mut table, 1, a, b"l", bytes(0, 9), true).unwrap();
    assert_eq!(first.seqid, 1);
    let denied = Denied {
        range: bytes(0, 9),
        is_exclusive: true,
        client: 1,
        owner: b"l".to_vec(),
    };
    let refused = lock(&mut table, 2, b, b"l", bytes(9, 9), false);
    assert_eq!(refused, Err(Refused::Lock(denied.clone())));
    assert_eq!(table.len(), 3, "a refused lock leaves no state");
    let tested = table.test_lock((2, b"l"), FILE, bytes(5, 5), false);
    assert_eq!(tested, Some(denied));
    assert_eq!(table.test_lock((1, b"l"), FILE, bytes(5, 5), true), None);
    assert!(
        table
            .test_lock((1, b"m"), FILE, bytes(5, 5), true)
            .is_some()
    );
    let freed = table.unlock(1, &first, FILE, bytes(5, 9)).unwrap();
    assert_eq!(freed.seqid, 2);
    assert!(lock(&mut table, 2, b, b"l", bytes(9, 9), false).is_ok());
    let more = table.lock(1, LockFrom::Lock(freed), FILE, bytes(20, 29), false);
    assert_eq!(more.unwrap().seqid, 3);
    // A lock owner keeps one state for a file.
    let again = lock(&mut table, 1, a, b"l", bytes(30, 39), false).unwrap();
    assert_eq!((again.other, again.seqid), (first.other, 4));
}

#[test]
fn a_lock_needs_an_open_of_its_kind() {
    let mut table = Table::new(1, [7; 16]);
    let reading = open(&mut table, 1, READ, 0).unwrap();
    let refused = lock(&mut table, 1, reading, b"l", bytes(0, 9), true);
    assert_eq!(refused, unusable(StateError::Mode));
    let shared = lock(&mut table, 1, reading, b"l", bytes(0, 9), false).unwrap();
    let refused = table.lock(1, LockFrom::Lock(shared), FILE, bytes(0, 9), true);
    assert_eq!(refused, unusable(StateError::Mode));
    let wrong = table.lock(1, LockFrom::Lock(reading), FILE, bytes(0, 9), false);
    assert_eq!(
        wrong,
        unusable(StateError::Unknown),
        "an open is no lock state"
    );
    let wrong = lock(&mut table, 1, shared, b"l", bytes(0, 9), false);
    assert_eq!(
        wrong,
        unusable(StateError::Unknown),
        "a lock state is no open"
    );
    assert_eq!(table.check_io(1, &shared, FILE, false), Ok(()));
    assert_eq!(
        table.check_io(1, &shared, FILE, true),
        unusable(StateError::Mode)
    );
}

/// §18.38.
#[test]
fn only_a_lock_owner_without_locks_is_freed() {
    let mut table = Table::new(1, [7; 16]);
    let opened = open(&mut table, 1, READ, 0).unwrap();
    let locked = lock(&mut table, 1, opened, b"l", bytes(0, 9), false).unwrap();
    assert_eq!(table.free(1, &opened), unusable(StateError::InUse));
    assert_eq!(table.free(1, &locked), unusable(StateError::InUse));
    let unlocked = table.unlock(1, &locked, FILE, bytes(0, u64::MAX)).unwrap();
    assert_eq!(table.free(1, &unlocked), Ok(()));
    assert_eq!(table.free(1, &unlocked), unusable(StateError::Unknown));
    drop(table.close(1, &opened, FILE).unwrap());
    assert!(table.is_empty());
}

#[test]
fn a_removed_client_leaves_nothing() {
    let mut table = Table::new(1, [7; 16]);
    for client in [1, 2] {
        let opened = open(&mut table, client, BOTH, 0).unwrap();
        let range = bytes(client * 10, client * 10);
        lock(&mut table, client, opened, b"l", range, true).unwrap();
    }
    assert_eq!(table.forget(1).len(), 1);
    assert!(!table.has_state(1) && table.has_state(2));
    assert_eq!(table.test_lock((2, b"m"), FILE, bytes(10, 10), true), None);
    assert_eq!(table.forget(2).len(), 1);
    assert!(table.is_empty());
}

#[test]
fn states_of_a_client_and_locks_of_a_file_are_bounded() {
    let mut table = Table::new(1, [7; 16]);
    let opened = open(&mut table, 1, BOTH, 0).unwrap();
    let locked = lock(&mut table, 1, opened, b"l", bytes(0, 0), true).unwrap();
    for n in 1..FILE_LOCKS_MAX as u64 {
        lock(&mut table, 1, opened, b"l", bytes(3 * n, 3 * n + 1), true).unwrap();
    }
    let refused = lock(&mut table, 1, opened, b"l", bytes(1 << 40, 1 << 40), true);
    assert_eq!(refused, Err(Refused::Full(Some(FILE))));
    assert_eq!(table.lockers_of(FILE), [1].into());
    let newest = Stateid { seqid: 0, ..locked };
    assert!(table.unlock(1, &newest, FILE, bytes(3, 3)).is_ok());
    // A client may have as many states as are left, so a second one has room, too.
    table.limit_states(1000);
    let mut fill = |client: u64, name: &[u8]| {
        let mut opened = 0;
        loop {
            let file = Handle {
                object: client * 10_000 + opened,
                ..FILE
            };
            let args = OpenArgs {
                file,
                ..args(client, name, READ, 0)
            };
            match table.open(&args, &mut Some(hold())) {
                Ok(_) => opened += 1,
                refused => {
                    assert_eq!(refused, Err(Refused::Full(None)));
                    return opened;
                }
            }
        }
    };
    assert_eq!(fill(1, b"o"), 498, "with an open and a lock");
    assert_eq!(fill(2, b"o"), 250);
    assert_eq!(fill(3, b"o"), 125);
    let rest: Vec<u64> = (4..9).map(|client| fill(client, b"o")).collect();
    let most = STATES_OF_CLIENT_MIN as u64;
    assert_eq!(rest, [most, 61, 0, 0, 0]);
}
