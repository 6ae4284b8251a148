//! Our server as a child process, for the demo and the suite, which measure the product as users run it.
//!
//! **Owns** the child, its configuration, its directory and its log. **Invariants**: only loopback addresses are served; the directory is
//! removed with the child.

use crate::child::{Child, Scratch, output};
use crate::targets::iscsi_address::Iscsi;
use crate::targets::nvme_address::{Nvme, Transport};
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::{Error, Result};
use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The subsystem that is served.
pub(crate) const NQN: &str = "nqn.2026-01.io.wirepool:demo";
/// The iSCSI target that is served.
const IQN: &str = "iqn.2026-01.io.wirepool:demo";

/// A disk to serve.
pub enum ServedDisk {
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
pub struct ServeConfig {
    /// The program `wirepool`.
    pub program: PathBuf,
    /// Pools, and the paths of their disks.
    pub pools: Vec<(String, Vec<PathBuf>)>,
    /// The disks: namespaces 1, 2, …
    pub disks: Vec<ServedDisk>,
    /// Further disks, logical units 0, 1, … over iSCSI; without any, iSCSI is off.
    pub luns: Vec<ServedDisk>,
    /// Serve NFS, without an export.
    pub nfs: bool,
    /// Shards; 0 for one per processor.
    pub shards: u32,
    /// The processors to run on; empty for all.
    pub cpus: String,
    /// Try the well-known ports first.
    pub known_ports: bool,
    /// Serve metrics.
    pub metrics: bool,
    /// Serve the web console.
    pub console: bool,
}

/// How to log in to the web console of a server.
#[derive(Debug, Clone)]
pub struct ConsoleLogin {
    /// Address of its HTTPS port.
    pub address: SocketAddr,
    /// The user.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// The file of the certificate that the server made for itself.
    pub certificate: PathBuf,
}

/// A running server.
pub struct Served {
    child: Child,
    program: PathBuf,
    dir: Scratch,
    at: Addresses,
}

/// Addresses of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) nvme: SocketAddr,
    pub(crate) discovery: SocketAddr,
    pub(crate) iscsi: SocketAddr,
    pub(crate) nfs: SocketAddr,
    /// None if metrics are not served.
    pub(crate) metrics: Option<SocketAddr>,
    /// None if the console is not served.
    pub(crate) console: Option<SocketAddr>,
}

/// `port` of the loopback address if it is free, else any free one. Errors: `Target`.
pub fn free_port(port: u16) -> Result<SocketAddr> {
    let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|l| l.local_addr());
    at(port)
        .or_else(|_| at(0))
        .map_err(|e| Error::target("127.0.0.1", e))
}

impl Served {
    /// Starts a server and waits until it serves. Errors: `Program` with the end of its log.
    pub async fn start(config: &ServeConfig) -> Result<Served> {
        let dir = Scratch::directory(&std::env::temp_dir())?;
        let port = |known: u16| free_port(if config.known_ports { known } else { 0 });
        let at = Addresses {
            nvme: port(4420)?,
            discovery: port(8009)?,
            iscsi: port(3260)?,
            nfs: port(2049)?,
            metrics: config.metrics.then(|| port(9464)).transpose()?,
            console: config.console.then(|| port(8443)).transpose()?,
        };
        let file = dir.0.join("wirepool.toml");
        fs::write(&file, config.text(&dir.0, at)).map_err(Error::file(&file))?;
        let path = file.display().to_string();
        let args = ["serve".into(), "--config".into(), path];
        let log = dir.0.join("log");
        let child = Child::start(&config.program, &args, &config.cpus, &log)?;
        let program = config.program.clone();
        let mut served = Served {
            child,
            program,
            dir,
            at,
        };
        served.wait_ready(config).await?;
        Ok(served)
    }

    async fn wait_ready(&mut self, config: &ServeConfig) -> Result<()> {
        let namespaces = (1..).take(config.disks.len());
        let units = (0..).take(config.luns.len());
        let mut targets: Vec<_> = namespaces.map(|nsid| self.address(nsid, false)).collect();
        targets.extend(units.map(|lun| self.unit(lun, false)));
        let (program, dir) = (self.program.clone(), self.dir.0.clone());
        let is_up = async || {
            ask(&program, &dir, &["status"])?;
            for target in &targets {
                AnyTarget::open(target, OpenAs::default()).await?;
            }
            Ok(())
        };
        self.child.until(is_up).await
    }

    /// Runs a command of the command line that must succeed. Errors: `Program`.
    pub fn ask(&self, words: &[&str]) -> Result<()> {
        ask(&self.program, &self.dir.0, words)
    }

    /// Adds a user of the web console, with a random password; none if the console is not served. Errors: `Program`, `File`.
    pub fn add_console_user(&self, user: &str) -> Result<Option<ConsoleLogin>> {
        let Some(address) = self.at.console else {
            return Ok(None);
        };
        let password = format!("{:016x}", io::rng::u64());
        // The command reads a password from its stdin, and never from its arguments, which other users see.
        let path = self.dir.0.join("password");
        let failed = Error::file(&path);
        let stdin = fs::write(&path, format!("{password}\n")).and_then(|()| fs::File::open(&path));
        let stdin = stdin.map_err(failed)?;
        let removed = fs::remove_file(&path);
        removed.map_err(Error::file(&path))?;
        let mut command = Command::new(&self.program);
        command
            .args(["console", "user", "add", user])
            .env("WIREPOOL_CONTROL", control(&self.dir.0))
            .stdin(stdin);
        output(&mut command)?;
        Ok(Some(ConsoleLogin {
            address,
            user: user.to_owned(),
            password,
            certificate: self.dir.0.join("state/console/certificate.pem"),
        }))
    }

