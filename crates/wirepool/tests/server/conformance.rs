//! Every suite of libiscsi's `iscsi-test-cu`, compared with the list in `conformance/iscsi.md`.
//!
//! **Invariants**: the failed and skipped tests are exactly the listed ones of the run.

use crate::common::{BASE, Place};
use std::collections::BTreeSet;
use std::process::Command;

const LIST: &str = include_str!("../../../../conformance/iscsi.md");
const IQN: &str = "iqn.2026-01.org.example:a";
/// Tests of libiscsi 1.19.0.
const TESTS_ALL: usize = 230;

/// Names of tests, `Suite.Test`.
type Names = BTreeSet<String>;

/// What a run of the tool said.
#[derive(Default)]
struct Findings {
    ran: usize,
    failed: Names,
    skipped: Names,
}

/// The rows under a heading of the list that are about `run`.
fn listed(heading: &str, run: &str) -> Names {
    let from = LIST.split_once(heading).expect("the heading").1;
    let section = from.split("\n## ").next().expect("a section");
    let mut names = Names::new();
    for row in section.lines().filter(|l| l.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, suite, tests, runs, why, _] = cells[..] else {
            panic!("what is {row:?}?");
        };
        assert!(!why.is_empty(), "{row:?} gives no reason");
        if runs.split(' ').any(|r| r == run) {
            let new = tests.split(' ').map(|t| format!("{suite}.{t}"));
            names.extend(new);
        }
    }
    names
}

/// Lines are `Suite: NAME`, `  Test: NAME ...passed`, and what a test says between its dots and its verdict.
fn findings(output: &str) -> Findings {
    let mut found = Findings::default();
    let (mut suite, mut test) = (String::new(), String::new());
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("Suite: ") {
            suite = name.trim().to_owned();
        } else if let Some(rest) = line.strip_prefix("  Test: ") {
            let name = rest.split(" ...").next().expect("a name");
            test = format!("{suite}.{name}");
            found.ran += 1;
        }
        if line.contains("[SKIPPED]") {
            found.skipped.insert(test.clone());
        }
        // What a test is not content with stands in brackets, also in one that goes on and passes.
        if line == "FAILED" || line.ends_with("...FAILED") {
            found.failed.insert(test.clone());
        }
    }
    found
}

fn iscsi_test_cu(tests: &str, urls: &[&str]) -> Findings {
    let test = format!("--test={tests}");
    let run = Command::new("iscsi-test-cu")
        .args(["--dataloss", &test])
        .args(urls)
        .output();
    let output = run.expect("iscsi-test-cu of libiscsi-bin");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = findings(&text);
    // Type, total, ran, passed, failed, inactive: the tool's own sum, because its exit code is always 0.
    let line = text.lines().find_map(|l| l.trim().strip_prefix("tests "));
    let sum: Vec<usize> = line
        .unwrap_or_else(|| panic!("no summary: {text}"))
        .split_whitespace()
        .map(|n| n.parse().expect("a number"))
        .collect();
    assert_eq!((found.ran, found.failed.len()), (sum[1], sum[3]), "{text}");
    found
}

/// Exports `disk` after `prepare`, and runs the suites.
fn conforms(run: &str, disk: &str, config: &str, prepare: &[&[&str]]) {
    let place = Place::new(&format!(
        "{BASE}[iscsi]\nlisten = [\"127.0.0.1:0\"]\n{config}"
    ));
    let server = place.start();
    for command in prepare {
        server.ok(command);
    }
    let read_only: &[&str] = if run == "ro" { &["--read-only"] } else { &[] };
    let export = ["export", "iscsi", disk, "--iqn", IQN, "--initiator", "any"];
    server.ok(&[&export[..], read_only].concat());
    let url = format!("iscsi://{}/{IQN}/0", server.iscsi[0]);
    let (tests, urls): (_, &[&str]) = match run {
        "ro" => ("ALL.ReadOnly", &[&url]),
        _ => ("ALL", &[&url, &url]),
    };
    let found = iscsi_test_cu(tests, urls);
    assert_eq!(found.failed, listed("## Failed", run), "failed");
    assert_eq!(found.skipped, listed("## Skipped", run), "skipped");
    assert_eq!(found.ran, if run == "ro" { 1 } else { TESTS_ALL });
    assert!(server.terminate().success());
}

fn disk(kind: &str, block_size: u32) -> String {
    format!("[[disk]]\nname = \"d\"\nsize = \"64M\"\nblock_size = {block_size}\n{kind}\n")
}

#[test]
fn blocks_of_512_bytes() {
    conforms("512", "d", &disk("kind = \"mem\"", 512), &[]);
}

#[test]
fn blocks_of_4096_bytes() {
    conforms("4096", "d", &disk("kind = \"mem\"", 4096), &[]);
}

#[test]
fn logical_blocks_smaller_than_physical_ones() {
    let file = "kind = \"file\"\npath = \"d.img\"";
    conforms("512e", "d", &disk(file, 512), &[]);
}

#[test]
fn a_volume_of_a_pool() {
    let create: &[&str] = &["pool", "create", "tank", "p.img", "--size", "512M"];
    let volume: &[&str] = &["volume", "create", "tank/v", "--size", "64M"];
    conforms("volume", "tank/v", "", &[create, volume]);
}

#[test]
fn a_read_only_lun() {
    conforms("ro", "d", &disk("kind = \"mem\"", 512), &[]);
}

#[test]
fn findings_are_read_from_what_the_tool_says() {
    let said = "Suite: A\n  Test: One ...passed\n  Test: Two ...    [SKIPPED] why\npassed\n  Test: Three ...    [FAILED] \
                why\nFAILED\n    1. a.c:1  - X\n  Test: Four ...FAILED\nSuite: B\n  Test: One ...passed    [FAILED] late\n";
    let found = findings(said);
    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Names>();
    assert_eq!(found.ran, 5);
    assert_eq!(found.skipped, names(&["A.Two"]));
    assert_eq!(found.failed, names(&["A.Four", "A.Three"]));
}
