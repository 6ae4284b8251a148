//! The corpus of seeds that once failed, a fixed number of new seeds, and the promise that a seed repeats.
//!
//! `WIREPOOL_SIM_BASE` sets the first new seed (a nightly run sets it to the date), `WIREPOOL_SIM_RUNS` their number.

use sim::{Scenario, replay, run};

/// First new seed.
const BASE: u64 = 20_261_121;
/// New seeds of each scenario.
const RUNS: u64 = 60;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
        Err(_) => default,
    }
}

fn check(scenario: Scenario, seed: u64) {
    if let Err(v) = run(scenario, seed, false) {
        panic!(
            "scenario {} seed {seed}: {}\nrepeat it: {}",
            scenario.name(),
            v.0,
            replay(scenario, seed)
        );
    }
}

fn check_new(scenario: Scenario) {
    check_some(scenario, RUNS);
}

fn check_some(scenario: Scenario, runs: u64) {
    let base = number("WIREPOOL_SIM_BASE", BASE);
    for seed in base..base + number("WIREPOOL_SIM_RUNS", runs) {
        check(scenario, seed);
    }
}

#[test]
fn new_seeds_of_a_raw_disk_alone() {
    check_new(Scenario::Store);
}

#[test]
fn new_seeds_of_whole_systems() {
    check_new(Scenario::System);
}

/// Fewer than over TCP: the same target, disk and troubles.
#[test]
fn new_seeds_of_whole_systems_over_rdma() {
    check_some(Scenario::Rdma, RUNS / 5);
}

#[test]
fn new_seeds_of_whole_systems_over_iscsi() {
    check_new(Scenario::Iscsi);
}

/// Fewer than over TCP: the same target, disk and troubles.
#[test]
fn new_seeds_of_whole_systems_over_iser() {
    check_some(Scenario::Iser, RUNS / 5);
}

#[test]
fn new_seeds_of_whole_systems_over_nfs() {
    check_new(Scenario::Nfs);
}

/// Fewer than over TCP: the same service, filesystem and troubles.
#[test]
fn new_seeds_of_whole_systems_over_nfs_rdma() {
    check_some(Scenario::NfsRdma, RUNS / 5);
}

#[test]
fn new_seeds_of_servers_with_several_shards() {
    check_new(Scenario::Shards);
}

#[test]
fn new_seeds_of_hosts_that_reserve() {
    check_new(Scenario::Fence);
}

#[test]
fn new_seeds_of_small_pools_with_aimed_trouble() {
    check_new(Scenario::Aimed);
}

#[test]
fn new_seeds_of_pools_with_hot_spares() {
    check_new(Scenario::Spares);
}

#[test]
fn new_seeds_of_files() {
    check_new(Scenario::Files);
}

#[test]
fn new_seeds_of_pools() {
    check_new(Scenario::Pool);
}

/// Sequences of six operations; `tests/members.rs` runs all short ones.
#[test]
fn new_seeds_of_members_that_come_and_go() {
    let base = number("WIREPOOL_SIM_BASE", BASE);
    for seed in base..base + number("WIREPOOL_SIM_RUNS", RUNS) / 6 {
        check(Scenario::Members, seed);
    }
}

/// A run takes a second, because a pool is filled first.
#[test]
fn new_seeds_of_full_pools() {
    let base = number("WIREPOOL_SIM_BASE", BASE);
    for seed in base..base + number("WIREPOOL_SIM_RUNS", RUNS) / 10 {
        check(Scenario::Full, seed);
    }
}

/// Proves that the scenario still fragments space: a change of the allocator or of the scenario could make all records fit.
#[test]
fn full_pools_store_records_in_fragments_and_groups_in_parts() {
    let (mut split, mut in_fragments) = (0, 0);
    for seed in 0..6 {
        let done = run(Scenario::Full, seed, false);
        let placements = done.expect("nothing is wrong").placements;
        // A raidz has no free space smaller than a row.
        in_fragments += u64::from(placements.in_fragments >= 20);
        split += placements.split;
    }
    assert!(
        in_fragments >= 3,
        "{in_fragments} pools with many fragments"
    );
    assert!(split > 0, "groups in several extents");
}

#[test]
fn old_seeds() {
    for line in include_str!("corpus.txt")
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
    {
        let mut words = line.split_whitespace();
        let scenario = words.next().and_then(Scenario::of_name);
        let seed = words.next().and_then(|s| s.parse().ok());
        let (Some(scenario), Some(seed)) = (scenario, seed) else {
            panic!("what is this? {line}")
        };
        check(scenario, seed);
    }
}

#[test]
fn a_seed_repeats_to_the_last_bit() {
    for scenario in Scenario::ALL {
        let seeds = match scenario {
            Scenario::Full | Scenario::Members => 2,
            _ => 5,
        };
        for seed in 0..seeds {
            assert_eq!(
                run(scenario, seed, false),
                run(scenario, seed, false),
                "{} {seed}",
                scenario.name()
            );
        }
        assert_ne!(run(scenario, 1, false), run(scenario, 2, false));
    }
}
