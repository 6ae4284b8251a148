//! Metrics of NFS.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics; names begin with `wirepool_nfs_`.

use super::api::NfsExport;
use crate::api::NamespaceState;
use crate::metrics::families::{Families, none, one};
use crate::word::word;
use nfs::service::{Counters, HostInfo, Service};
use nfs::v3::wire::procedure;
use nfs::wire::operation;
use std::fmt;

/// The exports.
pub(super) fn exports(exports: &[NfsExport], out: &mut Families) -> fmt::Result {
    let served = exports.iter().map(|e| {
        let labels = vec![
            ("export", e.path.clone()),
            ("filesystem", e.filesystem.clone()),
        ];
        let is_served = e.state == NamespaceState::Served;
        (labels, f64::from(u8::from(is_served)))
    });
    out.gauge(
        "nfs_export_served",
        "1 if clients see the export, 0 if it is held back",
        served,
    )
}

/// The state of clients.
pub(super) fn states(service: &Service, out: &mut Families) -> fmt::Result {
    let (clients, sessions, slots, states) = service.state_counts();
    for (name, help, value) in [
        ("nfs_clients", "Client records", clients),
        ("nfs_sessions", "Sessions of clients", sessions),
        ("nfs_slots", "Slots of all sessions", slots),
        ("nfs_states", "Opens and lock states of clients", states),
        (
            "nfs_delegations",
            "Delegations that clients hold",
            service.delegations(),
        ),
    ] {
        out.gauge(name, help, [(none(), value as f64)])?;
    }
    Ok(())
}

/// Totals of the service.
pub(super) fn counters(c: &Counters, out: &mut Families) -> fmt::Result {
    let connections = &c.connections;
    let open = connections.states.iter();
    let open = open.map(|(state, n)| (one("state", word(state)), *n as f64));
    out.gauge("nfs_connections", "NFS connections now, by state", open)?;
    for (name, help, value) in [
        (
            "nfs_connections_accepted",
            "NFS connections taken",
            connections.accepted,
        ),
        (
            "nfs_received_bytes",
            "Bytes received from NFS clients",
            connections.bytes_in,
        ),
        (
            "nfs_sent_bytes",
            "Bytes sent to NFS clients",
            connections.bytes_out,
        ),
        (
            "nfs_replays",
            "Requests that were answered from a reply cache",
            c.replays,
        ),
        (
            "nfs_delegations_granted",
            "Delegations that clients were granted",
            c.delegations,
        ),
        (
            "nfs_delegations_recalled",
            "Delegations that were recalled",
            c.recalls,
        ),
        (
            "nfs_delegations_revoked",
            "Delegations that were revoked because they were not returned in time",
            c.revocations,
        ),
        (
            "nfs_callbacks",
            "Callbacks that were sent to clients",
            c.callbacks,
        ),
        (
            "nfs_callback_failures",
            "Callbacks that no client answered in time",
            c.callback_failures,
        ),
        (
            "nfs_lock_notices",
            "Lock owners that heard that the locks that they waited for were free",
            c.lock_notices,
        ),
        (
            "nfs_tls_probes_refused",
            "Requests for TLS that were refused",
            c.probes_refused,
        ),
    ] {
        out.counter(name, help, [(none(), value)])?;
    }
    let refused = c.refused.iter();
    let refused = refused.map(|(why, n)| (one("reason", word(why)), *n));
    out.counter(
        "nfs_refused_calls",
        "Calls that RPC refused, by reason",
        refused,
    )?;
    procedures(c, out)?;
    let handshakes = [("ok", c.handshakes), ("failed", c.handshake_failures)];
    out.counter(
        "nfs_tls_handshakes",
        "TLS handshakes of NFS clients, by result",
        handshakes.map(|(result, n)| (one("result", result), n)),
    )?;
    let closed = connections.closed.iter();
    let closed = closed.map(|(why, n)| (one("reason", word(why)), *n));
    out.counter(
        "nfs_connections_closed",
        "NFS connections that ended, by reason",
        closed,
    )?;
    operations(c, out)
}

/// Totals of version 4.
fn operations(c: &Counters, out: &mut Families) -> fmt::Result {
    let operations = c.operations.iter();
    let operations = operations.map(|(number, n)| (one("operation", operation::name(*number)), *n));
    out.counter("nfs_operations", "Operations, by name", operations)?;
    let failures = c.failures.iter().map(|((number, status), n)| {
        let labels = vec![
            ("operation", operation::name(*number).to_owned()),
            ("status", word(status)),
        ];
        (labels, *n)
    });
    out.counter(
        "nfs_operation_failures",
        "Operations that failed, by name and status",
        failures,
    )
}

/// Totals of version 3.
fn procedures(c: &Counters, out: &mut Families) -> fmt::Result {
    let executed = c.procedures.iter();
    let executed = executed.map(|(number, n)| (one("procedure", procedure::name(*number)), *n));
    out.counter(
        "nfs3_procedures",
        "Procedures of version 3, by name",
        executed,
    )?;
    let failures = c.procedure_failures.iter().map(|((number, status), n)| {
        let labels = vec![
            ("procedure", procedure::name(*number).to_owned()),
            ("status", word(status)),
        ];
        (labels, *n)
    });
    out.counter(
        "nfs3_procedure_failures",
        "Procedures of version 3 that failed, by name and status",
        failures,
    )
}

/// The hosts that use version 3.
pub(super) fn hosts(service: &Service, out: &mut Families) -> fmt::Result {
    let hosts = service.hosts();
    let each = |of: fn(&HostInfo) -> u64| {
        let value = move |host: &HostInfo| (one("host", host.host.to_string()), of(host));
        hosts.iter().map(value).collect::<Vec<_>>()
    };
    out.counter(
        "nfs3_host_calls",
        "Calls of version 3 and MOUNT, by host",
        each(|host| host.calls),
    )?;
    out.counter(
        "nfs3_host_refused_calls",
        "Calls of version 3 and MOUNT that RPC refused, by host",
        each(|host| host.refused),
    )?;
    out.counter(
        "nfs3_host_received_bytes",
        "Bytes of calls of version 3 and MOUNT, by host",
        each(|host| host.bytes_in),
    )?;
    out.counter(
        "nfs3_host_sent_bytes",
        "Bytes of replies of version 3 and MOUNT, by host",
        each(|host| host.bytes_out),
    )?;
    let silent = hosts.iter().map(|host| {
        let age = host.silent_for.as_secs_f64();
        (one("host", host.host.to_string()), age)
    });
    out.gauge(
        "nfs3_host_silence_seconds",
        "Time since the last call of version 3 or MOUNT, by host",
        silent,
    )
}
