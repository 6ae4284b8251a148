//! Results of the probe.
//!
//! **Called by** its runner, verdict and text, and by the report, which reads stored ones.

use crate::probe::summary::Summary;
use crate::probe::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One direction of a transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Bytes of data per second, of all streams together.
    pub bytes_per_s: f64,
    /// Segments that were sent again, of all streams together.
    pub retransmits: u64,
    /// The same as a share of all segments.
    pub retransmit_share: f64,
    /// Largest segment, bytes: the smallest of all streams.
    pub mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Smoothed round-trip time under this load, µs: the longest of all streams.
    pub rtt_us: u32,
    /// Congestion control of the sender.
    pub congestion: String,
}

/// A transfer over some streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Streams in each direction.
    pub streams: u32,
    /// Data to the other machine.
    pub to_server: Option<Flow>,
    /// Data from the other machine.
    pub from_server: Option<Flow>,
    /// Processor time of this side's thread, as a share of the time.
    pub client_busy: f64,
    /// The same of the other side's thread.
    pub server_busy: f64,
}

/// One operation over RDMA.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredVerb {
    /// One request of [`Verbs::message`] bytes at a time; for SEND, a message and its answer.
    pub latency: Summary,
    /// Bytes of data per second, in blocks of [`Verbs::block`] bytes.
    pub bytes_per_s: f64,
    /// Processor time of this side's thread while the rate is measured, as a share of the time.
    pub client_busy: f64,
    /// The same of the other side's thread.
    pub server_busy: f64,
}

/// Operations over RDMA.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verbs {
    /// The device of this side.
    pub device: String,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Most bytes that are copied into a request.
    pub inline_max: u32,
    /// Bytes of each request of the latency measurement.
    pub message: u32,
    /// Bytes of each request of the rate measurement.
    pub block: u32,
    /// Requests outstanding in the rate measurement.
    pub depth: u32,
    /// Messages to the other machine.
    pub send: MeasuredVerb,
    /// Writes to the other machine's memory.
    pub write: MeasuredVerb,
    /// Reads of the other machine's memory.
    pub read: MeasuredVerb,
}

impl Verbs {
    /// The operations with their names.
    #[must_use]
    pub fn operations(&self) -> [(&'static str, &MeasuredVerb); 3] {
        [
            ("SEND, message and answer", &self.send),
            ("WRITE", &self.write),
            ("READ", &self.read),
        ]
    }
}

/// The interface on the way to the other machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MTU, bytes.
    pub mtu: Option<u32>,
    /// Its speed, Mb/s.
    pub speed_mbit: Option<u64>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// The other machine.
    pub address: SocketAddr,
    /// Bytes of each message of the latency measurement.
    pub message: u32,
    /// Requests and responses of that size, one at a time.
    pub latency: Summary,
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// The interface on the way, if it is known.
    pub interface: Option<Interface>,
    /// Operations over RDMA, if they were measured.
    #[serde(default)]
    pub verbs: Option<Verbs>,
    /// Why they were not measured, although they were asked for.
    #[serde(default)]
    pub no_verbs: Option<String>,
    /// The judgement.
    pub verdict: Verdict,
}
