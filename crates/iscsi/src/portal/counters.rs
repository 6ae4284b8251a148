//! Totals: connections by state and by how they ended, logins refused, PDUs rejected, commands.
//!
//! **Called by** every connection (one publication per turn), read by the control plane. **Invariants**: every counter
//! is an atomic or behind a lock that only errors take; connections do not wait for each other's counting.

use crate::wire::response::{LoginStatus, RejectReason};
use session::counters::{ConnectionCounters, ConnectionTotals, Enumerated, RareCounters, count_of};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// State of a connection (§8.1), as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionState {
    /// Accepted; only login requests may arrive, within the login timeout.
    Login,
    /// The login is accepted; commands of the session or connection that it replaces are still ending.
    Reinstating,
    /// Full feature phase of a normal session.
    FullFeature,
    /// Full feature phase of a discovery session: text requests and Logout.
    Discovery,
    /// The initiator was asked to log out, and is served until it does.
    LogoutRequested,
    /// Takes no more commands, finishes those it has, then closes.
    Draining,
    /// Nothing more is taken; waiting output leaves, then the initiator has the linger time to close.
    Closing,
}

impl ConnectionState {
    /// All states, in the order of their counters.
    pub const ALL: [ConnectionState; 7] = [
        ConnectionState::Login,
        ConnectionState::Reinstating,
        ConnectionState::FullFeature,
        ConnectionState::Discovery,
        ConnectionState::LogoutRequested,
        ConnectionState::Draining,
        ConnectionState::Closing,
    ];
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CloseReason {
    /// The initiator closed it.
    Peer,
    /// The network failed, or the initiator reset it.
    Network,
    /// The initiator broke the protocol.
    Protocol,
    /// A digest did not match, and the error recovery level has no other way.
    Digest,
    /// The login was refused.
    LoginRefused,
    /// No login in time.
    LoginTimeout,
    /// The initiator did not answer a NOP-In.
    Silent,
    /// Data that an R2T asked for did not come.
    DataTimeout,
    /// The initiator did not receive its replies, or cannot be reached.
    SendStall,
    /// The initiator did not move the data that it holds buffers for, and others waited for them.
    Reclaimed,
    /// The initiator logged out.
    Logout,
    /// A newer login took the place of its session or connection.
    Reinstated,
    /// The target was reset.
    Reset,
    /// The administrator ended it, or took its target away.
    Administrator,
    /// The target is shutting down.
    Drained,
    /// Too many connections, or too many that have not logged in.
    Limit,
    /// The initiator named memory that it gives no access to (iSER).
    MemoryAccess,
    /// The RDMA device failed or was removed.
    Device,
}

impl CloseReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [CloseReason; 18] = [
        CloseReason::Peer,
        CloseReason::Network,
        CloseReason::Protocol,
        CloseReason::Digest,
        CloseReason::LoginRefused,
        CloseReason::LoginTimeout,
        CloseReason::Silent,
        CloseReason::DataTimeout,
        CloseReason::SendStall,
        CloseReason::Reclaimed,
        CloseReason::Logout,
        CloseReason::Reinstated,
        CloseReason::Reset,
        CloseReason::Administrator,
        CloseReason::Drained,
        CloseReason::Limit,
        CloseReason::MemoryAccess,
        CloseReason::Device,
    ];

    /// Whether the reason is trouble that the log names.
    pub(crate) fn is_trouble(self) -> bool {
        match self {
            CloseReason::Protocol
            | CloseReason::Digest
            | CloseReason::LoginRefused
            | CloseReason::LoginTimeout
            | CloseReason::Silent
            | CloseReason::DataTimeout
            | CloseReason::SendStall
            | CloseReason::Reclaimed
            | CloseReason::Limit
            | CloseReason::MemoryAccess
            | CloseReason::Device => true,
            CloseReason::Peer
            | CloseReason::Network
            | CloseReason::Logout
            | CloseReason::Reinstated
            | CloseReason::Reset
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

/// The live counters of all connections.
pub(crate) type AllConnections = ConnectionCounters<ConnectionState, CloseReason>;

/// The live counters that only this protocol has.
#[derive(Default)]
pub(crate) struct CounterSet {
    pub(crate) logins: AtomicU64,
    pub(crate) header_digest_errors: AtomicU64,
    pub(crate) data_digest_errors: AtomicU64,
    pub(crate) ignored_commands: AtomicU64,
    pub(crate) discarded_data: AtomicU64,
    pub(crate) task_management: AtomicU64,
    pub(crate) commands: AtomicU64,
    refused: RareCounters<LoginStatus>,
    rejected: RareCounters<RejectReason>,
    statuses: RareCounters<u8>,
}

impl CounterSet {
    pub(crate) fn refused(&self, status: LoginStatus) {
        self.refused.add(status);
    }

    pub(crate) fn rejected(&self, reason: RejectReason) {
        self.rejected.add(reason);
    }

    /// A command ended with a status that is not GOOD.
    pub(crate) fn status(&self, status: u8) {
        self.statuses.add(status);
    }

    pub(crate) fn snapshot(&self, all: &AllConnections) -> Counters {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counters {
            connections: all.snapshot(),
            logins: get(&self.logins),
            logins_refused: self.refused.snapshot(),
            pdus_rejected: self.rejected.snapshot(),
            header_digest_errors: get(&self.header_digest_errors),
            data_digest_errors: get(&self.data_digest_errors),
            ignored_commands: get(&self.ignored_commands),
            discarded_data: get(&self.discarded_data),
            task_management: get(&self.task_management),
            commands: get(&self.commands),
            errors: self.statuses.snapshot(),
        }
    }
}

/// Totals since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Connections, their bytes, and log lines. [`Counters`] derefs to it.
    pub connections: ConnectionTotals<ConnectionState, CloseReason>,
    /// Logins that reached full feature phase.
    pub logins: u64,
    /// Logins refused, by status.
    pub logins_refused: Vec<(LoginStatus, u64)>,
    /// PDUs rejected, by reason.
    pub pdus_rejected: Vec<(RejectReason, u64)>,
    /// Header digests that did not match.
    pub header_digest_errors: u64,
    /// Data digests that did not match.
    pub data_digest_errors: u64,
    /// Commands ignored because their CmdSN was outside the window.
    pub ignored_commands: u64,
    /// Data-Out PDUs without a task that wants them.
    pub discarded_data: u64,
    /// Task management functions.
    pub task_management: u64,
    /// SCSI commands.
    pub commands: u64,
    /// SCSI commands that did not end with GOOD, by status.
    pub errors: Vec<(u8, u64)>,
}

impl Deref for Counters {
    type Target = ConnectionTotals<ConnectionState, CloseReason>;

    fn deref(&self) -> &Self::Target {
        &self.connections
    }
}

impl Counters {
    /// Logins refused with this status.
    #[must_use]
    pub fn refused_with(&self, status: LoginStatus) -> u64 {
        count_of(&self.logins_refused, &status)
    }

    /// PDUs rejected for this reason.
    #[must_use]
    pub fn rejected_for(&self, reason: RejectReason) -> u64 {
        count_of(&self.pdus_rejected, &reason)
    }
}
