//! Processes and the kernel's limits: descriptors, user, processor time, and the process that listens on an address.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::Result;

/// Raises the limit of open descriptors to the highest value that this process may set. Returns it.
pub fn raise_fd_limit() -> Result<u64> {
    // SAFETY: both calls fill or read a local rlimit.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(limit.rlim_cur)
    }
}

/// Whether the process runs as root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Processor time of the calling thread (user and system).
#[must_use]
pub fn thread_cpu_time() -> Duration {
    cpu_clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// Processor time of a process (user and system) with all its threads, ended ones included, and the kernel's workers of its
/// rings. `None` if there is no such process.
#[must_use]
pub fn process_cpu_time(pid: u32) -> Option<Duration> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: fills a local clock's name.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    cpu_clock(clock)
}

fn cpu_clock(clock: libc::clockid_t) -> Option<Duration> {
    // SAFETY: fills a local timespec.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &raw mut t) != 0 {
            return None;
        }
        t
    };
    let ns = u32::try_from(t.tv_nsec).unwrap_or(0);
    Some(Duration::new(t.tv_sec.unsigned_abs(), ns))
}

/// The process of this machine that listens on `addr` or an overlapping address. `None` if there is none, or if this process
/// may not read its descriptors (proc(5)).
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

/// The inode of a listener whose address overlaps with `addr`, from a line of /proc/net/tcp; `None` for any other line.
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
    let fits = *state == LISTEN
        && u16::from_str_radix(port, 16).ok()? == addr.port()
        && (any || same || addr.ip().is_unspecified());
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

/// The name of a process's program (comm, proc(5)), without characters that a terminal acts on.
#[must_use]
pub fn command_name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_address() {
        let l = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let addr = l.local_addr().expect("bound");
        assert_eq!(listener(addr), Some(std::process::id()));
        let everywhere = SocketAddr::new("0.0.0.0".parse().expect("valid"), addr.port());
        assert_eq!(listener(everywhere), Some(std::process::id()));
        assert!(!command_name(std::process::id()).is_empty());
        drop(l);
        assert_eq!(listener(addr), None);
    }
}
