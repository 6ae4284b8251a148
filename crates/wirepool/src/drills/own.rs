//! A server of the drill's own: a process of this program on file disks in a directory of its own.
//!
//! **Owns** the process and the directory, until the drill ends. **Called by** drills that need a server that may be killed, or
//! that were given no pool. **Invariants**: everything that it writes is in that directory; it listens on loopback only; it ends
//! with the drill; directories are removed only if they have a drill's reserved name whose process has ended.

use super::mark::Mark;
use crate::client::Client;
use anyhow::{Context, Result, bail, ensure};
use server::ByteSize;
use server::api::{CreatePool, SetProperty, VdevClass, VdevSpec};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Its pool.
pub(super) const POOL: &str = "drill";
/// Its disks: a mirror.
pub(super) const DISKS: [&str; 2] = ["a.img", "b.img"];
/// Disks of its special mirror, of its log, and its cache device, if it has these classes.
pub(super) const SPECIAL: [&str; 2] = ["s.img", "t.img"];
pub(super) const LOG: &str = "l.img";
pub(super) const CACHE: &str = "k.img";
const CONFIG: &str = "wirepool.toml";
const LOG_FILE: &str = "log";
const CONTROL: &str = "c.sock";
/// The recording of writes to its disks (`io::record`).
const RECORD: &str = "record";
const RECORD_VARIABLE: &str = "WIREPOOL_RECORD";
/// Time for the server to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(15);
const STOP_POLL: Duration = Duration::from_millis(20);

