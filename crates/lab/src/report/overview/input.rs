//! Stored JSON of commands, recognized by its keys.
//!
//! **Called by** the page and the command line. **Invariants**: a file is bounded; keys that the page does not need are ignored, and
//! missing ones are empty, so that files of other versions can be read.

use crate::probe::ioping::result::Iopinged;
use crate::probe::network::result::Probed;
use crate::probe::ping::result::Pinged;
use crate::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Largest file, bytes.
const FILE_MAX: u64 = 64 << 20;
const EXPECTED: &str = "expected the JSON of wirepool ping, ioping, probe, bench run, bench matrix, bench compare, doctor or why (--json)";

/// One input of the page.
#[derive(Debug, Clone)]
pub enum Input {
    /// `wirepool ping`.
    Ping(Box<Pinged>),
    /// `wirepool ioping`.
    Ioping(Box<Iopinged>),
    /// `wirepool probe run`.
    Network(Box<Probed>),
    /// `wirepool bench run`, `matrix` or `compare`.
    Runs(Runs),
    /// `wirepool doctor`.
    Doctor(Doctor),
    /// `wirepool why`.
    Why(Vec<Why>),
}

/// Results of workloads.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Runs {
    /// fio's time of the start.
    #[serde(default)]
    pub time: String,
    /// fio's jobs, one for each row that was measured.
    #[serde(default)]
    pub jobs: Vec<Job>,
    /// Our own part.
    pub wirepool: Own,
}

/// A job of fio's format.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    /// `WORKLOAD on TARGET`.
    pub jobname: String,
    /// Reads.
    pub read: Side,
    /// Writes.
    pub write: Side,
}

/// One direction of a job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Side {
    /// I/Os.
    pub total_ios: u64,
    /// Times from submission to completion.
    pub clat_ns: Times,
}

/// Times of fio's format, ns.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Times {
    /// The mean.
    pub mean: f64,
    /// By percentile, `99.000000`.
    pub percentile: std::collections::BTreeMap<String, u64>,
}

/// Our own part of a result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Own {
    /// The heading.
    pub title: String,
    /// The processor's name.
    pub processor: String,
    /// Its processors.
    pub processors: u64,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// Its kernel.
    pub kernel: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One workload on one target.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The workload, `4K randread Q1T1`.
    pub workload: String,
    /// The target's label.
    pub target: String,
    /// Its address.
    pub address: String,
    /// The verdict of the rules, in words.
    pub verdict: String,
    /// The rounds; none if it was refused.
    pub rounds: Vec<Round>,
    /// I/Os per second.
    pub iops: Rate,
}

/// One round.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Round {
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bw_bytes: f64,
}

/// Median and extremes of the rounds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Rate {
    /// The median.
    pub median: f64,
    /// The slowest round.
    pub min: f64,
    /// The fastest round.
    pub max: f64,
}

/// Findings of the doctor.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Doctor {
    /// Checks that were made.
    pub checks: u64,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// Checks that lacked a fact.
    #[serde(default)]
    pub not_checked: Vec<Value>,
}

/// A finding of the doctor.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// The check.
    pub check: String,
    /// `note`, `warning` or `critical`.
    pub severity: String,
    /// The interface, disk, session or setting.
    pub object: String,
    /// The values that were read.
    pub evidence: String,
    /// Why it matters.
    pub why: String,
}

/// Stages of the requests of an export.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Why {
    /// The protocol.
    pub protocol: String,
    /// The export.
    pub export: String,
    /// The length of the interval, s.
    pub seconds: f64,
    /// The stages.
    pub stages: Vec<Stage>,
    /// The verdict; none without requests.
    pub limit: Option<Limit>,
}

/// A stage's part of the time.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Stage {
    /// Its name.
    pub stage: String,
    /// Its part of all time, %.
    pub percent: f64,
    /// Its mean over all requests, µs.
    pub mean_us: f64,
    /// The time that 99 % of its requests did not exceed, µs.
    pub p99_us: f64,
}

/// A verdict of `wirepool why`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// The limit in words.
    pub summary: String,
    /// The numbers that it follows from.
    pub evidence: Vec<String>,
    /// Changes that would help.
    pub helps: Vec<String>,
}

/// Reads a file. Errors: `File`; `Contents` if no command printed it.
pub fn read(path: &Path) -> Result<Input> {
    let file = std::fs::File::open(path).map_err(Error::file(path))?;
    let mut bytes = Vec::new();
    let read = file.take(FILE_MAX + 1).read_to_end(&mut bytes);
    read.map_err(Error::file(path))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(Error::contents(path, "larger than 64 MiB"));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| Error::contents(path, e))?;
    recognize(value).map_err(|why| Error::contents(path, why))
}

/// The input that this JSON is. Errors: the expected form, or the first defect.
pub fn recognize(value: Value) -> std::result::Result<Input, String> {
    let has = |keys: &[&str]| keys.iter().all(|k| value.get(k).is_some());
    if has(&["jobs", "wirepool"]) {
        of(value).map(Input::Runs)
    } else if has(&["tcp", "keep_alive", "read", "verdict"]) {
        of(value).map(|p| Input::Ping(Box::new(p)))
    } else if has(&["way", "requests", "verdict"]) {
        of(value).map(|p| Input::Ioping(Box::new(p)))
    } else if has(&["transfers", "latency", "verdict"]) {
        of(value).map(|p| Input::Network(Box::new(p)))
    } else if has(&["checks", "findings"]) {
        of(value).map(Input::Doctor)
    } else if value.is_array() {
        of(value).map(Input::Why)
    } else {
        Err(EXPECTED.into())
    }
}

fn of<T: DeserializeOwned>(value: Value) -> std::result::Result<T, String> {
    serde_json::from_value(value).map_err(|e| format!("{EXPECTED}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn inputs_are_recognized_by_their_keys() {
        let run = recognize(crate::report::fio::render(
            &crate::report::html::tests::sample(),
        ));
        let Ok(Input::Runs(run)) = run else {
            panic!("{run:?}");
        };
        assert_eq!((run.wirepool.rows.len(), run.jobs.len()), (4, 3));
        let doctor = json!({ "checks": 3, "findings": [], "not_checked": [] });
        assert!(matches!(recognize(doctor), Ok(Input::Doctor(_))));
        assert!(matches!(recognize(json!([])), Ok(Input::Why(_))));
        for other in [
            json!({}),
            json!(7),
            json!([1]),
            json!({ "jobs": [], "wirepool": 1 }),
        ] {
            let e = recognize(other).expect_err("no output of a command");
            assert!(e.starts_with("expected the JSON"), "{e}");
        }
    }
}
