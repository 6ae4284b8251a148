//! pynfs, which judges the NFS service in memory, and a server with a pool, on loopback.
//!
//! **Owns** the list of runs, and the reading of verdicts. **Called by** `cargo xtask pynfs` and `tests/pynfs.rs`.
//! **Invariants**: passed, failed and skipped tests are exactly the ones in `conformance/nfs.md`; a test has passed only if
//! pynfs prints PASS for it; pynfs is not part of this repository: a directory that `WIREPOOL_PYNFS` names has it, ready to run, at
//! one commit.

mod server;

use crate::checkout::Checkout;
use crate::pool_server::PoolServer;
use crate::program::run as run_program;
use crate::repo;
use crate::verdicts::{Findings, Outcome, expected};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::time::Instant;

pub(crate) use server::Server;
pub use server::build;

const LIST: &str = include_str!("../../../conformance/nfs.md");
/// The commit whose tests the list describes.
const CHECKOUT: Checkout = Checkout {
    name: "pynfs",
    variable: "WIREPOOL_PYNFS",
    commit: "3c14d9e3ad12272ab2f6092c85bb28ab03951484",
    made: &["nfs4.1/xdrdef/nfs4_const.py"],
};
/// Time limit of a run, seconds.
const LIMIT: u32 = 900;
/// Lease of the served clients, seconds. Tests wait for its end; with 10 s, the session of DELEG8 ends before the recall does.
const LEASE: &str = "20";
/// Path of the export that is judged.
const EXPORT: &str = "/export";

/// One run.
pub struct Suite {
    /// Its name in `conformance/nfs.md`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    minor_version: &'static str,
    /// Flags and codes of tests.
    tests: &'static [&'static str],
}

/// All runs.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "4.1",
        about: "all tests of NFS 4.1 that do not restart the server",
        minor_version: "1",
        tests: &["all"],
    },
    Suite {
        name: "4.2",
        about: "the same over NFS 4.2, with its operations, extended attributes and courteous clients",
        minor_version: "2",
        tests: &["all", "copy", "courteous"],
    },
];

/// A kind of server.
pub struct Kind {
    /// Its name in `conformance/nfs.md`.
    pub name: &'static str,
    start: fn(&Path) -> Result<Judged>,
}

/// Everything that pynfs judges.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "memory",
        start: |_| Ok(Judged::Memory(Server::start(LEASE, None)?)),
    },
    Kind {
        name: "pool",
        start: Judged::pool,
    },
];

/// A running server.
enum Judged {
    /// The service in memory: example `memory_serve`.
    Memory(Server),
    /// `wirepool serve` with a pool, and its address.
    Pool(PoolServer, String),
}

impl Judged {
    fn pool(dir: &Path) -> Result<Self> {
        let nfs =
            format!("[nfs]\nlisten = [\"127.0.0.1:0\"]\nrpcbind = false\nlease_s = {LEASE}\n");
        let server = PoolServer::start(dir, &nfs)?;
        let addr = server.export(EXPORT)?.to_owned();
        Ok(Judged::Pool(server, addr))
    }

    fn addr(&self) -> &str {
        match self {
            Judged::Memory(server) => server.addr(),
            Judged::Pool(_, addr) => addr,
        }
    }

    /// Fails if it has ended by itself; ends it, and reads a pool offline.
    fn end(self) -> Result<()> {
        match self {
            Judged::Memory(mut server) => server.must_run(),
            Judged::Pool(mut server, _) => {
                server.must_run()?;
                server.end()
            }
        }
    }
}

/// Whether this machine has pynfs: whether `WIREPOOL_PYNFS` names a directory.
pub fn is_available() -> bool {
    CHECKOUT.is_available()
}

/// The verdicts of a run: the lines after the first line of stars, which are `CODE MODULE.TEST : VERDICT` with a reason
/// below, and the sum.
fn verdicts(said: &str) -> Result<Findings> {
    let stars = "*".repeat(50);
    let mut parts = said.split(&stars);
    let (list, sum) = (parts.nth(1), parts.next());
    let (list, sum) = list.zip(sum).context("pynfs came to no end")?;
    let mut found = Findings::default();
    let mut warned = 0;
    for line in list.lines().filter(|line| !line.starts_with(' ')) {
        let Some((test, verdict)) = line.rsplit_once(" : ") else {
            continue;
        };
        let code = test.split_whitespace().next().context("a code")?.to_owned();
        match verdict.trim() {
            "PASS" => found.passed += 1,
            "FAILURE" => ensure!(found.failed.insert(code), "two verdicts: {line}"),
            "OMIT" | "WAITING TO RUN" => {
                ensure!(found.skipped.insert(code), "two verdicts: {line}");
            }
            // A warning is no pass.
            "WARNING" | "UNSUPPORTED" => {
                warned += 1;
                ensure!(found.failed.insert(code), "two verdicts: {line}");
            }
            _ => bail!("an unknown verdict: {line}"),
        }
    }
    let (skipped, failed) = (found.skipped.len(), found.failed.len() - warned);
    let counts = format!(
        "Of those: {skipped} Skipped, {failed} Failed, {warned} Warned, {} Passed",
        found.passed
    );
    ensure!(
        sum.contains(&counts),
        "the verdicts are: {counts}; pynfs says: {sum}"
    );
    Ok(found)
}

