//! NVMe/TCP in the metrics.
//!
//! **Called by** the protocol. **Invariants**: those of all metrics.

use crate::api::{Export, NamespaceState};
use crate::metrics::families::{Families, Histogram, none, one};
use crate::word::word;
use nvmf::controller::{Counters, LATENCY_BOUNDS_US, LatencyBuckets, SubsystemTotals};
use nvmf::wire::opcode::io as opcode;
use std::collections::BTreeMap;
use std::fmt;

/// Subsystems and their namespaces.
pub(super) fn exports(exports: &[Export], out: &mut Families) -> fmt::Result {
    let sessions = exports
        .iter()
        .map(|e| (one("subsystem", &e.nqn), e.sessions as f64));
    out.gauge("subsystem_sessions", sessions)?;
    let served = exports.iter().flat_map(|e| {
        e.namespaces.iter().map(|n| {
            let labels = vec![
                ("subsystem", e.nqn.clone()),
                ("nsid", n.nsid.to_string()),
                ("disk", n.disk.clone()),
            ];
            (
                labels,
                f64::from(u8::from(n.state == NamespaceState::Served)),
            )
        })
    });
    out.gauge("namespace_served", served)
}

/// Traffic of subsystems.
pub(super) fn traffic(totals: &[SubsystemTotals], out: &mut Families) -> fmt::Result {
    let counts = |of: fn(&SubsystemTotals) -> u64| {
        let value = move |t: &SubsystemTotals| (one("subsystem", &t.nqn), of(t));
        totals.iter().map(value).collect::<Vec<_>>()
    };
    out.counter("subsystem_read_bytes", counts(|t| t.bytes_read))?;
    out.counter("subsystem_written_bytes", counts(|t| t.bytes_written))?;
    out.counter("subsystem_media_errors", counts(|t| t.media_errors))?;
    let latencies = totals.iter().flat_map(|t| {
        t.latencies.iter().map(|l| {
            let labels = vec![("subsystem", t.nqn.to_string()), ("command", word(l.kind))];
            (labels, histogram(l))
        })
    });
    out.histograms("subsystem_command_seconds", latencies)
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

/// Connections of the target.
pub(super) fn connections(c: &Counters, out: &mut Families) -> fmt::Result {
    out.counter("connections_accepted", [(none(), c.accepted)])?;
    out.gauge("connections_open", [(none(), c.open as f64)])?;
    let states = c
        .states
        .iter()
        .map(|(s, n)| (one("state", word(s)), *n as f64));
    out.gauge("connections", states)?;
    let closed = c.closed.iter().map(|(r, n)| (one("reason", word(r)), *n));
    out.counter("connections_closed", closed)?;
    out.counter("connects_refused", [(none(), c.refused_connects)])?;
    out.counter("connects_forbidden", [(none(), c.forbidden_connects)])?;
    let pdus = c
        .pdu_errors
        .iter()
        .map(|(s, n)| (one("status", word(s)), *n));
    out.counter("pdu_errors", pdus)?;
    out.counter("data_digest_errors", [(none(), c.data_digest_errors)])?;
    out.counter("log_lines_suppressed", [(none(), c.log_suppressed)])
}

/// Commands of the target.
pub(super) fn commands(c: &Counters, out: &mut Families) -> fmt::Result {
    out.counter("received_bytes", [(none(), c.bytes_in)])?;
    out.counter("sent_bytes", [(none(), c.bytes_out)])?;
    let by_class = [
        (one("class", "admin"), c.admin_commands),
        (one("class", "fabrics"), c.fabrics_commands),
    ];
    out.counter("control_commands", by_class)?;
    let mut io = BTreeMap::<_, u64>::new();
    for (code, n) in &c.io_commands {
        *io.entry(io_opcode(*code)).or_default() += n;
    }
    let io = io.into_iter().map(|(name, n)| (one("opcode", name), n));
    out.counter("io_commands", io)?;
    let errors = c.errors.iter().map(|(s, n)| (one("status", s), *n));
    out.counter("command_errors", errors)
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
