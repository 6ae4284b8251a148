//! What a process used, from procfs: processor time, bytes to and from devices, memory; and which process serves
//! an address.
//!
//! **Called by** the coordinator of a run, never on the data path. Source: proc(5), Documentation/scheduler.
//! **Invariants**: a process that ends or hides its counters gives `None`, never a made-up number.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use io::linux::process_cpu_time;

/// A reading of a process's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a processor, user and system, of all its threads.
    pub cpu: Duration,
    /// Bytes it made devices read and write; `None` where we may not see them.
    pub device: Option<Traffic>,
}

/// Bytes to and from devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Usage {
    /// Of process `pid` now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Usage> {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).ok();
        let device = io.map(|t| Traffic {
            read: field(&t, "read_bytes:"),
            written: field(&t, "write_bytes:"),
        });
        Some(Usage {
            cpu: process_cpu_time(pid)?,
            device,
        })
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Usage) -> Usage {
        let device = self.device.zip(earlier.device).map(|(now, then)| Traffic {
            read: now.read.saturating_sub(then.read),
            written: now.written.saturating_sub(then.written),
        });
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            device,
        }
    }
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|l| l.strip_prefix(name));
    value
        .and_then(|v| v.split_whitespace().next())
        .and_then(|v| v.parse().ok())
        .unwrap_or(0)
}

/// True while the process is there and not merely waiting to be reaped.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may hold anything.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Resident memory of a process: now and at its highest, bytes.
#[must_use]
pub fn resident(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((field(&text, "VmRSS:") << 10, field(&text, "VmHWM:") << 10))
}

/// The process of this machine that listens on `addr`, if we may see it.
#[must_use]
pub fn listener(addr: SocketAddr) -> Option<u32> {
    let mut inodes = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        inodes.extend(
            text.lines()
                .skip(1)
                .filter_map(|l| listening_inode(l, addr)),
        );
    }
    if inodes.is_empty() {
        return None;
    }
    let pids = fs::read_dir("/proc").ok()?.flatten();
    pids.filter_map(|e| e.file_name().to_str()?.parse().ok())
        .find(|pid| holds_socket(*pid, &inodes))
}

/// The socket's inode if a line of /proc/net/tcp is a listener that would take connections to `addr`.
fn listening_inode(line: &str, addr: SocketAddr) -> Option<String> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let any = ip.bytes().all(|b| b == b'0');
    let same = match addr.ip() {
        IpAddr::V4(v4) => {
            let hex = format!("{:08X}", u32::from_ne_bytes(v4.octets()));
            ip == hex || ip.ends_with(&format!("FFFF0000{hex}"))
        }
        IpAddr::V6(_) => ip.len() == 32,
    };
    let fits =
        *state == LISTEN && u16::from_str_radix(port, 16).ok()? == addr.port() && (any || same);
    fits.then(|| (*inode).to_owned())
}

fn holds_socket(pid: u32, inodes: &BTreeSet<String>) -> bool {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    fds.flatten().any(|fd| {
        let link = fs::read_link(fd.path()).unwrap_or_default();
        let inode = link
            .to_str()
            .and_then(|l| l.strip_prefix("socket:["))
            .and_then(|l| l.strip_suffix(']'));
        inode.is_some_and(|i| inodes.contains(i))
    })
}

/// Memory of this machine, bytes.
#[must_use]
pub fn machine_memory() -> u64 {
    field(
        &fs::read_to_string("/proc/meminfo").unwrap_or_default(),
        "MemTotal:",
    ) << 10
}

/// Processors this process may use.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The name of the processor, as the kernel tells it.
#[must_use]
pub fn processor_name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split_once(':'));
    name.map_or_else(|| "unknown processor".into(), |(_, n)| n.trim().to_owned())
}

/// Tasks that ran or wanted to, on average over the last minute.
#[must_use]
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|v| v.parse().ok())
        .unwrap_or(0.0)
}

/// The kernel's release.
#[must_use]
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The type of the file system that holds `path` (the longest mount point above it).
#[must_use]
pub fn file_system(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let above = mounts.lines().filter_map(|l| {
        let mut f = l.split_whitespace().skip(1);
        Some((f.next()?, f.next()?))
    });
    let best = above
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.len());
    best.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_and_memory_are_there_and_grow() {
        let pid = std::process::id();
        let before = Usage::of(pid).expect("we exist");
        let mut x = 1u64;
        while Usage::of(pid).expect("we exist").since(before).cpu < Duration::from_millis(5) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let (now, high) = resident(pid).expect("we exist");
        assert!(now > 1 << 20 && high >= now);
        assert!(process_cpu_time(u32::MAX).is_none());
    }

    /// The kernel's workers of a ring end when they have been idle: what they had used was missing then, and the sum fell.
    #[test]
    fn the_time_of_threads_that_ended_counts() {
        let pid = std::process::id();
        let before = process_cpu_time(pid).expect("we exist");
        let busy = Duration::from_millis(20);
        let thread = std::thread::spawn(move || {
            while io::linux::thread_cpu_time() < busy {
                std::hint::spin_loop();
            }
        });
        thread.join().expect("it ends");
        let after = process_cpu_time(pid).expect("we exist");
        assert!(after - before >= busy, "{:?}", after - before);
    }

    #[test]
    fn a_listener_is_found_by_its_address() {
        let l = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let addr = l.local_addr().expect("bound");
        assert_eq!(listener(addr), Some(std::process::id()));
        drop(l);
        assert_eq!(listener(addr), None);
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!(
            file_system(Path::new("/proc/self/stat")).as_deref(),
            Some("proc")
        );
        assert!(machine_memory() > 1 << 20 && processors() > 0);
    }
}
