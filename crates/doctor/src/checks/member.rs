//! Checks of the disks of pools, from the server's own measurements.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; without a server they are not made.

use crate::check::{Check, Judge, Side};
use crate::facts::{Expansion, Facts, Member, Spare, Times};
use crate::report::Severity;
use crate::step::Step;
use std::collections::BTreeMap;

/// Operations of a disk that are enough for a comparison.
pub(super) const OPERATIONS_MIN: u64 = 1000;
/// How much slower than the fastest member of its mirror a disk may be.
const UNEVEN: u64 = 4;
/// A write or flush that takes as long, µs, is too slow for a journal.
pub const SLOW_JOURNAL_US: u64 = 2_000;
/// 99th percentile of writes of a solid-state disk that is too long, µs.
const WRITE_P99_US: u64 = 50_000;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "member-state",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a disk of a pool that is missing, faulted, offline or stale",
        why: "Its vdev has less redundancy, or none.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: state,
    },
    Check {
        id: "spare-in-use",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a hot spare that stands in for a disk",
        why: "The pool has a spare less for the next fault, until the failed disk is replaced.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: spare_in_use,
    },
    Check {
        id: "spare-unusable",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a hot spare that cannot be used",
        why: "When a disk fails, its vdev stays without redundancy until the disk is replaced.",
        risk: "None from looking.",
        judge: spare_unusable,
    },
    Check {
        id: "expansion-waits",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "an expansion of a raidz that does not go on: a disk is missing, offline, faulted or stale, or space is short",
        why: "The vdev keeps its old size until the expansion ends, and the new disk stores little.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: expansion_waits,
    },
    Check {
        id: "expansion-runs",
        side: Side::Server,
        severity: Severity::Note,
        finds: "an expansion of a raidz that is in progress",
        why: "It takes a part of the disks' time, and the vdev has its old size until it ends.",
        risk: "None from waiting.",
        judge: expansion_runs,
    },
    Check {
        id: "member-errors",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a disk of a pool with read, write or checksum errors",
        why: "The pool repaired or rewrote these blocks from another member; cable, controller or disk is failing.",
        risk: "A scrub reads the whole pool.",
        judge: errors,
    },
    Check {
        id: "mirror-uneven",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a member of a vdev whose writes or flushes take 4 times as long as another's",
        why: "A durable write waits for every member: the slowest disk sets the speed of the vdev.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: uneven,
    },
    Check {
        id: "member-write-tail",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a solid-state disk of a pool with 1 % of its writes above 50 ms",
        why: "The disk stalls: its write cache is full, it is hot, or it collects garbage. Clients see it as pauses.",
        risk: "A trim costs the disk some speed while it runs.",
        judge: write_tail,
    },
    Check {
        id: "journal-on-slow-disks",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a pool without a log whose disks take 2 ms or longer for a write or flush",
        why: "A durable write waits for a seek of these disks, although the journal would fit a small device on flash.",
        risk: "None for data: the log needs the redundancy of the pool, and can be removed again.",
        judge: slow_journal,
    },
    Check {
        id: "member-not-trimmed",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a pool on solid-state disks without autotrim",
        why: "The disk copies data that the pool has freed, which costs speed and wear.",
        risk: "A little more work for the disk after large deletions.",
        judge: not_trimmed,
    },
    Check {
        id: "member-on-file",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a pool on a file of which the disk below is not known",
        why: "The file system below decides about flushes and space; the checks of the disk cannot be made.",
        risk: "None from looking.",
        judge: on_file,
    },
];

/// The disks of pools, each with its name in findings.
pub(super) fn members<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f Member)> {
    let server = j.know("", &facts.server);
    let members = server.into_iter().flat_map(|s| &s.members);
    let name = |m: &Member| format!("{} of pool {}", m.path, m.pool);
    members.map(|m| (name(m), m)).collect()
}

fn state(facts: &Facts, j: &mut Judge) {
    for (name, m) in members(facts, j) {
        if m.state != "online" {
            let text = format!(
                "wirepool pool status {}; then `pool online` or `pool replace` the disk",
                m.pool
            );
            j.find(name, format!("state {}", m.state), vec![Step::advice(text)]);
        }
    }
}

