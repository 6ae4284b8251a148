//! Resources of a process, from procfs: processor time, device I/O, memory.
//!
//! **Called by** the coordinator of a run, never on the data path. Source: proc(5), Documentation/scheduler.
//! **Invariants**: a process that ended or hides its counters gives `None`, never a made-up number.

use std::fs;
use std::path::Path;
use std::time::Duration;

use io::linux::process_cpu_time;

/// A reading of a process's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a processor, user and system, of all its threads.
    pub cpu: Duration,
    /// Bytes it made devices read and write; `None` if the counters are not readable.
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

    /// The resources used since `earlier`.
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

/// Whether the process exists and is not a zombie.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may contain any character.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Resident memory of a process: now and at its highest, bytes.
#[must_use]
pub fn resident(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((field(&text, "VmRSS:") << 10, field(&text, "VmHWM:") << 10))
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

/// The name of the processor, as the kernel reports it.
#[must_use]
pub fn processor_name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split_once(':'));
    name.map_or_else(|| "unknown processor".into(), |(_, n)| n.trim().to_owned())
}

/// Load average of the last minute.
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

    /// A ring's kernel workers end after being idle: before the fix, their time was missing then, and the sum fell.
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
    fn file_systems_have_names() {
        assert_eq!(
            file_system(Path::new("/proc/self/stat")).as_deref(),
            Some("proc")
        );
        assert!(machine_memory() > 1 << 20 && processors() > 0);
    }
}
