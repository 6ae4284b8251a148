//! A mounted directory for a suite.
//!
//! **Owns** the process of a mount, from its start to its end. **Called by** a run. **Invariants**: suites know only the
//! directory; the process is ended here, by its id, and the mount with it, also when a suite fails.

use super::Kind;
use crate::repo;
use anyhow::{Context, Result, ensure};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// A file system that is mounted until this is dropped.
pub struct Mounted {
    child: Child,
    says: BufReader<ChildStdout>,
    at: PathBuf,
    dir: TempDir,
}

/// The reason why no suite can run on this machine, if there is one.
pub fn obstacle() -> Option<String> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(e) = device {
        return Some(format!("/dev/fuse: {e}"));
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    (!is_root).then(|| "POSIX suites change users and owners, which only root may".to_owned())
}

/// Space of the file system, MiB.
const SPACE: &str = "mib=4096";

/// Builds the program that mounts.
///
/// # Errors
/// The build failed.
pub fn build() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "wirepool-fuse",
            "--examples",
        ])
        .current_dir(repo::root())
        .status()?;
    ensure!(status.success(), "cargo build: {status}");
    Ok(())
}

impl Mounted {
    /// Mounts a new file system of a kind.
    pub(super) fn start(kind: &Kind) -> Result<Self> {
        let program = repo::target().join("debug/examples/memory_mount");
        let make = "build it with: cargo build -p wirepool-fuse --examples";
        ensure!(program.exists(), "{}: {make}", program.display());
        let dir = tempfile::Builder::new().prefix("posix-").tempdir()?;
        let at = dir.path().join("mounted");
        std::fs::create_dir(&at)?;
        let mut child = Command::new(program)
            .arg(&at)
            .args(["allow_other", "suid", "devices", SPACE])
            .args(kind.options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = BufReader::new(child.stdout.take().context("its output")?);
        let mut mounted = Self {
            child,
            says,
            at,
            dir,
        };
        let mut line = String::new();
        mounted.says.read_line(&mut line)?;
        ensure!(line == "mounted\n", "the mount failed: {line}");
        Ok(mounted)
    }

    /// The mounted directory.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// A directory of this run that is not in the mount.
    pub fn outside(&self) -> &Path {
        self.dir.path()
    }

    /// Unmounts, and waits for the end of the process.
    pub(super) fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.says.read_to_string(&mut said)?;
        let status = self.child.wait()?;
        // The program fails, too, if what the pool's filesystem stored contradicts itself.
        let is_good = status.success() && said.contains("reason: Requested, not_durable: None");
        ensure!(is_good, "the mount ended with {status}: {said}");
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // A mount whose process is dead is left by itself; its directory goes with `dir`.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
