//! The form of a judgement: the limit, one sentence, evidence, and remedies.
//!
//! **Called by** the verdicts of each probe, their texts and the report.

use crate::report::wrap::wrap;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Characters of a line of text.
const WIDTH: usize = 110;

/// The part that takes most of the time, or the reason why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// No connection could be made.
    Unreachable,
    /// The peer accepts connections and refuses or ignores the session.
    Refused,
    /// Requests had no answer.
    Loss,
    /// The network between the two machines.
    Network,
    /// The server's protocol code and its threads.
    Server,
    /// The storage of the server: pool, file system, disk.
    Storage,
    /// A disk of this machine.
    Device,
    /// Memory on purpose: a RAM disk, tmpfs.
    Memory,
    /// A cache answers, or may answer.
    Cache,
    /// The link's own speed.
    Link,
    /// One processor of either machine.
    Processor,
    /// One connection: its window, or its processor.
    Connection,
    /// No part takes most of the time.
    Mixed,
}

impl Limit {
    /// The name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Limit::Unreachable => "unreachable",
            Limit::Refused => "refused",
            Limit::Loss => "loss",
            Limit::Network => "network",
            Limit::Server => "server",
            Limit::Storage => "storage",
            Limit::Device => "device",
            Limit::Memory => "memory",
            Limit::Cache => "cache",
            Limit::Link => "link",
            Limit::Processor => "processor",
            Limit::Connection => "connection",
            Limit::Mixed => "mixed",
        }
    }

    /// Whether the probe has no result.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Limit::Unreachable | Limit::Refused)
    }
}

/// A judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The part that takes most of the time.
    pub limit: Limit,
    /// One sentence.
    pub summary: String,
    /// Further facts that matter.
    pub evidence: Vec<String>,
    /// What would help.
    pub helps: Vec<String>,
}

impl Verdict {
    /// A judgement without further facts.
    #[must_use]
    pub fn new(limit: Limit, summary: impl Into<String>) -> Verdict {
        Verdict {
            limit,
            summary: summary.into(),
            evidence: Vec::new(),
            helps: Vec::new(),
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Verdict {
        self.helps.push(text.into());
        self
    }

    /// The judgement as lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = wrap(
            &format!("{}: {}", self.limit.name(), self.summary),
            "",
            WIDTH,
        );
        for line in &self.evidence {
            out.push_str(&wrap(line, "  - ", WIDTH));
        }
        if !self.helps.is_empty() {
            let _ = writeln!(out, "would help:");
        }
        for line in &self.helps {
            out.push_str(&wrap(line, "  - ", WIDTH));
        }
        out
    }
}
