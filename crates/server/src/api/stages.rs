//! Answers about the time of requests by stage.

use crate::word::word;
use io::histogram::Times;
use io::time::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::stages::{KindStages, StageCounters};

/// Time of requests by stage since their exports were published.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stages {
    /// Time of this answer on a clock that never goes back, ms.
    pub at_ms: u64,
    /// The exports.
    pub exports: Vec<ExportStages>,
}

/// Requests of one export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportStages {
    /// `nvme`, `iscsi` or `nfs`.
    pub protocol: String,
    /// The name of the subsystem or target; `nfs` for all exports over NFS together.
    pub export: String,
    /// Requests by command.
    pub requests: Vec<RequestStages>,
    /// The slowest requests of the last minute, slowest first.
    pub slowest: Vec<SlowRequest>,
}

/// Requests of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestStages {
    /// `read`, `write`, `flush` or `other`.
    pub command: String,
    /// Requests that ended.
    pub count: u64,
    /// The stages in which requests were.
    pub stages: Vec<StageTimes>,
}

/// Times of requests in one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTimes {
    /// `receive`, `queue`, `memory`, `compute`, `journal`, `device`, `flush` or `send`.
    pub stage: String,
    /// Sum of all times, ns.
    pub sum_ns: u64,
    /// Upper bound in ns, and number of requests that took longer than the bound before and at most this one.
    pub buckets: Vec<(u64, u64)>,
}

/// A slow request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowRequest {
    /// Time since it ended, ms.
    pub age_ms: u64,
    /// `read`, `write`, `flush` or `other`.
    pub command: String,
    /// The client's address.
    pub peer: std::net::SocketAddr,
    /// From its arrival to its end, µs.
    pub total_us: u64,
    /// Its stages in the order of its way, and the time in each, µs. Without `send`, which is known later.
    pub stages: Vec<(String, u64)>,
}

impl ExportStages {
    /// The counters of one export, at `now`.
    pub(crate) fn read(
        protocol: &str,
        export: String,
        counters: &StageCounters,
        now: Instant,
    ) -> ExportStages {
        let slowest = counters.slowest(now);
        ExportStages {
            protocol: protocol.to_owned(),
            export,
            requests: counters.read().iter().map(RequestStages::from).collect(),
            slowest: slowest.iter().map(|r| SlowRequest::of(r, now)).collect(),
        }
    }
}

impl From<&KindStages> for RequestStages {
    fn from(kind: &KindStages) -> RequestStages {
        let stage = |(stage, times): &(io::stage::Stage, Times)| StageTimes {
            stage: word(stage),
            sum_ns: times.sum,
            buckets: times.counts.clone(),
        };
        RequestStages {
            command: word(kind.kind),
            count: kind.requests,
            stages: kind.stages.iter().map(stage).collect(),
        }
    }
}

impl SlowRequest {
    fn of(r: &session::stages::SlowRequest, now: Instant) -> SlowRequest {
        let stages = io::stage::Stage::ALL.iter();
        let spent = stages.map(|stage| (word(stage), r.spent.of(*stage) / 1000));
        SlowRequest {
            age_ms: now.since(r.ended_at).as_millis() as u64,
            command: word(r.kind),
            peer: r.peer,
            total_us: r.spent.total() / 1000,
            stages: spent.filter(|(_, us)| *us > 0).collect(),
        }
    }
}
