//! Every check against facts that it finds, and facts that it leaves alone; capture, settings of clients, and the page of checks.
//!
//! **Owns** the clean machine (`clean.json`): a server with two NVMe disks and RoCE, which is also a client. A case is the clean
//! machine with a few values replaced. **Invariants**: each check has a case of both kinds; the clean machine has no finding.

mod capture;
mod client;
mod client_config;
mod disks;
mod docs;
mod host;
mod machine;
mod network;
mod rdma;
mod rdma_machine;
mod rdma_network;
mod rdma_software;

use doctor::checks::{all, judge};
use doctor::{Facts, Report};
use serde_json::Value;
use std::collections::BTreeSet;

/// Values replaced in the clean machine, by JSON pointer.
type Changes = Vec<(&'static str, Value)>;

/// A check with changes that it finds, and changes near to them that it leaves alone.
struct Case {
    check: &'static str,
    found: Changes,
    left: Changes,
}

/// Cases in the form `check: { pointer: value, … } / { pointer: value, … };`.
macro_rules! cases {
    ($($check:literal: {$($p:literal: $v:tt),*} / {$($q:literal: $w:tt),*};)*) => {
        vec![$($crate::Case {
            check: $check,
            found: vec![$(($p, serde_json::json!($v))),*],
            left: vec![$(($q, serde_json::json!($w))),*],
        }),*]
    };
}
pub(crate) use cases;

fn cases_of_all() -> Vec<Case> {
    let mut cases = machine::cases();
    cases.extend(network::cases());
    cases.extend(rdma::cases());
    cases.extend(disks::cases());
    cases.extend(client::cases());
    cases
}

fn clean() -> Value {
    serde_json::from_str(include_str!("clean.json")).expect("JSON")
}

fn changed(changes: &Changes) -> Facts {
    let mut facts = clean();
    for (pointer, value) in changes {
        let place = facts.pointer_mut(pointer);
        *place.unwrap_or_else(|| panic!("{pointer} is in clean.json")) = value.clone();
    }
    serde_json::from_value(facts).expect("valid facts")
}

/// The findings of both sides.
fn findings(facts: &Facts) -> Report {
    let mut report = judge(facts, false);
    let client = judge(facts, true);
    report.findings.extend(client.findings);
    report.not_checked.extend(client.not_checked);
    report
}

fn finds(report: &Report, check: &str) -> bool {
    report.findings.iter().any(|f| f.check == check)
}

#[test]
fn the_clean_machine_has_no_finding() {
    let report = findings(&changed(&vec![]));
    assert!(report.findings.is_empty(), "{}", report.text());
    let unmeasured = |n: &&doctor::NotChecked| !n.reason.starts_with("no flush was measured");
    let other: Vec<_> = report.not_checked.iter().filter(unmeasured).collect();
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn each_check_finds_its_case_and_leaves_the_near_one_alone() {
    for case in cases_of_all() {
        let report = findings(&changed(&case.found));
        assert!(
            finds(&report, case.check),
            "{} finds {:?}",
            case.check,
            case.found
        );
        let report = findings(&changed(&case.left));
        assert!(
            !finds(&report, case.check),
            "{}: {}",
            case.check,
            report.text()
        );
    }
}

#[test]
fn each_check_has_a_case_of_both_kinds() {
    let cases = cases_of_all();
    for check in all() {
        let own: Vec<_> = cases.iter().filter(|c| c.check == check.id).collect();
        assert!(!own.is_empty(), "{} has no case", check.id);
        for case in own {
            assert!(
                !case.found.is_empty() && !case.left.is_empty(),
                "{}",
                check.id
            );
        }
    }
    let ids: BTreeSet<&str> = all().map(|c| c.id).collect();
    assert_eq!(ids.len(), all().count(), "names are unique");
    assert!(ids.len() >= 40);
}

#[test]
fn a_check_without_facts_is_listed_and_never_good() {
    let facts: Facts = serde_json::from_str("{}").expect("no facts");
    let report = findings(&facts);
    assert!(report.findings.is_empty(), "{}", report.text());
    for check in all() {
        let listed = report.not_checked.iter().any(|n| n.check == check.id);
        assert!(listed, "{} is listed as not checked", check.id);
    }
}

/// Pointers of all values below.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                pointers(inner, &format!("{at}/{key}"), out);
            }
        }
        Value::Array(list) => {
            for (i, inner) in list.iter().enumerate() {
                pointers(inner, &format!("{at}/{i}"), out);
            }
        }
        _ => {}
    }
}

