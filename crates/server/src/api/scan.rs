//! Scrub and resilver: what is asked, and how far they are.

use super::call::{Call, call};
use super::pool::Pool;
use crate::size::ByteSize;
use serde::{Deserialize, Serialize};

/// A scrub, the last one or the one under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// Where it is in its life.
    pub state: ScanState,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// When it ended or was stopped, ms since 1970.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Time that it ran, without pauses, ms.
    pub active_ms: u64,
    /// Bytes that were read, as stored, of one side.
    pub done: u64,
    /// Bytes that were used when it began.
    pub of: u64,
    /// Bytes per second that it may read; as many as it can if not set.
    #[serde(default)]
    pub rate_max: Option<u64>,
    /// Copies that were wrong and are right again.
    pub repaired: u64,
    /// Blocks of which no side has a right copy.
    pub lost: u64,
    /// Why it is paused, if nobody asked for that.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A trim of all that is free, the last one or the one under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    /// Where it is in its life.
    pub state: ScanState,
    /// When it began, ms since 1970.
    pub started_ms: u64,
    /// When it ended or was stopped, ms since 1970.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// Time that it ran, without pauses, ms.
    pub active_ms: u64,
    /// Regions of the pool that it came by.
    pub done: u64,
    /// Regions that there are.
    pub of: u64,
    /// Bytes that were given back to the disks, of one side.
    pub trimmed: u64,
    /// Bytes per second that it may trim; as many as it can if not set.
    #[serde(default)]
    pub rate_max: Option<u64>,
    /// Why it is paused, if nobody asked for that.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Begins, resumes, pauses or stops a trim of all that is free. It runs by itself, also after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrimPool {
    /// The pool.
    pub name: String,
    /// What to do.
    #[serde(default)]
    pub action: ScrubAction,
    /// Bytes per second that it may trim; 0 for as many as it can. Given while it runs, it changes that.
    #[serde(default)]
    pub rate: Option<ByteSize>,
}
call!(TrimPool, "/v1/pools/trim", Pool);

/// Where a scrub or a trim is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanState {
    /// It reads; after a restart it goes on.
    #[default]
    Running,
    /// It goes on where it was once it is asked to.
    Paused,
    /// It was given up.
    Stopped,
    /// It came to the end.
    Finished,
}

/// What clients cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The volume or snapshot, such as `tank/vm1@monday`; the pool if it is its own.
    pub dataset: String,
    /// Where it begins, bytes from the volume's start; not set if it is not known which part.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Its bytes.
    #[serde(default)]
    pub len: Option<u64>,
}

/// A disk that is brought up to date, or the last one that was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resilver {
    /// Where it is in its life; after a restart it begins again, and finds what it had copied.
    pub state: ScanState,
    /// The disk's GUID.
    pub side: String,
    /// When it began, ms since 1970; before a restart, if there was one.
    pub started_ms: u64,
    /// When it ended, ms since 1970.
    pub ended_ms: Option<u64>,
    /// Time since it began or was begun again, ms.
    pub active_ms: u64,
    /// Bytes of which was looked whether the disk has them, as stored.
    pub done: u64,
    /// Bytes that it may lack; not set until they are counted.
    pub of: Option<u64>,
    /// Bytes per second that it may look at; as many as it can if not set.
    pub rate_max: Option<u64>,
    /// Blocks that were copied.
    pub copied: u64,
    /// Why it did not come to its end; it is tried again.
    pub reason: Option<String>,
}

/// Sets how fast disks are brought up to date, now and from now on, and has those that lack something looked after at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResilverPool {
    /// The pool.
    pub name: String,
    /// Bytes per second that it may look at; 0 for as many as it can.
    #[serde(default)]
    pub rate: Option<ByteSize>,
}
call!(ResilverPool, "/v1/pools/resilver", Pool);

/// What is to become of a scrub or a trim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubAction {
    /// It begins, or goes on if it is paused.
    #[default]
    Start,
    /// It stays where it is.
    Pause,
    /// It is given up.
    Stop,
}

/// Begins, resumes, pauses or stops a scrub. It runs by itself, also after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubPool {
    /// The pool.
    pub name: String,
    /// What to do.
    #[serde(default)]
    pub action: ScrubAction,
    /// Bytes per second that it may read; 0 for as many as it can. Given while it runs, it changes that.
    #[serde(default)]
    pub rate: Option<ByteSize>,
}
call!(ScrubPool, "/v1/pools/scrub", Pool);
