//! A `wirepool serve` of the tests: start, kill, restart, and inspection from outside.
//!
//! **Owns** the process, its configuration file and its port. **Called by** `vm` and `hook`. **Invariants**: at most
//! one process lives at a time; it is ended with this value; it listens on loopback only, and on the same port after
//! each start, so that a client can reconnect.

use crate::program;
use anyhow::{Context, Result, bail};
use std::fs::{self, File, OpenOptions, Permissions};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take to listen, or to end when asked to. Generous: the guest may hold all processors.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process and what it was started with.
pub(super) struct Server {
    binary: PathBuf,
    dir: PathBuf,
    control: PathBuf,
    log: PathBuf,
    ports: Ports,
    child: Option<Child>,
}

/// Where it listens on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) nvmf: u16,
    pub(super) iscsi: u16,
    pub(super) nfs: u16,
}

/// State of the process as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) fds: usize,
    pub(super) rss_kib: u64,
    pub(super) threads: u64,
}

/// The binary to test: `WIREPOOL_BIN`, or the workspace's, built now.
pub(super) fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("WIREPOOL_BIN").filter(|p| !p.is_empty()) {
        return Ok(crate::repo::root().join(path));
    }
    built("wirepool")
}

/// The debug build of one of the two programs that checks run, built now.
pub(super) fn built(name: &str) -> Result<PathBuf> {
    program::build(&["--bins"])?;
    Ok(crate::repo::target().join("debug").join(name))
}

/// Ask a process to end (SIGTERM). Not an error if it has ended already.
pub(super) fn terminate(child: &Child) {
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -TERM {}", child.id())])
        .stderr(Stdio::null())
        .status();
}

impl Server {
    /// Write a configuration into `dir` and start `binary` with it, its control socket in `sockets`. What it prints
    /// is appended to `log`.
    pub(super) fn start(binary: &Path, dir: &Path, sockets: &Path, log: &Path) -> Result<Self> {
        let ports = free_ports()?;
        let control = sockets.join("control.sock");
        fs::write(dir.join("wirepool.toml"), config(ports, &control))?;
        File::create(log)?;
        let mut server = Self {
            binary: binary.into(),
            dir: dir.into(),
            control,
            log: log.into(),
            ports,
            child: None,
        };
        server.start_again()?;
        Ok(server)
    }

    /// The ports of its protocols.
    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    /// The run's directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Start the process and wait until it accepts connections.
    pub(super) fn start_again(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("the server runs already");
        }
        let log = OpenOptions::new().append(true).open(&self.log)?;
        let child = Command::new(&self.binary)
            .args(["serve", "--config"])
            .arg(self.dir.join("wirepool.toml"))
            .env_remove("WIREPOOL_CONTROL")
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.binary.display()))?;
        self.child = Some(child);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self
                .child
                .as_mut()
                .and_then(|c| c.try_wait().transpose())
                .transpose()?
            {
                self.child = None;
                bail!(
                    "the server ended at once ({status}): {}",
                    fs::read_to_string(&self.log)?
                );
            }
            let Ports { nvmf, iscsi, nfs } = self.ports;
            if UnixStream::connect(&self.control).is_ok()
                && [nvmf, iscsi, nfs].into_iter().all(listens)
            {
                return Ok(());
            }
            sleep(Duration::from_millis(50));
        }
        bail!("the server does not listen on 127.0.0.1: {:?}", self.ports)
    }

    /// SIGKILL: no drain, no flush, as when the machine's memory runs out.
    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("no server runs")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and wait for the end of the drain.
    pub(super) fn stop(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("no server runs")?;
        terminate(&child);
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                bail!("the server did not end within {PATIENCE:?} of SIGTERM");
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Open files, resident memory and threads of the process, from `/proc`.
    pub(super) fn usage(&self) -> Result<Usage> {
        let pid = self.child.as_ref().context("no server runs")?.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| -> Result<u64> {
            let line = status
                .lines()
                .find_map(|l| l.strip_prefix(name))
                .with_context(|| format!("/proc/{pid}/status has no {name}"))?;
            Ok(line.trim().trim_end_matches(" kB").parse()?)
        };
        Ok(Usage {
            fds: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            rss_kib: field("VmRSS:")?,
            threads: field("Threads:")?,
        })
    }

    /// Allocated blocks of a file in the run's directory, KiB.
    pub(super) fn allocated_kib(&self, name: &str) -> Result<u64> {
        Ok(fs::metadata(self.dir.join(name))?.blocks() / 2)
    }

    /// Make a file of one line in the run's directory, which only its owner may read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, format!("{text}\n"))?;
        Ok(fs::set_permissions(&path, Permissions::from_mode(0o600))?)
    }

    /// Run one command of the command line against this server; its output.
    pub(super) fn cli(&self, args: &[String]) -> Result<String> {
        let output = Command::new(&self.binary)
            .args(args)
            .env("WIREPOOL_CONTROL", &self.control)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .output()?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!(
                "wirepool {}: {}: {stdout}{}",
                args.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(stdout.into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.kill();
        }
    }
}

fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Ports that nothing listens on, below the range the kernel gives to outgoing connections, so that none of
/// those takes one while the server is down.
fn free_ports() -> Result<Ports> {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let mut free =
        (first..first + 100).filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    let mut next = || free.next().context("no free port on loopback");
    Ok(Ports {
        nvmf: next()?,
        iscsi: next()?,
        nfs: next()?,
    })
}

/// A server that the guest reaches as 10.0.2.2, which is therefore what discovery names. Disks and exports are made
/// by the check script, through the command line.
fn config(ports: Ports, control: &Path) -> String {
    let control = control.display();
    let Ports { nvmf, iscsi, nfs } = ports;
    format!(
        r#"[server]
control = "{control}"
shards = 2

[nvmf]
listen = ["127.0.0.1:{nvmf}"]
advertise = ["10.0.2.2:{nvmf}"]

[iscsi]
listen = ["127.0.0.1:{iscsi}"]
advertise = ["10.0.2.2:{iscsi}"]

[nfs]
listen = ["127.0.0.1:{nfs}"]
"#
    )
}
