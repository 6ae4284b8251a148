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
    out.gauge("nfs_export_served", served)
}

/// The state of clients.
pub(super) fn states(service: &Service, out: &mut Families) -> fmt::Result {
    let (clients, sessions, slots, states) = service.state_counts();
    for (name, value) in [
        ("nfs_clients", clients),
        ("nfs_sessions", sessions),
        ("nfs_slots", slots),
        ("nfs_states", states),
        ("nfs_delegations", service.delegations()),
    ] {
        out.gauge(name, [(none(), value as f64)])?;
    }
    Ok(())
}

/// Names of client rules without an answer: with an earlier one in force, and without.
pub(super) fn names((kept, unresolved): (usize, usize), out: &mut Families) -> fmt::Result {
    out.gauge("nfs_kept_names", [(none(), kept as f64)])?;
    out.gauge("nfs_unresolved_names", [(none(), unresolved as f64)])
}

/// Totals of the service.
pub(super) fn counters(c: &Counters, out: &mut Families) -> fmt::Result {
    let connections = &c.connections;
    let open = connections.states.iter();
    let open = open.map(|(state, n)| (one("state", word(state)), *n as f64));
    out.gauge("nfs_connections", open)?;
    for (name, value) in [
        ("nfs_connections_accepted", connections.accepted),
        ("nfs_received_bytes", connections.bytes_in),
        ("nfs_sent_bytes", connections.bytes_out),
        ("nfs_replays", c.replays),
        ("nfs_delegations_granted", c.delegations),
        ("nfs_delegations_recalled", c.recalls),
        ("nfs_delegations_revoked", c.revocations),
        ("nfs_callbacks", c.callbacks),
        ("nfs_callback_failures", c.callback_failures),
        ("nfs_lock_notices", c.lock_notices),
        ("nfs_tls_probes_refused", c.probes_refused),
    ] {
        out.counter(name, [(none(), value)])?;
    }
    let refused = c.refused.iter();
    let refused = refused.map(|(why, n)| (one("reason", word(why)), *n));
    out.counter("nfs_refused_calls", refused)?;
    procedures(c, out)?;
    let handshakes = [("ok", c.handshakes), ("failed", c.handshake_failures)];
    out.counter(
        "nfs_tls_handshakes",
        handshakes.map(|(result, n)| (one("result", result), n)),
    )?;
    let closed = connections.closed.iter();
    let closed = closed.map(|(why, n)| (one("reason", word(why)), *n));
    out.counter("nfs_connections_closed", closed)?;
    operations(c, out)
}

/// Totals of version 4.
fn operations(c: &Counters, out: &mut Families) -> fmt::Result {
    let operations = c.operations.iter();
    let operations = operations.map(|(number, n)| (one("operation", operation::name(*number)), *n));
    out.counter("nfs_operations", operations)?;
    let failures = c.failures.iter().map(|((number, status), n)| {
        let labels = vec![
            ("operation", operation::name(*number).to_owned()),
            ("status", word(status)),
        ];
        (labels, *n)
    });
    out.counter("nfs_operation_failures", failures)
}

/// Totals of version 3.
fn procedures(c: &Counters, out: &mut Families) -> fmt::Result {
    let executed = c.procedures.iter();
    let executed = executed.map(|(number, n)| (one("procedure", procedure::name(*number)), *n));
    out.counter("nfs3_procedures", executed)?;
    let failures = c.procedure_failures.iter().map(|((number, status), n)| {
        let labels = vec![
            ("procedure", procedure::name(*number).to_owned()),
            ("status", word(status)),
        ];
        (labels, *n)
    });
    out.counter("nfs3_procedure_failures", failures)
}

/// The hosts that use version 3.
pub(super) fn hosts(service: &Service, out: &mut Families) -> fmt::Result {
    let hosts = service.hosts();
    let each = |of: fn(&HostInfo) -> u64| {
        let value = move |host: &HostInfo| (one("host", host.host.to_string()), of(host));
        hosts.iter().map(value).collect::<Vec<_>>()
    };
    out.counter("nfs3_host_calls", each(|host| host.calls))?;
    out.counter("nfs3_host_refused_calls", each(|host| host.refused))?;
    out.counter("nfs3_host_received_bytes", each(|host| host.bytes_in))?;
    out.counter("nfs3_host_sent_bytes", each(|host| host.bytes_out))?;
    let silent = hosts.iter().map(|host| {
        let age = host.silent_for.as_secs_f64();
        (one("host", host.host.to_string()), age)
    });
    out.gauge("nfs3_host_silence_seconds", silent)
}
