//! Results of `wirepool ping`.
//!
//! **Called by** its runner, verdict and text, and by the report, which reads stored ones.

use crate::probe::summary::Summary;
use crate::probe::verdict::Verdict;
use io::net::TcpInfo;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// Times of one round, or the reason why a request had no answer.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its number, from 1.
    pub number: u64,
    /// TCP connect.
    pub tcp: std::result::Result<Duration, String>,
    /// Keep-alive.
    pub keep_alive: std::result::Result<Duration, String>,
    /// Read.
    pub read: std::result::Result<Duration, String>,
}

/// The kernel's statistics of the connection that carries reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Largest segment, bytes.
    pub mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Congestion control in use.
    pub congestion: String,
}

impl From<TcpInfo> for Connection {
    fn from(of: TcpInfo) -> Connection {
        Connection {
            rtt_us: of.rtt_us,
            mss: of.mss,
            path_mtu: of.path_mtu,
            retransmits: of.retransmits,
            congestion: of.congestion,
        }
    }
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pinged {
    /// The target as it was named.
    pub target: String,
    /// Its address.
    pub address: SocketAddr,
    /// `NVMe/TCP`, `iSCSI` or `NFS`.
    pub protocol: String,
    /// The name of the keep-alive in the protocol.
    pub keep_alive_name: String,
    /// Bytes of each read.
    pub size: u32,
    /// Time from the first request to the last answer, s.
    pub seconds: f64,
    /// TCP connects.
    pub tcp: Summary,
    /// Keep-alives.
    pub keep_alive: Summary,
    /// Reads.
    pub read: Summary,
    /// The connection that carried reads, if there was one at the end.
    pub connection: Option<Connection>,
    /// The judgement.
    pub verdict: Verdict,
}
