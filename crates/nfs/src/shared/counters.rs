//! Totals: connections by state and by reason of their end, operations, failures.
//!
//! **Called by** connections and operations, read by the control plane. **Invariants**: every counter is an atomic or behind a
//! lock that only failures take.

use crate::rpc::Reply;
use crate::v3::wire::{self as wire3, mount, procedure};
use crate::wire::{Status, operation};
use session::counters::{ConnectionTotals, Enumerated, RareCounters};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State of a connection, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionState {
    /// Accepted; no session was used on it.
    Connecting,
    /// TLS begins on it.
    Handshaking,
    /// A session is used on it.
    Established,
}

impl Enumerated for ConnectionState {
    const ALL: &'static [ConnectionState] = &[
        ConnectionState::Connecting,
        ConnectionState::Handshaking,
        ConnectionState::Established,
    ];
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
    /// The TLS handshake failed.
    Handshake,
    /// The TLS handshake did not end in time.
    HandshakeTimeout,
    /// A TLS record after the handshake was refused.
    Tls,
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
    /// The RDMA device failed or was removed.
    Device,
    /// The client's memory gave no access to a chunk that it named.
    MemoryAccess,
}

impl CloseReason {
    /// Whether the reason is trouble that the log names.
    pub(crate) fn is_trouble(self) -> bool {
        match self {
            CloseReason::Protocol
            | CloseReason::Handshake
            | CloseReason::HandshakeTimeout
            | CloseReason::Tls
            | CloseReason::NoSession
            | CloseReason::DataTimeout
            | CloseReason::SendStall
            | CloseReason::Reclaimed
            | CloseReason::Device
            | CloseReason::MemoryAccess
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
        CloseReason::Handshake,
        CloseReason::HandshakeTimeout,
        CloseReason::Tls,
        CloseReason::NoSession,
        CloseReason::DataTimeout,
        CloseReason::SendStall,
        CloseReason::Reclaimed,
        CloseReason::Drained,
        CloseReason::Limit,
        CloseReason::Administrator,
        CloseReason::Device,
        CloseReason::MemoryAccess,
    ];
}

session::close_reason!(CloseReason);

/// Why RPC refused a call, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// PROG_UNAVAIL.
    Program,
    /// PROG_MISMATCH.
    Version,
    /// PROC_UNAVAIL.
    Procedure,
    /// GARBAGE_ARGS.
    Arguments,
    /// RPC_MISMATCH.
    Rpc,
    /// AUTH_ERROR.
    Credential,
}

impl Refusal {
    /// The reason in a reply; `None` if the call was executed.
    pub(crate) fn of(reply: Reply) -> Option<Refusal> {
        Some(match reply {
            Reply::Success => return None,
            Reply::ProgramUnavailable => Refusal::Program,
            Reply::ProgramMismatch(..) => Refusal::Version,
            Reply::ProcedureUnavailable => Refusal::Procedure,
            Reply::GarbageArguments => Refusal::Arguments,
            Reply::RpcMismatch => Refusal::Rpc,
            Reply::AuthError(_) => Refusal::Credential,
        })
    }
}

/// The state of callbacks: live counters, and whether a round is under way.
#[derive(Default)]
pub(crate) struct CallbackCounters {
    /// Calls that were sent, without retries.
    pub(crate) calls: AtomicU64,
    /// Calls without an answer in time.
    pub(crate) failures: AtomicU64,
    /// Whether a round of CB_RECALL_SLOT is under way.
    pub(crate) recalls_slots: AtomicBool,
    /// Whether a round of CB_RECALL_ANY is under way.
    pub(crate) recalls_any: AtomicBool,
}

/// The live counters of operations.
pub(crate) struct CounterSet {
    operations: [AtomicU64; operation::LAST as usize + 1],
    failures: RareCounters<(u32, Status)>,
    procedures: [AtomicU64; procedure::COUNT as usize],
    procedure_failures: RareCounters<(u32, wire3::Status)>,
    mounts: [AtomicU64; mount::procedure::EXPORT as usize + 1],
    /// Requests that were answered from a reply cache.
    pub(crate) replays: AtomicU64,
    /// Calls that RPC refused, by reason.
    pub(crate) refused: RareCounters<Refusal>,
    /// TLS handshakes that succeeded and that failed, and probes for TLS that were refused.
    pub(crate) handshakes: AtomicU64,
    pub(crate) handshake_failures: AtomicU64,
    pub(crate) probes_refused: AtomicU64,
    /// Messages over RDMA that were answered with an error of the transport.
    pub(crate) rdma_faults: AtomicU64,
    /// Delegations that were granted, recalled and revoked.
    pub(crate) delegations: AtomicU64,
    pub(crate) recalls: AtomicU64,
    pub(crate) revocations: AtomicU64,
    /// Lock owners that heard that their locks were free.
    pub(crate) lock_notices: AtomicU64,
    /// Callbacks.
    pub(crate) callbacks: Arc<CallbackCounters>,
}

