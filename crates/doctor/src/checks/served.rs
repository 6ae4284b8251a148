//! Checks of the parts that clients depend on: the server's answer, pools and exports.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; the state of single disks is judged in `member`.

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Pool, ServedExport};
use crate::report::Severity;
use crate::step::Step;
use std::collections::BTreeMap;

/// Used space from which a pool loses speed, percent.
const FULL_PERCENT: u64 = 90;
/// Used space from which clients will soon get errors, percent.
const FULL_PERCENT_CRITICAL: u64 = 97;
/// Longest time between two scrubs, days: distributions scrub once a month.
const SCRUB_DAYS_MAX: u64 = 35;
/// Seconds of a day.
const DAY_S: u64 = 86_400;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "server-silent",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a server that takes connections on its control socket and does not answer within 2 s",
        why: "It hangs, or its machine is overloaded: clients wait or have lost it.",
        risk: "A restart ends all sessions; clients reconnect and repeat their requests.",
        judge: silent,
    },
    Check {
        id: "pool-unusable",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a pool that cannot be opened, or takes no writes",
        why: "Its volumes and filesystems are not served, or every write to them fails.",
        risk: "None from looking.",
        judge: unusable,
    },
    Check {
        id: "export-held",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "an export without its disk",
        why: "Clients wait for it, or have got errors.",
        risk: "None from looking.",
        judge: held,
    },
    Check {
        id: "members-on-one-disk",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a vdev with two members on the same disk",
        why: "When that disk fails, the vdev loses both members at once: the redundancy is only on paper.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: on_one_disk,
    },
    Check {
        id: "pool-full",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a pool with 90 % of its space used (critical from 97 %)",
        why: "Free space is in small pieces then: writes become slow, and at the end they fail.",
        risk: "None from adding disks; a destroyed snapshot or volume does not come back.",
        judge: full,
    },
    Check {
        id: "sync-disabled",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a dataset with sync=disabled",
        why: "A power cut loses the last seconds of writes that clients were told to be safe: databases and virtual disks may be damaged.",
        risk: "Durable writes take their true time again.",
        judge: sync_disabled,
    },
    Check {
        id: "export-open",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "an export that any host may write to",
        why: "Every machine that reaches the server can change or destroy its contents.",
        risk: "Hosts that are not in the list lose the export.",
        judge: open,
    },
    Check {
        id: "scrub-old",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a pool without a complete scrub in 35 days",
        why: "Rot in blocks that nobody reads is found when the other copy is gone, too.",
        risk: "A scrub reads the whole pool; `--rate` limits it.",
        judge: scrub_old,
    },
];

fn silent(facts: &Facts, j: &mut Judge) {
    if let Some(silence) = j.know_if_any("", &facts.silence) {
        let steps = vec![
            Step::advice("read its log: journalctl -u wirepool -e"),
            Step::advice("if it stays so: systemctl restart wirepool"),
        ];
        let waited = format!("{} ms", silence.waited_ms);
        let evidence = format!("no answer on {} within {waited}", silence.socket);
        j.find("server", evidence, steps);
    }
}

/// The pools, each with its name in findings.
pub(super) fn pools<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f Pool)> {
    let server = j.know("", &facts.server);
    let pools = server.into_iter().flat_map(|s| &s.pools);
    pools.map(|p| (format!("pool {}", p.name), p)).collect()
}

fn exports<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f ServedExport)> {
    let server = j.know("", &facts.server);
    let exports = server.into_iter().flat_map(|s| &s.exports);
    let name = |e: &ServedExport| format!("{} export {}", e.protocol, e.name);
    exports.map(|e| (name(e), e)).collect()
}

fn unusable(facts: &Facts, j: &mut Judge) {
    for (name, pool) in pools(facts, j) {
        if let Some(reason) = &pool.unusable {
            let step = Step::run(&["wirepool", "pool", "status", "-v", &pool.name]);
            j.find(name, reason.clone(), vec![step]);
        }
    }
}

fn held(facts: &Facts, j: &mut Judge) {
    for (name, export) in exports(facts, j) {
        if !export.held.is_empty() {
            let text =
                "bring its disk or pool back: `wirepool status` names it; or remove the export";
            j.find(name, export.held.join("; "), vec![Step::advice(text)]);
        }
    }
}

fn on_one_disk(facts: &Facts, j: &mut Judge) {
    let Some(server) = j.know("", &facts.server) else {
        return;
    };
    let mut shared: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
    for member in &server.members {
        if let Some(disk) = member.disk.value() {
            let key = (member.pool.as_str(), member.vdev.as_str(), disk.as_str());
            shared.entry(key).or_default().push(&member.path);
        }
    }
    for ((pool, vdev, disk), paths) in shared {
        if paths.len() > 1 {
            let evidence = format!("{} are on the same disk, {disk}", paths.join(", "));
            let text = format!(
                "wirepool pool replace {pool} {} with a disk of its own",
                paths[1]
            );
            let object = format!("{vdev} of pool {pool}");
            j.find(object, evidence, vec![Step::advice(text)]);
        }
    }
}

fn full(facts: &Facts, j: &mut Judge) {
    for (name, pool) in pools(facts, j) {
        let percent = pool.used.saturating_mul(100).checked_div(pool.size);
        let severity = match percent {
            Some(FULL_PERCENT_CRITICAL..) => Severity::Critical,
            Some(FULL_PERCENT..) => Severity::Warning,
            _ => continue,
        };
        let evidence = format!(
            "{} of {} GiB used ({} %)",
            pool.used >> 30,
            pool.size >> 30,
            percent.unwrap_or_default()
        );
        let text = format!(
            "destroy snapshots or datasets (wirepool list), or add disks: wirepool pool add {} DISK…",
            pool.name
        );
        j.find_as(severity, name, evidence, vec![Step::advice(text)]);
    }
}

fn sync_disabled(facts: &Facts, j: &mut Judge) {
    for (_, pool) in pools(facts, j) {
        for dataset in &pool.sync_disabled {
            let step = Step::run(&["wirepool", "set", "sync=standard", dataset]);
            j.find(dataset, "sync=disabled", vec![step]);
        }
    }
}

fn open(facts: &Facts, j: &mut Judge) {
    for (name, export) in exports(facts, j) {
        if export.is_open {
            let any = match export.protocol.as_str() {
                "nfs" => "*",
                _ => "any",
            };
            let steps = vec![
                Step::advice(format!(
                    "wirepool host allow {} HOST, for each host",
                    export.name
                )),
                Step::advice(format!("wirepool host deny {} '{any}'", export.name)),
            ];
            j.find(name, "any host may write to it", steps);
        }
    }
}

fn scrub_old(facts: &Facts, j: &mut Judge) {
    for (name, pool) in pools(facts, j) {
        let days = pool.unscrubbed_s.map_or(0, |s| s / DAY_S);
        if days > SCRUB_DAYS_MAX {
            let step = Step::run(&["wirepool", "pool", "scrub", &pool.name]);
            let evidence = format!("no complete scrub in {days} days");
            j.find(name, evidence, vec![step]);
        }
    }
}
