//! Foreign POSIX suites through a FUSE mount: the quick ones. `cargo xtask posix` runs all of them.
//!
//! Where a machine cannot run them, each test prints a line that begins with `SKIPPED`; with `WIREPOOL_FUSE=1` in the
//! environment it fails instead.

use xtask::posix::{self, SUITES};

/// Runs a suite on each of its kinds of mounts.
fn passes(name: &str) {
    if let Some(reason) = posix::obstacle() {
        assert!(
            std::env::var_os("WIREPOOL_FUSE").is_none(),
            "WIREPOOL_FUSE is set, and {reason}"
        );
        eprintln!("SKIPPED: {reason}: {name} has not judged the FUSE mount");
        return;
    }
    let suite = posix::suite_named(name).expect("the suite exists");
    for kind in suite.kinds {
        let outcome = posix::run(suite, kind).expect("the suite can be run");
        println!("{outcome}");
        assert!(outcome.passed(), "{outcome}");
    }
}

#[test]
fn pjdfstest_port() {
    passes("pjdfstest-port");
}

#[test]
fn fsx_port() {
    passes("fsx-port");
}

#[test]
fn tar() {
    passes("tar");
}

#[test]
fn tar_acls() {
    passes("tar-acls");
}

#[test]
fn fio() {
    passes("fio");
}

#[test]
fn every_quick_suite_has_a_test() {
    let source = include_str!("posix.rs");
    for suite in SUITES.iter().filter(|s| s.is_quick) {
        assert!(
            source.contains(&format!("passes(\"{}\")", suite.name)),
            "{} has no test here",
            suite.name
        );
    }
}
