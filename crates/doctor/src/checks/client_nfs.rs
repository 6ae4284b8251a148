//! Checks of NFS file systems that this machine mounts.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`].

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, NfsMount};
use crate::report::Severity;
use crate::step::Step;

/// Largest read and write below which requests are too small, bytes.
const TRANSFER_MIN: u64 = 256 << 10;
/// Shortest sensible time before a request over TCP is repeated, tenths of a second.
const TIMEO_MIN: u64 = 100;
/// Read-ahead below which sequential reads wait, KiB.
const READ_AHEAD_KIB: u64 = 1024;
/// Repeated requests of 10,000 that are too many.
const REPEATED_OF_10000: u64 = 1;
/// Dirty memory of the page cache above which a close takes very long, bytes.
const DIRTY_MAX: u64 = 4 << 30;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "nfs-soft",
        side: Side::Client,
        severity: Severity::Critical,
        finds: "a mount with `soft`",
        why: "After some retries writes fail; programs that ignore the error of close() lose data silently.",
        risk: "With `hard`, programs wait as long as the server is away. The file system has to be mounted again.",
        judge: soft,
    },
    Check {
        id: "nfs-version",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "a mount with version 3 or 4.0",
        why: "Sessions of 4.1 make each request happen exactly once, and give locks back after a restart of the server; version 3 \
              has no locks here.",
        risk: "The file system has to be mounted again.",
        judge: version,
    },
    Check {
        id: "nfs-udp",
        side: Side::Client,
        severity: Severity::Critical,
        finds: "a mount over UDP",
        why: "Fragments of large requests can be joined wrongly at high rates: data is damaged without an error.",
        risk: "The file system has to be mounted again.",
        judge: udp,
    },
    Check {
        id: "nfs-transfer-size",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "rsize or wsize below 256 KiB",
        why: "Large reads and writes become many small requests. Left alone, client and server agree on 1 MiB.",
        risk: "The file system has to be mounted again.",
        judge: transfer_size,
    },
    Check {
        id: "nfs-nconnect",
        side: Side::Client,
        severity: Severity::Note,
        finds: "one connection over a network of 10 Gb/s or more",
        why: "One connection is one processor on each side, and one shard of the server; nconnect=4 uses four.",
        risk: "The file system has to be mounted again; nconnect counts for all mounts of the same server.",
        judge: nconnect,
    },
    Check {
        id: "nfs-timeo",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "a time-out below 10 s over TCP",
        why: "TCP repeats what is lost. A short time-out closes the connection of a busy server and sends everything again.",
        risk: "The file system has to be mounted again.",
        judge: timeo,
    },
    Check {
        id: "nfs-sync-noac",
        side: Side::Client,
        severity: Severity::Note,
        finds: "a mount with `sync`, `noac` or `actimeo=0`",
        why: "Every write waits for the server's disks, or every look at a file asks the server; often a leftover of a search for errors.",
        risk: "Programs on several clients may see changes of others some seconds later.",
        judge: sync,
    },
    Check {
        id: "nfs-retransmissions",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "more than one of 10,000 requests sent again",
        why: "Connections break or the server does not answer in time; each such request took a time-out.",
        risk: "None from looking.",
        judge: retransmissions,
    },
    Check {
        id: "nfs-read-ahead",
        side: Side::Client,
        severity: Severity::Note,
        finds: "read-ahead below 1 MiB",
        why: "Since Linux 5.4 an NFS mount reads 128 KiB ahead; sequential reads of one program then wait for each round trip.",
        risk: "Random reads of some programs fetch more than they need.",
        judge: read_ahead,
    },
    Check {
        id: "nfs-dirty-memory",
        side: Side::Client,
        severity: Severity::Note,
        finds: "more than 4 GiB of unwritten data allowed on a machine with NFS mounts",
        why: "A close() or fsync() may first have to send all of it: programs stop for a minute.",
        risk: "Applies to all file systems of the machine.",
        judge: dirty_memory,
    },
];

fn mounts<'f>(facts: &'f Facts, j: &mut Judge) -> &'f [NfsMount] {
    j.know("", &facts.nfs_mounts).map_or(&[], Vec::as_slice)
}

fn number(mount: &NfsMount, option: &str) -> Option<u64> {
    mount.options.get(option)?.parse().ok()
}

/// Whether the mount reaches its server over a network, and not over the loopback interface.
fn is_remote(mount: &NfsMount) -> bool {
    let address = mount.options.get("addr").map_or("", String::as_str);
    !(address.starts_with("127.") || address == "::1")
}

/// Mounts again with an option added or replaced.
fn mount_again(mount: &NfsMount, option: &str) -> Vec<Step> {
    let text = format!(
        "in /etc/fstab set {option} for {}, then umount {} and mount it again",
        mount.source, mount.target
    );
    vec![Step::advice(text)]
}

