//! Foreign POSIX suites that judge file systems of ours through a FUSE mount.
//!
//! **Owns** the list of suites and kinds of mounts, and the runs, whose verdicts `conformance/posix.md` lists. **Called by**
//! `cargo xtask posix` and `tests/posix.rs`. **Invariants**: passed, failed and skipped tests are exactly the listed ones; a
//! run that is not possible on this machine is an error that says why; no code of a suite is in this repository: registries
//! or repositories have it, at a fixed version.

mod bench;
mod mount;
mod pjdfstest;
mod sources;
mod stress;
mod work;
mod xfstests;

use crate::verdicts::{Findings, Outcome, expected};
use anyhow::{Context, Result};
use std::time::Instant;

pub use bench::files_table;
pub use mount::{Mounted, build, obstacle};

/// The program that mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The example `memory_mount`, with these options.
    Example(&'static [&'static str]),
    /// A server with a pool, with these options of the mount.
    Server(&'static str),
}
const LIST: &str = include_str!("../../../conformance/posix.md");

/// What a suite is run on: a file system, and the options of its mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its name in `conformance/posix.md`.
    pub name: &'static str,
    by: By,
}

/// All kinds of mounts.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "memory",
        by: By::Example(&[]),
    },
    // the pool's filesystem on a store that is checked at the end
    Kind {
        name: "store",
        by: By::Example(&["pool", "shards=2"]),
    },
    Kind {
        name: "pool",
        by: By::Server("suid,dev"),
    },
    // the file system checks permissions, as for clients of a network
    Kind {
        name: "pool-checks",
        by: By::Server("suid,dev,acl"),
    },
    // the kernel neither writes back nor caches for long
    Kind {
        name: "pool-shared",
        by: By::Server("suid,dev,shared"),
    },
];

/// One suite.
pub struct Suite {
    /// Its name in `conformance/posix.md`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Names of the kinds of mounts that it judges.
    pub kinds: &'static [&'static str],
    /// Whether it takes seconds and needs only registries, so that `make test` has it.
    pub is_quick: bool,
    run: fn(&Mounted) -> Result<Findings>,
}

const ALL: &[&str] = &["memory", "pool", "pool-checks", "pool-shared"];
const ALL_AND_STORE: &[&str] = &["memory", "store", "pool", "pool-checks", "pool-shared"];

/// All suites.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "pjdfstest-port",
        about: "pjdfstest's port to Rust: error codes, permissions, times",
        kinds: ALL,
        is_quick: true,
        run: pjdfstest::port,
    },
    Suite {
        name: "fsx-port",
        about: "fsx's port to Rust: 20,000 operations on one file",
        kinds: ALL,
        is_quick: true,
        run: stress::fsx_port,
    },
    Suite {
        name: "tar",
        about: "a tree with extended attributes, links and holes, through tar in and out",
        kinds: ALL,
        is_quick: true,
        run: work::tar,
    },
    Suite {
        name: "tar-acls",
        about: "access control lists through setfacl, nfs4_getfacl, chmod, and tar in and out",
        kinds: &["pool-checks"],
        is_quick: true,
        run: work::tar_acls,
    },
    Suite {
        name: "fio",
        about: "fio with verification: 4 jobs, buffered, direct and mapped",
        kinds: &["pool", "pool-checks", "pool-shared"],
        is_quick: true,
        run: stress::fio,
    },
    Suite {
        name: "fio-long",
        about: "as fio, with 64 times as much data",
        kinds: &["pool", "pool-shared"],
        is_quick: false,
        run: stress::fio_long,
    },
    Suite {
        name: "build-git",
        about: "git's own source: clone, build, and a part of its tests in the mount",
        kinds: &["pool"],
        is_quick: false,
        run: work::build_git,
    },
    Suite {
        name: "pjdfstest",
        about: "pjdfstest itself, every file",
        kinds: ALL,
        is_quick: false,
        run: pjdfstest::original,
    },
    Suite {
        name: "fsx",
        about: "fsx of xfstests: 1,000,000 operations with holes, zeroed ranges and copies",
        kinds: ALL,
        is_quick: false,
        run: stress::fsx,
    },
    Suite {
        name: "fsx-direct",
        about: "fsx of xfstests: 200,000 operations with direct I/O",
        kinds: &["pool", "pool-shared"],
        is_quick: false,
        run: stress::fsx_direct,
    },
    Suite {
        name: "fsstress",
        about: "fsstress of xfstests: four processes, 20,000 operations each",
        kinds: ALL_AND_STORE,
        is_quick: false,
        run: stress::fsstress,
    },
    Suite {
        name: "xfstests-quick",
        about: "the group quick of xfstests, on two filesystems of the pool",
        kinds: &["pool"],
        is_quick: false,
        run: xfstests::quick,
    },
    Suite {
        name: "build",
        about: "git clone, fsck, and a build of xfstests in the mount",
        kinds: &["pool", "pool-shared"],
        is_quick: false,
        run: work::build,
    },
];

/// The suite of this name.
///
/// # Errors
/// There is none.
pub fn suite_named(name: &str) -> Result<&'static Suite> {
    let found = SUITES.iter().find(|s| s.name == name);
    found.with_context(|| format!("no suite {name}; cargo xtask posix --list names them"))
}

/// Runs a suite on a new mount of a kind.
///
/// # Errors
/// The suite cannot run here, or did not come to its end; the mount ended in another way than by request.
pub fn run(suite: &Suite, kind: &str) -> Result<Outcome> {
    let kind = KINDS.iter().find(|k| k.name == kind);
    let kind = kind.context("no such kind of mount")?;
    let expected = expected(LIST, suite.name, kind.name)?;
    let started = Instant::now();
    let mounted = Mounted::start(kind)?;
    let found = (suite.run)(&mounted);
    let found = found.with_context(|| format!("{} on {}", suite.name, kind.name))?;
    mounted.end()?;
    Ok(Outcome {
        suite: suite.name,
        kind: kind.name,
        seconds: started.elapsed().as_secs(),
        found,
        expected,
        list: "conformance/posix.md",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_listed() {
        for suite in SUITES {
            for kind in suite.kinds {
                expected(LIST, suite.name, kind).unwrap();
            }
        }
    }
}