impl Default for CounterSet {
    fn default() -> Self {
        Self {
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            failures: RareCounters::default(),
            procedures: std::array::from_fn(|_| AtomicU64::new(0)),
            procedure_failures: RareCounters::default(),
            mounts: std::array::from_fn(|_| AtomicU64::new(0)),
            replays: AtomicU64::new(0),
            refused: RareCounters::default(),
            handshakes: AtomicU64::new(0),
            handshake_failures: AtomicU64::new(0),
            probes_refused: AtomicU64::new(0),
            rdma_faults: AtomicU64::new(0),
            delegations: AtomicU64::new(0),
            recalls: AtomicU64::new(0),
            revocations: AtomicU64::new(0),
            lock_notices: AtomicU64::new(0),
            callbacks: Arc::default(),
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
    /// Procedures of version 3 executed, by number; zero counts are left out.
    pub procedures: Vec<(u32, u64)>,
    /// Procedures of version 3 that failed, by number and status.
    pub procedure_failures: Vec<((u32, wire3::Status), u64)>,
    /// Procedures of MOUNT executed, by number; zero counts are left out.
    pub mounts: Vec<(u32, u64)>,
    /// Requests that were answered from a reply cache.
    pub replays: u64,
    /// Calls that RPC refused, by reason.
    pub refused: Vec<(Refusal, u64)>,
    /// TLS handshakes that succeeded.
    pub handshakes: u64,
    /// TLS handshakes that failed, or did not end in time.
    pub handshake_failures: u64,
    /// Probes for TLS that were refused.
    pub probes_refused: u64,
    /// Messages over RDMA that were answered with an error of the transport: chunks that cannot be used, or a reply that does not fit them.
    pub rdma_faults: u64,
    /// Delegations that were granted.
    pub delegations: u64,
    /// Delegations that were recalled.
    pub recalls: u64,
    /// Delegations that were revoked because they were not returned in time.
    pub revocations: u64,
    /// Lock owners that were told that the locks that they waited for were free.
    pub lock_notices: u64,
    /// Callbacks that were sent to clients.
    pub callbacks: u64,
    /// Callbacks that no client answered in time.
    pub callback_failures: u64,
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

    /// A procedure of version 3 ended.
    pub(crate) fn ended_v3(&self, number: u32, status: wire3::Status) {
        if let Some(count) = self.procedures.get(number as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if status != wire3::Status::Ok {
            self.procedure_failures.add((number, status));
        }
    }

    /// A procedure of MOUNT ended.
    pub(crate) fn ended_mount(&self, number: u32) {
        if let Some(count) = self.mounts.get(number as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All counters.
    pub(crate) fn snapshot(
        &self,
        connections: ConnectionTotals<ConnectionState, CloseReason>,
    ) -> Counters {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let numbered = |counts: &[AtomicU64]| -> Vec<(u32, u64)> {
            let all = (0..).zip(counts.iter().map(get));
            all.filter(|(_, count)| *count > 0).collect()
        };
        Counters {
            connections,
            operations: numbered(&self.operations),
            failures: self.failures.snapshot(),
            procedures: numbered(&self.procedures),
            procedure_failures: self.procedure_failures.snapshot(),
            mounts: numbered(&self.mounts),
            replays: get(&self.replays),
            refused: self.refused.snapshot(),
            handshakes: get(&self.handshakes),
            handshake_failures: get(&self.handshake_failures),
            probes_refused: get(&self.probes_refused),
            rdma_faults: get(&self.rdma_faults),
            delegations: get(&self.delegations),
            recalls: get(&self.recalls),
            revocations: get(&self.revocations),
            lock_notices: get(&self.lock_notices),
            callbacks: get(&self.callbacks.calls),
            callback_failures: get(&self.callbacks.failures),
        }
    }
}
