//! The servers of the NFS table: ours with a pool on tmpfs, and Debian's `nfs-ganesha` with a directory on tmpfs.
//!
//! **Owns** both as children. **Called by** the table. **Invariants**: a server listens on loopback, on a port that was free; all of
//! its files go with the suite's directories. Ganesha runs as root without grace period, callbacks' delegations and other protocols;
//! its other values are its defaults.

use crate::limits::CHILD_START_MAX;
use crate::served::{ends_with_us, spawn, stop};
use crate::suite::lab::Lab;
use crate::targets::nfs_address::Nfs;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::{Error, Result};
use io::disk::{Disk, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const GANESHA: &str = "ganesha.nfsd";
/// Ganesha's access to local file systems.
const VFS: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so",
    "/usr/lib/aarch64-linux-gnu/ganesha/libfsalvfs.so",
];
/// Ends a child with its parent.
const TETHER: &str = "setpriv";
/// The file of the rows with data.
const FILE: &str = "disk.img";

/// A directory that a server exports.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) at: SocketAddr,
    /// The path that clients mount.
    pub(super) path: &'static str,
}

impl Share {
    /// The file of the rows with data.
    pub(super) fn file(&self) -> Address {
        self.named(FILE)
    }

    fn named(&self, name: &str) -> Address {
        let path = format!("{}/{name}", self.path.trim_start_matches('/'));
        Address::Nfs(Nfs {
            user: Some((0, 0)),
            ram: true,
            ..Nfs::new(self.at.to_string(), path)
        })
    }
}

/// A running server.
pub(super) struct Server {
    child: Child,
    name: &'static str,
    pub(super) share: Share,
    /// A share with records of 4 KiB.
    pub(super) small: Option<Share>,
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).exists())
}

/// The programs of the peer that are not installed.
pub(crate) fn missing() -> Vec<&'static str> {
    let mut missing: Vec<_> = [GANESHA, TETHER]
        .into_iter()
        .filter(|name| !is_there(name))
        .collect();
    if !VFS.iter().any(|path| Path::new(path).exists()) {
        missing.push("nfs-ganesha-vfs");
    }
    if missing.is_empty() && !io::linux::is_root() {
        missing.push("root (for nfs-ganesha)");
    }
    missing
}

fn free_address() -> Result<SocketAddr> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    free.map_err(|e| Error::target("127.0.0.1", e))
}

fn directory(within: &Path, name: &str) -> Result<PathBuf> {
    let dir = within.join(name);
    std::fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    Ok(dir)
}

/// Makes a file whose pages are all in memory. A pool writes each record to a new place: in a sparse file it would pay for the
/// first use of each page, which in a virtual machine costs 2 ms of processor time for each MiB, and a peer that overwrites a
/// file in place would not.
async fn allocate(image: &Path, size: u64) -> Result<()> {
    let options = OpenOptions {
        create_size: Some(size),
        ..OpenOptions::default()
    };
    let disk = Disk::open(image, options).await?;
    Ok(disk.reserve(0, size).await?)
}

impl Server {
    /// Our server: filesystems with records of 128 KiB and of 4 KiB, in a pool on one file in memory.
    pub(super) async fn ours(lab: &Lab<'_>) -> Result<Server> {
        let dir = directory(lab.memory, "nfs")?;
        let at = free_address()?;
        let config = dir.join("wirepool.toml");
        let control = dir.join("control.sock");
        let text = format!(
            "[server]\nshards = 1\ncontrol = {control:?}\nstate_dir = {:?}\n[nvmf]\nlisten = [\"127.0.0.1:0\"]\ndiscovery = [\"127.0.0.1:0\"]\n[nfs]\nlisten = [\"{at}\"]\n",
            dir.join("state"),
        );
        std::fs::write(&config, text).map_err(Error::file(&config))?;
        let program = std::env::current_exe().map_err(Error::file(Path::new("/proc/self/exe")))?;
        let log = dir.join("log");
        let args = ["serve", "--config"].map(str::to_owned);
        let args: Vec<_> = args
            .into_iter()
            .chain([config.display().to_string()])
            .collect();
        let child = spawn(&program, &args, lab.processors().0, &log)?;
        let mut server = Server {
            child,
            name: "wirepool serve",
            share: Share {
                at,
                path: "/tank/home",
            },
            small: Some(Share {
                at,
                path: "/tank/small",
            }),
        };
        let ask = |words: &[&str]| ask(&program, &control, words);
        server.until(&log, || ask(&["status"])).await?;
        let image = dir.join("pool.img");
        allocate(&image, 6 * lab.extent.bytes + (2 << 30)).await?;
        ask(&["pool", "create", "tank", &image.display().to_string()])?;
        ask(&["fs", "create", "tank/home"])?;
        ask(&["fs", "create", "tank/small", "--record-size", "4K"])?;
        for name in ["tank/home", "tank/small"] {
            ask(&[
                "export",
                "nfs",
                name,
                "--client",
                "*:rw,squash=none,insecure",
            ])?;
        }
        Ok(server)
    }

