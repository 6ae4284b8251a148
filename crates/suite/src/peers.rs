//! The other servers: Debian's `qemu-storage-daemon` (NBD, driven by fio's nbd engine), `tgt` and `nfs-ganesha`.
//!
//! **Owns** each as a child, with files and sockets of its own, so that an existing server of this machine is not disturbed.
//! **Invariants**: they are pinned like our server and listen on loopback. tgt negotiates the same values as our target, so that targets are
//! compared and not their defaults; it needs no root, and its log mentions that it cannot lock its memory or raise its limits. Ganesha runs
//! as root without grace period, delegations and other protocols; its other values are its defaults.

use crate::bench::{Bench, Files};
use crate::point::{Point, open};
use crate::rows::Table;
use io::linux::process_cpu_time;
use lab::child::{Child, find, missing as not_installed, output, pinned};
use lab::served::free_port;
use lab::targets::iscsi_address::Iscsi;
use lab::targets::nfs_address::Nfs;
use lab::targets::{Address, AnyTarget, OpenAs};
use lab::workload::Workload;
use lab::{Error, Result};
use serde_json::Value;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const QEMU: &str = "qemu-storage-daemon";
const FIO: &str = "fio";
const TGTD: &str = "tgtd";
const TGTADM: &str = "tgtadm";
const IQN: &str = "iqn.2001-04.org.example:tgt";
const GANESHA: &str = "ganesha.nfsd";
/// Ends a child with its parent.
const TETHER: &str = "setpriv";
/// Ganesha's access to local file systems.
const VFS: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so",
    "/usr/lib/aarch64-linux-gnu/ganesha/libfsalvfs.so",
];
/// tgt's parameters, in place of its defaults.
const PARAMETERS: [(&str, &str); 6] = [
    ("MaxRecvDataSegmentLength", "262144"),
    ("MaxXmitDataSegmentLength", "262144"),
    ("MaxBurstLength", "1048576"),
    ("FirstBurstLength", "131072"),
    ("InitialR2T", "No"),
    ("MaxOutstandingR2T", "4"),
];
/// LUN 0 is tgt's controller.
const FIRST_LUN: u16 = 1;

/// What the other server of a table lacks on this machine.
pub(crate) fn missing(table: Table) -> Vec<&'static str> {
    let mut missing = match table {
        Table::Nvme => not_installed(&[QEMU, FIO]),
        Table::Iscsi => not_installed(&[TGTD, TGTADM, TETHER]),
        Table::Nfs => not_installed(&[GANESHA, TETHER]),
        Table::Pool => Vec::new(),
    };
    if table == Table::Nfs && !VFS.iter().any(|path| Path::new(path).exists()) {
        missing.push("nfs-ganesha-vfs");
    }
    if table == Table::Nfs && missing.is_empty() && !io::linux::is_root() {
        missing.push("root (for nfs-ganesha)");
    }
    missing
}

/// Waits until a server takes connections.
async fn until_open(child: &mut Child, at: SocketAddr) -> Result<()> {
    let open = || TcpStream::connect(at).map_err(|e| Error::target(at, e));
    child.until(async || open().map(drop)).await
}

/// A directory for a server's files.
pub(crate) fn directory(within: &Path, name: &str) -> Result<PathBuf> {
    let dir = within.join(name);
    std::fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    Ok(dir)
}

/// qemu-storage-daemon with exports `e0`, `e1`.
pub(crate) struct Nbd {
    pub(crate) server: Child,
    at: SocketAddr,
}

impl Nbd {
    /// Serves `files`; those marked true with O_DIRECT. Errors: `Program`.
    pub(crate) async fn start(bench: &Bench, files: &Files) -> Result<Nbd> {
        let at = free_port(0)?;
        let port = at.port();
        let mut args = vec![
            "--nbd-server".to_owned(),
            format!("addr.type=inet,addr.host=127.0.0.1,addr.port={port}"),
        ];
        for (i, (path, direct)) in files.iter().enumerate() {
            let how = if *direct {
                ",cache.direct=on,aio=io_uring"
            } else {
                ""
            };
            let path = path.display();
            args.extend([
                "--blockdev".into(),
                format!("driver=file,node-name=f{i},filename={path}{how}"),
                "--export".into(),
                format!("type=nbd,id=e{i},node-name=f{i},writable=on,name=e{i}"),
            ]);
        }
        let (cpus, log) = (bench.processors().0, bench.place.0.join("nbd.log"));
        let mut server = Child::start(Path::new(QEMU), &args, cpus, &log)?;
        until_open(&mut server, at).await?;
        Ok(Nbd { server, at })
    }

