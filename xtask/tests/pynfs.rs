//! pynfs against the NFS service in memory, with all of its waits for the end of a lease.
//!
//! Where `WIREPOOL_PYNFS` names no directory with pynfs, each test prints a line that begins with `SKIPPED`.

use xtask::pynfs::{self, SUITES};

fn passes(name: &str) {
    if !pynfs::is_available() {
        eprintln!(
            "SKIPPED: WIREPOOL_PYNFS is not set: pynfs {name} has not judged the NFS service"
        );
        return;
    }
    let suite = pynfs::suite_named(name).expect("the run exists");
    let outcome = pynfs::run(suite).expect("pynfs can be run");
    println!("{outcome}");
    assert!(outcome.passed(), "{outcome}");
}

#[test]
fn minor_version_1() {
    passes("4.1");
}

#[test]
fn minor_version_2() {
    passes("4.2");
}

#[test]
fn every_run_has_a_test() {
    let source = include_str!("pynfs.rs");
    for suite in SUITES {
        assert!(
            source.contains(&format!("passes(\"{}\")", suite.name)),
            "{} has no test here",
            suite.name
        );
    }
}
