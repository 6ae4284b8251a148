//! Findings, and the report that they make.
//!
//! **Owns** the types of the result of `wirepool doctor`, and its text. **Called by** [`crate::checks`], [`crate::script`] and
//! the command line. **Invariants**: a check that lacked a fact is in the list of skipped checks; text from the
//! machine is escaped in text output.

use crate::step::Step;
use io::printable::printable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// How bad a finding is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Better settings exist; nothing is at risk.
    Note,
    /// Speed or availability suffers.
    Warning,
    /// Data is at risk, or the server cannot work.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        })
    }
}

/// Something that should be mended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check that found it.
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// The interface, disk, session or setting.
    pub object: String,
    /// The values that were read.
    pub evidence: String,
    /// Steps that mend it.
    pub steps: Vec<Step>,
    /// What the steps may disturb.
    pub risk: String,
    /// Why it matters for this server or its clients.
    pub why: String,
}

/// A check that could not be made for an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotChecked {
    /// The check.
    pub check: String,
    /// The interface, disk, session or setting.
    pub object: String,
    /// Why.
    pub reason: String,
}

/// The result of all checks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DoctorReport")]
pub struct Report {
    /// Number of checks that were made, as far as their facts were known.
    pub checks: usize,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// Checks that lacked a fact.
    pub not_checked: Vec<NotChecked>,
    /// Lines about the machine that are neither good nor bad.
    #[serde(default)]
    pub remarks: Vec<String>,
}

impl Report {
    /// Whether a finding is a warning or worse: the command's exit code is 1 then.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.findings.iter().any(|f| f.severity > Severity::Note)
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for f in &self.findings {
            let _ = writeln!(
                out,
                "{}: {} [{}]",
                f.severity,
                printable(&f.object),
                f.check
            );
            let _ = writeln!(out, "  found:  {}", printable(&f.evidence));
            let _ = writeln!(out, "  why:    {}", f.why);
            for (i, step) in f.steps.iter().enumerate() {
                let label = if i == 0 { "  mend:   " } else { "          " };
                let step = crate::step::line(step);
                let _ = writeln!(out, "{label}{}", printable(&step));
            }
            let _ = writeln!(out, "  risk:   {}\n", f.risk);
        }
        self.text_not_checked(&mut out);
        for remark in &self.remarks {
            let _ = writeln!(out, "{}", printable(remark));
        }
        let count = |severity| {
            let found = self.findings.iter().filter(|f| f.severity == severity);
            found.count()
        };
        let _ = writeln!(
            out,
            "{} checks: {} critical, {} warnings, {} notes; {} not checked",
            self.checks,
            count(Severity::Critical),
            count(Severity::Warning),
            count(Severity::Note),
            self.not_checked.len()
        );
        out
    }

    /// What was not checked, one line for each reason.
    fn text_not_checked(&self, out: &mut String) {
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for n in &self.not_checked {
            let name = match n.object.is_empty() {
                true => n.check.clone(),
                false => format!("{} ({})", n.check, n.object),
            };
            let names = by_reason.entry(&n.reason).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for (reason, names) in &by_reason {
            let names = names.join(", ");
            let _ = writeln!(
                out,
                "not checked: {}: {}",
                printable(reason),
                printable(&names)
            );
        }
        if !by_reason.is_empty() {
            out.push('\n');
        }
    }
}
