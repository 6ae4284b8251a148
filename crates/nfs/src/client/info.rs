//! Clients and their connections as they are now, for the control plane.
//!
//! **Owns** [`ClientInfo`]. **Called by** the service. **Invariants**: plain data.

use io::net::TcpInfo;
use session::latency::CommandLatency;
use std::net::SocketAddr;
use std::time::Duration;

/// One connection of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionInfo {
    /// The client's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The thread that serves it.
    pub shard: String,
    /// What its TLS handshake agreed on; `None` without TLS.
    pub tls: Option<tls::Session>,
    /// The kernel's view of the connection, at most a second older than the last traffic.
    pub tcp: TcpInfo,
    /// Requests that are being executed.
    pub in_flight: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Requests taken.
    pub requests: u64,
    /// Requests that RPC refused.
    pub failures: u64,
}

/// One client with a confirmed record, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientInfo {
    /// Its client ID.
    pub id: u64,
    /// The name that it gave itself (`co_ownerid`).
    pub owner: Vec<u8>,
    /// Time since it renewed its lease.
    pub age: Duration,
    /// When it sent EXCHANGE_ID, milliseconds since 1970.
    pub connected_at_ms: u64,
    /// Its sessions.
    pub sessions: usize,
    /// Slots of these sessions.
    pub slots: usize,
    /// Its opens.
    pub opens: usize,
    /// Its lock states, one for each file and lock owner.
    pub locks: usize,
    /// Its delegations.
    pub delegations: usize,
    /// The minor version that it used last; 0 without a connection.
    pub minor: u32,
    /// Its connections.
    pub connections: Vec<ConnectionInfo>,
    /// Latencies of its requests on these connections, by kind.
    pub latency: Vec<CommandLatency>,
}
