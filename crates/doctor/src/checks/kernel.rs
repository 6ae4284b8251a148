//! Checks of the kernel, its settings, modules and clock.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`].

use super::pitfalls;
use crate::check::{Check, Judge, Side};
use crate::facts::Facts;
use crate::report::Severity;
use crate::step::Step;

/// The oldest kernel that the server supports.
const VERSION_MIN: [u32; 3] = [6, 1, 0];
/// Kernel modules that serve what Wirepool serves, and its port.
const RIVALS: &[(&str, &str)] = &[
    ("iscsi_target_mod", "LIO's iSCSI target, port 3260"),
    ("nfsd", "the kernel's NFS server, port 2049"),
    ("nvmet_tcp", "the kernel's NVMe/TCP target, port 4420"),
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "kernel-old",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a kernel older than 6.1",
        why: "The server needs io_uring as of Linux 6.1; nothing older is tested.",
        risk: "A reboot: clients wait and reconnect.",
        judge: old,
    },
    Check {
        id: "kernel-pitfall",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "a kernel version with a known defect that matters for storage",
        why: "The defect is public and repaired in a later version; the evidence names it and its reference.",
        risk: "A reboot: clients wait and reconnect. A distribution may have repaired it in its package: see its change log.",
        judge: pitfall,
    },
    Check {
        id: "zfs-pitfall",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "a loaded ZFS with the defect of holes and block cloning (before 2.1.14, and 2.2.0 to 2.2.1)",
        why: "Files below a pool or an export that lie on such a ZFS may read as zeroes \
              (https://github.com/openzfs/zfs/issues/15526).",
        risk: "A reboot: clients wait and reconnect.",
        judge: zfs,
    },
    Check {
        id: "io-uring-disabled",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "io_uring forbidden by `kernel.io_uring_disabled`",
        why: "The server does all its I/O through io_uring, and does not start without it.",
        risk: "Other programs may use io_uring, too: a choice of the machine's security policy.",
        judge: io_uring,
    },
    Check {
        id: "numa-balancing",
        side: Side::Server,
        severity: Severity::Note,
        finds: "automatic NUMA balancing on a machine with several nodes",
        why: "The kernel unmaps pages to watch who uses them; each touch of a buffer then takes a page fault.",
        risk: "Programs that are not placed by hand may run farther from their memory.",
        judge: numa_balancing,
    },
    Check {
        id: "rival-target",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a loaded kernel module that serves the same protocol",
        why: "It can take the port first after a boot, and clients then reach the wrong server.",
        risk: "Exports of that module end: check that nothing uses them.",
        judge: rival,
    },
    Check {
        id: "clock-source",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a clock source other than tsc or a hypervisor's own",
        why: "With hpet or acpi_pm each look at the clock is a slow access to a device; the server looks at it for each request.",
        risk: "The kernel gave up tsc for a reason: read `dmesg | grep -i clocksource` first.",
        judge: clock_source,
    },
    Check {
        id: "clock-unsynchronised",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a clock that follows no time server",
        why: "Times of files on NFS, of snapshots and of logs differ between machines.",
        risk: "The clock may jump once.",
        judge: synchronised,
    },
];

fn old(facts: &Facts, j: &mut Judge) {
    let Some(release) = j.know("", &facts.kernel.release) else {
        return;
    };
    let version = pitfalls::version(release, "");
    if version.is_some_and(|v| v < VERSION_MIN) {
        let text = "boot a kernel of 6.1 or later";
        j.find("kernel", release, vec![Step::advice(text)]);
    }
}

fn pitfall(facts: &Facts, j: &mut Judge) {
    let (Some(release), Some(text)) = (
        j.know("", &facts.kernel.release),
        j.know("", &facts.kernel.version),
    ) else {
        return;
    };
    let Some(version) = pitfalls::version(release, text) else {
        let reason = format!("the kernel's release {release:?} has no version number");
        j.know::<()>("", &crate::Known::unknown(reason));
        return;
    };
    let [a, b, c] = version;
    for bad in pitfalls::kernel(version) {
        let evidence = format!("{a}.{b}.{c}: {} ({})", bad.defect, bad.reference);
        let text = "install the distribution's newest kernel and reboot";
        j.find("kernel", evidence, vec![Step::advice(text)]);
    }
}

fn zfs(facts: &Facts, j: &mut Judge) {
    let Some(text) = j.know_if_any("", &facts.kernel.zfs) else {
        return;
    };
    let Some(version) = pitfalls::version(text, "") else {
        return;
    };
    if version < [2, 1, 14] || ([2, 2, 0]..[2, 2, 2]).contains(&version) {
        let text_advice = "update ZFS to 2.1.14, 2.2.2 or later";
        j.find(
            "zfs",
            format!("version {text}"),
            vec![Step::advice(text_advice)],
        );
    }
}

fn io_uring(facts: &Facts, j: &mut Judge) {
    let Some(value) = j.know("", &facts.kernel.io_uring_disabled) else {
        return;
    };
    let key = "kernel.io_uring_disabled";
    let steps = Step::sysctl(j.check(), key, "0");
    match value {
        0 => {}
        1 => {
            // 1 leaves it to privileged processes and to a group.
            let process = facts.process.value();
            let is_privileged = process.and_then(|p| p.is_privileged.value());
            if is_privileged != Some(&true) {
                let evidence = format!("{key} = 1, and no server runs with CAP_SYS_ADMIN");
                j.find_as(Severity::Warning, key, evidence, steps);
            }
        }
        _ => j.find(key, format!("{key} = {value}"), steps),
    }
}

fn numa_balancing(facts: &Facts, j: &mut Judge) {
    let (Some(value), Some(nodes)) = (
        j.know("", &facts.kernel.numa_balancing),
        j.know("", &facts.cpu.nodes),
    ) else {
        return;
    };
    if *value != 0 && nodes.len() > 1 {
        let key = "kernel.numa_balancing";
        let evidence = format!("{key} = {value}, {} nodes", nodes.len());
        let steps = Step::sysctl(j.check(), key, "0");
        j.find(key, evidence, steps);
    }
}

fn rival(facts: &Facts, j: &mut Judge) {
    let Some(modules) = j.know("", &facts.kernel.modules) else {
        return;
    };
    for (module, service) in RIVALS {
        if modules.iter().any(|m| m == module) {
            let text = format!("if nothing uses it: stop its service, then modprobe -r {module}");
            j.find(*module, *service, vec![Step::advice(text)]);
        }
    }
}

fn clock_source(facts: &Facts, j: &mut Judge) {
    let Some(source) = j.know("", &facts.clock.source) else {
        return;
    };
    let good = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "xen",
        "arch_sys_counter",
    ];
    if !good.contains(&source.as_str()) {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        j.find(
            "clock",
            format!("clock source {source}"),
            vec![Step::set(path, "tsc")],
        );
    }
}

fn synchronised(facts: &Facts, j: &mut Judge) {
    if j.know("", &facts.clock.is_synchronised) == Some(&false) {
        let step = Step::run(&["timedatectl", "set-ntp", "true"]);
        j.find("clock", "not synchronised", vec![step]);
    }
}
