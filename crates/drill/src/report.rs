//! Report of a drill: verdict, figures, layers and timeline, for people and for programs.
//!
//! **Owns** the judgement of a drill ([`conclude`]) and the text form. **Called by** the drill. **Invariants**: a drill passes
//! only if no acknowledged byte is lost, no block is wrong, every disturbance was followed by answers, no command failed that
//! should not, and every block was read back; each reason of a failure is named.

use crate::blocks::Findings;
use crate::limits::STEP;
use crate::load::{Counts, Load};
use crate::run::{Ended, Outcome};
use crate::timeline::{Event, Layer};
use io::printable::printable;
use lab::targets::Session;
use serde::Serialize;
use std::fmt::Write;

/// Subject of a drill.
#[derive(Debug, Clone, Default, Serialize)]
pub struct About {
    /// Kind of drill, such as `cable`.
    pub drill: String,
    /// The volume, and the server that it is on.
    pub object: String,
    /// The path from the load to the server.
    pub path: String,
    /// The load.
    pub load: String,
    /// Facts that limit the meaning of the result.
    pub notes: Vec<String>,
}

/// Observations of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerFacts {
    /// The layer.
    pub layer: Layer,
    /// Its observations.
    pub facts: Vec<String>,
}

/// A report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    #[serde(flatten)]
    about: About,
    passed: bool,
    interrupted: bool,
    /// Why the drill did not pass.
    reasons: Vec<String>,
    seconds: f64,
    /// Bytes of acknowledged writes that are gone.
    bytes_lost: u64,
    /// Bytes of blocks with contents that nobody wrote there.
    bytes_wrong: u64,
    #[serde(flatten)]
    findings: Findings,
    #[serde(flatten)]
    counts: Counts,
    longest_pause_ms: u64,
    longest_pause_at_ms: u64,
    /// Longest time from the end of a disturbance until the initiator was connected again.
    reconnected_ms: Option<u64>,
    disturbances: Vec<Ended>,
    layers: Vec<LayerFacts>,
    /// Milliseconds of one step of `answers`.
    step_ms: u64,
    /// Answered commands, by step.
    answers: Vec<u32>,
    /// Milliseconds from the start to the end of the load; later answers are reads of the check of all data.
    load_end_ms: Option<u64>,
    events: Vec<Event>,
    /// Events beyond the limit of the timeline.
    more_events: u64,
}

/// Judges a drill. `layers` has the observations that the caller made of the server.
#[must_use]
pub fn conclude<S: Session>(
    about: About,
    load: &Load<S>,
    outcome: Outcome,
    layers: Vec<LayerFacts>,
) -> Report {
    let timeline = load.timeline();
    let (findings, counts) = (load.findings(), load.counts());
    let size = u64::from(load.block_size());
    let longest = timeline.longest();
    let millis = |time: std::time::Duration| time.as_millis() as u64;
    let (events, more_events) = timeline.events();
    let mut report = Report {
        passed: false,
        interrupted: outcome.is_interrupted,
        reasons: outcome.problems,
        seconds: timeline.now().as_secs_f64(),
        bytes_lost: findings.lost_blocks * size,
        bytes_wrong: findings.wrong_blocks * size,
        findings,
        counts,
        longest_pause_ms: longest.map_or(0, |p| millis(p.length())),
        longest_pause_at_ms: longest.map_or(0, |p| millis(p.from)),
        reconnected_ms: outcome.ended.iter().filter_map(|e| e.reconnected_ms).max(),
        disturbances: outcome.ended,
        layers,
        step_ms: millis(STEP),
        answers: timeline.steps(),
        load_end_ms: timeline.load_end().map(millis),
        events,
        more_events,
        about,
    };
    report.judge();
    report
}

impl Report {
    fn judge(&mut self) {
        let mut reasons = std::mem::take(&mut self.reasons);
        if self.interrupted {
            reasons.push("it was interrupted".into());
        }
        if self.bytes_lost > 0 {
            reasons.push(format!(
                "{} bytes of acknowledged writes are lost",
                self.bytes_lost
            ));
        }
        if self.bytes_wrong > 0 {
            reasons.push(format!("{} bytes are wrong", self.bytes_wrong));
        }
        if self.counts.failed > 0 {
            reasons.push(format!("{} commands failed", self.counts.failed));
        }
        let refused: u64 = self.expected_refusals().map(|e| e.refused).sum();
        if self.counts.refused > refused {
            let text = format!(
                "{} writes were refused while there was space",
                self.counts.refused - refused
            );
            reasons.push(text);
        }
        if self.expected_refusals().any(|e| e.refused == 0) {
            reasons.push("no write was refused while there was no space".into());
        }
        if self.counts.writes == 0 {
            reasons.push("no write was acknowledged".into());
        }
        if self.disturbances.is_empty() {
            reasons.push("nothing was disturbed".into());
        }
        self.passed = reasons.is_empty();
        self.reasons = reasons;
    }

