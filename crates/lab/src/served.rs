//! Our server as a child process, for the demo and the suite, which measure the product as users run it.
//!
//! **Owns** the child, its configuration, its directory and its log. **Invariants**: only loopback addresses are
//! served; the child is asked to end (SIGTERM), and killed only if it does not; its directory is removed with it.
//! Children are ended also when the user interrupts us ([`on_interrupt`]).

use crate::limits::{CHILD_START_MAX, CHILD_STOP_MAX};
use crate::targets::iscsi_address::Iscsi;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::{Error, Result};
use std::fmt::Write;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The subsystem that is served.
pub(crate) const NQN: &str = "nqn.2026-01.io.wirepool:demo";
/// The iSCSI target that is served.
const IQN: &str = "iqn.2026-01.io.wirepool:demo";
/// Interval at which a starting or ending child is polled.
const POLL: Duration = Duration::from_millis(20);

/// A disk to serve.
pub(crate) enum ServedDisk {
    /// A file.
    File(PathBuf),
    /// Memory of the server, bytes.
    Memory(u64),
    /// A null disk of this size, bytes.
    Null(u64),
    /// A volume of a pool that is served: `POOL/VOLUME`.
    Volume(String),
}

/// Configuration of a served child.
pub(crate) struct ServeConfig {
    /// Pools, and the paths of their disks.
    pub(crate) pools: Vec<(String, Vec<PathBuf>)>,
    /// The disks, namespaces 1, 2, …
    pub(crate) disks: Vec<ServedDisk>,
    /// Further disks, logical units 0, 1, … over iSCSI; without any, iSCSI is off.
    pub(crate) luns: Vec<ServedDisk>,
    /// Shards; 0 for one per processor.
    pub(crate) shards: u32,
    /// The processors to run on; empty for all.
    pub(crate) cpus: String,
    /// Try the well-known ports first.
    pub(crate) known_ports: bool,
    /// Serve metrics.
    pub(crate) metrics: bool,
}

/// A running server.
pub(crate) struct Served {
    child: Child,
    dir: PathBuf,
    /// Address of NVMe/TCP.
    pub(crate) nvme: SocketAddr,
    /// Address of discovery.
    pub(crate) discovery: SocketAddr,
    /// Address of iSCSI, if it is served.
    iscsi: SocketAddr,
    /// Address of metrics.
    pub(crate) metrics: Option<SocketAddr>,
}

/// Children and files to remove after an interruption.
#[derive(Default)]
struct Mess {
    children: Vec<u32>,
    paths: Vec<PathBuf>,
}

/// Exit code of this process after an interruption.
static INTERRUPTED: AtomicI32 = AtomicI32::new(130);

/// Makes an interruption the expected end, from now on.
pub(crate) fn interrupt_is_the_end() {
    INTERRUPTED.store(0, Ordering::SeqCst);
}

static MESS: Mutex<Mess> = Mutex::new(Mess {
    children: Vec::new(),
    paths: Vec::new(),
});

fn with_mess<T>(f: impl FnOnce(&mut Mess) -> T) -> T {
    f(&mut MESS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes SIGINT and SIGTERM end our children, remove our files and end this process. Errors: `Io` if signals cannot
/// be handled.
pub(crate) fn on_interrupt() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io::Error::from)?;
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || {
            runtime.block_on(async {
                let both = (
                    signal(SignalKind::interrupt()),
                    signal(SignalKind::terminate()),
                );
                let (Ok(mut int), Ok(mut term)) = both else {
                    return;
                };
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
                clean_up();
                std::process::exit(INTERRUPTED.load(Ordering::SeqCst));
            });
        })
        .map_err(io::Error::from)?;
    Ok(())
}

fn clean_up() {
    let mess = with_mess(std::mem::take);
    for pid in &mess.children {
        io::linux::terminate(*pid);
    }
    let deadline = Instant::now() + CHILD_STOP_MAX;
    let alive = |pid: &u32| crate::stats::process::is_running(*pid);
    while mess.children.iter().any(alive) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    mess.paths.iter().for_each(|p| remove(p));
}

