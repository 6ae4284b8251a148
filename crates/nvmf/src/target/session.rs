//! Transport truth: what is really in use between a host and this target, and how it performs.
//!
//! **Owns** the live numbers of one queue ([`QueueTotals`]), written by its connection once per turn, and the
//! snapshots that the control plane shows. **Called by** connections and by [`super::Target::sessions`].

use super::connect::subsystem_name;
use super::controller::{Controller, Signal};
use crate::wire::fabrics::Csts;
use crate::wire::nqn::{HostId, Nqn};
use crate::wire::pdu::Digests;
use hdrhistogram::Histogram;
use io::net::TcpInfo;
use std::net::SocketAddr;
use std::time::Duration;

/// What latencies are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommandKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Every other command of an I/O queue, and all admin commands.
    Other,
}

impl CommandKind {
    /// All kinds, in the order of their histograms.
    pub const ALL: [CommandKind; 4] = [
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Flush,
        CommandKind::Other,
    ];
}

/// Longest latency told apart, µs.
const LATENCY_MAX_US: u64 = 600_000_000;

/// The live numbers of one queue.
#[derive(Default)]
pub(crate) struct QueueTotals {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) in_flight: u64,
    pub(crate) tcp: TcpInfo,
    /// Made when the first command of a kind ends, so that an idle queue costs nothing.
    latency: [Option<Box<Histogram<u32>>>; 4],
}

impl QueueTotals {
    /// `count` commands of a kind took `us` microseconds each.
    pub(crate) fn record(&mut self, kind: CommandKind, us: u64, count: u32) {
        let slot = &mut self.latency[kind as usize];
        if slot.is_none() {
            *slot = Histogram::new_with_bounds(1, LATENCY_MAX_US, 2)
                .ok()
                .map(Box::new);
        }
        if let Some(h) = slot {
            h.saturating_record_n(us.max(1), count);
        }
    }

    /// Adds this queue's latencies to `sum`.
    pub(crate) fn add_to(&self, sum: &mut LatencySums) {
        for (own, sum) in self.latency.iter().zip(&mut sum.0) {
            if let Some(h) = own {
                for v in h.iter_recorded() {
                    sum.saturating_record_n(v.value_iterated_to(), u64::from(v.count_at_value()));
                }
            }
        }
    }
}

/// Latencies of several queues together.
pub(crate) struct LatencySums([Histogram<u64>; 4]);

impl LatencySums {
    pub(crate) fn new() -> LatencySums {
        LatencySums(std::array::from_fn(|_| {
            Histogram::new_with_bounds(1, LATENCY_MAX_US, 2).expect("the bounds are sound")
        }))
    }

    pub(crate) fn summary(&self) -> Vec<CommandLatency> {
        CommandKind::ALL
            .iter()
            .zip(&self.0)
            .filter(|(_, h)| !h.is_empty())
            .map(|(kind, h)| CommandLatency {
                kind: *kind,
                count: h.len(),
                mean_us: h.mean(),
                p50_us: h.value_at_quantile(0.5),
                p90_us: h.value_at_quantile(0.9),
                p99_us: h.value_at_quantile(0.99),
                p999_us: h.value_at_quantile(0.999),
                max_us: h.max(),
            })
            .collect()
    }
}

/// How long commands of a kind took in the target: from the arrival of the command capsule to its reply being
/// handed to the socket, µs.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLatency {
    /// Which commands.
    pub kind: CommandKind,
    /// How many.
    pub count: u64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Median, µs.
    pub p50_us: u64,
    /// 90th percentile, µs.
    pub p90_us: u64,
    /// 99th percentile, µs.
    pub p99_us: u64,
    /// 99.9th percentile, µs.
    pub p999_us: u64,
    /// Largest, µs.
    pub max_us: u64,
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// A subsystem's namespaces.
    Io,
    /// Discovery.
    Discovery,
}

/// Where a controller is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Connected, not yet enabled by the host (CC.EN is 0).
    Connected,
    /// Enabled.
    Ready,
    /// The host asked for a shutdown, and has it (CSTS.SHST).
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
    /// What it is for.
    pub kind: SessionKind,
    /// The transport really in use.
    pub transport: &'static str,
    /// Digests in use on every queue.
    pub digests: Digests,
    /// Where it is in its life.
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

/// A controller, as it is now.
pub(super) fn session_of(c: &Controller) -> SessionInfo {
    let state = c.state();
    let mut latency = LatencySums::new();
    let mut queues = Vec::new();
    let mut digests = Digests {
        header: true,
        data: true,
    };
    for h in state.queues.values() {
        h.signal.raise(Signal::INFO);
        let t = h.totals();
        t.add_to(&mut latency);
        digests = digests.and(h.digests);
        queues.push(QueueInfo {
            qid: h.qid,
            depth: h.depth,
            peer: h.peer,
            local: h.local,
            shard: h.shard.clone(),
            digests: h.digests,
            tcp: t.tcp.clone(),
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
        subsystem: subsystem_name(c),
        kind: c.session_kind(),
        transport: "TCP",
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
