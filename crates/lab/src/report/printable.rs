//! Escaped copies of reports: names from a target cannot control a terminal or a page.
//!
//! **Owns** the escaping of every text of a [`Report`]. **Called by** the formats for people: table, CSV and HTML. JSON keeps
//! the names, and its text has JSON escapes ([`super::fio::text`]). **Invariant**: all texts of a report that are no
//! constants of ours pass [`printable`].

use crate::plan::{Machine, Report, Row};
use crate::targets::{Facts, Transport};
use crate::validity::{Finding, Verdict};
use io::printable::printable;
use io::rdma::RdmaInfo;

fn text(text: &str) -> String {
    printable(text).into_owned()
}

/// A copy of the report whose texts are escaped, on one line each.
pub(super) fn for_people(report: &Report) -> Report {
    let targets = report.targets.iter();
    let targets = targets.map(|(label, address, about)| (text(label), text(address), facts(about)));
    Report {
        title: text(&report.title),
        targets: targets.collect(),
        rows: report.rows.iter().map(row).collect(),
        machine: Machine {
            processor: text(&report.machine.processor),
            kernel: text(&report.machine.kernel),
            ..report.machine.clone()
        },
        at_ms: report.at_ms,
    }
}

fn row(row: &Row) -> Row {
    let mut row = row.clone();
    for run in &mut row.rounds {
        run.facts = facts(&run.facts);
    }
    let findings = row.verdict.0.into_iter();
    let findings = findings.map(|finding| Finding {
        text: text(&finding.text),
        ..finding
    });
    row.verdict = Verdict(findings.collect());
    row
}

fn facts(facts: &Facts) -> Facts {
    Facts {
        description: text(&facts.description),
        transport: facts.transport.as_ref().map(transport),
        ..facts.clone()
    }
}

fn transport(transport: &Transport) -> Transport {
    Transport {
        kind: text(&transport.kind),
        rdma: transport.rdma.as_ref().map(|rdma| RdmaInfo {
            device: text(&rdma.device),
            ..rdma.clone()
        }),
        congestion: text(&transport.congestion),
        congestion_wanted: text(&transport.congestion_wanted),
        congestion_server: transport.congestion_server.as_deref().map(text),
        fallbacks: transport.fallbacks.iter().map(|t| text(t)).collect(),
        ..transport.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{csv, fio, html, table};
    use io::printable::printable_lines;

    /// A name that clears a terminal, runs a script in a browser, and adds a line to a table.
    const HOSTILE: &str =
        "nqn.2026-01.evil:\x1b[2J\u{9b}31m<script>alert('x')</script>\"\n\u{202e}all valid";

    /// A report in which the target chose every text that it could.
    fn hostile() -> Report {
        let mut report = html::tests::sample();
        for (label, address, facts) in &mut report.targets {
            label.push_str(HOSTILE);
            address.push_str(HOSTILE);
            facts.description = HOSTILE.into();
        }
        report.title = HOSTILE.into();
        for row in &mut report.rows {
            for run in &mut row.rounds {
                run.facts.transport = Some(Transport {
                    kind: HOSTILE.into(),
                    rdma: Some(RdmaInfo {
                        device: HOSTILE.into(),
                        ..RdmaInfo::default()
                    }),
                    congestion: HOSTILE.into(),
                    congestion_wanted: HOSTILE.into(),
                    congestion_server: Some(HOSTILE.into()),
                    digests: (false, false),
                    queues: 1,
                    depth: 1,
                    fallbacks: vec![HOSTILE.into()],
                });
            }
            for finding in &mut row.verdict.0 {
                finding.text.push_str(HOSTILE);
            }
        }
        report
    }

    fn assert_printable(text: &str) {
        assert_eq!(printable_lines(text), text);
    }

    /// Regression: the table, CSV and HTML had the escape sequences of a target's name.
    #[test]
    fn a_targets_name_controls_neither_terminal_nor_file() {
        let report = hostile();
        let lines = |text: String| text.lines().count();
        for full in [false, true] {
            let shown = table::render(&report, full);
            assert_printable(&shown);
            assert!(shown.contains("\\u{1b}[2J"), "{shown}");
        }
        let file = csv::render(&report);
        assert_printable(&file.replace("\r\n", "\n"));
        assert_eq!(lines(file), report.rows.len() + 1);
        assert_printable(&html::render(&report));
    }

    #[test]
    fn a_targets_name_is_no_part_of_a_pages_markup() {
        let page = html::render(&hostile());
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;"));
    }

    /// Regression: JSON on a terminal had the C1 controls and the bidirectional overrides of a target's name.
    #[test]
    fn json_keeps_a_targets_name_and_has_no_control_characters() {
        let report = hostile();
        let text = fio::text(&report);
        assert_printable(&text);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let address = &read["wirepool"]["rows"][0]["address"];
        assert_eq!(*address, *report.targets[0].1);
    }
}
