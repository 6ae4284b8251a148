//! Capture of kernel, processors, memory, clock and the server's process.
//!
//! **Called by** [`super`].

use super::parse::{cpu_list, line, number};
use crate::facts::{
    Cgroup, Clock, Cpu, CpuFrequency, IdleState, Kernel, Known, Memory, NumaNode, Process,
};
use crate::source::{Source, SourceExt, Unread};

/// Directories with modules that are loaded at boot.
const MODULE_DIRECTORIES: &[&str] = &[
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/lib/modules-load.d",
    "/etc/rdma/modules",
];
/// Bit of CAP_SYS_ADMIN in a process' capabilities.
const CAP_SYS_ADMIN: u64 = 1 << 21;
/// Most directories above a control group.
const CGROUP_DEPTH_MAX: usize = 32;

pub(super) fn kernel(source: &dyn Source) -> Kernel {
    let zfs = match source.read("/sys/module/zfs/version") {
        Ok(version) => Known::Value(Some(version)),
        Err(Unread::Missing(_)) => Known::Value(None),
        Err(e) => Known::unknown(e.reason()),
    };
    Kernel {
        release: source.text("/proc/sys/kernel/osrelease"),
        version: source.text("/proc/sys/kernel/version"),
        modules: crate::source::known(source.list("/sys/module")),
        boot_modules: Known::Value(boot_modules(source)),
        distribution: distribution(source),
        zfs,
        io_uring_disabled: source.parse_or("/proc/sys/kernel/io_uring_disabled", 0),
        numa_balancing: source.parse_or("/proc/sys/kernel/numa_balancing", 0),
    }
}

/// `ID` and `ID_LIKE` (os-release(5)).
fn distribution(source: &dyn Source) -> Known<String> {
    let text = source.read("/etc/os-release");
    let text = match text.or_else(|_| source.read("/usr/lib/os-release")) {
        Ok(text) => text,
        Err(e) => return Known::unknown(e.reason()),
    };
    let value = |key: &str| {
        let value = text.lines().find_map(|l| l.strip_prefix(key));
        value.unwrap_or_default().trim_matches(['"', '\''])
    };
    let words = format!("{} {}", value("ID="), value("ID_LIKE="));
    Known::Value(words.trim().to_owned())
}

/// Modules by their name in the kernel. Directories that do not exist have none.
fn boot_modules(source: &dyn Source) -> Vec<String> {
    let mut files = vec!["/etc/modules".to_owned()];
    for directory in MODULE_DIRECTORIES {
        let names = source.list(directory).unwrap_or_default();
        let names = names.iter().filter(|n| n.ends_with(".conf"));
        files.extend(names.map(|n| format!("{directory}/{n}")));
    }
    let texts = files.iter().filter_map(|f| source.read(f).ok());
    let mut modules = Vec::new();
    for text in texts {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|l| !l.is_empty() && !l.starts_with(['#', ';']));
        let words = lines.filter_map(|l| l.split_whitespace().next());
        modules.extend(words.map(|m| m.replace('-', "_")));
    }
    modules
}

pub(super) fn cpu(source: &dyn Source) -> Cpu {
    let online = list_of(source, "/sys/devices/system/cpu/online");
    let frequency = online.clone().map(|cpus| frequency(source, &cpus));
    Cpu {
        online,
        nodes: nodes(source),
        frequency,
        idle: idle(source),
        steal_percent: steal(source),
    }
}

fn list_of(source: &dyn Source, path: &str) -> Known<Vec<u32>> {
    match source.read(path) {
        Ok(text) => match cpu_list(&text) {
            Some(cpus) => Known::Value(cpus),
            None => Known::unknown(format!("{path} has no valid list")),
        },
        Err(e) => Known::unknown(e.reason()),
    }
}

fn nodes(source: &dyn Source) -> Known<Vec<NumaNode>> {
    let directory = "/sys/devices/system/node";
    let names = source.list_or_empty(directory);
    names.map(|names| {
        let node = |name: &String| {
            let node = name.strip_prefix("node")?.parse().ok()?;
            let cpus = source.read(&format!("{directory}/{name}/cpulist")).ok()?;
            let cpus = cpu_list(&cpus)?;
            Some(NumaNode { node, cpus })
        };
        names.iter().filter_map(node).collect()
    })
}

fn frequency(source: &dyn Source, cpus: &[u32]) -> Vec<CpuFrequency> {
    let directory = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let cpus = cpus.iter().copied();
    cpus.filter(|cpu| source.exists(&directory(*cpu)))
        .map(|cpu| CpuFrequency {
            cpu,
            governor: source.text(&format!("{}/scaling_governor", directory(cpu))),
            max_khz: source.parse(&format!("{}/cpuinfo_max_freq", directory(cpu))),
            limit_khz: source.parse(&format!("{}/scaling_max_freq", directory(cpu))),
        })
        .collect()
}

fn idle(source: &dyn Source) -> Known<Vec<IdleState>> {
    let directory = "/sys/devices/system/cpu/cpu0/cpuidle";
    source.list_or_empty(directory).map(|states| {
        let state = |name: &String| {
            let file = |file: &str| source.read(&format!("{directory}/{name}/{file}")).ok();
            Some(IdleState {
                name: file("name")?,
                latency_us: file("latency")?.parse().ok()?,
                is_disabled: file("disable")? != "0",
            })
        };
        let states = states.iter().filter(|n| n.starts_with("state"));
        states.filter_map(state).collect()
    })
}

