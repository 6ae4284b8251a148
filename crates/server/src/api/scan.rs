//! Requests and answers about scrub, trim, resilver and damage.

use crate::size::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The present or last scrub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scrub {
    /// Its state.
    pub state: ScanState,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// Time at which it ended or was stopped, ms since 1970.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Running time without pauses, ms.
    pub active_ms: u64,
    /// Bytes read, as stored, of one member.
    pub done: u64,
    /// Used bytes at its start.
    pub of: u64,
    /// Maximum bytes per second; none for no limit.
    #[serde(default)]
    pub rate_max: Option<u64>,
    /// Repaired copies.
    pub repaired: u64,
    /// Blocks without a correct copy.
    pub lost: u64,
    /// Why it was paused without a request.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The present or last trim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trim {
    /// Its state.
    pub state: ScanState,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// Time at which it ended or was stopped, ms since 1970.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Running time without pauses, ms.
    pub active_ms: u64,
    /// Regions of the pool that were visited.
    pub done: u64,
    /// Regions of the pool.
    pub of: u64,
    /// Trimmed bytes of one member.
    pub trimmed: u64,
    /// Maximum bytes per second; none for no limit.
    #[serde(default)]
    pub rate_max: Option<u64>,
    /// Why it was paused without a request.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Starts, resumes, pauses or stops a trim of all free space. It runs in the background, also after a restart.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrimPool {
    /// The pool.
    pub name: String,
    /// The action.
    #[serde(default)]
    pub action: ScrubAction,
    /// Maximum bytes per second; 0 for no limit. Also changes a running trim.
    #[serde(default)]
    pub rate: Option<ByteSize>,
}

/// State of a scrub, trim or resilver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScanState {
    /// Running; it resumes after a restart.
    #[default]
    Running,
    /// Paused; it resumes at its position on request.
    Paused,
    /// Stopped.
    Stopped,
    /// Complete.
    Finished,
}

/// An unreadable range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// The volume, filesystem or snapshot, such as `tank/vm1@monday`; the pool for its own trees.
    pub dataset: String,
    /// In a filesystem: the path of the object, if it can be found.
    #[serde(default)]
    pub path: Option<String>,
    /// In a filesystem: the number of the first object that the damage concerns. 0 is the filesystem itself.
    #[serde(default)]
    pub first_object: Option<u64>,
    /// In a filesystem: the number behind the last object; 2^64 - 1 for no upper bound.
    #[serde(default)]
    pub end_object: Option<u64>,
    /// Offset in the volume or file, bytes; none if other parts are damaged, or if it is unknown.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Length, bytes.
    #[serde(default)]
    pub len: Option<u64>,
}

/// The present or last resilver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Resilver {
    /// Its state. After a restart it goes on at its last position; `done` and `of` count from there.
    pub state: ScanState,
    /// The disk's GUID.
    pub member: String,
    /// Time of its first start, ms since 1970, also across restarts.
    pub started_ms: u64,
    /// When it ended, ms since 1970.
    pub ended_ms: Option<u64>,
    /// Running time since its last start, ms.
    pub active_ms: u64,
    /// Bytes examined, as stored.
    pub done: u64,
    /// Bytes that the disk may lack; none until they are counted.
    pub of: Option<u64>,
    /// Maximum bytes per second; none for no limit.
    pub rate_max: Option<u64>,
    /// Copied blocks.
    pub copied: u64,
    /// Offset on its vdev below which the disk has all blocks, bytes.
    pub position: u64,
    /// Other disks of its vdev that may fail until it ends; none if the disk is in no vdev.
    pub may_fail: Option<u64>,
    /// Why it failed; it will be retried.
    pub reason: Option<String>,
}

/// Sets the rate of resilvers, and starts the resilver of stale disks at once.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResilverPool {
    /// The pool.
    pub name: String,
    /// Maximum bytes per second; 0 for no limit.
    #[serde(default)]
    pub rate: Option<ByteSize>,
}

/// Action on a scrub or a trim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrubAction {
    /// Start, or resume.
    #[default]
    Start,
    /// Pause.
    Pause,
    /// Stop.
    Stop,
}

/// Starts, resumes, pauses or stops a scrub. It runs in the background, also after a restart.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubPool {
    /// The pool.
    pub name: String,
    /// The action.
    #[serde(default)]
    pub action: ScrubAction,
    /// Maximum bytes per second; 0 for no limit. Also changes a running scrub.
    #[serde(default)]
    pub rate: Option<ByteSize>,
}