fn soft(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        let name = ["soft", "softerr"]
            .into_iter()
            .find(|o| m.options.contains_key(*o));
        let is_read_only = m.options.contains_key("ro");
        if let Some(option) = name {
            let severity = match is_read_only {
                true => Severity::Note,
                false => Severity::Critical,
            };
            j.find_as(
                severity,
                &m.target,
                format!("option {option}"),
                mount_again(m, "hard"),
            );
        }
    }
}

fn version(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        let Some(vers) = m.options.get("vers") else {
            let reason = "its options have no version";
            j.know::<()>(&m.target, &crate::Known::unknown(reason));
            continue;
        };
        if !["4.1", "4.2"].contains(&vers.as_str()) {
            j.find(
                &m.target,
                format!("vers={vers}"),
                mount_again(m, "vers=4.2"),
            );
        }
    }
}

fn udp(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        if let Some(proto) = m.options.get("proto").filter(|p| p.starts_with("udp")) {
            j.find(
                &m.target,
                format!("proto={proto}"),
                mount_again(m, "proto=tcp"),
            );
        }
    }
}

fn transfer_size(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        for option in ["rsize", "wsize"] {
            if let Some(n) = number(m, option).filter(|n| *n < TRANSFER_MIN) {
                let steps = mount_again(m, "no rsize and wsize");
                j.find(&m.target, format!("{option}={n}"), steps);
            }
        }
    }
}

fn nconnect(facts: &Facts, j: &mut Judge) {
    let Some(nics) = j.know("", &facts.nics) else {
        return;
    };
    let speeds = nics
        .iter()
        .filter_map(|n| n.speed_mbps.value().copied().flatten());
    let is_fast = speeds.max().is_some_and(|s| s >= 10_000);
    for m in mounts(facts, j) {
        let connections = number(m, "nconnect").unwrap_or(1);
        let is_tcp = m.options.get("proto").is_none_or(|p| p.starts_with("tcp"));
        if is_fast && is_tcp && is_remote(m) && connections < 2 {
            j.find(&m.target, "one connection", mount_again(m, "nconnect=4"));
        }
    }
}

fn timeo(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        if let Some(n) = number(m, "timeo").filter(|n| *n < TIMEO_MIN) {
            let evidence = format!("timeo={n} (tenths of a second)");
            j.find(&m.target, evidence, mount_again(m, "timeo=600"));
        }
    }
}

fn sync(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        let slow = ["sync", "noac"]
            .into_iter()
            .find(|o| m.options.contains_key(*o));
        let is_zero = |o: &&str| number(m, o) == Some(0);
        let slow = slow.or_else(|| ["acregmin", "actimeo"].into_iter().find(is_zero));
        if let Some(option) = slow {
            let steps = mount_again(m, &format!("everything but {option}"));
            j.find(&m.target, format!("option {option}"), steps);
        }
    }
}

fn retransmissions(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        let (Some(again), Some(all)) = (
            j.know(&m.target, &m.retransmissions),
            j.know(&m.target, &m.requests),
        ) else {
            continue;
        };
        if *again > 10 && again.saturating_mul(10_000) > all.saturating_mul(REPEATED_OF_10000) {
            let evidence = format!("{again} of {all} requests sent again");
            let text = "look for lost packets on this machine and on the server (`wirepool doctor` on both)";
            j.find(&m.target, evidence, vec![Step::advice(text)]);
        }
    }
}

fn read_ahead(facts: &Facts, j: &mut Judge) {
    for m in mounts(facts, j) {
        if let Some(kib) = j
            .know(&m.target, &m.read_ahead_kib)
            .filter(|k| **k < READ_AHEAD_KIB)
        {
            let rule = "SUBSYSTEM==\"bdi\", ACTION==\"add\", PROGRAM=\"/usr/bin/awk -v bdi=$kernel 'BEGIN{ret=1} \
                        {if ($4 == bdi) {ret=0}} END{exit ret}' /proc/fs/nfsfs/volumes\", ATTR{read_ahead_kb}=\"4096\"";
            let steps = vec![
                Step::file(
                    "/etc/udev/rules.d/90-wirepool-nfs-read-ahead.rules",
                    &[rule],
                ),
                Step::advice(format!("then mount {} again", m.target)),
            ];
            j.find(&m.target, format!("{kib} KiB"), steps);
        }
    }
}

fn dirty_memory(facts: &Facts, j: &mut Judge) {
    if mounts(facts, j).is_empty() {
        return;
    }
    if let Some(bytes) = j
        .know("", &facts.memory.dirty_max)
        .filter(|b| **b > DIRTY_MAX)
    {
        let evidence = format!("{} GiB", bytes >> 30);
        let steps = Step::sysctl(j.check(), "vm.dirty_bytes", "1073741824");
        j.find("page cache", evidence, steps);
    }
}