    /// Disturbances that were to make the server refuse writes.
    fn expected_refusals(&self) -> impl Iterator<Item = &Ended> {
        self.disturbances.iter().filter(|e| e.refuses_writes)
    }

    /// Whether the drill passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.passed
    }

    /// One sentence.
    pub(crate) fn verdict(&self) -> String {
        match self.passed {
            true => "passed: no acknowledged byte is lost".to_owned(),
            false => format!("FAILED: {}", self.reasons.join("; ")),
        }
    }

    /// Names and values of the summary, for people.
    pub(crate) fn summary(&self) -> Vec<(&'static str, String)> {
        let c = &self.counts;
        let mut rows = vec![
            ("on", self.about.object.clone()),
            ("path", self.about.path.clone()),
            ("load", self.about.load.clone()),
            (
                "commands",
                format!(
                    "{} writes ({} durable), {} flushes, {} reads; {} blocks read back; {} refused for lack of space, {} failed otherwise",
                    c.writes,
                    c.durable_writes,
                    c.flushes,
                    c.reads,
                    c.read_back,
                    c.refused,
                    c.failed
                ),
            ),
            (
                "lost",
                format!(
                    "{} bytes of acknowledged writes, {} wrong bytes",
                    self.bytes_lost, self.bytes_wrong
                ),
            ),
            (
                "longest pause",
                format!(
                    "{} without an answer, {} after the start",
                    seconds(self.longest_pause_ms),
                    seconds(self.longest_pause_at_ms)
                ),
            ),
            (
                "reconnected",
                match self.reconnected_ms {
                    Some(ms) => {
                        format!("{} after the end of the disturbance, at most", seconds(ms))
                    }
                    None => "never needed: connections survived".to_owned(),
                },
            ),
        ];
        rows.extend(self.about.notes.iter().map(|note| ("note", note.clone())));
        rows
    }

    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    pub(crate) fn disturbances(&self) -> &[Ended] {
        &self.disturbances
    }

    pub(crate) fn layers(&self) -> &[LayerFacts] {
        &self.layers
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = &String> {
        self.findings.examples.iter().chain(&self.counts.errors)
    }

    /// Begin in seconds, and answers per second, of each step.
    pub(crate) fn rates(&self) -> Vec<(f64, f64)> {
        let step = self.step_ms as f64 / 1000.0;
        let rates = self.answers.iter().enumerate();
        rates
            .map(|(number, answers)| (number as f64 * step, f64::from(*answers) / step))
            .collect()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The end of the load, seconds from the start.
    pub(crate) fn load_end(&self) -> Option<f64> {
        self.load_end_ms.map(|ms| ms as f64 / 1000.0)
    }

    /// Cells of a row of the table of disturbances.
    pub(crate) fn cells(ended: &Ended) -> [String; 6] {
        let optional = |ms: Option<u64>, none: &str| ms.map_or(none.to_owned(), seconds);
        [
            ended.name.clone(),
            seconds(ended.at_ms),
            seconds(ended.length_ms),
            optional(ended.reconnected_ms, "survived"),
            optional(ended.answered_ms, "never"),
            seconds(ended.pause_ms),
        ]
    }

    /// Heads of these cells.
    pub(crate) const HEADS: [&'static str; 6] = [
        "DISTURBANCE",
        "AT",
        "LENGTH",
        "RECONNECTED",
        "ANSWERED",
        "PAUSE",
    ];

    /// The report for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("drill {}: {}\n", self.about.drill, self.verdict());
        for (name, value) in self.summary() {
            let _ = writeln!(out, "  {name:<14}{value}");
        }
        for problem in self.problems() {
            let _ = writeln!(out, "  {:<14}{problem}", "!");
        }
        if !self.disturbances.is_empty() {
            let rows: Vec<_> = self.disturbances.iter().map(Self::cells).collect();
            out.push('\n');
            row(&mut out, &rows, &Self::HEADS.map(str::to_owned));
            rows.iter().for_each(|cells| row(&mut out, &rows, cells));
            out.push_str("  (RECONNECTED and ANSWERED count from the end of the disturbance)\n");
        }
        for layer in &self.layers {
            let _ = writeln!(out, "\n  {}", layer.layer.name());
            for fact in &layer.facts {
                let _ = writeln!(out, "    {fact}");
            }
        }
        let lines = out.lines().map(|line| printable(line).into_owned() + "\n");
        lines.collect()
    }
}

fn row(out: &mut String, rows: &[[String; 6]], cells: &[String; 6]) {
    out.push(' ');
    for (column, cell) in cells.iter().enumerate() {
        let head = Report::HEADS[column].len();
        let width = rows.iter().map(|r| r[column].chars().count()).max();
        let width = width.unwrap_or(0).max(head);
        let _ = match column {
            0 => write!(out, " {cell:<width$}"),
            _ => write!(out, "  {cell:>width$}"),
        };
    }
    out.push('\n');
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}
