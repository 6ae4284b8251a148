//! This machine as a source: programs, and the probe of durable writes.

use doctor::source::{Host, Source, Unread};
use std::fs;
use std::path::Path;

#[test]
fn a_program_that_hangs_is_ended() {
    let host = Host::this();
    assert!(matches!(
        host.run("sleep", &["600"]),
        Err(Unread::Failed(_))
    ));
    assert!(matches!(
        host.run("no-such-program", &[]),
        Err(Unread::Missing(_))
    ));
    assert_eq!(host.run("echo", &["a"]), Ok("a\n".into()));
}

#[test]
fn durable_writes_are_measured_and_leave_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let probe = doctor::capture::probe::flushes(&Host::this(), dir.path());
    assert!(probe.times.value().is_some_and(|t| t.count > 0));
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
    let none = doctor::capture::probe::flushes(&Host::this(), Path::new("/nonexistent"));
    assert!(none.times.value().is_none());
}
