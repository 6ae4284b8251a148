//! Transport truth: what is really in use between a host and us.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A session in one line: one controller of one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its number (the controller ID).
    pub id: u16,
    /// `io` or `discovery`.
    pub kind: String,
    /// Its state.
    pub state: String,
    /// The host's name.
    pub host_nqn: String,
    /// The host's identifier.
    pub host_id: String,
    /// The subsystem's name.
    pub nqn: String,
    /// The host's address, from its admin queue.
    pub peer: Option<SocketAddr>,
    /// The transport in use: `tcp`.
    pub transport: String,
    /// PDU headers carry a CRC32C.
    pub header_digest: bool,
    /// PDU data carries a CRC32C.
    pub data_digest: bool,
    /// I/O queues that are connected.
    pub io_queues: usize,
    /// Entries of its deepest I/O queue.
    pub depth: u32,
    /// Bytes received from the host.
    pub bytes_in: u64,
    /// Bytes sent to the host.
    pub bytes_out: u64,
    /// Commands taken.
    pub commands: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Smoothed round-trip time of its slowest queue, µs.
    pub rtt_us: u32,
    /// Segments sent again, all queues.
    pub retransmits: u64,
    /// Time since the host was last heard of, ms.
    pub keep_alive_age_ms: u64,
    /// Time without a sign of life after which the session ends, ms; 0 if it does not.
    pub keep_alive_timeout_ms: u64,
    /// When it connected, milliseconds since 1970.
    pub connected_at_ms: u64,
    /// Times this host connected again to this subsystem since the server started.
    pub reconnects: u64,
}

/// A session in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The session in one line.
    #[serde(flatten)]
    pub summary: SessionSummary,
    /// Its queues, the admin queue first.
    pub queues: Vec<Queue>,
    /// Time from a command's arrival to its answer, by kind of command.
    pub latencies: Vec<Latency>,
}

/// A queue of a session: one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its number; 0 is the admin queue.
    pub qid: u16,
    /// Its entries.
    pub depth: u32,
    /// The shard that serves it.
    pub shard: String,
    /// The host's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// Largest segment we send, bytes.
    pub mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Its variance, µs.
    pub rtt_var_us: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// The congestion control in use.
    pub congestion: String,
    /// Commands in flight.
    pub in_flight: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Commands taken.
    pub commands: u64,
    /// Commands that failed.
    pub errors: u64,
}

/// Latencies of one kind of command, µs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// `read`, `write`, `flush` or `other`.
    pub command: String,
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Half were faster.
    pub p50_us: u64,
    /// 90 % were faster.
    pub p90_us: u64,
    /// 99 % were faster.
    pub p99_us: u64,
    /// 99.9 % were faster.
    pub p999_us: u64,
    /// The slowest.
    pub max_us: u64,
}
