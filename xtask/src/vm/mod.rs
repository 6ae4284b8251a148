//! Tests with a stock Linux kernel as client.
//!
//! **Owns** the life of one run: the guest's image, a `wirepool serve` on this host's loopback, one guest that runs
//! one check script against it, and the report. **Called by** `cargo xtask vm` and `tests/vm.rs`. **Invariants**:
//! every process started here is ended here, by its id, also when a check fails; the files of a run are in a
//! temporary directory of its own; its log stays, under `target/vmlab/logs`.
//!
//! The scripts are in `xtask/vm`, the test bed in `xtask/vmlab`; `docs/testing.md` explains how to read a failure.

mod boot;
mod checks;
mod cthon04;
mod cuts;
mod hook;
mod inside;
mod package;
mod server;

use crate::pynfs::Server as MemoryServer;
use crate::repo;
use anyhow::{Context, Result, bail};
use checks::Scene;
pub use checks::{CHECKS, Check, SOAK_ONLY, check_named};
use hook::Hook;
use server::Server;
use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The Debian release whose kernel and tools have NFS with TLS.
const TLS_SUITE: &str = "trixie";

/// A failed check's last lines of output that its outcome repeats: CI's record ends long before a guest's whole output.
const LINES_OF_FAILURE: usize = 20;

/// The server that the guest uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// Our server, on this host.
    Wirepool,
    /// The guest kernel's own target: distinguishes a wrong check from a wrong server.
    Nvmet,
}

/// What the lines of each of two guests begin with.
const GUESTS: [&str; 2] = ["a| ", "b| "];

/// Outcome of one check script.
#[derive(Debug)]
pub struct Outcome {
    name: &'static str,
    status: ExitStatus,
    passed: usize,
    failed: Vec<String>,
    took: Duration,
    log: PathBuf,
}

impl Outcome {
    /// The outcome of a check that ended with `status` and printed `said`.
    fn of(check: &Check, status: ExitStatus, said: Said, started: Instant) -> Self {
        Self {
            name: check.name,
            status,
            passed: said.passed,
            failed: said.failed,
            took: started.elapsed(),
            log: log_of(check),
        }
    }

    /// Whether the script ended well and none of its checks failed.
    pub fn passed(&self) -> bool {
        self.status.success() && self.failed.is_empty() && self.passed > 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.passed() { "PASS" } else { "FAIL" };
        write!(
            f,
            "{word} {:14} {} checks, {} failed, {:.0} s",
            self.name,
            self.passed + self.failed.len(),
            self.failed.len(),
            self.took.as_secs_f64()
        )?;
        if !self.passed() {
            write!(f, " ({}; log: {})", self.status, self.log.display())?;
            for line in self.failed.iter().flat_map(|failure| failure.lines()) {
                write!(f, "\n     {line}")?;
            }
        }
        Ok(())
    }
}

/// Make the guests' images, unless they are there and up to date.
pub fn build_images() -> Result<()> {
    build(None)?;
    build(Some(TLS_SUITE))
}

/// Make the image of one Debian release: this host's, or another one.
fn build(suite: Option<&str>) -> Result<()> {
    let mut command = lab_command("build");
    command.envs(suite.map(|suite| ("VMLAB_SUITE", suite)));
    let status = command.status().context("vmlab build")?;
    if !status.success() {
        bail!("vmlab build failed ({status})");
    }
    Ok(())
}

/// The reason why a check cannot run on this machine, if there is one.
pub fn obstacle(check: &Check) -> Option<String> {
    match check.scene {
        Scene::Cthon04 => cthon04::obstacle(),
        _ => None,
    }
}

