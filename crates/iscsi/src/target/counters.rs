//! Totals: connections by state and by how they ended, logins refused, PDUs rejected, commands.
//!
//! **Called by** every connection (one publication per turn), read by the control plane. **Invariants**: every counter
//! is an atomic or behind a lock that only errors take; no connection waits for another's counting.

use crate::limits::LOG_LINES_PER_SECOND;
use crate::wire::response::{LoginStatus, RejectReason};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a connection is in its life (§8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionState {
    /// Accepted; only login requests may come, within the login timeout.
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
    /// Nothing more is taken; what waits to be sent goes out, then the initiator has the linger time to close.
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
    /// The initiator did not read its replies, or cannot be reached any more.
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
}

impl CloseReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [CloseReason; 16] = [
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
    ];

    /// Whether it is the initiator's fault and worth a line in the log.
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
            | CloseReason::Limit => true,
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

/// The live counters.
#[derive(Default)]
pub(crate) struct CounterSet {
    pub(crate) accepted: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) logins: AtomicU64,
    states: [AtomicU64; ConnectionState::ALL.len()],
    closed: [AtomicU64; CloseReason::ALL.len()],
    pub(crate) header_digest_errors: AtomicU64,
    pub(crate) data_digest_errors: AtomicU64,
    pub(crate) ignored_commands: AtomicU64,
    pub(crate) discarded_data: AtomicU64,
    pub(crate) task_management: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    refused: Mutex<BTreeMap<LoginStatus, u64>>,
    rejected: Mutex<BTreeMap<RejectReason, u64>>,
    statuses: Mutex<BTreeMap<u8, u64>>,
    log_second: AtomicU64,
    log_lines: AtomicU64,
    log_suppressed: AtomicU64,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CounterSet {
    pub(crate) fn moved(&self, from: Option<ConnectionState>, to: Option<ConnectionState>) {
        if let Some(s) = from {
            self.states[s as usize].fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(s) = to {
            self.states[s as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn closed(&self, why: CloseReason) {
        self.closed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, status: LoginStatus) {
        *lock(&self.refused).entry(status).or_default() += 1;
    }

    pub(crate) fn rejected(&self, reason: RejectReason) {
        *lock(&self.rejected).entry(reason).or_default() += 1;
    }

    /// A command ended with a status that is not GOOD.
    pub(crate) fn status(&self, status: u8) {
        *lock(&self.statuses).entry(status).or_default() += 1;
    }

    /// Whether another line may be logged in this second (of any clock).
    pub(crate) fn may_log(&self, second: u64) -> bool {
        if self.log_second.swap(second, Ordering::Relaxed) != second {
            self.log_lines.store(0, Ordering::Relaxed);
        }
        let allowed = self.log_lines.fetch_add(1, Ordering::Relaxed) < LOG_LINES_PER_SECOND;
        if !allowed {
            self.log_suppressed.fetch_add(1, Ordering::Relaxed);
        }
        allowed
    }

    pub(crate) fn snapshot(&self) -> Counters {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counters {
            accepted: get(&self.accepted),
            open: get(&self.open),
            logins: get(&self.logins),
            states: ConnectionState::ALL
                .iter()
                .map(|s| (*s, get(&self.states[*s as usize])))
                .collect(),
            closed: CloseReason::ALL
                .iter()
                .map(|r| (*r, get(&self.closed[*r as usize])))
                .collect(),
            logins_refused: lock(&self.refused).iter().map(|(s, n)| (*s, *n)).collect(),
            pdus_rejected: lock(&self.rejected).iter().map(|(r, n)| (*r, *n)).collect(),
            header_digest_errors: get(&self.header_digest_errors),
            data_digest_errors: get(&self.data_digest_errors),
            ignored_commands: get(&self.ignored_commands),
            discarded_data: get(&self.discarded_data),
            task_management: get(&self.task_management),
            commands: get(&self.commands),
            errors: lock(&self.statuses).iter().map(|(s, n)| (*s, *n)).collect(),
            bytes_in: get(&self.bytes_in),
            bytes_out: get(&self.bytes_out),
            log_suppressed: get(&self.log_suppressed),
        }
    }
}

/// Totals since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Connections taken.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Logins that reached full feature phase.
    pub logins: u64,
    /// Connections now in each state.
    pub states: Vec<(ConnectionState, u64)>,
    /// Connections that ended, by reason.
    pub closed: Vec<(CloseReason, u64)>,
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
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Log lines left out because there were too many.
    pub log_suppressed: u64,
}

fn count_of<K: PartialEq>(counts: &[(K, u64)], key: &K) -> u64 {
    counts.iter().find(|(k, _)| k == key).map_or(0, |(_, n)| *n)
}

impl Counters {
    /// Connections that ended for this reason.
    #[must_use]
    pub fn closed_for(&self, why: CloseReason) -> u64 {
        count_of(&self.closed, &why)
    }

    /// Connections now in this state.
    #[must_use]
    pub fn in_state(&self, state: ConnectionState) -> u64 {
        count_of(&self.states, &state)
    }

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