fn remove(path: &Path) {
    // A missing path is removed already.
    let _ = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

/// Default directory of large files: next to the build output, in a checkout.
pub(crate) fn scratch_parent() -> PathBuf {
    if Path::new("target").is_dir() {
        "target/demo".into()
    } else {
        std::env::temp_dir()
    }
}

/// A file or directory that is removed with this value, or after an interruption.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Creates a private directory under `parent`. Errors: `File`.
    pub(crate) fn directory(parent: &Path) -> Result<Scratch> {
        let path = parent.join(format!("wirepool-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::file(&path))?;
        // A server resolves relative paths against the directory of its configuration.
        let path = path.canonicalize().map_err(Error::file(&path))?;
        with_mess(|m| m.paths.push(path.clone()));
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
        with_mess(|m| m.paths.retain(|p| p != &self.0));
    }
}

/// `port` of the loopback address if it is free, else any free one.
fn free_port(port: u16) -> Result<SocketAddr> {
    let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|l| l.local_addr());
    at(port)
        .or_else(|_| at(0))
        .map_err(|e| Error::target("127.0.0.1", e))
}

/// Starts a child that may be pinned, with its output in `log`, and without the terminal's signals: we end it
/// ourselves.
pub(crate) fn spawn(program: &Path, args: &[String], cpus: &str, log: &Path) -> Result<Child> {
    let mut command = if cpus.is_empty() {
        Command::new(program)
    } else {
        let mut c = Command::new("taskset");
        c.args(["-c", cpus]).arg(program);
        c
    };
    let out = File::create(log).map_err(Error::file(log))?;
    let err = out.try_clone().map_err(Error::file(log))?;
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let child = command
        .spawn()
        .map_err(|e| Error::program(&program.display().to_string(), e))?;
    with_mess(|m| m.children.push(child.id()));
    Ok(child)
}

/// A child that ends with this process automatically, such as one started under `setpriv --pdeathsig`.
pub(crate) fn ends_with_us(child: &Child) {
    with_mess(|m| m.children.retain(|c| *c != child.id()));
}

/// Asks a child to end and waits; kills it after a time-out. Errors: `Program` if it failed.
pub(crate) fn stop(child: &mut Child, name: &str) -> Result<()> {
    let pid = child.id();
    io::linux::terminate(pid);
    let deadline = Instant::now() + CHILD_STOP_MAX;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break Ok(()),
            Ok(Some(status)) => break Err(Error::program(name, status)),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                break Err(Error::program(
                    name,
                    "did not exit on SIGTERM, and was killed",
                ));
            }
            Err(e) => break Err(Error::program(name, e)),
        }
    };
    with_mess(|m| m.children.retain(|c| *c != pid));
    ended
}

impl Served {
    /// Starts this program as a server and waits until it serves. Errors: `Program` with the end of its log.
    pub(crate) async fn start(config: &ServeConfig) -> Result<Served> {
        let serial = with_mess(|m| m.paths.len());
        let dir =
            std::env::temp_dir().join(format!("wirepool-serve-{}-{serial}", std::process::id()));
        fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
        with_mess(|m| m.paths.push(dir.clone()));
        let port = |known: u16| free_port(if config.known_ports { known } else { 0 });
        let (nvme, discovery, iscsi) = (port(4420)?, port(8009)?, port(3260)?);
        let metrics = if config.metrics {
            Some(port(9464)?)
        } else {
            None
        };
        let file = dir.join("wirepool.toml");
        fs::write(&file, config.text(&dir, [nvme, discovery, iscsi], metrics))
            .map_err(Error::file(&file))?;
        let program = std::env::current_exe().map_err(Error::file(Path::new("/proc/self/exe")))?;
        let args = [
            "serve".to_owned(),
            "--config".into(),
            file.display().to_string(),
        ];
        let child = spawn(&program, &args, &config.cpus, &dir.join("log"))?;
        let mut served = Served {
            child,
            dir,
            nvme,
            discovery,
            iscsi,
            metrics,
        };
        served.wait_ready(config).await?;
        Ok(served)
    }

