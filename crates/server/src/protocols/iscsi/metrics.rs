//! Metrics of iSCSI.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics; names begin with `wirepool_iscsi_` or
//! `wirepool_target_`.

use crate::api::{IscsiTarget, NamespaceState};
use crate::metrics::families::{Families, none, one};
use crate::word::word;
use iscsi::portal::Counters;
use std::fmt;

/// Targets and their logical units.
pub(super) fn targets(targets: &[IscsiTarget], out: &mut Families) -> fmt::Result {
    let sessions = targets
        .iter()
        .map(|t| (one("target", &t.iqn), t.sessions as f64));
    out.gauge("target_sessions", sessions)?;
    let luns = targets.iter().flat_map(|t| {
        t.luns.iter().map(|l| {
            let labels = vec![
                ("target", t.iqn.clone()),
                ("lun", l.lun.to_string()),
                ("disk", l.disk.clone()),
            ];
            let served = l.state == NamespaceState::Served;
            (labels, f64::from(u8::from(served)))
        })
    });
    out.gauge("target_lun_served", luns)
}

/// Totals of the service.
pub(super) fn counters(c: &Counters, out: &mut Families) -> fmt::Result {
    for (name, value) in [
        ("iscsi_connections_accepted", c.accepted),
        ("iscsi_logins", c.logins),
        ("iscsi_header_digest_errors", c.header_digest_errors),
        ("iscsi_data_digest_errors", c.data_digest_errors),
        ("iscsi_ignored_commands", c.ignored_commands),
        ("iscsi_discarded_data", c.discarded_data),
        ("iscsi_task_management", c.task_management),
        ("iscsi_commands", c.commands),
        ("iscsi_received_bytes", c.bytes_in),
        ("iscsi_sent_bytes", c.bytes_out),
        ("iscsi_log_lines_suppressed", c.log_suppressed),
    ] {
        out.counter(name, [(none(), value)])?;
    }
    out.gauge("iscsi_connections_open", [(none(), c.open as f64)])?;
    let states = c.states.iter();
    out.gauge(
        "iscsi_connections",
        states.map(|(s, n)| (one("state", word(s)), *n as f64)),
    )?;
    let closed = c.closed.iter();
    out.counter(
        "iscsi_connections_closed",
        closed.map(|(r, n)| (one("reason", word(r)), *n)),
    )?;
    let refused = c.logins_refused.iter();
    out.counter(
        "iscsi_logins_refused",
        refused.map(|(s, n)| (one("status", format!("{:04x}", s.0)), *n)),
    )?;
    let rejected = c.pdus_rejected.iter();
    out.counter(
        "iscsi_pdus_rejected",
        rejected.map(|(r, n)| (one("reason", word(r)), *n)),
    )?;
    let errors = c.errors.iter();
    out.counter(
        "iscsi_command_errors",
        errors.map(|(s, n)| (one("status", format!("{s:02x}")), *n)),
    )
}
