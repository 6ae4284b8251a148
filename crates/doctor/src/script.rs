//! The findings of a report as a shell script.
//!
//! **Called by** `wirepool doctor --fix-script`. **Invariants**: every word that is not one of ours is quoted, so that no name of
//! a device or session becomes a command; a comment has one line; nothing is run.

use crate::report::Report;
use crate::step::{Step, line, quoted};
use io::printable::printable;
use std::fmt::Write;

/// A shell script with the steps of all findings. It is printed for review; the doctor runs nothing.
#[must_use]
pub fn script(report: &Report) -> String {
    let mut out = String::from(
        "#!/bin/sh\n\
         # Made by `wirepool doctor --fix-script`. Nothing has been changed yet.\n\
         # Read each block, with its risk, and delete the ones that are not wanted. Then run the rest as root.\n\
         set -eu\n",
    );
    for f in &report.findings {
        let _ = writeln!(
            out,
            "\n# {}: {} [{}]\n# found: {}\n# risk: {}",
            f.severity,
            printable(&f.object),
            f.check,
            printable(&f.evidence),
            printable(&f.risk)
        );
        for step in &f.steps {
            shell(step, &mut out);
        }
    }
    if report.findings.is_empty() {
        out.push_str("\n# There is nothing to mend.\n");
    }
    out
}

fn shell(step: &Step, out: &mut String) {
    let _ = match step {
        Step::Run { .. } | Step::Set { .. } => writeln!(out, "{}", line(step)),
        Step::File { path, lines } => {
            let lines: Vec<String> = lines.iter().map(|l| quoted(l)).collect();
            let lines = lines.join(" ");
            writeln!(out, "printf '%s\\n' {lines} > {}", quoted(path))
        }
        Step::Advice { text } => writeln!(out, "# by hand: {}", printable(text)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Finding, Severity};

    #[test]
    fn no_name_becomes_a_command() {
        let name = "eth0\nreboot; $(reboot) `reboot` 'x";
        let finding = Finding {
            check: "nic-rings".into(),
            severity: Severity::Warning,
            object: name.into(),
            evidence: name.into(),
            steps: vec![
                Step::run(&["ethtool", "-G", name]),
                Step::set(format!("/sys/{name}"), name),
                Step::file("/etc/x", &[name]),
                Step::advice(name),
            ],
            risk: "none".into(),
            why: "w".into(),
        };
        let report = Report {
            findings: vec![finding],
            ..Report::default()
        };
        // The shell reads the script, with every command replaced by one that prints its arguments.
        let script = script(&report)
            .replace("ethtool", "printf %s%.0s")
            .replace(" > ", " | true ");
        let marker = "reboot() { echo RAN; }\n";
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("{marker}{script}")])
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(!text.contains("RAN"), "{text}");
    }
}
