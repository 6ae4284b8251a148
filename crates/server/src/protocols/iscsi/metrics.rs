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
    out.gauge("target_sessions", "Sessions with the target", sessions)?;
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
    out.gauge(
        "target_lun_served",
        "1 if initiators see the logical unit, 0 if it is held back",
        luns,
    )
}

/// Totals of the service.
pub(super) fn counters(c: &Counters, out: &mut Families) -> fmt::Result {
    for (name, help, value) in [
        (
            "iscsi_connections_accepted",
            "iSCSI connections taken",
            c.accepted,
        ),
        (
            "iscsi_logins",
            "Logins that reached the full feature phase",
            c.logins,
        ),
        (
            "iscsi_header_digest_errors",
            "iSCSI header digests that did not match",
            c.header_digest_errors,
        ),
        (
            "iscsi_data_digest_errors",
            "iSCSI data digests that did not match",
            c.data_digest_errors,
        ),
        (
            "iscsi_ignored_commands",
            "Commands ignored because their CmdSN was outside the window",
            c.ignored_commands,
        ),
        (
            "iscsi_discarded_data",
            "Data-Out PDUs without a task",
            c.discarded_data,
        ),
        (
            "iscsi_task_management",
            "Task management functions",
            c.task_management,
        ),
        ("iscsi_commands", "SCSI commands", c.commands),
        (
            "iscsi_received_bytes",
            "Bytes received from initiators",
            c.bytes_in,
        ),
        ("iscsi_sent_bytes", "Bytes sent to initiators", c.bytes_out),
        (
            "iscsi_log_lines_suppressed",
            "Log lines about initiators dropped by the rate limit",
            c.log_suppressed,
        ),
    ] {
        out.counter(name, help, [(none(), value)])?;
    }
    out.gauge(
        "iscsi_connections_open",
        "iSCSI connections open now",
        [(none(), c.open as f64)],
    )?;
    let states = c.states.iter();
    out.gauge(
        "iscsi_connections",
        "iSCSI connections now, by state",
        states.map(|(s, n)| (one("state", word(s)), *n as f64)),
    )?;
    let closed = c.closed.iter();
    out.counter(
        "iscsi_connections_closed",
        "iSCSI connections that ended, by reason",
        closed.map(|(r, n)| (one("reason", word(r)), *n)),
    )?;
    let refused = c.logins_refused.iter();
    out.counter(
        "iscsi_logins_refused",
        "Logins refused, by status class and detail in hexadecimal",
        refused.map(|(s, n)| (one("status", format!("{:04x}", s.0)), *n)),
    )?;
    let rejected = c.pdus_rejected.iter();
    out.counter(
        "iscsi_pdus_rejected",
        "PDUs rejected, by reason",
        rejected.map(|(r, n)| (one("reason", word(r)), *n)),
    )?;
    let errors = c.errors.iter();
    out.counter(
        "iscsi_command_errors",
        "SCSI commands that did not end with GOOD, by status in hexadecimal",
        errors.map(|(s, n)| (one("status", format!("{s:02x}")), *n)),
    )
}