/// Share of the eighth value of the first line of `/proc/stat` (proc(5), "cpu").
fn steal(source: &dyn Source) -> Known<f64> {
    source.text("/proc/stat").map(|text| {
        let values = text.lines().next().unwrap_or_default();
        let values = values.split_whitespace().skip(1);
        let values: Vec<f64> = values.take(8).map(|v| v.parse().unwrap_or(0.0)).collect();
        let all: f64 = values.iter().sum();
        let stolen = values.get(7).copied().unwrap_or(0.0);
        if all > 0.0 { stolen * 100.0 / all } else { 0.0 }
    })
}

pub(super) fn memory(source: &dyn Source) -> Memory {
    let text = source.text("/proc/meminfo");
    let bytes = |name: &str| match &text {
        Known::Value(text) => match number::<u64>(text, name) {
            Some(kib) => Known::Value(kib.saturating_mul(1024)),
            None => Known::unknown(format!("/proc/meminfo has no {name}")),
        },
        Known::Unknown { unknown } => Known::unknown(unknown),
    };
    let total = bytes("MemTotal");
    let dirty_max = match source.parse::<u64>("/proc/sys/vm/dirty_bytes") {
        Known::Value(0) => match (source.parse::<u64>("/proc/sys/vm/dirty_ratio"), &total) {
            (Known::Value(percent), Known::Value(total)) => {
                Known::Value(total / 100 * percent.min(100))
            }
            (unknown, _) => unknown,
        },
        other => other,
    };
    Memory {
        available: bytes("MemAvailable"),
        total,
        dirty_max,
    }
}

pub(super) fn clock(source: &dyn Source) -> Clock {
    let word = source.run("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]);
    let is_synchronised = match word.as_deref().map(str::trim) {
        Ok("yes") => Known::Value(true),
        Ok("no") => Known::Value(false),
        Ok(_) => Known::unknown("timedatectl has no answer"),
        Err(e) => Known::unknown(e.reason()),
    };
    Clock {
        source: source.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        is_synchronised,
    }
}

pub(super) fn process(source: &dyn Source, pid: u32) -> Process {
    let limits = source.text(&format!("/proc/{pid}/limits"));
    let limit = |name: &str| {
        let text = limits.value()?;
        let word = line(text, name)?.split_whitespace().next()?;
        Some(match word {
            "unlimited" => None,
            word => Some(word.parse::<u64>().ok()?),
        })
    };
    let reason = match &limits {
        Known::Unknown { unknown } => unknown.clone(),
        Known::Value(_) => format!("/proc/{pid}/limits has no such line"),
    };
    let status = source.text(&format!("/proc/{pid}/status"));
    let of_status = |name: &str| match &status {
        Known::Value(text) => match line(text, name) {
            Some(value) => Known::Value(value.to_owned()),
            None => Known::unknown(format!("/proc/{pid}/status has no {name}")),
        },
        Known::Unknown { unknown } => Known::unknown(unknown),
    };
    let first = |text: &str| text.split_whitespace().next().and_then(|w| w.parse().ok());
    Process {
        pid,
        memlock: limit("Max locked memory").map_or(Known::unknown(&reason), Known::Value),
        open_files: limit("Max open files").map_or(Known::unknown(&reason), |limit| {
            Known::Value(limit.unwrap_or(u64::MAX))
        }),
        swapped: of_status("VmSwap").map(|text| first(&text).unwrap_or(0u64).saturating_mul(1024)),
        cpus: of_status("Cpus_allowed_list").map(|text| cpu_list(&text).unwrap_or_default()),
        is_privileged: of_status("CapEff").map(|text| {
            let capabilities = u64::from_str_radix(&text, 16).unwrap_or(0);
            capabilities & CAP_SYS_ADMIN != 0
        }),
        cgroup: cgroup(source, pid),
    }
}

/// Limits of version 2 of control groups (Documentation/admin-guide/cgroup-v2.rst).
fn cgroup(source: &dyn Source, pid: u32) -> Cgroup {
    let unknown = |reason: String| Cgroup {
        memory_max: Known::unknown(&reason),
        cpu_max: Known::unknown(&reason),
        throttled: Known::unknown(&reason),
    };
    let text = match source.read(&format!("/proc/{pid}/cgroup")) {
        Ok(text) => text,
        Err(e) => return unknown(e.reason().to_owned()),
    };
    let is_old = |l: &str| {
        l.split(':')
            .nth(1)
            .is_some_and(|c| c == "memory" || c == "cpu")
    };
    let own = text.lines().find_map(|l| l.strip_prefix("0::"));
    let (Some(own), false) = (own, text.lines().any(is_old)) else {
        return unknown("control groups of version 1 are not read".into());
    };
    let mut memory: Option<u64> = None;
    let mut cpu: Option<f64> = None;
    let mut throttled = 0;
    let mut group = own.trim_end_matches('/');
    for _ in 0..CGROUP_DEPTH_MAX {
        let file = |name: &str| source.read(&format!("/sys/fs/cgroup{group}/{name}")).ok();
        let limit = file("memory.max").and_then(|t| t.parse::<u64>().ok());
        memory = [memory, limit].into_iter().flatten().min();
        let quota = file("cpu.max").and_then(|t| cpu_quota(&t));
        cpu = [cpu, quota].into_iter().flatten().reduce(f64::min);
        let periods = file("cpu.stat").and_then(|t| number::<u64>(&t, "nr_throttled"));
        throttled = throttled.max(periods.unwrap_or(0));
        let Some((parent, _)) = group.rsplit_once('/') else {
            break;
        };
        group = parent;
    }
    Cgroup {
        memory_max: Known::Value(memory),
        cpu_max: Known::Value(cpu),
        throttled: Known::Value(throttled),
    }
}

/// Processors of a text such as `50000 100000` or `max 100000`.
fn cpu_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}