fn words_of(suite: &Suite, addr: &str) -> Vec<String> {
    let mut words: Vec<String> = [
        "env",
        "PYTHONDONTWRITEBYTECODE=1",
        "python3",
        "testserver.py",
    ]
    .map(str::to_owned)
    .into();
    words.push(format!("{addr}{EXPORT}"));
    let options = ["--maketree", "--rundeps", "--showomit", "--minorversion"];
    words.extend(options.map(str::to_owned));
    words.push(suite.minor_version.to_owned());
    words.extend(suite.tests.iter().map(|test| (*test).to_owned()));
    words
}

/// The suite of this name.
///
/// # Errors
/// There is none.
pub fn suite_named(name: &str) -> Result<&'static Suite> {
    let found = SUITES.iter().find(|s| s.name == name);
    found.with_context(|| format!("no run {name}; cargo xtask pynfs --list names them"))
}

/// The kind of server of this name.
///
/// # Errors
/// There is nothing.
pub fn kind_named(name: &str) -> Result<&'static Kind> {
    let found = KINDS.iter().find(|k| k.name == name);
    found.with_context(|| format!("no server {name}: it is memory or pool"))
}

/// Starts a server of a kind, and lets pynfs judge it.
///
/// # Errors
/// pynfs is missing, or it did not come to its end, or the server ended, or its pool is damaged.
pub fn run(suite: &Suite, kind: &Kind) -> Result<Outcome> {
    let expected = expected(LIST, suite.name, kind.name)?;
    let place = CHECKOUT.place()?;
    let started = Instant::now();
    let dir = tempfile::Builder::new().prefix("pynfs-").tempdir()?;
    let server = (kind.start)(dir.path())?;
    let words = words_of(suite, server.addr());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let log = format!("pynfs-{}-{}", suite.name, kind.name);
    let said = run_program(&log, LIMIT, &place.join("nfs4.1"), &words)?;
    // The reasons of failures are in it.
    fs::write(
        repo::target().join(format!("suites/logs/{log}.log")),
        &said.text,
    )?;
    ensure!(
        said.status.success(),
        "pynfs: {}: {}",
        said.status,
        said.text
    );
    let found = verdicts(&said.text)?;
    ensure!(
        !said.text.contains("could not clean testdir"),
        "pynfs could not remove its files: {}",
        said.text
    );
    server.end()?;
    Ok(Outcome {
        suite: suite.name,
        kind: kind.name,
        seconds: started.elapsed().as_secs(),
        found,
        expected,
        list: "conformance/nfs.md",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_listed() {
        for suite in SUITES {
            for kind in KINDS {
                expected(LIST, suite.name, kind.name).unwrap();
            }
        }
    }

    fn said(verdicts: &str, sum: &str) -> String {
        let stars = "*".repeat(50);
        format!("A1 st_a.testOne : RUNNING\n{stars}\n{verdicts}{stars}\nOf those: {sum}\n")
    }

    #[test]
    fn only_a_pass_is_a_pass() {
        let text = "A1       st_a.testOne          : PASS\nA2       st_a.testTwo          : FAILURE\n           OP should \
                    return A : PASS\nB1  st_b.testThree : OMIT\nC1 st_c.testFour : WARNING\n";
        let found = verdicts(&said(text, "1 Skipped, 1 Failed, 1 Warned, 1 Passed")).unwrap();
        assert_eq!(found.passed, 1);
        assert_eq!(found.failed, ["A2", "C1"].map(str::to_owned).into());
        assert_eq!(found.skipped, ["B1".to_owned()].into());
        let other_sum = said(text, "1 Skipped, 1 Failed, 1 Warned, 2 Passed");
        assert!(verdicts(&other_sum).is_err());
        let unknown = said("A1 st_a.testOne : RUNNING\n", "0 Skipped");
        assert!(verdicts(&unknown).is_err());
        assert!(verdicts("A1 st_a.testOne : PASS\n").is_err(), "no end");
    }
}
