//! A server of a suite: `wirepool serve` with a pool on an image, and one filesystem, which is mounted or exported over NFS.
//!
//! **Owns** the process and its command line. **Called by** the mounts of POSIX suites, and by pynfs. **Invariants**: the process is ended
//! with this value, by its id; everything is in the run's directory, on loopback, on ports of the kernel's choice.

use crate::{program, repo};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The filesystem to judge.
const FILESYSTEM: &str = "tank/judged";
/// Bytes of the pool's image, which is sparse.
const SIZE: &str = "16G";
const IMAGE: &str = "pool.img";
const CONFIG: &str =
    "[server]\ncontrol = \"c.sock\"\nshards = 2\n[nvmf]\nlisten = [\"127.0.0.1:0\"]\n";

/// The server to judge: `WIREPOOL_BIN`, or the workspace's debug build.
pub(crate) fn binary() -> PathBuf {
    match std::env::var_os("WIREPOOL_BIN").filter(|p| !p.is_empty()) {
        Some(path) => repo::root().join(path),
        None => repo::target().join("debug/wirepool"),
    }
}

/// End of the line that fuser logs when the kernel no longer knows the request that is answered. That is no error: fuser
/// answers FUSE_INTERRUPT, too, and the interrupted request may have ended before.
const INTERRUPT_WAS_LATE: &str =
    "fuser::reply: Failed to send FUSE reply: No such file or directory (os error 2)";

/// Whether a line of the server's log reports a failure.
fn is_trouble(line: &str) -> bool {
    let is_failure = line.contains("panicked") || line.contains(" ERROR ");
    is_failure && !line.ends_with(INTERRUPT_WAS_LATE)
}

/// A running server.
pub(crate) struct PoolServer {
    child: Child,
    binary: PathBuf,
    dir: PathBuf,
    /// Where it listens, by protocol.
    listening: BTreeMap<String, String>,
    is_mounted: bool,
}

impl PoolServer {
    /// Starts a server in a directory, with these sections of its configuration, and creates its pool and filesystem.
    pub(crate) fn start(dir: &Path, sections: &str) -> Result<Self> {
        let binary = binary();
        let make = "build it with: cargo build --workspace --bins";
        ensure!(binary.exists(), "{}: {make}", binary.display());
        fs::write(dir.join("w.toml"), [CONFIG, sections].concat())?;
        let mut child = Command::new(&binary)
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
        let mut server = Self {
            child,
            binary,
            dir: dir.to_owned(),
            listening: BTreeMap::new(),
            is_mounted: false,
        };
        for line in BufReader::new(says.context("its output")?).lines() {
            let line = line?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["ready"] => {
                    server.ask(&["pool", "create", "tank", IMAGE, "--size", SIZE])?;
                    server.ask(&["fs", "create", FILESYSTEM])?;
                    return Ok(server);
                }
                ["ready", protocol, address] => {
                    server
                        .listening
                        .insert(protocol.to_owned(), address.to_owned());
                }
                _ => bail!("the server said: {line}"),
            }
        }
        bail!("the server ended at once: {}", server.log());
    }

    /// Mounts the filesystem with these options.
    pub(crate) fn mount(&mut self, at: &Path, options: &str) -> Result<()> {
        let at = at.to_str().context("a path in UTF-8")?;
        self.ask(&["fs", "mount", FILESYSTEM, at, "-o", options])?;
        self.is_mounted = true;
        Ok(())
    }

    /// Exports the filesystem over NFS as `path`, to programs of this machine, which are root. Returns address and port.
    pub(crate) fn export(&self, path: &str) -> Result<&str> {
        let rule = "127.0.0.1:rw,squash=none,insecure";
        self.ask(&[
            "export", "nfs", FILESYSTEM, "--path", path, "--client", rule,
        ])?;
        let address = self.listening.get("nfs");
        Ok(address.context("the server does not listen for NFS")?)
    }

    /// Fails if it has ended by itself.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        program::must_run(&mut self.child).with_context(|| self.log())
    }

    /// Unmounts, which fails if a change cannot be made durable, ends the server, and reads the pool offline.
    pub(crate) fn end(mut self) -> Result<()> {
        if self.is_mounted {
            self.ask(&["fs", "unmount", FILESYSTEM])?;
        }
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
        ensure!(!log.lines().any(is_trouble), "the server's log: {log}");
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

impl Drop for PoolServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::is_trouble;

    #[test]
    fn a_late_answer_to_an_interrupt_is_no_trouble_and_other_errors_are() {
        let of_reply = "2026-11-27T05:49:51.731780Z ERROR fuser::reply: Failed to send FUSE reply:";
        assert!(!is_trouble(&format!(
            "{of_reply} No such file or directory (os error 2)"
        )));
        assert!(is_trouble(&format!(
            "{of_reply} Invalid argument (os error 22)"
        )));
        assert!(is_trouble("thread 'shard' panicked at crates/pool"));
        assert!(!is_trouble(
            "2026-11-27T05:49:51Z  INFO fuse::mount: mounted"
        ));
    }
}
