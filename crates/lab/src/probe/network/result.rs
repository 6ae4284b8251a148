//! Results of the TCP probe.
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
    /// The judgement.
    pub verdict: Verdict,
}
