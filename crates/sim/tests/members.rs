//! All short sequences of operations on the members of mirrors of one to three, and the proof that sequences which end in one
//! state behave alike. `make soak` runs all sequences of six (`docs/simulation.md`); `WIREPOOL_SIM_MEMBERS` sets another
//! length here.

use sim::members::{Plan, STARTS, Start, prove, search};

/// Operations per sequence.
const LENGTH: usize = 3;
/// Operations per sequence, where none is left out.
const PROVED: usize = 2;

fn plan(default: usize) -> Plan {
    let asked = std::env::var("WIREPOOL_SIM_MEMBERS").ok();
    let asked = asked.map(|n| n.parse().expect("a number of operations"));
    Plan {
        length: asked.unwrap_or(default),
        workers: 1,
    }
}

fn starts(members: usize) -> impl Iterator<Item = Start> {
    STARTS.into_iter().filter(move |s| s.members == members)
}

fn all_of(members: usize) {
    for start in starts(members) {
        let searched = search(start, plan(LENGTH), |_| true);
        let searched = searched.unwrap_or_else(|v| panic!("{}", v.0));
        println!("{start:?}: {searched:?}");
        let (runs, states) = (searched.runs, searched.states);
        assert!(runs > 50 && states > 15, "{start:?}: {searched:?}");
        assert!(searched.closed > 0 || start.remembers, "{searched:?}");
        assert!(searched.splits > 0, "{searched:?}");
        assert!(searched.refused > 0, "{searched:?}");
    }
}

#[test]
fn every_short_sequence_on_a_disk() {
    all_of(1);
}

#[test]
fn every_short_sequence_on_a_mirror_of_two() {
    all_of(2);
}

#[test]
fn every_short_sequence_on_a_mirror_of_three() {
    all_of(3);
}

/// A defect of the key would make the search leave sequences out.
#[test]
fn sequences_that_end_in_one_state_behave_alike() {
    for start in STARTS {
        let proved = prove(start, plan(PROVED));
        let (runs, states) = proved.unwrap_or_else(|v| panic!("{}", v.0));
        println!("{start:?}: {runs} sequences, {states} states");
        assert!(runs > states && states > 15, "{runs} {states}");
    }
}
