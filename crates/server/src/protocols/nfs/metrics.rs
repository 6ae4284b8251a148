//! Metrics of NFS.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics; names begin with `wirepool_nfs_`.

use super::api::NfsExport;
use crate::api::NamespaceState;
use crate::metrics::families::{Families, none, one};
use crate::word::word;
use nfs::service::{Counters, Service};
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
        ("nfs_refused_calls", "Calls that RPC refused", c.refused),
        (
            "nfs_tls_probes_refused",
            "Requests for TLS that were refused",
            c.probes_refused,
        ),
    ] {
        out.counter(name, help, [(none(), value)])?;
    }
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
