//! Transport truth: the transport, digests and queues really in use between a host and this target, and their performance.
//!
//! **Owns** the snapshots of sessions that the control plane shows. **Called by** [`super::Target::sessions`].

use super::association::Controller;
pub use super::association::SessionKind;
use super::config::Transports;
use crate::wire::fabrics::Csts;
use crate::wire::nqn::{HostId, Nqn};
use crate::wire::pdu::Digests;
use io::net::TcpInfo;
use io::rdma::RdmaInfo;
use session::latency::{CommandLatency, LatencySums};
use session::signal::INFO;
use std::net::SocketAddr;
use std::time::Duration;

/// The state of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Connected, not yet enabled by the host (CC.EN is 0).
    Connected,
    /// Enabled.
    Ready,
    /// A shutdown is under way or complete (CSTS.SHST).
    ShutDown,
}

/// One queue of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueInfo {
    /// Queue ID; 0 is the admin queue.
    pub qid: u16,
    /// Entries.
    pub depth: u16,
    /// The host's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The thread that serves it.
    pub shard: String,
    /// Digests in use on it.
    pub digests: Digests,
    /// The kernel's view of the connection, at most a second older than the last traffic.
    pub tcp: TcpInfo,
    /// The queue pair's numbers, over RDMA.
    pub rdma: Option<RdmaInfo>,
    /// Commands without a reply now.
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

/// One controller: a host's association with a subsystem.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// CNTLID.
    pub cntlid: u16,
    /// Host NQN; `Nqn::unnamed` if the host sent none.
    pub host_nqn: Nqn,
    /// Host identifier.
    pub host_id: HostId,
    /// Subsystem NQN.
    pub subsystem: Nqn,
    /// Its kind.
    pub kind: SessionKind,
    /// The transport really in use.
    pub transport: &'static str,
    /// The transports over which hosts may connect to its subsystem.
    pub transports: Transports,
    /// Digests in use on every queue.
    pub digests: Digests,
    /// Its state.
    pub state: SessionState,
    /// Its queues.
    pub queues: Vec<QueueInfo>,
    /// Keep alive timeout; zero for none.
    pub keep_alive: Duration,
    /// Time since the host was last heard of.
    pub keep_alive_age: Duration,
    /// When it connected, milliseconds since 1970.
    pub connected_at_ms: u64,
    /// How often this host had connected to this subsystem before.
    pub reconnects: u64,
    /// Latencies by kind, of all its queues.
    pub latency: Vec<CommandLatency>,
}

/// A snapshot of a controller.
pub(super) fn session_of(c: &Controller) -> SessionInfo {
    let state = c.state();
    let mut latency = LatencySums::default();
    let mut queues = Vec::new();
    let mut digests = Digests {
        header: true,
        data: true,
    };
    for h in state.queues.values() {
        h.signal.raise(INFO);
        let t = h.totals();
        t.latencies.add_to(&mut latency);
        digests = digests.and(h.digests);
        queues.push(QueueInfo {
            qid: h.qid,
            depth: h.depth,
            peer: h.peer,
            local: h.local,
            shard: h.shard.clone(),
            digests: h.digests,
            tcp: t.carrier.tcp(),
            rdma: t.carrier.rdma().cloned(),
            in_flight: t.in_flight,
            bytes_in: t.bytes_in,
            bytes_out: t.bytes_out,
            commands: t.commands,
            errors: t.errors,
        });
    }
    let shut = state
        .csts
        .intersects(Csts::SHUTDOWN_OCCURRING | Csts::SHUTDOWN_COMPLETE);
    let session = match (shut, state.is_ready()) {
        (true, _) => SessionState::ShutDown,
        (false, true) => SessionState::Ready,
        (false, false) => SessionState::Connected,
    };
    drop(state);
    SessionInfo {
        cntlid: c.cntlid,
        host_nqn: c.host_nqn.clone(),
        host_id: c.host_id,
        subsystem: c.subsystem_name(),
        kind: c.session_kind(),
        transport: c.transport.name(),
        transports: c.subsystem().map_or(Transports::ALL, |s| s.transports()),
        digests,
        state: session,
        queues,
        keep_alive: Duration::from_millis(u64::from(c.kato_ms())),
        keep_alive_age: c.age(),
        connected_at_ms: c.connected_at_ms,
        reconnects: c.reconnects,
        latency: latency.summary(),
    }
}