fn spares<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f Spare)> {
    let server = j.know("", &facts.server);
    let spares = server.into_iter().flat_map(|s| &s.spares);
    let name = |s: &Spare| format!("spare {} of pool {}", s.path, s.pool);
    spares.map(|s| (name(s), s)).collect()
}

fn spare_in_use(facts: &Facts, j: &mut Judge) {
    for (name, spare) in spares(facts, j) {
        if let Some(disk) = &spare.instead_of {
            let text = format!("wirepool pool replace {} {disk} NEW-DISK", spare.pool);
            let evidence = format!("it stands in for {disk}");
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}

fn spare_unusable(facts: &Facts, j: &mut Judge) {
    for (name, spare) in spares(facts, j) {
        if let Some(reason) = &spare.unusable {
            let text =
                "connect the disk again; or `pool remove` it, and `pool add POOL spare DISK`";
            j.find(name, reason.clone(), vec![Step::advice(text)]);
        }
    }
}

fn expansions<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f Expansion)> {
    let server = j.know("", &facts.server);
    let expansions = server.into_iter().flat_map(|s| &s.expansions);
    let name = |e: &Expansion| format!("{} of pool {}", e.vdev, e.pool);
    expansions.map(|e| (name(e), e)).collect()
}

/// The position of an expansion, and the disks that may fail meanwhile.
fn position(e: &Expansion) -> String {
    let percent = e.done.saturating_mul(100).checked_div(e.of).unwrap_or(100);
    format!(
        "{} of {} MiB of each disk moved ({}%), {} of its disks may fail",
        e.done >> 20,
        e.of >> 20,
        percent.min(100),
        e.may_fail
    )
}

fn expansion_waits(facts: &Facts, j: &mut Judge) {
    let members = members(facts, j);
    for (name, e) in expansions(facts, j) {
        let Some(reason) = &e.waits_for else {
            continue;
        };
        let own = members.iter().map(|(_, m)| m);
        let own = own.filter(|m| m.pool == e.pool && m.vdev == e.vdev && m.state != "online");
        let step = |m: &&Member| match m.state.as_str() {
            "offline" => Step::run(&["wirepool", "pool", "online", &m.pool, &m.path]),
            "stale" => Step::advice(format!(
                "the resilver of {} ends the wait: wirepool pool status {} shows the time left",
                m.path, m.pool
            )),
            state => Step::advice(format!(
                "{} is {state}: connect it again, or wirepool pool replace {} {} NEW-DISK",
                m.path, m.pool, m.path
            )),
        };
        let mut steps: Vec<Step> = own.map(step).collect();
        if steps.is_empty() {
            steps.push(Step::run(&["wirepool", "pool", "status", "-v", &e.pool]));
        }
        j.find(name, format!("it waits: {reason}; {}", position(e)), steps);
    }
}

fn expansion_runs(facts: &Facts, j: &mut Judge) {
    for (name, e) in expansions(facts, j) {
        if e.waits_for.is_none() {
            let left = match e.left_s {
                Some(s) => format!("{} h {} min left", s / 3600, s / 60 % 60),
                None => "time left not known yet".to_owned(),
            };
            j.find(name, format!("{}; {left}", position(e)), Vec::new());
        }
    }
}

fn errors(facts: &Facts, j: &mut Judge) {
    for (name, m) in members(facts, j) {
        if m.read_errors + m.write_errors + m.checksum_errors > 0 {
            let evidence = format!(
                "{} read, {} write, {} checksum errors",
                m.read_errors, m.write_errors, m.checksum_errors
            );
            let steps = vec![
                Step::run(&["wirepool", "pool", "scrub", &m.pool]),
                Step::advice("check the cable; replace the disk if errors return"),
            ];
            j.find(name, evidence, steps);
        }
    }
}

fn uneven(facts: &Facts, j: &mut Judge) {
    let all = members(facts, j);
    type Kind = (&'static str, fn(&Member) -> &Times);
    let kinds: [Kind; 2] = [("flush", |m| &m.flushes), ("write", |m| &m.writes)];
    for (kind, times) in kinds {
        let mut fastest: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let counted = || all.iter().filter(|(_, m)| times(m).count >= OPERATIONS_MIN);
        for (_, m) in counted() {
            let best = fastest.entry((&m.pool, &m.vdev)).or_insert(u64::MAX);
            *best = (*best).min(times(m).p50_us);
        }
        for (name, m) in counted() {
            let best = fastest[&(m.pool.as_str(), m.vdev.as_str())];
            let own = times(m).p50_us;
            if own > UNEVEN * best.max(10) {
                let evidence = format!(
                    "median {kind} {own} µs; another member of {} {best} µs",
                    m.vdev
                );
                let text = format!(
                    "wirepool pool replace {} with a disk like the other one",
                    m.pool
                );
                j.find(name, evidence, vec![Step::advice(text)]);
            }
        }
    }
}

fn write_tail(facts: &Facts, j: &mut Judge) {
    let all = members(facts, j);
    let Some(disks) = j.know("", &facts.disks) else {
        return;
    };
    for (name, m) in all {
        let Some(disk) = j.know(&name, &m.disk) else {
            continue;
        };
        let Some(disk) = disks.iter().find(|d| d.name == *disk) else {
            continue;
        };
        let is_slow = m.writes.count >= OPERATIONS_MIN && m.writes.p99_us > WRITE_P99_US;
        if is_slow && j.know(&name, &disk.is_rotational) == Some(&false) {
            let evidence = format!(
                "99th percentile of writes {} µs, median {} µs",
                m.writes.p99_us, m.writes.p50_us
            );
            let steps = vec![Step::run(&["wirepool", "pool", "trim", &m.pool])];
            j.find(name, evidence, steps);
        }
    }
}

fn slow_journal(facts: &Facts, j: &mut Judge) {
    let mut seen = Vec::new();
    for (_, m) in members(facts, j) {
        let times = [("write", &m.writes), ("flush", &m.flushes)];
        let counted = times.into_iter().filter(|(_, t)| t.count >= OPERATIONS_MIN);
        let Some((kind, slower)) = counted.max_by_key(|(_, t)| t.p50_us) else {
            continue;
        };
        if !m.has_journal || slower.p50_us < SLOW_JOURNAL_US || seen.contains(&&m.pool) {
            continue;
        }
        seen.push(&m.pool);
        let evidence = format!("median {kind} of {} {} µs", m.path, slower.p50_us);
        let text = format!(
            "wirepool pool add {} log mirror DISK DISK, on flash",
            m.pool
        );
        j.find(
            format!("pool {}", m.pool),
            evidence,
            vec![Step::advice(text)],
        );
    }
}

fn not_trimmed(facts: &Facts, j: &mut Judge) {
    let all = members(facts, j);
    let Some(disks) = j.know("", &facts.disks) else {
        return;
    };
    let mut seen = Vec::new();
    for (name, m) in all {
        let Some(disk) = m.disk.value() else {
            continue;
        };
        let disk = disks.iter().find(|d| d.name == *disk);
        let discards = disk.is_some_and(|d| d.discard_max.value().is_some_and(|m| *m > 0));
        let is_flash = disk.is_some_and(|d| d.is_rotational.value() == Some(&false));
        if !discards || !is_flash || seen.contains(&&m.pool) {
            continue;
        }
        if j.know(&name, &m.is_autotrim_on) == Some(&false) {
            seen.push(&m.pool);
            let step = Step::run(&["wirepool", "set", "autotrim=on", &m.pool]);
            j.find(format!("pool {}", m.pool), "autotrim=off", vec![step]);
        }
    }
}

fn on_file(facts: &Facts, j: &mut Judge) {
    for (name, m) in members(facts, j) {
        if let crate::Known::Unknown { unknown } = &m.disk
            && m.state != "missing"
        {
            let text = "give the pool whole disks or partitions";
            j.find(name, unknown, vec![Step::advice(text)]);
        }
    }
}
