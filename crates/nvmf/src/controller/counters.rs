//! Totals of the target: connections by state and by how they ended, commands, errors.
//!
//! **Called by** every connection (one publication per turn), read by the control plane.
//! **Invariants**: every counter is an atomic or behind a lock that only errors take; no connection waits for
//! another's counting.

use super::config::Transport;
use crate::wire::pdu::FatalErrorStatus;
use crate::wire::rdma::RejectStatus;
use crate::wire::status::Status;
use session::counters::{ConnectionCounters, ConnectionTotals, Enumerated, RareCounters};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionState {
    /// Accepted; only ICReq (TCP 3.4) may come, within the establish timeout.
    AwaitIcReq,
    /// Initialized; the first command must be Connect (Base 6.3), within the establish timeout.
    AwaitConnect,
    /// The admin queue of an I/O controller.
    Admin,
    /// The admin queue of a discovery controller.
    Discovery,
    /// An I/O queue.
    Io,
    /// Takes no further commands, finishes the present ones, then closes.
    Draining,
    /// C2HTermReq was sent; waits for the host to close, within the linger limit.
    Terminating,
}

impl ConnectionState {
    /// All states, in the order of their counters.
    pub const ALL: [ConnectionState; 7] = [
        ConnectionState::AwaitIcReq,
        ConnectionState::AwaitConnect,
        ConnectionState::Admin,
        ConnectionState::Discovery,
        ConnectionState::Io,
        ConnectionState::Draining,
        ConnectionState::Terminating,
    ];
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CloseReason {
    /// The host closed it.
    Peer,
    /// The network failed, or the host reset it.
    Network,
    /// The RDMA device failed, or was removed.
    Device,
    /// The host sent a termination request.
    HostTerminated,
    /// The host broke the protocol and was sent a termination request; over RDMA it was disconnected.
    Protocol,
    /// No ICReq in time.
    IcReqTimeout,
    /// No Connect in time.
    ConnectTimeout,
    /// The keep alive timer of its controller expired.
    KeepAlive,
    /// Data that an R2T asked for did not come.
    DataTimeout,
    /// The host's keys give no access to the memory that its commands name (RDMA).
    MemoryAccess,
    /// The host did not read its replies, or cannot be reached any longer.
    SendStall,
    /// The host did not move the data that it holds buffers for, and others waited for them.
    Reclaimed,
    /// The host sent Disconnect.
    Disconnect,
    /// Its controller ended: the admin queue closed, or the host reset the controller.
    ControllerEnded,
    /// The administrator ended it, or took its host off the list, or its subsystem away.
    Administrator,
    /// The target is shutting down.
    Drained,
    /// Too many connections.
    Limit,
}

impl CloseReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [CloseReason; 17] = [
        CloseReason::Peer,
        CloseReason::Network,
        CloseReason::Device,
        CloseReason::HostTerminated,
        CloseReason::Protocol,
        CloseReason::IcReqTimeout,
        CloseReason::ConnectTimeout,
        CloseReason::KeepAlive,
        CloseReason::DataTimeout,
        CloseReason::MemoryAccess,
        CloseReason::SendStall,
        CloseReason::Reclaimed,
        CloseReason::Disconnect,
        CloseReason::ControllerEnded,
        CloseReason::Administrator,
        CloseReason::Drained,
        CloseReason::Limit,
    ];

    /// Whether it is the host's fault and worth a line in the log.
    pub(crate) fn is_trouble(self) -> bool {
        match self {
            CloseReason::Protocol
            | CloseReason::HostTerminated
            | CloseReason::IcReqTimeout
            | CloseReason::ConnectTimeout
            | CloseReason::KeepAlive
            | CloseReason::DataTimeout
            | CloseReason::MemoryAccess
            | CloseReason::SendStall
            | CloseReason::Reclaimed
            | CloseReason::Limit => true,
            CloseReason::Peer
            | CloseReason::Network
            | CloseReason::Device
            | CloseReason::Disconnect
            | CloseReason::ControllerEnded
            | CloseReason::Administrator
            | CloseReason::Drained => false,
        }
    }
}

impl Enumerated for ConnectionState {
    const ALL: &'static [ConnectionState] = &ConnectionState::ALL;
}

impl Enumerated for CloseReason {
    const ALL: &'static [CloseReason] = &CloseReason::ALL;
}

session::close_reason!(CloseReason);