    async fn wait_ready(&mut self, config: &ServeConfig) -> Result<()> {
        let deadline = Instant::now() + CHILD_START_MAX;
        let mut why = String::new();
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                why = format!("exited at once ({status})");
                break;
            }
            match self.open_all(config).await {
                Ok(()) => return Ok(()),
                Err(e) => why = e.to_string(),
            }
            io::time::sleep(POLL).await;
        }
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let tail: Vec<_> = log.lines().rev().take(10).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(Error::program("wirepool serve", format!("{why}\n{tail}")))
    }

    async fn open_all(&self, config: &ServeConfig) -> Result<()> {
        for nsid in 1..=config.disks.len() {
            AnyTarget::open(&self.address(nsid as u32, false), OpenAs::default()).await?;
        }
        for lun in 0..config.luns.len() {
            AnyTarget::open(&self.unit(lun as u16, false), OpenAs::default()).await?;
        }
        Ok(())
    }

    /// Logical unit `lun` as a target; `ram` if it is memory.
    pub(crate) fn unit(&self, lun: u16, ram: bool) -> Address {
        Address::Iscsi(Iscsi {
            ram,
            ..Iscsi::new(self.iscsi.to_string(), IQN, lun)
        })
    }

    /// Namespace `nsid` as a target; `ram` if it is memory.
    pub(crate) fn address(&self, nsid: u32, ram: bool) -> Address {
        Address::NvmeTcp(crate::targets::address::NvmeTcp {
            host: self.nvme.to_string(),
            nqn: NQN.into(),
            nsid,
            queues: 1,
            header_digest: false,
            data_digest: false,
            host_nqn: None,
            ram,
        })
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server ends.
    pub(crate) fn wait(&mut self) {
        let _ = self.child.wait();
    }

    /// Ends the server. Errors: `Program` if it failed.
    pub(crate) fn stop(mut self) -> Result<()> {
        stop(&mut self.child, "wirepool serve")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = stop(&mut self.child, "wirepool serve");
        }
        remove(&self.dir);
        with_mess(|m| m.paths.retain(|p| p != &self.dir));
    }
}

impl ServeConfig {
    /// These disks over NVMe/TCP on one shard, and nothing else.
    pub(crate) fn of(disks: Vec<ServedDisk>, cpus: &str) -> Self {
        Self {
            pools: Vec::new(),
            disks,
            luns: Vec::new(),
            shards: 1,
            cpus: cpus.into(),
            known_ports: false,
            metrics: false,
        }
    }

