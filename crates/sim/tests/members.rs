//! All short sequences of operations on the members of mirrors of one to three and of raidz, and the proof that sequences which end in one
//! state behave alike. `make soak` runs all sequences of six (`docs/simulation.md`); `WIREPOOL_SIM_MEMBERS` sets another
//! length here.

use pool::format::VdevClass;
use pool::vdev::Layout;
use sim::members::{Plan, STARTS, Start, prove, search};

/// Operations per sequence.
const LENGTH: usize = 3;
/// The same where there are many operations: those of many members, and where no sequence is left out.
const SHORT: usize = 2;

fn plan(default: usize) -> Plan {
    let asked = std::env::var("WIREPOOL_SIM_MEMBERS").ok();
    let asked = asked.map(|n| n.parse().expect("a number of operations"));
    Plan {
        length: asked.unwrap_or(default),
        workers: 1,
    }
}

fn all_of(members: usize, layout: Layout, length: usize) {
    let is_plain = |s: &Start| s.class == VdevClass::Normal && !s.has_cache;
    all(length, |s| {
        is_plain(s) && (s.members, s.layout) == (members, layout)
    });
}

fn all(length: usize, is_of: impl Fn(&Start) -> bool) {
    for start in STARTS.into_iter().filter(|start| is_of(start)) {
        let (members, layout) = (start.members, start.layout);
        let searched = search(start, plan(length), |_| true);
        let searched = searched.unwrap_or_else(|v| panic!("{}", v.0));
        println!("{start:?}: {searched:?}");
        let (runs, states) = (searched.runs, searched.states);
        assert!(runs > 50 && states > 15, "{start:?}: {searched:?}");
        assert!(searched.closed > 0 || start.remembers, "{searched:?}");
        // Two sets of members, each of which can be opened without the other.
        let can_split = 2 * layout.needed(members) <= members || layout == Layout::Mirror;
        assert_eq!(searched.splits > 0, can_split, "{searched:?}");
        assert!(searched.refused > 0, "{searched:?}");
    }
}

#[test]
fn every_short_sequence_on_a_disk() {
    all_of(1, Layout::Mirror, LENGTH);
}

#[test]
fn every_short_sequence_on_a_mirror_of_two() {
    all_of(2, Layout::Mirror, LENGTH);
}

#[test]
fn every_short_sequence_on_a_mirror_of_three() {
    all_of(3, Layout::Mirror, SHORT);
}

#[test]
fn every_short_sequence_on_a_raidz1_of_three() {
    all_of(3, Layout::Raidz { parity: 1 }, LENGTH);
}

/// Two of its members can be opened without the other two.
#[test]
fn every_short_sequence_on_a_raidz2_of_four() {
    all_of(4, Layout::Raidz { parity: 2 }, SHORT);
}

#[test]
fn every_short_sequence_on_a_mirrored_log() {
    all(SHORT, |s| s.class == VdevClass::Log);
}

#[test]
fn every_short_sequence_on_a_special_mirror() {
    all(SHORT, |s| s.class == VdevClass::Special);
}

#[test]
fn every_short_sequence_with_a_cache_device() {
    all(SHORT, |s| s.has_cache);
}

/// A defect of the key would make the search leave sequences out. Vdevs of up to three members: the key is the same for larger ones, whose
/// proof takes minutes.
#[test]
fn sequences_that_end_in_one_state_behave_alike() {
    for start in STARTS.into_iter().filter(|s| s.members <= 3) {
        let proved = prove(start, plan(SHORT));
        let (runs, states) = proved.unwrap_or_else(|v| panic!("{}", v.0));
        println!("{start:?}: {runs} sequences, {states} states");
        assert!(runs > states && states > 15, "{runs} {states}");
    }
}