#[test]
fn each_unknown_fact_is_listed_and_finds_nothing() {
    // Facts that only improve an evidence, or that concern a device another fact excludes.
    let unused = [
        "/disks/2/formats",
        "/disks/2/node",
        "/iscsi_sessions/0/target",
        "/iscsi_sessions/1/target",
        "/kernel/distribution",
        "/nfs_mounts/0/options",
        "/nics/2/node",
        "/nvme_controllers/1/io_policy",
        "/process/cgroup/throttled",
        "/process/is_privileged",
        "/rdma/ports/0/sm_lid",
        "/rdma/ports/1/sm_lid",
        "/rdma/ports/2/cm_mode",
        "/rdma/ports/2/is_ecn_on",
        "/rdma/ports/2/is_iwarp",
        "/rdma/ports/2/traffic_class",
    ];
    let is_unused = |p: &str| {
        let of_remote = ["/disks/3/", "/disks/4/", "/disks/5/"]
            .iter()
            .any(|d| p.starts_with(d));
        let of_stacked =
            p.starts_with("/nics/3/") || p.ends_with("/addresses") && !p.starts_with("/nics/0");
        let of_rdma = p.ends_with("/node_guid") || p.ends_with("/pause") || p == "/nics/2/pfc";
        unused.contains(&p) || of_remote || of_stacked || of_rdma
    };
    let mut all = Vec::new();
    pointers(&clean(), "", &mut all);
    let mut tried = 0;
    let mut unlisted = Vec::new();
    for pointer in all.iter().filter(|p| !p.is_empty() && !is_unused(p)) {
        let mut facts = clean();
        let unknown = serde_json::json!({ "unknown": "lost" });
        *facts.pointer_mut(pointer).expect("its own pointer") = unknown.clone();
        // Most values are no facts of their own: their type refuses the replacement, or ignores it.
        let Ok(facts) = serde_json::from_value::<Facts>(facts) else {
            continue;
        };
        let read = serde_json::to_value(&facts).expect("JSON");
        if read.pointer(pointer) != Some(&unknown) {
            continue;
        }
        tried += 1;
        let mut report = findings(&facts);
        // A pool's disk that is not known is a finding of its own.
        report.findings.retain(|f| f.check != "member-on-file");
        assert!(report.findings.is_empty(), "{pointer}: {}", report.text());
        if !report.not_checked.iter().any(|n| n.reason == "lost") {
            unlisted.push(pointer);
        }
    }
    assert!(
        unlisted.is_empty(),
        "not listed as not checked: {unlisted:?}"
    );
    assert!(tried > 100, "{tried}");
}

#[test]
fn the_exit_code_follows_warnings() {
    let note = changed(&vec![("/clock/is_synchronised", Value::Bool(false))]);
    let report = judge(&note, false);
    assert!(finds(&report, "clock-unsynchronised") && !report.is_bad());
    let warning = changed(&vec![("/clock/source", "hpet".into())]);
    assert!(judge(&warning, false).is_bad());
}

#[test]
fn sides_are_kept_apart() {
    let facts = changed(&vec![("/nvme_controllers/0/state", "connecting".into())]);
    assert!(!finds(&judge(&facts, false), "nvme-state"));
    assert!(finds(&judge(&facts, true), "nvme-state"));
}

#[test]
fn hostile_names_stay_on_their_line() {
    let name = "eth0\n\u{1b}[2Jcritical: all is well";
    let facts = changed(&vec![
        ("/nics/0/name", name.into()),
        ("/nics/0/ring/rx", 64.into()),
    ]);
    let report = judge(&facts, false);
    let text = report.text();
    assert!(
        !text.contains('\u{1b}') && !text.contains("\ncritical: all"),
        "{text}"
    );
    let script = doctor::script::script(&report);
    assert!(script.contains("'eth0\n"), "the word is quoted: {script}");
    assert!(!script.contains("\n# \u{1b}"), "{script}");
}

/// Two findings with one file and different lines would undo each other in a script.
#[test]
fn a_file_of_several_findings_has_the_same_lines() {
    let facts = changed(&vec![
        ("/process/memlock", 8_388_608.into()),
        ("/process/open_files", 1024.into()),
        ("/process/swapped", 4096.into()),
        ("/service/unit/memlock", 8_388_608.into()),
        ("/service/unit/device_allow", Value::Array(Vec::new())),
    ]);
    let report = judge(&facts, false);
    let mut files = std::collections::BTreeMap::new();
    for step in report.findings.iter().flat_map(|f| &f.steps) {
        if let doctor::Step::File { path, lines } = step {
            let first = files.entry(path).or_insert(lines);
            assert_eq!(*first, lines, "{path}");
        }
    }
    assert_eq!(files.len(), 4, "{files:?}");
}

#[test]
fn findings_are_sorted_and_round_trip() {
    let changes = vec![
        ("/clock/is_synchronised", Value::Bool(false)),
        ("/kernel/io_uring_disabled", 2.into()),
        ("/clock/source", "hpet".into()),
    ];
    let report = judge(&changed(&changes), false);
    let severities: Vec<_> = report.findings.iter().map(|f| f.severity).collect();
    assert!(severities.is_sorted_by(|a, b| a >= b), "{severities:?}");
    let text = serde_json::to_string(&report).expect("JSON");
    let back: Report = serde_json::from_str(&text).expect("JSON");
    assert_eq!(back, report);
    let facts = changed(&vec![]);
    let text = serde_json::to_string(&facts).expect("JSON");
    assert_eq!(serde_json::from_str::<Facts>(&text).expect("JSON"), facts);
}
