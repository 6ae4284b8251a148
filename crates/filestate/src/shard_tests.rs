//! Shards of the table of states: they answer as one table, and do not wait for each other.

use crate::Stateid;
use crate::delegation_tests;
use crate::limits::STATE_SHARDS;
use crate::{DelegationArgs, LockFrom, OpenArgs, Range, States};
use backend::file::{Handle, Hold};
use proptest::prelude::*;
use std::collections::BTreeSet;

const KEY: [u8; 16] = [7; 16];

fn file(object: u64) -> Handle {
    Handle {
        filesystem: 1,
        object,
        generation: 1,
    }
}

fn hold() -> Hold {
    Hold::new(|| {})
}

fn open(client: u64, object: u64, access: u32, deny: u32) -> OpenArgs<'static> {
    OpenArgs {
        client,
        owner: b"owner",
        file: file(object),
        access,
        deny,
        truncates: false,
    }
}

fn delegation(client: u64, object: u64, is_write: bool) -> DelegationArgs {
    DelegationArgs {
        file: file(object),
        change: 1,
        ..delegation_tests::args(client, is_write)
    }
}

/// An operation, by numbers: its kind, a client, a file, two arguments.
type Step = (u8, u64, u64, u32, u32);
/// An open: its client, file and stateid.
type Known = (u64, u64, Stateid);

/// What a step does, as text without stateids, which differ between numbers of shards; and the stateid of an open.
fn outcome(states: &States, step: Step, known: Option<Known>) -> (String, Option<Stateid>) {
    let (kind, client, object, access, deny) = step;
    let (of, now) = (file(object), io::time::now());
    let said = match (kind, known) {
        (0..=2, _) => {
            let args = open(client, object, access, deny);
            let opened = states.of_file(of).open(&args, &mut Some(hold()));
            let said = format!("{:?}", opened.as_ref().map(|stateid| stateid.seqid));
            return (said, opened.ok());
        }
        (3, _) => {
            let args = delegation(client, object, access > 1);
            let granted = states.of_file(of).delegate(&args, hold(), now);
            format!("{:?}", granted.map(drop))
        }
        (4, Some((client, object, stateid))) => {
            let (of, from) = (file(object), LockFrom::Open(stateid, b"locker"));
            let range = Range {
                start: deny.into(),
                end: (deny + access).into(),
            };
            let locked = states.of_file(of).lock(client, from, of, range, access > 1);
            format!("{:?}", locked.map(|stateid| stateid.seqid))
        }
        (5, Some((client, object, stateid))) => {
            let of = file(object);
            let closed = states.of_file(of).close(client, &stateid, of);
            format!("{:?}", closed.map(|hold| hold.is_some()))
        }
        // Another client, or another file, than those of the stateid.
        (6, Some((_, _, stateid))) => {
            let checked = states
                .of_file(of)
                .check_io(client, &stateid, of, access > 1);
            format!("{}", checked.is_ok())
        }
        (7, Some((_, _, stateid))) => format!("{:?}", states.test(client, &stateid)),
        (8, _) => format!("{}", states.forget(client).len()),
        (9, _) => {
            let counts = (states.withdraw(1, now).len(), states.restore(1).len());
            let (holds, clients) = states.revoke_all(|_, of, _| of == client);
            format!("{counts:?} {} {clients:?}", holds.len())
        }
        _ => String::new(),
    };
    (said, None)
}

fn outcomes(states: &States, steps: &[Step]) -> Vec<String> {
    let mut known: Vec<Known> = Vec::new();
    let mut all = Vec::new();
    for step in steps {
        let (_, client, object, _, pick) = *step;
        let picked = (!known.is_empty()).then(|| known[pick as usize % known.len()]);
        let (said, opened) = outcome(states, *step, picked);
        known.extend(opened.map(|stateid| (client, object, stateid)));
        let of_clients = (1..4).map(|client| {
            let has = (states.has_state(client), states.has_revoked(client));
            (states.count_of(client), has)
        });
        let of_clients: Vec<_> = of_clients.collect();
        let totals = (states.len(), states.delegations(), states.holders(9));
        all.push(format!("{said} {of_clients:?} {totals:?}"));
    }
    all
}

proptest! {
    #[test]
    fn shards_answer_as_one_table(
        steps in prop::collection::vec((0..10u8, 1..4u64, 1..6u64, 1..4u32, 0..4u32), 1..60)
    ) {
        let one = outcomes(&States::with_shards(1, 1, KEY), &steps);
        let many = outcomes(&States::new(1, KEY), &steps);
        prop_assert_eq!(one, many);
    }
}

/// All opens of all clients were under one lock, so that clients on two cores waited for each other in each READ and WRITE.
#[test]
fn a_client_holds_up_no_other_shard() {
    let states = States::new(1, KEY);
    let mut used = BTreeSet::new();
    // Consecutive files are spread.
    for object in 0..64 {
        let held = states.of_file(file(object));
        let free = states.free();
        assert_eq!(
            free.iter().filter(|free| **free).count() as u64,
            STATE_SHARDS - 1
        );
        used.extend(free.iter().position(|free| !free));
        drop(held);
    }
    assert!(used.len() > 24, "{} shards for 64 files", used.len());
}

#[test]
fn threads_leave_nothing_behind() {
    let states = States::new(1, KEY);
    let used = |client: u64, object: u64| {
        let args = open(client, object, 1, 0);
        let of = args.file;
        let opened = states.of_file(of).open(&args, &mut Some(hold()));
        let stateid = opened.expect("there is room");
        let checked = states.of_file(of).check_io(client, &stateid, of, false);
        assert_eq!(checked, Ok(()));
        assert!(states.of_file(of).close(client, &stateid, of).is_ok());
    };
    std::thread::scope(|scope| {
        for client in 1..5 {
            let used = &used;
            scope.spawn(move || {
                for round in 0..500 {
                    // Files that all use, and its own.
                    used(client, round % 7);
                    used(client, 100 * client + round % 7);
                }
            });
        }
    });
    assert!(states.is_empty());
    assert_eq!(states.len(), 0);
    assert!((1..5).all(|client| !states.has_state(client)));
}
