//! All short sequences of operations on the members of mirrors of one to three. `make soak` runs all sequences of six
//! (`docs/simulation.md`); `WIREPOOL_SIM_MEMBERS` sets another length here.

use sim::members::{STARTS, search};

/// Operations per sequence.
const LENGTH: usize = 2;

fn length() -> usize {
    let asked = std::env::var("WIREPOOL_SIM_MEMBERS").ok();
    asked.map_or(LENGTH, |n| n.parse().expect("a number of operations"))
}

fn all_of(members: usize) {
    for start in STARTS.into_iter().filter(|s| s.members == members) {
        let searched = search(start, length(), |_| true);
        let searched = searched.unwrap_or_else(|v| panic!("{}", v.0));
        println!("{start:?}: {searched:?}");
        let (runs, states) = (searched.runs, searched.states);
        assert!(runs > 20 && states > 15, "{start:?}: {searched:?}");
        assert!(searched.closed > 0 || start.remembers, "{searched:?}");
        assert!(searched.splits > 0, "{searched:?}");
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
