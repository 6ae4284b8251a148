//! New seeds for each commit, within a time budget.
//!
//! The first seed is computed from the commit's hash, so that a failure repeats on the same commit and another commit runs
//! other seeds; without a repository, from the clock. `WIREPOOL_SIM_BASE` sets it. Each test prints the first seed when it
//! begins and the number of seeds when it ends. A failure prints the command that repeats it. A run that was begun is
//! completed, however long it takes.

use sim::{Scenario, replay, run};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// Time budget of each scenario.
const BUDGET: Duration = Duration::from_secs(15);
/// Most seeds of each scenario, on a fast machine.
const SEEDS_MAX: u64 = 2000;
/// Hexadecimal digits of a commit's hash that make a seed.
const DIGITS: usize = 12;

/// Returns the first seed of a commit.
fn of_commit(hash: &str) -> Option<u64> {
    let digits = hash.trim().get(..DIGITS)?;
    u64::from_str_radix(digits, 16).ok()
}

fn commit() -> Option<u64> {
    let output = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    of_commit(&String::from_utf8(output.stdout).ok()?)
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

fn base() -> u64 {
    match std::env::var("WIREPOOL_SIM_BASE") {
        Ok(text) => text.parse().expect("WIREPOOL_SIM_BASE is a number"),
        Err(_) => commit().unwrap_or_else(clock),
    }
}

fn check(scenario: Scenario) {
    let (base, name) = (base(), scenario.name());
    println!("scenario {name}: new seeds from {base} on (WIREPOOL_SIM_BASE={base})");
    let start = Instant::now();
    let mut runs = 0;
    while runs == 0 || runs < SEEDS_MAX && start.elapsed() < BUDGET {
        let seed = base + runs;
        if let Err(v) = run(scenario, seed, false) {
            let again = replay(scenario, seed);
            panic!("scenario {name} seed {seed}: {}\nrepeat it: {again}", v.0);
        }
        runs += 1;
    }
    println!(
        "scenario {name}: nothing wrong with {runs} seeds, {base}..{}",
        base + runs
    );
}

#[test]
fn new_seeds_of_a_raw_disk_alone() {
    check(Scenario::Store);
}

#[test]
fn new_seeds_of_whole_systems() {
    check(Scenario::System);
}

#[test]
fn new_seeds_of_whole_systems_over_iscsi() {
    check(Scenario::Iscsi);
}

#[test]
fn new_seeds_of_whole_systems_over_nfs() {
    check(Scenario::Nfs);
}

#[test]
fn new_seeds_of_whole_systems_over_nfs_rdma() {
    check(Scenario::NfsRdma);
}

#[test]
fn new_seeds_of_servers_with_several_shards() {
    check(Scenario::Shards);
}

#[test]
fn new_seeds_of_hosts_that_reserve() {
    check(Scenario::Fence);
}

#[test]
fn new_seeds_of_files() {
    check(Scenario::Files);
}

#[test]
fn new_seeds_of_small_pools_with_aimed_trouble() {
    check(Scenario::Aimed);
}

#[test]
fn new_seeds_of_pools_with_hot_spares() {
    check(Scenario::Spares);
}

#[test]
fn new_seeds_of_pools() {
    check(Scenario::Pool);
}

#[test]
fn new_seeds_of_full_pools() {
    check(Scenario::Full);
}

#[test]
fn new_seeds_of_members_that_come_and_go() {
    check(Scenario::Members);
}

#[test]
fn commits_have_different_seeds_and_one_commit_the_same() {
    let of = |hash: &str| of_commit(hash).expect("a hash");
    let (a, b) = ("b7508002aa11bb22cc33", "a6ed48e2aa11bb22cc33");
    assert_eq!(of(a), of(&format!("{a}\n")));
    assert_ne!(of(a), of(b));
    assert_eq!(of_commit("not a hash at all"), None);
    assert_eq!(of_commit("b75"), None);
}
