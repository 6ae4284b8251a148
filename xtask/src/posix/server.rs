//! A server of a suite: `wirepool serve` with a pool on an image, and the filesystem that is mounted.
//!
//! **Owns** the process and its command line. **Called by** the mount of a suite. **Invariants**: the process is ended with this
//! value, by its id; everything is in the run's directory, on a port of the kernel's choice.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The filesystem that is mounted.
const FILESYSTEM: &str = "tank/judged";
/// Bytes of the pool's image, which is sparse.
const SIZE: &str = "16G";
const IMAGE: &str = "pool.img";
const CONFIG: &str =
    "[server]\ncontrol = \"c.sock\"\nshards = 2\n[nvmf]\nlisten = [\"127.0.0.1:0\"]\n";

/// A running server.
pub(super) struct Server {
    child: Child,
    binary: PathBuf,
    dir: PathBuf,
}

impl Server {
    /// Starts a server in a directory, creates its pool, and mounts a filesystem of it at `at` with these options.
    pub(super) fn start(binary: &Path, dir: &Path, at: &Path, options: &str) -> Result<Self> {
        fs::write(dir.join("w.toml"), CONFIG)?;
        let mut child = Command::new(binary)
            .args(["serve", "--print-ready", "--config"])
            .arg(dir.join("w.toml"))
            .env_remove("WIREPOOL_CONTROL")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("server.log"))?)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let says = child.stdout.take();
        let server = Self {
            child,
            binary: binary.to_owned(),
            dir: dir.to_owned(),
        };
        let mut lines = BufReader::new(says.context("its output")?).lines();
        let is_ready = lines.any(|line| line.is_ok_and(|line| line == "ready"));
        ensure!(is_ready, "the server ended at once: {}", server.log());
        server.ask(&["pool", "create", "tank", IMAGE, "--size", SIZE])?;
        server.ask(&["fs", "create", FILESYSTEM])?;
        let at = at.to_str().context("a path in UTF-8")?;
        server.ask(&["fs", "mount", FILESYSTEM, at, "-o", options])?;
        Ok(server)
    }

    /// Unmounts, which fails if a change cannot be made durable, ends the server, and reads the pool offline.
    pub(super) fn end(mut self) -> Result<()> {
        self.ask(&["fs", "unmount", FILESYSTEM])?;
        let id = self.child.id().to_string();
        let asked = Command::new("kill").arg(id).status()?;
        ensure!(asked.success(), "kill");
        let status = self.child.wait()?;
        ensure!(
            status.success(),
            "the server ended with {status}: {}",
            self.log()
        );
        let log = self.log();
        let trouble = log
            .lines()
            .find(|l| l.contains("panicked") || l.contains(" ERROR "));
        ensure!(trouble.is_none(), "the server's log: {log}");
        self.ask(&["inspect", "verify", IMAGE])
    }

    /// Runs a command of the command line that must succeed.
    fn ask(&self, words: &[&str]) -> Result<()> {
        let output = Command::new(&self.binary)
            .args(words)
            .current_dir(&self.dir)
            .env("WIREPOOL_CONTROL", self.dir.join("c.sock"))
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        bail!(
            "wirepool {}: {}: {}\n{}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&said),
            self.log()
        );
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("server.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
