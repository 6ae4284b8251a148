//! NVMe in the metrics.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics.

use crate::api::{Export, Namespace, NamespaceState};
use crate::metrics::families::{Families, metrics};
use crate::metrics::table::{Histogram, Metric};
use crate::word::word;
use nvmf::controller::{Counters, LATENCY_BOUNDS_US, LatencyBuckets, SubsystemTotals};
use nvmf::wire::opcode::io as opcode;
use std::collections::BTreeMap;
use std::fmt;

/// Subsystems and their namespaces.
pub(super) fn exports(exports: &[Export], out: &mut Families) -> fmt::Result {
    subsystems(exports, out)?;
    let all = exports.iter();
    let all = all.flat_map(|e| e.namespaces.iter().map(move |n| (e, n)));
    namespaces(&all.collect::<Vec<_>>(), out)
}

/// All groups of these metrics.
pub(crate) const ALL: &[&[Metric]] = &[SUBSYSTEMS, NAMESPACES, TRAFFIC, COUNTERS];

metrics! {
    /// Subsystems.
    pub(super) SUBSYSTEMS, subsystems: e in Export, [subsystem: e.nqn] {
        Gauge subsystem_sessions "Sessions to the subsystem": e.sessions;
    }
}

metrics! {
    /// Namespaces.
    pub(super) NAMESPACES, namespaces: n in (&Export, &Namespace), [subsystem: n.0.nqn, nsid: n.1.nsid, disk: n.1.disk] {
        Gauge namespace_served "1 if clients see the namespace, 0 if it is held back": n.1.state == NamespaceState::Served;
    }
}

metrics! {
    /// Traffic of subsystems.
    pub(super) TRAFFIC, traffic: t in SubsystemTotals, [subsystem: t.nqn] {
        Counter subsystem_read_bytes "Bytes that clients read": t.bytes_read;
        Counter subsystem_written_bytes "Bytes that clients wrote or zeroed": t.bytes_written;
        Counter subsystem_media_errors "Commands that failed with a media error": t.media_errors;
        Histogram subsystem_command_seconds by [command] "Time from an I/O command to its answer, 10 µs to 30 s in steps of 1, 2, 5": t.latencies.iter().map(|l| (word(l.kind), histogram(l)));
    }
}

metrics! {
    /// Totals of the target.
    pub(super) COUNTERS, counters: c in Counters, [] {
        Counter connections_accepted "Connections taken": c.accepted;
        Gauge connections_open "Connections open now": c.open;
        Counter connections_admitted by [transport] "Connections that were given a place, by transport": c.admitted.iter().map(|(t, n)| (t.name().to_ascii_lowercase(), *n));
        Counter connection_requests_rejected by [status] "Connection requests over RDMA that were rejected, by the status sent": c.rejected_requests.iter().map(|(s, n)| (word(s), *n));
        Gauge connections by [state] "Connections now, by state": c.states.iter().map(|(s, n)| (word(s), *n));
        Counter connections_closed by [reason] "Connections that ended, by reason": c.closed.iter().map(|(r, n)| (word(r), *n));
        Counter connects_refused "Connect commands refused": c.refused_connects;
        Counter connects_forbidden "Connect commands refused because the host is not on the subsystem's list": c.forbidden_connects;
        Counter pdu_errors by [status] "Fatal PDU errors found, by the status sent": c.pdu_errors.iter().map(|(s, n)| (word(s), *n));
        Counter data_digest_errors "Data digests that did not match": c.data_digest_errors;
        Counter log_lines_suppressed "Log lines dropped by the rate limit": c.log_suppressed;
        Counter received_bytes "Bytes received from clients": c.bytes_in;
        Counter sent_bytes "Bytes sent to clients": c.bytes_out;
        Counter control_commands by [class] "Commands other than I/O, by class": [("admin", c.admin_commands), ("fabrics", c.fabrics_commands)];
        Counter io_commands by [opcode] "I/O commands, by opcode": io_commands(c);
        Counter command_errors by [status] "Commands that failed, by status": c.errors.iter().map(|(s, n)| (s.to_string(), *n));
    }
}

/// Latencies in seconds.
fn histogram(l: &LatencyBuckets) -> Histogram {
    let bounds = LATENCY_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
    let bounds = bounds.chain([f64::INFINITY]);
    Histogram {
        sum: l.sum_us as f64 / 1e6,
        buckets: bounds.zip(l.counts).collect(),
    }
}

/// I/O commands by name.
fn io_commands(c: &Counters) -> BTreeMap<&'static str, u64> {
    let mut by_name = BTreeMap::new();
    for (code, n) in &c.io_commands {
        *by_name.entry(io_opcode(*code)).or_default() += n;
    }
    by_name
}

/// The name of an I/O command; those the target counts together are `other`.
fn io_opcode(code: u8) -> &'static str {
    match code {
        opcode::FLUSH => "flush",
        opcode::WRITE => "write",
        opcode::READ => "read",
        opcode::WRITE_UNCORRECTABLE => "write_uncorrectable",
        opcode::COMPARE => "compare",
        opcode::WRITE_ZEROES => "write_zeroes",
        opcode::DATASET_MANAGEMENT => "dataset_management",
        opcode::VERIFY => "verify",
        opcode::RESERVATION_REGISTER => "reservation_register",
        opcode::RESERVATION_REPORT => "reservation_report",
        opcode::RESERVATION_ACQUIRE => "reservation_acquire",
        opcode::RESERVATION_RELEASE => "reservation_release",
        opcode::COPY => "copy",
        _ => "other",
    }
}