const SETTINGS: &str = "\
[server]
control = \"c.sock\"
shards = 1
buffer_mib = 16
[nvmf]
listen = [\"127.0.0.1:0\"]
";

/// The server.
pub(super) struct OwnServer {
    dir: PathBuf,
    child: Option<Child>,
    starts: u32,
    is_recorded: bool,
}

/// A server that starts: its output until it is ready.
pub(super) struct Starting {
    stdout: ChildStdout,
    log: PathBuf,
}

impl OwnServer {
    /// Makes the directory below `parent`, after leftovers of ended drills were removed. `is_recorded`: the server records its
    /// writes to disks.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(super) fn make(parent: Option<&Path>, is_recorded: bool) -> Result<OwnServer> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let parent = parent.canonicalize();
        let parent = parent.context("the directory for a server of the drill's own (--dir)")?;
        remove_leftovers(&parent)?;
        let dir = parent.join(Mark::own().name());
        fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let server = OwnServer {
            dir,
            child: None,
            starts: 0,
            is_recorded,
        };
        let config = server.path(CONFIG);
        fs::write(&config, SETTINGS).with_context(|| config.display().to_string())?;
        Ok(server)
    }

    /// A path in its directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The recording of its writes to disks since its last start.
    pub(super) fn record(&self) -> PathBuf {
        self.path(RECORD)
    }

    /// Sends a command of the drill ([`crate::rehearsal`]).
    ///
    /// # Errors
    /// It does not run.
    pub(super) fn command(&mut self, line: &str) -> Result<()> {
        let child = self
            .child
            .as_mut()
            .context("the server of the drill does not run")?;
        let stdin = child
            .stdin
            .as_mut()
            .context("the server of the drill has no stdin")?;
        stdin
            .write_all(line.as_bytes())
            .context("the server of the drill")
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A client of its control API.
    pub(super) fn client(&self) -> Arc<Client> {
        Arc::new(Client::new(Some(self.path(CONTROL)), false))
    }

    /// Starts the process. It ends with the drill, which has the other end of its stdin.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn spawn(&mut self) -> Result<Starting> {
        ensure!(self.child.is_none(), "the server of the drill runs already");
        let log = self.path(LOG_FILE);
        let appended = File::options().create(true).append(true).open(&log);
        let appended = appended.with_context(|| log.display().to_string())?;
        let program = std::env::current_exe().context("/proc/self/exe")?;
        let mut command = Command::new(program);
        command
            .args(["serve", "--print-ready", "--rehearsal", "--config"])
            .arg(self.path(CONFIG))
            .env_remove("WIREPOOL_CONTROL")
            .env_remove("RUST_LOG")
            .env_remove(RECORD_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(appended)
            .process_group(0);
        if self.is_recorded {
            command.env(RECORD_VARIABLE, self.record());
        }
        let mut child = command.spawn().context("a server of the drill's own")?;
        let stdout = child.stdout.take().expect("its output is a pipe");
        self.child = Some(child);
        self.starts += 1;
        Ok(Starting { stdout, log })
    }

    /// Makes its pool: a mirror of two sparse files of `size` each. With `has_classes` also a special mirror, a log of one file, and a cache device,
    /// and no records are kept in memory, so that reads ask the devices.
    ///
    /// # Errors
    /// The server refuses.
    pub(super) fn make_pool(&self, size: ByteSize, has_classes: bool) -> Result<()> {
        let of_class = |class, disks: &[&str]| VdevSpec {
            class,
            ..VdevSpec::mirror(disks.iter().map(|disk| self.path(disk)).collect())
        };
        let mut vdevs = vec![of_class(VdevClass::Normal, &DISKS)];
        let mut caches = Vec::new();
        if has_classes {
            vdevs.push(of_class(VdevClass::Special, &SPECIAL));
            vdevs.push(of_class(VdevClass::Log, &[LOG]));
            caches.push(self.path(CACHE));
        }
        self.client().ask(&CreatePool {
            name: POOL.to_owned(),
            vdevs,
            spares: Vec::new(),
            caches,
            size: Some(size),
            // one disk is enough for a log that is lost on purpose
            force: has_classes,
        })?;
        if has_classes {
            self.client().ask(&SetProperty {
                name: POOL.to_owned(),
                property: "primarycache".to_owned(),
                value: "none".to_owned(),
            })?;
        }
        Ok(())
    }

    /// Kills the process with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// It had ended by itself: the end of its log.
    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self
            .child
            .take()
            .context("the server of the drill does not run")?;
        let by_itself = child.try_wait().context("the server of the drill")?;
        if let Some(status) = by_itself {
            bail!(
                "the server of the drill ended by itself ({status}): {}",
                tail(&self.path(LOG_FILE))
            );
        }
        child.kill().context("the server of the drill")?;
        child.wait().context("the server of the drill")?;
        Ok(())
    }

    /// Number of starts, and of warnings and errors in its log.
    pub(super) fn facts(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path(LOG_FILE)).unwrap_or_default();
        let count = |level: &str| log.lines().filter(|l| l.contains(level)).count();
        vec![format!(
            "started {} times; its log has {} warnings and {} errors",
            self.starts,
            count(" WARN "),
            count(" ERROR ")
        )]
    }

    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        io::linux::terminate(child.id());
        let until = Instant::now() + STOP_MAX;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(STOP_POLL);
        }
        // It has ended, or does not end by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.stop();
        // The next drill removes a directory that cannot be removed now.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Starting {
    /// Waits until the server is ready. Returns the address of NVMe/TCP.
    ///
    /// # Errors
    /// It ended: the end of its log.
    pub(super) fn wait(self) -> Result<SocketAddr> {
        let mut nvme = None;
        for line in BufReader::new(self.stdout).lines() {
            let line = line.context("the output of the drill's server")?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["ready"] => return nvme.context("the drill's server has no NVMe/TCP address"),
                ["ready", "io", address] => nvme = address.parse().ok(),
                _ => {}
            }
        }
        bail!("the drill's server ended at its start: {}", tail(&self.log))
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

fn remove_leftovers(parent: &Path) -> Result<()> {
    let entries = fs::read_dir(parent).with_context(|| parent.display().to_string())?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let mark = name.to_str().and_then(Mark::parse);
        let is_dead = mark.is_some_and(|mark| !mark.is_running());
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dead && is_directory && entry.path().join(CONFIG).exists() {
            eprintln!(
                "removing {}, which an earlier drill left",
                entry.path().display()
            );
            // It may belong to another user.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