    fn text(
        &self,
        dir: &Path,
        [nvme, discovery, iscsi]: [SocketAddr; 3],
        metrics: Option<SocketAddr>,
    ) -> String {
        let mut t = format!(
            "[server]\nshards = {}\ncontrol = {:?}\nstate_dir = {:?}\n\n[nvmf]\nlisten = [\"{nvme}\"]\ndiscovery = [\"{discovery}\"]\n",
            self.shards,
            dir.join("control.sock"),
            dir.join("state"),
        );
        if let Some(m) = metrics {
            let _ = write!(t, "\n[metrics]\nlisten = \"{m}\"\n");
        }
        if !self.luns.is_empty() {
            let _ = write!(t, "\n[iscsi]\nlisten = [\"{iscsi}\"]\n");
        }
        for (name, disks) in &self.pools {
            let _ = write!(t, "\n[[pool]]\nname = \"{name}\"\ndisks = {disks:?}\n");
        }
        let disks: Vec<_> = self.disks.iter().chain(&self.luns).collect();
        for (i, disk) in disks.iter().enumerate() {
            let kind = match disk {
                ServedDisk::File(path) => format!("kind = \"file\"\npath = {path:?}"),
                ServedDisk::Memory(bytes) => format!("kind = \"mem\"\nsize = {bytes}"),
                ServedDisk::Null(bytes) => format!("kind = \"null\"\nsize = {bytes}"),
                ServedDisk::Volume(_) => continue,
            };
            let _ = write!(t, "\n[[disk]]\nname = \"disk{}\"\n{kind}\n", i + 1);
        }
        let name = |i: usize| match disks[i] {
            ServedDisk::Volume(volume) => volume.clone(),
            _ => format!("disk{}", i + 1),
        };
        let _ = write!(t, "\n[[subsystem]]\nnqn = \"{NQN}\"\nhosts = [\"any\"]\n");
        for i in 0..self.disks.len() {
            let (nsid, disk) = (i + 1, name(i));
            let _ = write!(
                t,
                "\n[[subsystem.namespace]]\nnsid = {nsid}\ndisk = \"{disk}\"\n"
            );
        }
        if !self.luns.is_empty() {
            let _ = write!(t, "\n[[target]]\niqn = \"{IQN}\"\ninitiators = [\"any\"]\n");
        }
        for lun in 0..self.luns.len() {
            let disk = name(self.disks.len() + lun);
            let _ = write!(t, "\n[[target.lun]]\nlun = {lun}\ndisk = \"{disk}\"\n");
        }
        t
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_well_formed() {
        let disks = vec![
            ServedDisk::File("/tmp/a \"disk\"".into()),
            ServedDisk::Memory(1 << 30),
            ServedDisk::Null(1 << 20),
            ServedDisk::Volume("tank/vm1".into()),
        ];
        let c = ServeConfig {
            pools: vec![("tank".into(), vec!["/tmp/a".into(), "/tmp/b".into()])],
            luns: vec![ServedDisk::Memory(1 << 20)],
            metrics: true,
            ..ServeConfig::of(disks, "")
        };
        let at: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let t: toml::Table = c
            .text(Path::new("/tmp/x"), [at; 3], Some(at))
            .parse()
            .expect("TOML");
        assert_eq!(t["disk"].as_array().expect("a list").len(), 4);
        assert_eq!(t["target"][0]["lun"][0]["disk"].as_str(), Some("disk5"));
        assert_eq!(t["pool"][0]["disks"][1].as_str(), Some("/tmp/b"));
        let namespaces = &t["subsystem"][0]["namespace"];
        assert_eq!(namespaces[3]["disk"].as_str(), Some("tank/vm1"));
        assert_eq!(t["disk"][0]["path"].as_str(), Some("/tmp/a \"disk\""));
        assert_eq!(
            t["subsystem"][0]["namespace"][2]["disk"].as_str(),
            Some("disk3")
        );
    }

    #[test]
    fn a_taken_port_is_replaced_by_a_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = taken.local_addr().expect("bound").port();
        let got = free_port(port).expect("another");
        assert!(got.port() != port && got.ip().is_loopback());
    }

    #[test]
    fn scratch_goes_with_its_value() {
        let dir = tempfile::tempdir().expect("a directory");
        let s = Scratch::directory(dir.path()).expect("made");
        fs::write(s.0.join("file"), "x").expect("written");
        let path = s.0.clone();
        drop(s);
        assert!(!path.exists());
    }

    #[test]
    fn a_child_ends_when_asked_and_its_output_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("log");
        let script = "echo here; trap 'exit 0' TERM; while :; do sleep 0.01; done".to_owned();
        let mut c = spawn(Path::new("/bin/sh"), &["-c".into(), script], "", &log).expect("spawned");
        while !fs::read_to_string(&log).expect("the log").contains("here") {
            std::thread::sleep(POLL);
        }
        stop(&mut c, "sh").expect("it ends well");
    }
}
