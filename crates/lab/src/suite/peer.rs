//! The peer: Debian's `qemu-storage-daemon` (NBD) driven by fio's nbd engine.
//!
//! **Owns** the peer's server as a child and each fio run. **Invariants**: both are pinned like ours; results come
//! from fio's JSON, the server's processor time from procfs, as for our own server.

use super::point::Point;
use crate::limits::CHILD_START_MAX;
use crate::served::{spawn, stop};
use crate::{Error, Result};
use io::linux::process_cpu_time;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const SERVER: &str = "qemu-storage-daemon";
const CLIENT: &str = "fio";

/// The peer's server with one export for each file.
pub(super) struct Peer {
    child: Child,
    at: SocketAddr,
    client_cpus: String,
    dir: PathBuf,
}

/// The programs of the peer that are not installed.
pub(super) fn missing() -> Vec<&'static str> {
    let there = |name: &str| {
        std::env::var_os("PATH")
            .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(name).exists()))
    };
    [SERVER, CLIENT].into_iter().filter(|n| !there(n)).collect()
}

impl Peer {
    /// Serves `files` as exports `e0`, `e1`, …; those marked true with O_DIRECT. Errors: `Program`.
    pub(super) async fn start(
        files: &[(PathBuf, bool)],
        cpus: (&str, &str),
        dir: &Path,
    ) -> Result<Peer> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let at = free.map_err(|e| Error::target("127.0.0.1", e))?;
        let mut args = Vec::new();
        for (i, (path, direct)) in files.iter().enumerate() {
            let how = if *direct {
                ",cache.direct=on,aio=io_uring"
            } else {
                ""
            };
            args.push("--blockdev".into());
            args.push(format!(
                "driver=file,node-name=f{i},filename={}{how}",
                path.display()
            ));
        }
        args.push("--nbd-server".into());
        args.push(format!(
            "addr.type=inet,addr.host=127.0.0.1,addr.port={}",
            at.port()
        ));
        for i in 0..files.len() {
            args.push("--export".into());
            args.push(format!(
                "type=nbd,id=e{i},node-name=f{i},writable=on,name=e{i}"
            ));
        }
        let log = dir.join("peer.log");
        let child = spawn(Path::new(SERVER), &args, cpus.0, &log)?;
        let mut peer = Peer {
            child,
            at,
            client_cpus: cpus.1.into(),
            dir: dir.into(),
        };
        let deadline = Instant::now() + CHILD_START_MAX;
        while TcpStream::connect(peer.at).is_err() {
            if peer.child.try_wait().is_ok_and(|s| s.is_some()) || Instant::now() > deadline {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(Error::program(
                    SERVER,
                    format!("does not serve: {}", said.trim()),
                ));
            }
            io::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(peer)
    }

    /// One run of fio against export `export`. Errors: `Program`.
    pub(super) fn run(
        &self,
        export: usize,
        mode: &str,
        block_size: u32,
        depth: u32,
        seconds: f64,
    ) -> Result<Point> {
        let job = self.dir.join("peer.fio");
        let uri = format!("nbd://{}/e{export}", self.at);
        let text = format!(
            "[peer]\nioengine=nbd\nuri={uri}\nrw={mode}\nbs={block_size}\niodepth={depth}\ntime_based=1\nruntime={}ms\nrefill_buffers=0\nscramble_buffers=1\n",
            (seconds * 1000.0) as u64
        );
        std::fs::write(&job, text).map_err(Error::file(&job))?;
        let pid = self.child.id();
        let before = process_cpu_time(pid);
        let mut command = if self.client_cpus.is_empty() {
            Command::new(CLIENT)
        } else {
            let mut c = Command::new("taskset");
            c.args(["-c", &self.client_cpus, CLIENT]);
            c
        };
        let out = command
            .arg("--output-format=json")
            .arg(&job)
            .output()
            .map_err(|e| Error::program(CLIENT, e))?;
        let after = process_cpu_time(pid);
        if !out.status.success() {
            return Err(Error::program(
                CLIENT,
                String::from_utf8_lossy(&out.stderr).trim(),
            ));
        }
        let text = String::from_utf8_lossy(&out.stdout);
        // Warnings may come before the document.
        let start = text.find('{').unwrap_or(0);
        let said: Value =
            serde_json::from_str(&text[start..]).map_err(|e| Error::program(CLIENT, e))?;
        let cpu = before.zip(after).map(|(b, a)| a.saturating_sub(b));
        point(&said, cpu).ok_or_else(|| Error::program(CLIENT, "its JSON has no results"))
    }

    /// Ends the server.
    pub(super) fn stop(mut self) -> Result<()> {
        stop(&mut self.child, SERVER)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = stop(&mut self.child, SERVER);
        }
    }
}

/// The result of the only job in fio's JSON.
fn point(said: &Value, cpu: Option<Duration>) -> Option<Point> {
    let job = said.get("jobs")?.get(0)?;
    let sides = ["read", "write"].map(|s| &job[s]);
    let side = sides
        .into_iter()
        .find(|s| s["total_ios"].as_u64().is_some_and(|n| n > 0))?;
    let ios = side["total_ios"].as_f64()?;
    Some(Point {
        iops: side["iops"].as_f64()?,
        bytes_per_s: side["bw_bytes"].as_f64()?,
        p50_us: side["clat_ns"]["percentile"]["50.000000"].as_f64()? / 1000.0,
        server_us: cpu.map(|c| c.as_secs_f64() * 1e6 / ios),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_fio_document_is_understood() {
        let real: Value = serde_json::from_str(include_str!("../../data/fio-3.33-null.json"))
            .expect("fio wrote JSON");
        let p = point(&real, Some(Duration::from_secs(1))).expect("it has results");
        assert!((p.iops - 696_117.88).abs() < 0.1 && p.p50_us == 0.27);
        assert!((p.server_us.expect("given") - 1e6 / 696_814.0).abs() < 1e-9);
        assert!(point(&Value::Null, None).is_none());
    }
}
