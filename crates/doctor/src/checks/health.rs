//! Checks of the health that disks report.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; disks without a report (virtual, remote) are left alone.

use super::pitfalls;
use crate::check::{Check, Judge, Side};
use crate::facts::{Disk, Facts, Smart};
use crate::report::Severity;
use crate::step::Step;

/// Temperature of a disk without a limit of its own, °C.
const TEMPERATURE_MAX: i64 = 65;
/// Used endurance from which a disk should be replaced soon, percent.
const WEAR_PERCENT: u64 = 80;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "disk-failing",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a disk that says it is failing",
        why: "The disk expects to lose data or to stop.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: failing,
    },
    Check {
        id: "disk-temperature",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a disk at its warning temperature, or at 65 °C without one",
        why: "A hot NVMe disk slows down to a fraction of its speed, and ages faster.",
        risk: "None.",
        judge: temperature,
    },
    Check {
        id: "disk-wear",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a disk with 80 % of its endurance used (critical from 100 %)",
        why: "Members of a mirror wear equally: they can fail together. Replace them one by one, in time.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: wear,
    },
    Check {
        id: "disk-spare",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a disk with fewer spare blocks than its limit",
        why: "It has no blocks left to replace bad ones, and becomes read-only next.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: spare,
    },
    Check {
        id: "disk-media-errors",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a disk that counted errors of its medium",
        why: "Blocks were unreadable. The pool repairs them from another member if there is one.",
        risk: "A scrub reads the whole pool.",
        judge: media_errors,
    },
    Check {
        id: "disk-firmware",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a firmware that is known to lose data or to stop the disk",
        why: "The manufacturer has published a fix; disks of one lot fail at about the same time.",
        risk: "A firmware update resets the disk: take it offline in the pool first.",
        judge: firmware,
    },
];

fn each(facts: &Facts, j: &mut Judge, mut f: impl FnMut(&mut Judge, &Disk, &Smart)) {
    let disks = j.know("", &facts.disks).into_iter().flatten();
    for disk in disks {
        if let Some(smart) = j.know_if_any(&disk.name, &disk.smart) {
            f(j, disk, smart);
        }
    }
}

fn replace() -> Vec<Step> {
    vec![Step::advice(
        "replace the disk: wirepool pool replace POOL DISK NEW",
    )]
}

fn failing(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, disk, smart| {
        if j.know(&disk.name, &smart.is_passed) == Some(&false) {
            j.find(&disk.name, "SMART status: failing", replace());
        }
    });
}

fn temperature(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, disk, smart| {
        let (Some(now), Some(limit)) = (
            j.know(&disk.name, &smart.temperature),
            j.know(&disk.name, &smart.temperature_limit),
        ) else {
            return;
        };
        let limit = limit.unwrap_or(TEMPERATURE_MAX);
        if *now >= limit {
            let text = "check fans, air flow and heat sinks";
            j.find(
                &disk.name,
                format!("{now} °C; its limit is {limit} °C"),
                vec![Step::advice(text)],
            );
        }
    });
}

fn wear(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, disk, smart| {
        let Some(used) = j.know_if_any(&disk.name, &smart.wear_percent) else {
            return;
        };
        let severity = match used {
            100.. => Severity::Critical,
            WEAR_PERCENT.. => Severity::Warning,
            _ => return,
        };
        let evidence = format!("{used} % of its endurance used");
        j.find_as(severity, &disk.name, evidence, replace());
    });
}

fn spare(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, disk, smart| {
        let (Some(left), Some(limit)) = (
            j.know_if_any(&disk.name, &smart.spare_percent),
            j.know_if_any(&disk.name, &smart.spare_limit),
        ) else {
            return;
        };
        if left < limit {
            let evidence = format!("{left} % spare blocks left; its limit is {limit} %");
            j.find(&disk.name, evidence, replace());
        }
    });
}

fn media_errors(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, disk, smart| {
        if let Some(n) = j.know(&disk.name, &smart.media_errors).filter(|n| **n > 0) {
            let text = "wirepool pool scrub POOL, then look at `pool status -v`; replace the disk if the number grows";
            j.find(&disk.name, format!("{n} errors"), vec![Step::advice(text)]);
        }
    });
}

fn firmware(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, disk, _| {
        let (Some(model), Some(version)) = (
            j.know(&disk.name, &disk.model),
            j.know(&disk.name, &disk.firmware),
        ) else {
            return;
        };
        if let Some(bad) = pitfalls::firmware(model, version) {
            let evidence = format!("{model}, firmware {version}: {}", bad.defect);
            let text = format!("{} ({})", bad.remedy, bad.reference);
            j.find(&disk.name, evidence, vec![Step::advice(text)]);
        }
    });
}
