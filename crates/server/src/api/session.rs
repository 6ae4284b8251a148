//! Answers about sessions: the values in use between a host and this server.

use super::SessionFacts;
use crate::word::word;
use doctor::facts::PortSummary;
use io::rdma::RdmaInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use session::latency::CommandLatency;
use std::net::{IpAddr, SocketAddr};

/// Protocol of sessions of servers that did not report it.
fn nvme() -> String {
    "nvme".into()
}

/// A host that an access list refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedHost {
    /// `nvme`, `iscsi` or `nfs`.
    pub protocol: String,
    /// The name that it gave: its NQN, or the initiator's; empty over NFS.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
    /// The subsystem, target or path that it asked for; may be empty over NFS.
    pub export: String,
    /// Number of refusals.
    pub count: u64,
    /// The first one, ms since 1970.
    pub first_ms: u64,
    /// The last one, ms since 1970.
    pub last_ms: u64,
    /// The command that allows it.
    pub allow: String,
}

/// A session in one line: one controller of one host, a session of an iSCSI initiator, or an NFS client with all its sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    /// Its number: the controller ID, or 65536 and the TSIH; numbers from 131072 are NFS clients.
    pub id: u32,
    /// `nvme`, `iscsi` or `nfs`.
    #[serde(default = "nvme")]
    pub protocol: String,
    /// `io` or `discovery`.
    pub kind: String,
    /// Its state.
    pub state: String,
    /// The client's name: the host's NQN, the initiator's name, the owner of an NFS 4 client, or the address of a host that uses
    /// NFS 3. Empty for an NVMe host that sent no NQN.
    pub client: String,
    /// The host's identifier, the ISID, or the client ID of NFS 4.
    pub host_id: String,
    /// The subsystem's name, or the target's. Empty for discovery over iSCSI, and for NFS, whose sessions reach all exports.
    pub export: String,
    /// The host's address, from its admin queue or first connection.
    pub peer: Option<SocketAddr>,
    /// The transport in use: `tcp`, `tcp+tls` or `rdma`.
    pub transport: String,
    /// The RDMA device, over RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Over TCP to a server that is configured for RDMA, too: the reason why the client cannot use RDMA, if the server knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_rdma: Option<String>,
    /// PDU headers carry a CRC32C.
    pub header_digest: bool,
    /// PDU data carries a CRC32C.
    pub data_digest: bool,
    /// Connected I/O queues; for iSCSI and NFS connections.
    pub io_queues: usize,
    /// Entries of its deepest I/O queue; 0 for iSCSI and NFS.
    pub depth: u32,
    /// Bytes received from the host.
    pub bytes_in: u64,
    /// Bytes sent to the host.
    pub bytes_out: u64,
    /// Commands taken.
    pub commands: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Smoothed round-trip time of its slowest I/O queue, µs; 0 if it is not known.
    pub rtt_us: u32,
    /// Smallest round-trip time of that queue, µs; 0 if it is not known.
    #[serde(default)]
    pub rtt_min_us: u32,
    /// Segments sent again, all queues.
    pub retransmits: u64,
    /// Time since the last message of the host, ms; 0 for iSCSI.
    pub keep_alive_age_ms: u64,
    /// Keep alive timeout, for NFS the lease, ms; 0 if there is none.
    pub keep_alive_timeout_ms: u64,
    /// When it connected, milliseconds since 1970.
    pub connected_at_ms: u64,
    /// Reconnects of this host to this subsystem since the server started.
    pub reconnects: u64,
}

/// A session in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The session in one line.
    #[serde(flatten)]
    pub summary: SessionSummary,
    /// Its queues, the admin queue first; for iSCSI and NFS its connections.
    pub queues: Vec<Queue>,
    /// Time from a command's arrival to its answer, by kind of command.
    pub latencies: Vec<Latency>,
    /// Values that only sessions of its protocol have.
    #[serde(flatten)]
    pub facts: SessionFacts,
}

/// A queue of a session: one connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Its number; 0 is the admin queue. For iSCSI the CID, for NFS from 1 on.
    pub qid: u16,
    /// Its entries; 0 for iSCSI and NFS.
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
    /// Its queue pair, over RDMA. The values of TCP are 0 then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma: Option<QueuePair>,
}

/// A queue pair: a connection over RDMA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuePair {
    /// Its device.
    pub device: String,
    /// Its number.
    pub number: u32,
    /// The number of the host's queue pair; 0 if the device does not tell.
    pub peer_number: u32,
    /// Path MTU, bytes; 0 if the device does not tell.
    pub path_mtu: u32,
    /// READs of the host's memory that may be outstanding.
    pub reads_out: u8,
    /// READs of our memory that the host may have outstanding.
    pub reads_in: u8,
    /// Receives: the messages that the host may have sent and the server not taken; of a shared queue, the posted ones.
    pub receives: u32,
    /// Receives of the queue that it shares with the other connections of its shard and device; 0 if it has its own.
    #[serde(default)]
    pub shared_receives: u32,
    /// Bytes of each receive.
    pub receive_len: u32,
    /// Most bytes that are copied into a request.
    pub inline_max: u32,
    /// Messages that found no receive of the host and were sent again (RNR); none if the device does not count them by queue pair.
    pub rnr_retries: Option<u64>,
    /// The port of its device that has our address; `session show` only, and none if the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortSummary>,
}

impl From<RdmaInfo> for QueuePair {
    fn from(r: RdmaInfo) -> QueuePair {
        QueuePair {
            device: r.device,
            number: r.queue_pair,
            peer_number: r.peer_queue_pair,
            path_mtu: r.path_mtu,
            reads_out: r.reads_out,
            reads_in: r.reads_in,
            receives: r.receives,
            shared_receives: r.shared_receives,
            receive_len: r.receive_len,
            inline_max: r.inline_max,
            rnr_retries: r.rnr_retries,
            port: None,
        }
    }
}

/// Latencies of one kind of command, µs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// `read`, `write`, `flush` or `other`.
    pub command: String,
    /// Number of commands.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Maximum.
    pub max_us: u64,
}

impl From<&CommandLatency> for Latency {
    fn from(l: &CommandLatency) -> Latency {
        Latency {
            command: word(l.kind),
            count: l.count,
            mean_us: l.mean_us,
            p50_us: l.p50_us,
            p90_us: l.p90_us,
            p99_us: l.p99_us,
            p999_us: l.p999_us,
            max_us: l.max_us,
        }
    }
}