    /// One run of fio against an export. Errors: `Program`.
    pub(crate) fn run(&self, bench: &Bench, export: usize, w: &Workload) -> Result<Point> {
        let job = bench.place.0.join("nbd.fio");
        let (mode, size, depth, at) = (w.mode(), w.block_size, w.depth, self.at);
        let text = format!(
            "[nbd]\nioengine=nbd\nuri=nbd://{at}/e{export}\nrw={mode}\nbs={size}\niodepth={depth}\ntime_based=1\nruntime={}ms\nrefill_buffers=0\nscramble_buffers=1\n",
            w.runtime.as_millis()
        );
        std::fs::write(&job, text).map_err(Error::file(&job))?;
        let pid = self.server.pid();
        let before = process_cpu_time(pid);
        let mut fio = pinned(Path::new(FIO), bench.processors().1);
        let said = output(fio.arg("--output-format=json").arg(&job))?;
        let cpu = before.zip(process_cpu_time(pid));
        let cpu = cpu.map(|(before, after)| after.saturating_sub(before));
        // Warnings may come before the document.
        let said = serde_json::from_str(&said[said.find('{').unwrap_or(0)..]);
        let said = said.map_err(|e| Error::program(FIO, e))?;
        of_fio(&said, cpu).ok_or_else(|| Error::program(FIO, "its JSON has no results"))
    }
}

/// The result of the only job in fio's JSON.
fn of_fio(said: &Value, cpu: Option<Duration>) -> Option<Point> {
    let job = said.get("jobs")?.get(0)?;
    let has_ios = |side: &&Value| side["total_ios"].as_u64().is_some_and(|n| n > 0);
    let side = [&job["read"], &job["write"]].into_iter().find(has_ios)?;
    let ios = side["total_ios"].as_f64()?;
    Some(Point {
        rate: Some(side["iops"].as_f64()?),
        bytes_per_s: Some(side["bw_bytes"].as_f64()?),
        time_us: Some(side["clat_ns"]["percentile"]["50.000000"].as_f64()? / 1000.0),
        cpu_us: cpu.map(|c| c.as_secs_f64() * 1e6 / ios),
        ..Point::default()
    })
}

/// tgt with one logical unit for each file.
pub(crate) struct Tgt {
    pub(crate) server: Child,
    at: SocketAddr,
    dir: PathBuf,
}

impl Tgt {
    /// Serves `files`; those marked true with O_DIRECT and Linux's asynchronous I/O, the others through the page cache.
    /// Errors: `Program`.
    pub(crate) async fn start(bench: &Bench, files: &Files) -> Result<Tgt> {
        let (at, dir) = (free_port(0)?, directory(&bench.place.0, "tgt")?);
        let program = find(TGTD).ok_or_else(|| Error::program(TGTD, "not installed"))?;
        let socket = format!("TGT_IPC_SOCKET={}", dir.join("socket").display());
        let (program, portal) = (program.display().to_string(), format!("portal={at}"));
        let args = [
            &socket,
            &program,
            "--foreground",
            "--control-port",
            "1",
            "--iscsi",
            &portal,
        ];
        let args = args.map(str::to_owned);
        let mut server = Child::tethered("env", &args, bench.processors().0, &dir.join("log"))?;
        let is_up = async || control(&dir, &["--op", "show", "--mode", "sys"]);
        server.until(is_up).await?;
        let tgt = Tgt { server, at, dir };
        tgt.configure(files)?;
        for i in 0..files.len() as u16 {
            open(&tgt.unit(i, false), false).await?;
        }
        Ok(tgt)
    }

