//! Totals: connections by state and by reason of their end, operations, failures.
//!
//! **Called by** connections and operations, read by the control plane. **Invariants**: every counter is an atomic or behind a
//! lock that only failures take.

use crate::wire::{Status, operation};
use session::counters::{ConnectionTotals, Enumerated, RareCounters};
use std::sync::atomic::{AtomicU64, Ordering};

/// State of a connection, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionState {
    /// Accepted; no session was used on it.
    Connecting,
    /// A session is used on it.
    Established,
}

impl Enumerated for ConnectionState {
    const ALL: &'static [ConnectionState] =
        &[ConnectionState::Connecting, ConnectionState::Established];
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CloseReason {
    /// The client closed it.
    Peer,
    /// The network failed, or the client reset it.
    Network,
    /// The client broke the protocol.
    Protocol,
    /// No session in time.
    NoSession,
    /// The rest of a request did not come.
    DataTimeout,
    /// The client did not receive its replies, or cannot be reached.
    SendStall,
    /// The client did not move the data that it holds buffers for, and others waited for them.
    Reclaimed,
    /// The service is shutting down.
    Drained,
    /// Too many connections.
    Limit,
    /// The administrator ended the client.
    Administrator,
}

impl CloseReason {
    /// Whether the reason is trouble that the log names.
    pub(crate) fn is_trouble(self) -> bool {
        match self {
            CloseReason::Protocol
            | CloseReason::NoSession
            | CloseReason::DataTimeout
            | CloseReason::SendStall
            | CloseReason::Reclaimed
            | CloseReason::Limit => true,
            CloseReason::Peer
            | CloseReason::Network
            | CloseReason::Drained
            | CloseReason::Administrator => false,
        }
    }
}

impl Enumerated for CloseReason {
    const ALL: &'static [CloseReason] = &[
        CloseReason::Peer,
        CloseReason::Network,
        CloseReason::Protocol,
        CloseReason::NoSession,
        CloseReason::DataTimeout,
        CloseReason::SendStall,
        CloseReason::Reclaimed,
        CloseReason::Drained,
        CloseReason::Limit,
        CloseReason::Administrator,
    ];
}

session::close_reason!(CloseReason);

/// The live counters of operations.
pub(crate) struct CounterSet {
    operations: [AtomicU64; operation::LAST as usize + 1],
    failures: RareCounters<(u32, Status)>,
    /// Requests that were answered from a reply cache.
    pub(crate) replays: AtomicU64,
    /// Calls that RPC refused: another program, version or procedure, a bad credential, garbage.
    pub(crate) refused: AtomicU64,
}

impl Default for CounterSet {
    fn default() -> Self {
        Self {
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            failures: RareCounters::default(),
            replays: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

/// Counters of connections and operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Connections and bytes.
    pub connections: ConnectionTotals<ConnectionState, CloseReason>,
    /// Operations executed, by number; zero counts are left out.
    pub operations: Vec<(u32, u64)>,
    /// Operations that failed, by number and status.
    pub failures: Vec<((u32, Status), u64)>,
    /// Requests that were answered from a reply cache.
    pub replays: u64,
    /// Calls that RPC refused.
    pub refused: u64,
}

impl CounterSet {
    /// An operation ended.
    pub(crate) fn ended(&self, number: u32, status: Status) {
        if let Some(count) = self.operations.get(number as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if status != Status::Ok {
            self.failures.add((number, status));
        }
    }

    /// All counters.
    pub(crate) fn snapshot(
        &self,
        connections: ConnectionTotals<ConnectionState, CloseReason>,
    ) -> Counters {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let operations = (0..).zip(self.operations.iter().map(get));
        Counters {
            connections,
            operations: operations.filter(|(_, count)| *count > 0).collect(),
            failures: self.failures.snapshot(),
            replays: get(&self.replays),
            refused: get(&self.refused),
        }
    }
}