/// Run one check script in a guest of its own. An error means that it could not be run at all.
pub fn run(check: &'static Check, peer: Peer) -> Result<Outcome> {
    match check.scene {
        Scene::NfsTls => build(Some(TLS_SUITE))?,
        _ => build(None)?,
    }
    let logs = repo::vm_cache().join("logs");
    fs::create_dir_all(&logs)?;
    let dir = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(repo::vm_cache())?;
    // A socket's path holds about a hundred bytes, which a deep checkout exceeds.
    let sockets = tempfile::Builder::new().prefix("wirepool-vm-").tempdir()?;
    let started = Instant::now();
    println!("== {}: {}", check.name, check.about);
    match check.scene {
        Scene::Boot => return boot::run(check, dir.path(), sockets.path()),
        Scene::Cuts { members } => return cuts::run(check, members, dir.path()),
        Scene::Package => return package::run(check, dir.path()),
        Scene::Inside(disks) => return inside::run(check, disks, dir.path()),
        Scene::Linked => return inside::run_linked(check, dir.path()),
        Scene::Cthon04 => return cthon04::run(check, dir.path()),
        Scene::Nfs if peer == Peer::Wirepool => return serve_memory(check, None),
        Scene::NfsTls => return serve_memory(check, Some(dir.path())),
        Scene::Client | Scene::Nfs => {}
    }
    let mut command = guest_command(check);
    let _hook = match peer {
        Peer::Nvmet => {
            command.args(["--env", "PEER=nvmet"]);
            None
        }
        Peer::Wirepool => {
            let server = Server::start(
                &server::binary()?,
                dir.path(),
                sockets.path(),
                &logs.join(format!("{}.server.log", check.name)),
            )?;
            let env = [
                "PEER=wirepool".into(),
                "ADDR=10.0.2.2".into(),
                format!("PORT={}", server.ports().nvmf),
                format!("ISCSI_PORT={}", server.ports().iscsi),
                format!("NFS_PORT={}", server.ports().nfs),
            ];
            command.args(env.iter().flat_map(|e| ["--env", e]));
            let hook = Hook::listen(
                &sockets.path().join("hook.sock"),
                Arc::new(Mutex::new(server)),
            )?;
            command.arg("--hook").arg(hook.path());
            Some(hook)
        }
    };
    command.arg(script(check));
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    Ok(Outcome::of(check, status, said, started))
}

/// Run one check script against the NFS service in memory. With a directory for certificates, the service has TLS, and the guest is one
/// of [`TLS_SUITE`] that shares the directory.
fn serve_memory(check: &'static Check, certificates: Option<&Path>) -> Result<Outcome> {
    let mut server = MemoryServer::start("30", certificates)?;
    let port = server.addr().rsplit(':').next().context("a port")?;
    let mut command = guest_command(check);
    for env in ["PEER=memory", "ADDR=10.0.2.2", &format!("NFS_PORT={port}")] {
        command.args(["--env", env]);
    }
    if let Some(directory) = certificates {
        command.env("VMLAB_CACHE", repo::vm_cache().join(TLS_SUITE));
        command.arg("--share").arg(directory);
    }
    command.arg(script(check));
    let started = Instant::now();
    let (status, said) = watch(command, File::create(log_of(check))?)?;
    server.must_run()?;
    Ok(Outcome::of(check, status, said, started))
}

/// Where a check's output goes.
fn log_of(check: &Check) -> PathBuf {
    let name = format!("{}.log", check.name);
    repo::vm_cache().join("logs").join(name)
}

/// Run a command to its end and pass its output on, to `log` too.
fn watch(mut command: Command, log: impl Write) -> Result<(ExitStatus, Said)> {
    let program = PathBuf::from(command.get_program());
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = Guest(spawned.with_context(|| program.display().to_string())?);
    let output = child.0.stdout.take().context("its output is piped")?;
    let said = follow(BufReader::new(output), log)?;
    Ok((child.0.wait()?, said))
}

/// A running `vmlab`, or another watched process; ended with its machine if it is dropped early.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            server::terminate(&self.0);
            let _ = self.0.wait();
        }
    }
}

/// Results in a machine's output.
#[derive(Default)]
struct Said {
    /// The number of checks that passed.
    passed: usize,
    /// Each failed check: its line, and below it the last lines that it printed before.
    failed: Vec<String>,
    /// The last lines since a check ended or a step began, at most [`LINES_OF_FAILURE`].
    recent: VecDeque<String>,
    /// The last line, except empty ones and the kernel's own.
    last: String,
}

impl Said {
    /// Adds the results of a later output.
    fn and(&mut self, then: Self) {
        self.passed += then.passed;
        self.failed.extend(then.failed);
        self.recent = then.recent;
        self.last = then.last;
    }

