//! A mounted directory for a suite.
//!
//! **Owns** the process of a mount, from its start to its end. **Called by** a run. **Invariants**: suites know only the
//! directory; the process is ended here, by its id, and the mount with it, also when a suite fails.

use super::{By, Kind};
use crate::pool_server::{PoolServer, binary};
use crate::{program, repo};
use anyhow::{Context, Result, bail, ensure};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// The process that serves a mount.
enum Process {
    Example {
        child: Child,
        says: BufReader<ChildStdout>,
    },
    Server(PoolServer),
}

/// A file system that is mounted until this is dropped.
pub struct Mounted {
    /// `None` once it was ended.
    process: Option<Process>,
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

/// Space of the file system of the example, MiB.
const SPACE: &str = "mib=4096";

/// Builds the programs that mount.
///
/// # Errors
/// The build failed.
pub fn build() -> Result<()> {
    program::build(&["--bins", "--examples"])
}

impl Process {
    fn example(at: &Path, options: &[&str]) -> Result<Self> {
        let program = repo::target().join("debug/examples/memory_mount");
        let make = "build it with: cargo build --workspace --examples";
        ensure!(program.exists(), "{}: {make}", program.display());
        let mut child = Command::new(program)
            .arg(at)
            .args(["allow_other", "suid", "devices", SPACE])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut says = BufReader::new(child.stdout.take().context("its output")?);
        let mut line = String::new();
        says.read_line(&mut line)?;
        if line != "mounted\n" {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the mount failed: {line}");
        }
        Ok(Process::Example { child, says })
    }

    fn server(dir: &Path, at: &Path, options: &str) -> Result<Self> {
        let mut server = PoolServer::start(dir, "")?;
        server.mount(at, options)?;
        Ok(Process::Server(server))
    }

    /// Unmounts, and waits for the end of the process.
    fn end(self) -> Result<()> {
        let (mut child, mut says) = match self {
            Process::Server(server) => return server.end(),
            Process::Example { child, says } => (child, says),
        };
        drop(child.stdin.take());
        let mut said = String::new();
        says.read_to_string(&mut said)?;
        let status = child.wait()?;
        // The program fails, too, if what the pool's filesystem stored contradicts itself.
        let is_good = status.success() && said.contains("reason: Requested, not_durable: None");
        ensure!(is_good, "the mount ended with {status}: {said}");
        Ok(())
    }
}

impl Mounted {
    /// Mounts a new file system of a kind.
    pub(super) fn start(kind: &Kind) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("posix-").tempdir()?;
        let at = dir.path().join("mounted");
        std::fs::create_dir(&at)?;
        let mut mounted = Self {
            process: None,
            at,
            dir,
        };
        mounted.process = Some(match kind.by {
            By::Example(options) => Process::example(&mounted.at, options)?,
            By::Server(options) => {
                let dir = mounted.dir.path().join("server");
                std::fs::create_dir(&dir)?;
                Process::server(&dir, &mounted.at, options)?
            }
        });
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

    /// The server's program, and the directory of its socket and configuration.
    pub(super) fn server(&self) -> Result<(PathBuf, PathBuf)> {
        let dir = self.outside().join("server");
        ensure!(dir.exists(), "no server mounts this kind");
        Ok((binary(), dir))
    }

    /// Unmounts, and waits for the end of the process.
    pub(super) fn end(mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), Process::end)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        match self.process.take() {
            None => return,
            // A mount whose process is dead is left by itself; its directory goes with `dir`.
            Some(Process::Example { mut child, .. }) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Some(Process::Server(server)) => drop(server),
        }
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
