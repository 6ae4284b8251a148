//! Programs of suites: their build, runs with a time limit, and their output.
//!
//! **Owns** building and running a program. **Called by** the suites and the guests. **Invariants**: no program of a suite runs longer than its limit; output
//! goes to a file under `target/suites/logs`, and its end is part of the error.

use crate::repo;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// Lines of output that an error repeats.
const LINES_SHOWN: usize = 30;

/// Builds programs of the workspace, named by cargo's words such as `--bins`: with the whole workspace, as tests are, or all would be built
/// once more with other features of the crates below.
pub(crate) fn build(programs: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--workspace"])
        .args(programs)
        .current_dir(repo::root())
        .stdin(std::process::Stdio::null())
        .status()
        .context("cargo build")?;
    match status.success() {
        true => Ok(()),
        false => bail!("cargo build {}: {status}", programs.join(" ")),
    }
}

/// Fails if a server has ended by itself.
pub(crate) fn must_run(server: &mut Child) -> Result<()> {
    match server.try_wait()? {
        None => Ok(()),
        Some(status) => bail!("the server ended: {status}"),
    }
}

/// A program's end.
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    /// Standard output and errors, in their order.
    pub(crate) text: String,
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// Runs a program in a directory for at most `seconds`, then kills it; `log` names the file for its output.
pub(crate) fn run(log: &str, seconds: u32, within: &Path, words: &[&str]) -> Result<Said> {
    let logs = repo::target().join("suites/logs");
    fs::create_dir_all(&logs)?;
    let path = logs.join(format!("{}-{log}.log", std::process::id()));
    let out = File::create(&path)?;
    let status = Command::new("timeout")
        .args(["--kill-after=10", &seconds.to_string()])
        .args(words)
        .current_dir(within)
        .stdin(std::process::Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()
        .with_context(|| format!("timeout, to run {log}"))?;
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    if status.code() == Some(124) || status.code() == Some(137) {
        let end = last_lines(&text);
        bail!("{log} did not end within {seconds} s\n{end}");
    }
    if status.success() {
        fs::remove_file(&path)?;
    }
    Ok(Said { status, text })
}

/// As [`run`], for a program that must succeed.
pub(crate) fn must(log: &str, seconds: u32, within: &Path, words: &[&str]) -> Result<String> {
    let said = run(log, seconds, within, words)?;
    match said.status.success() {
        true => Ok(said.text),
        false => bail!("{log}: {}\n{}", said.status, last_lines(&said.text)),
    }
}
