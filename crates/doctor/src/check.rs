//! A check, and the judge that collects its findings.
//!
//! **Called by** [`crate::checks`]. **Invariants**: a fact that is not known is listed as not checked when a check asks for it.

use crate::facts::{Facts, Known};
use crate::report::{Finding, NotChecked, Report, Severity};
use crate::step::Step;

/// The machines that a check is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The machine with the server.
    Server,
    /// A machine that uses storage over the network.
    Client,
    /// Both.
    Both,
}

/// A check.
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// The machines that it is for.
    pub side: Side,
    /// Severity of its findings.
    pub severity: Severity,
    /// What it finds, as a table has it.
    pub finds: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What mending may disturb.
    pub risk: &'static str,
    /// The function, which reads facts only through [`Judge::know`].
    pub(crate) judge: fn(&Facts, &mut Judge),
}

/// Collects the findings of one check.
pub struct Judge<'a> {
    check: &'a str,
    severity: Severity,
    risk: &'a str,
    why: &'a str,
    report: &'a mut Report,
}

impl<'a> Judge<'a> {
    /// The judge of a check, with the texts that all its findings have.
    pub(crate) fn new(check: &'a Check, report: &'a mut Report) -> Judge<'a> {
        Judge {
            check: check.id,
            severity: check.severity,
            risk: check.risk,
            why: check.why,
            report,
        }
    }

    /// The check's name.
    pub(crate) fn check(&self) -> &'a str {
        self.check
    }

    /// The value of a fact. If it is not known, the check is listed as not made for this object.
    pub(crate) fn know<'f, T>(&mut self, object: &str, fact: &'f Known<T>) -> Option<&'f T> {
        match fact {
            Known::Value(value) => Some(value),
            Known::Unknown { unknown } => {
                self.report.not_checked.push(NotChecked {
                    check: self.check.to_owned(),
                    object: object.to_owned(),
                    reason: unknown.clone(),
                });
                None
            }
        }
    }

    /// The value of a fact that a device may lack by design: a device without it is left alone.
    pub(crate) fn know_if_any<'f, T>(
        &mut self,
        object: &str,
        fact: &'f Known<Option<T>>,
    ) -> Option<&'f T> {
        self.know(object, fact).and_then(Option::as_ref)
    }

    /// A finding of the check's own severity.
    pub(crate) fn find(
        &mut self,
        object: impl Into<String>,
        evidence: impl Into<String>,
        steps: Vec<Step>,
    ) {
        self.find_as(self.severity, object, evidence, steps);
    }

    /// A finding of another severity.
    pub(crate) fn find_as(
        &mut self,
        severity: Severity,
        object: impl Into<String>,
        evidence: impl Into<String>,
        steps: Vec<Step>,
    ) {
        self.report.findings.push(Finding {
            check: self.check.to_owned(),
            severity,
            object: object.into(),
            evidence: evidence.into(),
            steps,
            risk: self.risk.to_owned(),
            why: self.why.to_owned(),
        });
    }
}
