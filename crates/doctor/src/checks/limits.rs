//! Checks of the limits of the server's process and of memory.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; without a server they are not made.

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Process, Server};
use crate::report::Severity;
use crate::step::Step;

/// Descriptors of the server beside connections: disks, rings, logs.
const DESCRIPTORS_OTHER: u64 = 256;
/// Memory of the server beside buffers and caches, bytes.
const MEMORY_OTHER: u64 = 256 << 20;
/// Share of memory that should be available, percent.
const AVAILABLE_PERCENT: u64 = 5;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "memlock",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a limit of locked memory below the server's buffers",
        why: "Registered buffers have to be locked. Without them the kernel pins pages for each request; RDMA does not work at all.",
        risk: "The server has to be restarted; clients wait and reconnect.",
        judge: memlock,
    },
    Check {
        id: "open-files",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a limit of open descriptors below the connections that the configuration allows",
        why: "The server refuses connections when descriptors run out, before its own limit.",
        risk: "The server has to be restarted; clients wait and reconnect.",
        judge: open_files,
    },
    Check {
        id: "cgroup-memory",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a control group with less memory than the server's buffers and caches",
        why: "Under load the kernel kills the server; all clients lose it at once.",
        risk: "Other services of the machine have less memory.",
        judge: cgroup_memory,
    },
    Check {
        id: "cgroup-cpu",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a control group whose limit of processor time stopped the server",
        why: "The server stands still for the rest of each period (mostly 100 ms): latencies have gaps of that length.",
        risk: "Other services of the machine have less processor time.",
        judge: cgroup_cpu,
    },
    Check {
        id: "server-swapped",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a server with memory in swap",
        why: "A request that touches such a page waits for a disk.",
        risk: "Without swap the kernel kills processes when memory runs out.",
        judge: swapped,
    },
    Check {
        id: "memory-low",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "less than 5 % of memory available",
        why: "The kernel reclaims memory inside of network and disk operations, which stall meanwhile.",
        risk: "Smaller caches read more from disks.",
        judge: memory_low,
    },
];

fn server<'f>(facts: &'f Facts, j: &mut Judge) -> Option<(&'f Server, &'f Process)> {
    let server = j.know("", &facts.server)?;
    Some((server, j.know("", &facts.process)?))
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// A setting of the server's systemd unit, in a drop-in of the check.
fn unit(j: &Judge, lines: &[&str]) -> Vec<Step> {
    let lines: Vec<&str> = ["[Service]"]
        .into_iter()
        .chain(lines.iter().copied())
        .collect();
    let path = format!(
        "/etc/systemd/system/wirepool.service.d/90-doctor-{}.conf",
        j.check()
    );
    vec![
        Step::run(&["mkdir", "-p", "/etc/systemd/system/wirepool.service.d"]),
        Step::file(path, &lines),
        Step::run(&["systemctl", "daemon-reload"]),
        Step::restart_server(),
    ]
}

fn memlock(facts: &Facts, j: &mut Judge) {
    let Some((server, process)) = server(facts, j) else {
        return;
    };
    let limit = j.know_if_any("", &process.memlock).copied();
    if let Some(limit) = limit.filter(|l| *l < server.buffer_limit) {
        let evidence = format!(
            "limit {} KiB; buffers {} MiB",
            limit >> 10,
            mib(server.buffer_limit)
        );
        let steps = unit(j, &["LimitMEMLOCK=infinity"]);
        j.find("server", evidence, steps);
    }
}

fn open_files(facts: &Facts, j: &mut Judge) {
    let Some((server, process)) = server(facts, j) else {
        return;
    };
    let needed = server.connections_max.saturating_add(DESCRIPTORS_OTHER);
    if let Some(limit) = j.know("", &process.open_files).filter(|l| **l < needed) {
        let evidence = format!(
            "limit {limit}; connections up to {}",
            server.connections_max
        );
        let line = format!("LimitNOFILE={}", needed.next_power_of_two());
        let steps = unit(j, &[&line]);
        j.find("server", evidence, steps);
    }
}

fn cgroup_memory(facts: &Facts, j: &mut Judge) {
    let Some((server, process)) = server(facts, j) else {
        return;
    };
    let needed = server.buffer_limit + server.cache_limit + MEMORY_OTHER;
    let limit = j.know_if_any("", &process.cgroup.memory_max).copied();
    if let Some(limit) = limit.filter(|l| *l < needed) {
        let evidence = format!(
            "limit {} MiB; buffers {} MiB, caches {} MiB",
            mib(limit),
            mib(server.buffer_limit),
            mib(server.cache_limit)
        );
        let line = format!("MemoryMax={}M", mib(needed * 5 / 4));
        let steps = unit(j, &[&line]);
        j.find("server", evidence, steps);
    }
}

fn cgroup_cpu(facts: &Facts, j: &mut Judge) {
    let Some((_, process)) = server(facts, j) else {
        return;
    };
    let Some(limit) = j.know_if_any("", &process.cgroup.cpu_max) else {
        return;
    };
    if let Some(n) = j.know("", &process.cgroup.throttled).filter(|n| **n > 0) {
        let evidence = format!("limit of {limit} processors; stopped in {n} periods");
        let steps = unit(j, &["CPUQuota="]);
        j.find("server", evidence, steps);
    }
}

fn swapped(facts: &Facts, j: &mut Judge) {
    let Some((_, process)) = server(facts, j) else {
        return;
    };
    if let Some(bytes) = j.know("", &process.swapped).filter(|b| **b > 0) {
        let evidence = format!("{} KiB in swap", bytes >> 10);
        let steps = unit(j, &["MemorySwapMax=0"]);
        j.find("server", evidence, steps);
    }
}

fn memory_low(facts: &Facts, j: &mut Judge) {
    let (Some(total), Some(available)) = (
        j.know("", &facts.memory.total),
        j.know("", &facts.memory.available),
    ) else {
        return;
    };
    if available.saturating_mul(100) < total.saturating_mul(AVAILABLE_PERCENT) {
        let evidence = format!("{} of {} MiB available", mib(*available), mib(*total));
        let text = "lower record_cache_mib of the pools, or end other programs";
        j.find("memory", evidence, vec![Step::advice(text)]);
    }
}