    fn configure(&self, files: &Files) -> Result<()> {
        let target = ["--mode", "target", "--tid", "1"];
        let on_target = |op: &str, rest: &[&str]| {
            control(&self.dir, &[&["--op", op], &target[..], rest].concat())
        };
        on_target("new", &["-T", IQN])?;
        for (name, value) in PARAMETERS {
            on_target("update", &["-n", name, "-v", value])?;
        }
        for (lun, (path, direct)) in (FIRST_LUN..).zip(files) {
            let (lun, path) = (lun.to_string(), path.display().to_string());
            // `aio` opens with O_DIRECT by itself
            let store = if *direct { "aio" } else { "rdwr" };
            let unit = ["--op", "new", "--mode", "logicalunit", "--tid", "1"];
            let file = ["--lun", &lun, "-b", &path, "--bstype", store];
            control(&self.dir, &[&unit[..], &file].concat())?;
        }
        on_target("bind", &["-I", "ALL"])
    }

    /// File `i` as a target; `ram` if it is memory.
    pub(crate) fn unit(&self, i: u16, ram: bool) -> Address {
        Address::Iscsi(Iscsi {
            ram,
            ..Iscsi::new(self.at.to_string(), IQN, FIRST_LUN + i)
        })
    }
}

fn control(dir: &Path, args: &[&str]) -> Result<()> {
    let program = find(TGTADM).ok_or_else(|| Error::program(TGTADM, "not installed"))?;
    let mut command = Command::new(program);
    command.env("TGT_IPC_SOCKET", dir.join("socket"));
    command
        .args(["--control-port", "1", "--lld", "iscsi"])
        .args(args);
    output(&mut command).map(drop)
}

/// A directory that a server exports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) at: SocketAddr,
    /// The path that clients mount.
    pub(crate) path: &'static str,
}

impl Share {
    /// A file in it as a target.
    pub(crate) fn named(&self, name: &str) -> Address {
        let path = format!("{}/{name}", self.path.trim_start_matches('/'));
        Address::Nfs(Nfs {
            user: Some((0, 0)),
            ram: true,
            ..Nfs::new(self.at.to_string(), path)
        })
    }
}

/// nfs-ganesha with a directory in memory.
pub(crate) async fn ganesha(bench: &Bench) -> Result<(Child, Share)> {
    let export = directory(&bench.memory.0, "ganesha")?;
    let dir = directory(&bench.place.0, "ganesha")?;
    let (at, config) = (free_port(0)?, dir.join("ganesha.conf"));
    let (root, port) = (dir.display(), at.port());
    let text = format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSV4 {{ Graceless = true; Minor_Versions = 1, 2; Delegations = false; RecoveryBackend = fs; RecoveryRoot = \"{root}\"; }}\n\
         EXPORT {{ Export_Id = 1; Path = {export:?}; Pseudo = \"/export\"; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n\
         LOG {{ Default_Log_Level = EVENT; }}\n"
    );
    std::fs::write(&config, text).map_err(Error::file(&config))?;
    let mut args = vec!["-F".to_owned()];
    for (option, file) in [("-f", "ganesha.conf"), ("-L", "log"), ("-p", "pid")] {
        args.extend([option.to_owned(), dir.join(file).display().to_string()]);
    }
    let cpus = bench.processors().0;
    let mut server = Child::tethered(GANESHA, &args, cpus, &dir.join("output"))?;
    let share = Share {
        at,
        path: "/export",
    };
    // It listens before it serves.
    until_open(&mut server, at).await?;
    let (probe, how) = (
        share.named("probe"),
        OpenAs {
            writable: true,
            create: Some(1 << 20),
        },
    );
    let is_up = async || AnyTarget::open(&probe, how).await.map(drop);
    server.until(is_up).await?;
    Ok((server, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_fio_document_is_understood() {
        let real = include_str!("../../lab/data/fio-3.33-null.json");
        let real: Value = serde_json::from_str(real).expect("fio wrote JSON");
        let p = of_fio(&real, Some(Duration::from_secs(1))).expect("it has results");
        assert!((p.rate.expect("given") - 696_117.88).abs() < 0.1);
        assert_eq!(p.time_us, Some(0.27));
        assert!((p.cpu_us.expect("given") - 1e6 / 696_814.0).abs() < 1e-9);
        assert!(of_fio(&Value::Null, None).is_none());
    }
}
