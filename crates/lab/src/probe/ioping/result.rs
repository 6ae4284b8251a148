//! Results of `wirepool ioping`.
//!
//! **Called by** its runner, verdict and text, and by the report, which reads stored ones.

use crate::probe::summary::Summary;
use crate::probe::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The part of the way that a request takes, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Past the page cache of this machine (O_DIRECT is in effect).
    Direct,
    /// Through the page cache of this machine.
    PageCache,
    /// Memory on purpose: a RAM disk, tmpfs.
    Memory,
    /// Over the network; caches of the server may answer.
    Remote,
}

impl Way {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Way::Direct => "direct, past the page cache",
            Way::PageCache => "through the page cache",
            Way::Memory => "memory",
            Way::Remote => "remote, caches of the server may answer",
        }
    }
}

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A read.
    Read,
    /// A write that is not durable when it ends.
    Write,
    /// A write that is on stable storage when it ends.
    DurableWrite,
}

impl Operation {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::DurableWrite => "durable write",
        }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its number, from 1.
    pub number: u64,
    /// Its time, or the reason why it failed.
    pub time: std::result::Result<Duration, String>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Iopinged {
    /// The target as it was named.
    pub target: String,
    /// The target in words.
    pub description: String,
    /// The kind of the requests.
    pub operation: Operation,
    /// The way of the requests.
    pub way: Way,
    /// Whether a scratch file was used.
    pub is_scratch: bool,
    /// Bytes of each request.
    pub size: u32,
    /// Bytes that the requests were spread over.
    pub region: u64,
    /// Share of the file that was never written.
    pub holes: f64,
    /// Time from the first request to the last answer, s.
    pub seconds: f64,
    /// Smoothed round-trip time of the connection, µs.
    pub rtt_us: Option<u32>,
    /// The requests.
    pub requests: Summary,
    /// The judgement.
    pub verdict: Verdict,
}
