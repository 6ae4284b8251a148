//! pynfs against the NFS service in memory, and a server with a pool, with all of its waits for the end of a lease.
//!
//! Where `WIREPOOL_PYNFS` names no directory with pynfs, each test prints a line that begins with `SKIPPED`.

use xtask::pynfs::{self, KINDS, SUITES};

fn passes(name: &str, kind: &str) {
    if !pynfs::is_available() {
        eprintln!("SKIPPED: WIREPOOL_PYNFS is not set: pynfs {name} has not judged {kind}");
        return;
    }
    let suite = pynfs::suite_named(name).expect("the run exists");
    let kind = pynfs::kind_named(kind).expect("the server exists");
    let outcome = pynfs::run(suite, kind).expect("pynfs can be run");
    println!("{outcome}");
    assert!(outcome.passed(), "{outcome}");
}

#[test]
fn minor_version_1() {
    passes("4.1", "memory");
}

#[test]
fn minor_version_2() {
    passes("4.2", "memory");
}

#[test]
fn minor_version_1_on_a_pool() {
    passes("4.1", "pool");
}

#[test]
fn minor_version_2_on_a_pool() {
    passes("4.2", "pool");
}

#[test]
fn every_run_has_a_test() {
    let source = include_str!("pynfs.rs");
    let runs = SUITES
        .iter()
        .flat_map(|s| KINDS.iter().map(|k| (s.name, k.name)));
    for (suite, kind) in runs {
        assert!(
            source.contains(&format!("passes(\"{suite}\", \"{kind}\")")),
            "{suite} on {kind} has no test here"
        );
    }
}
