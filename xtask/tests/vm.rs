//! A stock Linux kernel as client: one test per check script of `xtask/vm`, each in a guest of its own.
//!
//! They share a test group of two threads and start after everything else (`.config/nextest.toml`).

use xtask::vm::{self, Peer};

fn passes(name: &str) {
    let check = vm::check_named(name).expect("the check exists");
    let outcome = vm::run(check, Peer::Wirepool).expect("the guest can be run");
    assert!(outcome.passed(), "{outcome}");
}

#[test]
fn connect() {
    passes("connect");
}

#[test]
fn filesystems() {
    passes("filesystems");
}

#[test]
fn live() {
    passes("live");
}

#[test]
fn pool() {
    passes("pool");
}

#[test]
fn pool_cuts() {
    passes("pool_cuts");
}

#[test]
fn raidz() {
    passes("raidz");
}

#[test]
fn raidz_cuts() {
    passes("raidz_cuts");
}

#[test]
fn classes() {
    passes("classes");
}

#[test]
fn rdma() {
    passes("rdma");
}

#[test]
fn rdma_peer() {
    passes("rdma_peer");
}

#[test]
fn rdma_link() {
    passes("rdma_link");
}

#[test]
fn iser() {
    passes("iser");
}

#[test]
fn nfs_rdma() {
    passes("nfs_rdma");
}

#[test]
fn recovery() {
    passes("recovery");
}

#[test]
fn reservations() {
    passes("reservations");
}

#[test]
fn iscsi() {
    passes("iscsi");
}

#[test]
fn iscsi_filesystems() {
    passes("iscsi_filesystems");
}

#[test]
fn iscsi_recovery() {
    passes("iscsi_recovery");
}

#[test]
fn iscsi_reservations() {
    passes("iscsi_reservations");
}

#[test]
fn nfs() {
    passes("nfs");
}

#[test]
fn nfs_pool() {
    passes("nfs_pool");
}

#[test]
fn nfs_recovery() {
    passes("nfs_recovery");
}

#[test]
fn nfs_tls() {
    passes("nfs_tls");
}

#[test]
fn iscsi_boot() {
    passes("iscsi_boot");
}

#[test]
fn package() {
    passes("package");
}

#[test]
fn wear() {
    passes("wear");
}

#[test]
fn every_check_has_a_test() {
    let source = include_str!("vm.rs");
    let in_suite = |check: &&vm::Check| !vm::SOAK_ONLY.contains(&check.name);
    for check in vm::CHECKS.iter().filter(in_suite) {
        assert!(
            source.contains(&format!("passes(\"{}\")", check.name)),
            "{} has no test here",
            check.name
        );
    }
}