/// Opcodes counted one by one; higher ones are counted together in the last place.
pub(crate) const OPCODES: usize = 0x20;

/// The live counters of all connections.
pub(crate) type AllConnections = ConnectionCounters<ConnectionState, CloseReason>;

/// The live counters that only this protocol has.
#[derive(Default)]
pub(crate) struct CounterSet {
    pub(crate) refused_connects: AtomicU64,
    pub(crate) forbidden_connects: AtomicU64,
    pdu_errors: [AtomicU64; 7],
    pub(crate) data_digest_errors: AtomicU64,
    /// By code of [`RejectStatus`].
    rejected_requests: RareCounters<u16>,
    /// In the order of [`Transport::ALL`].
    admitted: [AtomicU64; Transport::ALL.len()],
    pub(crate) admin_commands: AtomicU64,
    pub(crate) fabrics_commands: AtomicU64,
    pub(crate) io_commands: [AtomicU64; OPCODES],
    errors: RareCounters<u16>,
}

impl CounterSet {
    pub(crate) fn pdu_error(&self, fes: FatalErrorStatus) {
        self.pdu_errors[fes as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A connection request over RDMA was rejected.
    pub(crate) fn rejected(&self, status: RejectStatus) {
        self.rejected_requests.add(status as u16);
    }

    /// A connection was admitted.
    pub(crate) fn admitted(&self, transport: Transport) {
        self.admitted[transport as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn error(&self, status: Status) {
        self.errors.add(status.bits() & 0x7ff);
    }

    pub(crate) fn snapshot(&self, all: &AllConnections) -> Counters {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counters {
            connections: all.snapshot(),
            refused_connects: get(&self.refused_connects),
            forbidden_connects: get(&self.forbidden_connects),
            pdu_errors: (1..=6)
                .filter_map(|c| {
                    Some((
                        FatalErrorStatus::from_code(c)?,
                        get(&self.pdu_errors[usize::from(c)]),
                    ))
                })
                .collect(),
            data_digest_errors: get(&self.data_digest_errors),
            rejected_requests: self
                .rejected_requests
                .snapshot()
                .into_iter()
                .filter_map(|(code, n)| Some((RejectStatus::from_code(code)?, n)))
                .collect(),
            admitted: Transport::ALL.map(|t| (t, get(&self.admitted[t as usize]))),
            admin_commands: get(&self.admin_commands),
            fabrics_commands: get(&self.fabrics_commands),
            io_commands: (0u8..)
                .zip(self.io_commands.iter().map(get))
                .filter(|(_, n)| *n > 0)
                .collect(),
            errors: self
                .errors
                .snapshot()
                .into_iter()
                .map(|(code, n)| (Status::from_bits(code), n))
                .collect(),
        }
    }
}

/// Totals since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Connections, their bytes, and log lines. [`Counters`] derefs to it.
    pub connections: ConnectionTotals<ConnectionState, CloseReason>,
    /// Connect commands refused.
    pub refused_connects: u64,
    /// Refused Connects whose host is not on the subsystem's list; the host is told that the subsystem does not exist.
    pub forbidden_connects: u64,
    /// Fatal PDU errors found, by the status sent.
    pub pdu_errors: Vec<(FatalErrorStatus, u64)>,
    /// Data digests that did not match.
    pub data_digest_errors: u64,
    /// Connection requests over RDMA that were rejected, by the status sent.
    pub rejected_requests: Vec<(RejectStatus, u64)>,
    /// Connections that were admitted, by transport.
    pub admitted: [(Transport, u64); Transport::ALL.len()],
    /// Admin commands, without fabrics commands.
    pub admin_commands: u64,
    /// Fabrics commands.
    pub fabrics_commands: u64,
    /// I/O commands by opcode; 1Fh counts all that are higher.
    pub io_commands: Vec<(u8, u64)>,
    /// Commands that failed, by status.
    pub errors: Vec<(Status, u64)>,
}

impl Deref for Counters {
    type Target = ConnectionTotals<ConnectionState, CloseReason>;

    fn deref(&self) -> &Self::Target {
        &self.connections
    }
}

impl Counters {
    /// Commands that failed with this status.
    #[must_use]
    pub fn errors_of(&self, status: Status) -> u64 {
        self.errors
            .iter()
            .filter(|(s, _)| s.is(status))
            .map(|(_, n)| *n)
            .sum()
    }
}