    /// Takes one line of output. Lines of two guests begin with their names.
    fn add(&mut self, line: String) {
        let line = match GUESTS.iter().find_map(|name| line.strip_prefix(name)) {
            Some(said) => said.to_owned(),
            None => line,
        };
        let passed = line.starts_with("PASS ");
        self.passed += usize::from(passed);
        if line.starts_with("FAIL ") {
            let lines = std::iter::once(&line).chain(&self.recent);
            self.failed
                .push(lines.cloned().collect::<Vec<_>>().join("\n  "));
            self.recent.clear();
        } else if passed || line.starts_with("== ") {
            self.recent.clear();
        } else {
            self.recent.push_back(line.clone());
            if self.recent.len() > LINES_OF_FAILURE {
                self.recent.pop_front();
            }
        }
        if !line.is_empty() && !line.starts_with('[') {
            self.last = line;
        }
    }
}

/// Pass a machine's output on, to `log` too.
fn follow(output: impl BufRead, mut log: impl Write) -> Result<Said> {
    let mut said = Said::default();
    for line in output.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
        println!("{line}");
        writeln!(log, "{line}")?;
        said.add(line);
    }
    Ok(said)
}

/// A guest for a check, as `vmlab run` makes it; its script comes last. With `WIREPOOL_VM_WHOLE` in the environment, checks
/// transfer more data than the sample that the suite takes.
fn guest_command(check: &Check) -> Command {
    guests_command("run", check)
}

/// One guest (`run`), or two (`pair`).
fn guests_command(verb: &str, check: &Check) -> Command {
    let mut command = lab_command(verb);
    command
        .args(["--cpus", &check.cpus.to_string()])
        .args(["--timeout", &check.timeout_s.to_string()])
        .args(["--append", check.append])
        .arg("--keep")
        .arg(repo::vm_cache().join("logs").join(check.name));
    if std::env::var_os("WIREPOOL_VM_WHOLE").is_some() {
        command.args(["--env", "WHOLE=1"]);
    }
    command
}

fn script(check: &Check) -> PathBuf {
    repo::root()
        .join("xtask/vm")
        .join(format!("{}.sh", check.name))
}

fn lab_command(verb: &str) -> Command {
    let mut command = lab_script("vmlab");
    command.arg(verb);
    command
}

/// A program of the test bed.
fn lab_script(name: &str) -> Command {
    let mut command = Command::new(repo::root().join("xtask/vmlab").join(name));
    command
        .env("VMLAB_CACHE", repo::vm_cache())
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn outcome(output: &str, code: i32) -> Outcome {
        let mut log = Vec::new();
        let said = follow(output.as_bytes(), &mut log).unwrap();
        assert!(
            String::from_utf8(log)
                .unwrap()
                .starts_with(output.trim_end())
        );
        let status = ExitStatus::from_raw(code << 8);
        Outcome::of(&CHECKS[0], status, said, Instant::now())
    }

    #[test]
    fn passes_only_if_checks_ran_and_none_failed() {
        assert!(outcome("== step\nPASS one (0.1 s)\nnoise\nPASS two (0.1 s)\n", 0).passed());
        assert!(!outcome("PASS one (0.1 s)\nFAIL two (0.1 s)\n", 0).passed());
        assert!(!outcome("PASS one (0.1 s)\n", 124).passed());
        assert!(!outcome("nothing was checked\n", 0).passed());
    }

    #[test]
    fn a_failure_names_its_checks() {
        let output = "early\nPASS one (0.1 s)\nI/O error, dev sda\nFAIL two (0.1 s)\nlate\n";
        let text = outcome(output, 1).to_string();
        assert!(text.starts_with("FAIL connect"), "{text}");
        assert!(
            text.ends_with("FAIL two (0.1 s)\n       I/O error, dev sda"),
            "{text}"
        );
    }

    #[test]
    fn the_checks_of_two_guests_count_together() {
        assert!(outcome("a| PASS one (0.1 s)\nb| PASS two (0.1 s)\n", 0).passed());
        let failed = outcome("a| PASS one (0.1 s)\nb| lost\nb| FAIL two (0.1 s)\n", 1);
        assert!(!failed.passed());
        let text = failed.to_string();
        assert!(text.ends_with("FAIL two (0.1 s)\n       lost"), "{text}");
    }

    #[test]
    fn every_check_has_its_script() {
        for check in CHECKS {
            assert!(script(check).is_file(), "{}", check.name);
            let is_linked = check.scene == Scene::Linked;
            assert!(!is_linked || inside::host_script(check).is_file());
        }
    }
}
