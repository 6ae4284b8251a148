//! The other iSCSI target: Debian's `tgt`, driven by our own initiator.
//!
//! **Owns** its server as a child, with a control socket of its own, so that an existing server of this machine is
//! not disturbed. **Invariants**: it ends with this process in every case (it ignores SIGTERM); it negotiates the
//! same values as our target, so that targets are compared and not their defaults. It needs no root; its log mentions
//! that it cannot lock its memory or raise its limits.

use crate::limits::CHILD_START_MAX;
use crate::served::{ends_with_us, spawn};
use crate::targets::iscsi_address::Iscsi;
use crate::targets::{Address, AnyTarget, OpenAs};
use crate::{Error, Result};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const SERVER: &str = "tgtd";
const CONTROL: &str = "tgtadm";
/// Ends a child with its parent.
const TETHER: &str = "setpriv";
const IQN: &str = "iqn.2001-04.org.example:tgt";
/// Where Debian installs programs for administrators, who have these directories in their PATH.
const SBIN: [&str; 2] = ["/usr/sbin", "/sbin"];
/// tgt's parameters, in place of its defaults.
const PARAMETERS: [(&str, &str); 6] = [
    ("MaxRecvDataSegmentLength", "262144"),
    ("MaxXmitDataSegmentLength", "262144"),
    ("MaxBurstLength", "1048576"),
    ("FirstBurstLength", "131072"),
    ("InitialR2T", "No"),
    ("MaxOutstandingR2T", "4"),
];
/// LUN 0 is its controller.
const FIRST_LUN: u16 = 1;

/// tgt's server with one logical unit for each file.
pub(super) struct Tgt {
    child: Child,
    at: SocketAddr,
    dir: PathBuf,
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(SBIN.map(PathBuf::from));
    places.map(|d| d.join(name)).find(|p| p.exists())
}

/// The programs of this peer that are not installed.
pub(super) fn missing() -> Vec<&'static str> {
    let gone = |name: &&str| find(name).is_none();
    [SERVER, CONTROL, TETHER].into_iter().filter(gone).collect()
}

impl Tgt {
    /// Serves `files`; those marked true with O_DIRECT and Linux's asynchronous I/O, the others through the page cache.
    /// Errors: `Program`.
    pub(super) async fn start(files: &[(PathBuf, bool)], cpus: &str, dir: &Path) -> Result<Tgt> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let at = free.map_err(|e| Error::target("127.0.0.1", e))?;
        let dir = dir.join("tgt");
        std::fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
        let server = find(SERVER).ok_or_else(|| Error::program(SERVER, "not installed"))?;
        let args = [
            "--pdeathsig".to_owned(),
            "KILL".into(),
            "env".into(),
            format!("TGT_IPC_SOCKET={}", dir.join("socket").display()),
            server.display().to_string(),
            "--foreground".into(),
            "--control-port".into(),
            "1".into(),
            "--iscsi".into(),
            format!("portal={at}"),
        ];
        let log = dir.join("log");
        let child = spawn(Path::new(TETHER), &args, cpus, &log)?;
        ends_with_us(&child);
        let mut tgt = Tgt { child, at, dir };
        let deadline = Instant::now() + CHILD_START_MAX;
        while let Err(why) = tgt.control(&["--op", "show", "--mode", "sys"]) {
            if tgt.child.try_wait().is_ok_and(|s| s.is_some()) || Instant::now() > deadline {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let why = format!("does not serve ({why}): {}", said.trim());
                return Err(Error::program(SERVER, why));
            }
            io::time::sleep(Duration::from_millis(20)).await;
        }
        tgt.configure(files)?;
        for i in 0..files.len() {
            AnyTarget::open(&tgt.unit(i, false), OpenAs::default()).await?;
        }
        Ok(tgt)
    }

    fn configure(&self, files: &[(PathBuf, bool)]) -> Result<()> {
        let target = ["--mode", "target", "--tid", "1"];
        let on_target = |op: &[&str], rest: &[&str]| self.control(&[op, &target, rest].concat());
        on_target(&["--op", "new"], &["-T", IQN])?;
        for (name, value) in PARAMETERS {
            on_target(&["--op", "update"], &["-n", name, "-v", value])?;
        }
        for (i, (path, direct)) in files.iter().enumerate() {
            let lun = (usize::from(FIRST_LUN) + i).to_string();
            let path = path.display().to_string();
            let how: &[&str] = if *direct {
                // It opens with O_DIRECT by itself.
                &["--bstype", "aio"]
            } else {
                &["--bstype", "rdwr"]
            };
            let unit = ["--op", "new", "--mode", "logicalunit", "--tid", "1"];
            self.control(&[&unit[..], &["--lun", &lun, "-b", &path], how].concat())?;
        }
        on_target(&["--op", "bind"], &["-I", "ALL"])
    }

    fn control(&self, args: &[&str]) -> Result<()> {
        let program = find(CONTROL).ok_or_else(|| Error::program(CONTROL, "not installed"))?;
        let out = Command::new(program)
            .env("TGT_IPC_SOCKET", self.dir.join("socket"))
            .args(["--control-port", "1", "--lld", "iscsi"])
            .args(args)
            .output()
            .map_err(|e| Error::program(CONTROL, e))?;
        if out.status.success() {
            return Ok(());
        }
        let why = format!("{args:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
        Err(Error::program(CONTROL, why))
    }

    /// File `i` as a target; `ram` if it is memory.
    pub(super) fn unit(&self, i: usize, ram: bool) -> Address {
        Address::Iscsi(Iscsi {
            ram,
            ..Iscsi::new(self.at.to_string(), IQN, FIRST_LUN + i as u16)
        })
    }

    /// The server's process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