    /// Logical unit `lun` as a target; `ram` if it is memory.
    #[must_use]
    pub fn unit(&self, lun: u16, ram: bool) -> Address {
        Address::Iscsi(Iscsi {
            ram,
            ..Iscsi::new(self.at.iscsi.to_string(), IQN, lun)
        })
    }

    /// Namespace `nsid` as a target; `ram` if it is memory.
    #[must_use]
    pub fn address(&self, nsid: u32, ram: bool) -> Address {
        Address::Nvme(Nvme {
            ram,
            ..Nvme::new(Transport::Tcp, self.at.nvme.to_string(), NQN, nsid)
        })
    }

    /// The address of NFS.
    #[must_use]
    pub fn nfs(&self) -> SocketAddr {
        self.at.nfs
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.at
    }

    /// The server's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits until the server ends.
    pub(crate) fn wait(&mut self) {
        self.child.wait();
    }

    /// Ends the server. Errors: `Program` if it failed.
    pub fn stop(self) -> Result<()> {
        self.child.stop()
    }
}

fn control(dir: &Path) -> PathBuf {
    dir.join("control.sock")
}

fn ask(program: &Path, dir: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    let command = command.args(words).env("WIREPOOL_CONTROL", control(dir));
    output(command).map(drop)
}

impl ServeConfig {
    /// These disks over NVMe/TCP on one shard, and nothing else.
    #[must_use]
    pub fn of(program: PathBuf, disks: Vec<ServedDisk>, cpus: &str) -> Self {
        Self {
            program,
            pools: Vec::new(),
            disks,
            luns: Vec::new(),
            nfs: false,
            shards: 1,
            cpus: cpus.into(),
            known_ports: false,
            metrics: false,
            console: false,
        }
    }

    fn text(&self, dir: &Path, at: Addresses) -> String {
        let (control, state) = (control(dir), dir.join("state"));
        let (nvme, discovery, shards) = (at.nvme, at.discovery, self.shards);
        let mut t = format!(
            "[server]\nshards = {shards}\ncontrol = {control:?}\nstate_dir = {state:?}\n\n[nvmf]\nlisten = [\"{nvme}\"]\ndiscovery = [\"{discovery}\"]\n",
        );
        if let Some(m) = at.metrics {
            let _ = write!(t, "\n[metrics]\nlisten = \"{m}\"\n");
        }
        if let Some(console) = at.console {
            let _ = write!(t, "\n[console]\nlisten = \"{console}\"\n");
        }
        for (is_on, section, at) in [
            (!self.luns.is_empty(), "iscsi", at.iscsi),
            (self.nfs, "nfs", at.nfs),
        ] {
            if is_on {
                let _ = write!(t, "\n[{section}]\nlisten = [\"{at}\"]\n");
            }
        }
        for (name, disks) in &self.pools {
            let _ = write!(t, "\n[[pool]]\nname = \"{name}\"\ndisks = {disks:?}\n");
        }
        let (mut namespaces, mut units) = (String::new(), String::new());
        for (i, disk) in self.disks.iter().chain(&self.luns).enumerate() {
            let mut name = format!("disk{}", i + 1);
            let kind = match disk {
                ServedDisk::File(path) => format!("kind = \"file\"\npath = {path:?}"),
                ServedDisk::Memory(bytes) => format!("kind = \"mem\"\nsize = {bytes}"),
                ServedDisk::Null(bytes) => format!("kind = \"null\"\nsize = {bytes}"),
                ServedDisk::Volume(volume) => {
                    name.clone_from(volume);
                    String::new()
                }
            };
            if !kind.is_empty() {
                let _ = write!(t, "\n[[disk]]\nname = \"{name}\"\n{kind}\n");
            }
            let _ = match i.checked_sub(self.disks.len()) {
                None => write!(
                    namespaces,
                    "\n[[subsystem.namespace]]\nnsid = {}\ndisk = \"{name}\"\n",
                    i + 1
                ),
                Some(lun) => write!(units, "\n[[target.lun]]\nlun = {lun}\ndisk = \"{name}\"\n"),
            };
        }
        let _ = write!(
            t,
            "\n[[subsystem]]\nnqn = \"{NQN}\"\nhosts = [\"any\"]\n{namespaces}"
        );
        if !units.is_empty() {
            let _ = write!(
                t,
                "\n[[target]]\niqn = \"{IQN}\"\ninitiators = [\"any\"]\n{units}"
            );
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
            nfs: true,
            metrics: true,
            ..ServeConfig::of("wirepool".into(), disks, "")
        };
        let at: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let at = Addresses {
            nvme: at,
            discovery: at,
            iscsi: at,
            nfs: at,
            metrics: Some(at),
            console: Some(at),
        };
        let t: toml::Table = c.text(Path::new("/tmp/x"), at).parse().expect("TOML");
        assert_eq!(t["disk"].as_array().expect("a list").len(), 4);
        assert_eq!(t["disk"][0]["path"].as_str(), Some("/tmp/a \"disk\""));
        assert_eq!(t["target"][0]["lun"][0]["disk"].as_str(), Some("disk5"));
        assert_eq!(t["pool"][0]["disks"][1].as_str(), Some("/tmp/b"));
        assert_eq!(t["nfs"]["listen"][0].as_str(), Some("127.0.0.1:1"));
        assert_eq!(t["console"]["listen"].as_str(), Some("127.0.0.1:1"));
        let namespaces = &t["subsystem"][0]["namespace"];
        assert_eq!(namespaces[3]["disk"].as_str(), Some("tank/vm1"));
    }

    #[test]
    fn a_taken_port_is_replaced_by_a_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = taken.local_addr().expect("bound").port();
        let got = free_port(port).expect("another");
        assert!(got.port() != port && got.ip().is_loopback());
    }
}
