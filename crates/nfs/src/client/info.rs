//! Clients and their connections as they are now, for the control plane.
//!
//! **Owns** [`ClientInfo`], and the flags of SEQUENCE about revoked states. **Called by** the service. **Invariants**: plain data.

use super::Clients;
use crate::transport::NfsTransport;
use io::net::TcpInfo;
use io::rdma::RdmaInfo;
use session::latency::CommandLatency;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// `SEQ4_STATUS_ADMIN_STATE_REVOKED`, `SEQ4_STATUS_RECALLABLE_STATE_REVOKED` (§18.46.1).
const ADMIN_STATE_REVOKED: u32 = 0x20;
const RECALLABLE_STATE_REVOKED: u32 = 0x40;

/// One connection of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionInfo {
    /// The client's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The transport.
    pub transport: NfsTransport,
    /// The thread that serves it.
    pub shard: String,
    /// What its TLS handshake agreed on; `None` without TLS.
    pub tls: Option<tls::Session>,
    /// The kernel's view of the connection, at most a second older than the last traffic.
    pub tcp: TcpInfo,
    /// The queue pair of a connection over RDMA, likewise; `None` before the first reading.
    pub rdma: Option<RdmaInfo>,
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

impl Clients {
    /// The clients whose record was made from one of these addresses.
    pub fn clients_at(&self, is_meant: impl Fn(IpAddr) -> bool) -> HashSet<u64> {
        let all = self.records.iter();
        let meant = all.filter(|(_, record)| is_meant(record.address));
        meant.map(|(id, _)| *id).collect()
    }

    /// Tells whether a client has stateids that it did not free and that were revoked after a recall, and by the administrator.
    pub fn set_revoked(&self, id: u64, (recall, admin): (bool, bool)) {
        let flags = [
            (recall, RECALLABLE_STATE_REVOKED),
            (admin, ADMIN_STATE_REVOKED),
        ];
        let shown = flags.iter().filter(|(is_shown, _)| *is_shown);
        let flags = shown.fold(0, |flags, (_, flag)| flags | flag);
        if let Some(record) = self.records.get(&id) {
            record.lease.revoked.store(flags, Ordering::Release);
        }
    }
}
