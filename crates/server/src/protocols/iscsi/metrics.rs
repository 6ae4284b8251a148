//! Metrics of iSCSI.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics; names begin with `wirepool_iscsi_` or
//! `wirepool_target_`.

use crate::api::{IscsiTarget, NamespaceState, TargetLun};
use crate::metrics::families::{Families, metrics};
use crate::metrics::table::Metric;
use crate::word::word;
use iscsi::portal::Counters;
use std::fmt;

/// Targets and their logical units.
pub(super) fn exports(all: &[IscsiTarget], out: &mut Families) -> fmt::Result {
    targets(all, out)?;
    let units = all.iter();
    let units = units.flat_map(|t| t.luns.iter().map(move |l| (t, l)));
    luns(&units.collect::<Vec<_>>(), out)
}

/// All groups of these metrics.
pub(crate) const ALL: &[&[Metric]] = &[TARGETS, LUNS, COUNTERS];

metrics! {
    /// Targets.
    pub(super) TARGETS, targets: t in IscsiTarget, [target: t.iqn] {
        Gauge target_sessions "Sessions with the target": t.sessions;
    }
}

metrics! {
    /// Logical units.
    pub(super) LUNS, luns: l in (&IscsiTarget, &TargetLun), [target: l.0.iqn, lun: l.1.lun, disk: l.1.disk] {
        Gauge target_lun_served "1 if initiators see the logical unit, 0 if it is held back": l.1.state == NamespaceState::Served;
    }
}

metrics! {
    /// Totals of the service.
    pub(super) COUNTERS, counters: c in Counters, [] {
        Gauge iscsi_connections_open "iSCSI connections open now": c.open;
        Gauge iscsi_connections by [state] "iSCSI connections now, by state": c.states.iter().map(|(s, n)| (word(s), *n));
        Counter iscsi_connections_accepted "iSCSI connections taken": c.accepted;
        Counter iscsi_connections_closed by [reason] "iSCSI connections that ended, by reason": c.closed.iter().map(|(r, n)| (word(r), *n));
        Counter iscsi_logins "Logins that reached the full feature phase": c.logins;
        Counter iscsi_logins_refused by [status] "Logins refused, by status class and detail in hexadecimal": c.logins_refused.iter().map(|(s, n)| (format!("{:04x}", s.0), *n));
        Counter iscsi_pdus_rejected by [reason] "PDUs rejected, by reason": c.pdus_rejected.iter().map(|(r, n)| (word(r), *n));
        Counter iscsi_command_errors by [status] "SCSI commands that did not end with GOOD, by status in hexadecimal": c.errors.iter().map(|(s, n)| (format!("{s:02x}"), *n));
        Counter iscsi_header_digest_errors "iSCSI header digests that did not match": c.header_digest_errors;
        Counter iscsi_data_digest_errors "iSCSI data digests that did not match": c.data_digest_errors;
        Counter iscsi_ignored_commands "Commands ignored because their CmdSN was outside the window": c.ignored_commands;
        Counter iscsi_discarded_data "Data-Out PDUs without a task": c.discarded_data;
        Counter iscsi_task_management "Task management functions": c.task_management;
        Counter iscsi_commands "SCSI commands": c.commands;
        Counter iscsi_received_bytes "Bytes received from initiators": c.bytes_in;
        Counter iscsi_sent_bytes "Bytes sent to initiators": c.bytes_out;
        Counter iscsi_log_lines_suppressed "Log lines about initiators dropped by the rate limit": c.log_suppressed;
    }
}
