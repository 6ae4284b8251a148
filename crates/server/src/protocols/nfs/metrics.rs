//! Metrics of NFS.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics; names begin with `wirepool_nfs_`.

use super::api::NfsExport;
use crate::api::NamespaceState;
use crate::metrics::families::metrics;
use crate::metrics::table::Metric;
use crate::word::word;
use nfs::service::{Counters, HostInfo, Service};
use nfs::v3::wire::procedure;
use nfs::wire::operation;

/// Numbers of the state that clients have.
pub(super) struct StateCounts {
    clients: usize,
    sessions: usize,
    slots: usize,
    states: usize,
    delegations: usize,
}

impl StateCounts {
    /// The numbers now.
    pub(super) fn of(service: &Service) -> Self {
        let (clients, sessions, slots, states) = service.state_counts();
        Self {
            clients,
            sessions,
            slots,
            states,
            delegations: service.delegations(),
        }
    }
}

/// Names of client rules without an answer.
pub(super) struct NameCounts {
    /// An earlier answer is in force.
    pub(super) kept: usize,
    /// There never was an answer.
    pub(super) unresolved: usize,
}

/// All groups of these metrics.
pub(crate) const ALL: &[&[Metric]] = &[EXPORTS, STATES, NAMES, COUNTERS, HOSTS];

metrics! {
    /// Exports.
    pub(super) EXPORTS, exports: e in NfsExport, [export: e.path, filesystem: e.filesystem] {
        Gauge nfs_export_served "1 if clients see the export, 0 if it is held back": e.state == NamespaceState::Served;
    }
}

metrics! {
    /// The state of clients.
    pub(super) STATES, states: s in StateCounts, [] {
        Gauge nfs_clients "Records of NFS clients": s.clients;
        Gauge nfs_sessions "Sessions of NFS clients": s.sessions;
        Gauge nfs_slots "Slots of all NFS sessions": s.slots;
        Gauge nfs_states "Opens and lock states of NFS clients": s.states;
        Gauge nfs_delegations "Delegations that clients hold": s.delegations;
    }
}

metrics! {
    /// Names of client rules without an answer.
    pub(super) NAMES, names: n in NameCounts, [] {
        Gauge nfs_kept_names "Names of client rules that have no answer now, whose last addresses are in force": n.kept;
        Gauge nfs_unresolved_names "Names of client rules that never had an answer: clients wait whose rights depend on them": n.unresolved;
    }
}

metrics! {
    /// Totals of the service.
    pub(super) COUNTERS, counters: c in Counters, [] {
        Gauge nfs_connections by [state] "NFS connections now, by state": c.connections.states.iter().map(|(state, n)| (word(state), *n));
        Counter nfs_connections_accepted "NFS connections taken": c.connections.accepted;
        Counter nfs_connections_closed by [reason] "NFS connections that ended, by reason": c.connections.closed.iter().map(|(why, n)| (word(why), *n));
        Counter nfs_received_bytes "Bytes received from NFS clients": c.connections.bytes_in;
        Counter nfs_sent_bytes "Bytes sent to NFS clients": c.connections.bytes_out;
        Counter nfs_replays "Requests that were answered from a reply cache": c.replays;
        Counter nfs_refused_calls by [reason] "Calls that RPC refused, by reason: program, version, procedure, arguments, rpc, credential": c.refused.iter().map(|(why, n)| (word(why), *n));
        Counter nfs_tls_handshakes by [result] "TLS handshakes of NFS clients, by result": [("ok", c.handshakes), ("failed", c.handshake_failures)];
        Counter nfs_tls_probes_refused "Requests for TLS that were refused": c.probes_refused;
        Counter nfs_rdma_faults "Messages over RDMA that were answered with an error of the transport": c.rdma_faults;
        Counter nfs_delegations_granted "Delegations that clients were granted": c.delegations;
        Counter nfs_delegations_recalled "Delegations that were recalled": c.recalls;
        Counter nfs_delegations_revoked "Delegations that were revoked because they were not returned in time": c.revocations;
        Counter nfs_callbacks "Callbacks that were sent to clients": c.callbacks;
        Counter nfs_callback_failures "Callbacks that no client answered in time": c.callback_failures;
        Counter nfs_lock_notices "Lock owners that heard that the locks that they waited for were free": c.lock_notices;
        Counter nfs_operations by [operation] "Operations, by name": c.operations.iter().map(|(number, n)| (operation::name(*number), *n));
        Counter nfs_operation_failures by [operation status] "Operations that failed, by name and status": c.failures.iter().map(|((number, status), n)| ((operation::name(*number), word(status)), *n));
        Counter nfs3_procedures by [procedure] "Procedures of version 3, by name": c.procedures.iter().map(|(number, n)| (procedure::name(*number), *n));
        Counter nfs3_procedure_failures by [procedure status] "Procedures of version 3 that failed, by name and status": c.procedure_failures.iter().map(|((number, status), n)| ((procedure::name(*number), word(status)), *n));
    }
}

metrics! {
    /// Hosts that use version 3.
    pub(super) HOSTS, hosts: h in HostInfo, [host: h.host] {
        Counter nfs3_host_calls "Calls of version 3 and MOUNT, by host": h.calls;
        Counter nfs3_host_refused_calls "Calls of version 3 and MOUNT that RPC refused, by host": h.refused;
        Counter nfs3_host_received_bytes "Bytes of calls of version 3 and MOUNT, by host": h.bytes_in;
        Counter nfs3_host_sent_bytes "Bytes of replies of version 3 and MOUNT, by host": h.bytes_out;
        Gauge nfs3_host_silence_seconds "Time since the last call of version 3 or MOUNT, by host": h.silent_for.as_secs_f64();
    }
}