    /// Ganesha with a directory in memory.
    pub(super) async fn ganesha(lab: &Lab<'_>) -> Result<Server> {
        let export = directory(lab.memory, "ganesha")?;
        let dir = directory(lab.place, "ganesha")?;
        let (at, config) = (free_address()?, dir.join("ganesha.conf"));
        let (root, port) = (dir.display(), at.port());
        let text = format!(
            "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
             NFSV4 {{ Graceless = true; Minor_Versions = 1, 2; Delegations = false; RecoveryBackend = fs; RecoveryRoot = \"{root}\"; }}\n\
             EXPORT {{ Export_Id = 1; Path = {export:?}; Pseudo = \"/export\"; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
             LOG {{ Default_Log_Level = EVENT; }}\n"
        );
        std::fs::write(&config, text).map_err(Error::file(&config))?;
        let (log, output) = (dir.join("log"), dir.join("output"));
        let path = |path: &Path| path.display().to_string();
        let mut args = ["--pdeathsig", "KILL", GANESHA, "-F"]
            .map(str::to_owned)
            .to_vec();
        for (option, file) in [("-f", &config), ("-L", &log), ("-p", &dir.join("pid"))] {
            args.extend([option.to_owned(), path(file)]);
        }
        let child = spawn(Path::new(TETHER), &args, lab.processors().0, &output)?;
        ends_with_us(&child);
        let share = Share {
            at,
            path: "/export",
        };
        let mut server = Server {
            child,
            name: GANESHA,
            share,
            small: None,
        };
        let address = server.share.at;
        let is_open = || {
            let open = std::net::TcpStream::connect(address);
            open.map(drop).map_err(|e| Error::program(GANESHA, e))
        };
        server.until(&log, is_open).await?;
        // It listens before it serves.
        let how = OpenAs {
            writable: true,
            create: Some(1 << 20),
        };
        let probe = server.share.named("probe");
        let deadline = Instant::now() + CHILD_START_MAX;
        while let Err(e) = AnyTarget::open(&probe, how).await {
            if Instant::now() > deadline {
                return Err(e);
            }
            io::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(server)
    }

    async fn until(&mut self, log: &Path, is_up: impl Fn() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + CHILD_START_MAX;
        while let Err(why) = is_up() {
            if self.child.try_wait().is_ok_and(|s| s.is_some()) || Instant::now() > deadline {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                let why = format!("does not serve ({why}): {}", said.trim());
                return Err(Error::program(self.name, why));
            }
            io::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it. Errors: `Program` if it failed.
    pub(super) fn stop(mut self) -> Result<()> {
        stop(&mut self.child, self.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs a command of our command line that must succeed.
fn ask(program: &Path, control: &Path, words: &[&str]) -> Result<()> {
    let out = Command::new(program)
        .args(words)
        .env("WIREPOOL_CONTROL", control)
        .output()
        .map_err(|e| Error::program("wirepool", e))?;
    match out.status.success() {
        true => Ok(()),
        false => {
            let why = format!("{words:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
            Err(Error::program("wirepool", why))
        }
    }
}
