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
        Histogram subsystem_command_seconds by [command] "Time from an I/O command to its answer; absent until the first such command of the subsystem": commands(&t.latencies);
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

/// Upper bounds of the buckets that are exported, µs; each is one of [`LATENCY_BOUNDS_US`]. Steps of 1, 2, 5 where media and networks
/// differ, of ten where only the order of magnitude matters. `why` and `session show` have finer times of their own.
const EXPORTED_BOUNDS_US: [u64; 10] = [
    20, 50, 100, 200, 500, 1000, 2000, 10_000, 100_000, 1_000_000,
];

/// The histograms of the kinds of commands that a subsystem has had. One without a command has none: a thousand idle subsystems would
/// otherwise have a hundred thousand series.
fn commands(all: &[LatencyBuckets]) -> impl Iterator<Item = (String, Histogram)> {
    let used = all.iter().filter(|l| l.counts.iter().any(|n| *n > 0));
    used.map(|l| (word(l.kind), histogram(l)))
}

/// Latencies in seconds, in the buckets that are exported.
fn histogram(l: &LatencyBuckets) -> Histogram {
    let mut from = 0;
    let mut part = |until: usize| {
        let count = l.counts[from..until].iter().sum();
        from = until;
        count
    };
    let mut buckets = Vec::with_capacity(EXPORTED_BOUNDS_US.len() + 1);
    for bound in EXPORTED_BOUNDS_US {
        let until = LATENCY_BOUNDS_US.partition_point(|us| *us <= bound);
        buckets.push((bound as f64 / 1e6, part(until)));
    }
    buckets.push((f64::INFINITY, part(l.counts.len())));
    Histogram {
        sum: l.sum_us as f64 / 1e6,
        buckets,
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

#[cfg(test)]
mod tests {
    use super::*;
    use session::latency::CommandKind;

    /// A kind with one command in each bucket of the target.
    fn one_each() -> LatencyBuckets {
        LatencyBuckets {
            kind: CommandKind::Read,
            counts: [1; LATENCY_BOUNDS_US.len() + 1],
            sum_us: 7_000_000,
        }
    }

    #[test]
    fn exported_buckets_have_all_commands_up_to_their_bound() {
        let exported = histogram(&one_each());
        assert_eq!(exported.sum, 7.0);
        assert_eq!(exported.buckets.len(), EXPORTED_BOUNDS_US.len() + 1);
        let mut below = 0;
        for ((bound, count), us) in exported.buckets.iter().zip(EXPORTED_BOUNDS_US) {
            below += count;
            assert_eq!(*bound, us as f64 / 1e6);
            assert!(LATENCY_BOUNDS_US.contains(&us), "{us} splits a bucket");
            let expected = LATENCY_BOUNDS_US.iter().filter(|b| **b <= us).count();
            assert_eq!(below, expected as u64, "{us}");
        }
        let all: u64 = exported.buckets.iter().map(|(_, n)| n).sum();
        assert_eq!(all, LATENCY_BOUNDS_US.len() as u64 + 1);
    }

    #[test]
    fn a_kind_without_commands_has_no_histogram() {
        let mut idle = one_each();
        idle.counts.fill(0);
        idle.kind = CommandKind::Write;
        let names: Vec<String> = commands(&[one_each(), idle])
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["read"]);
    }
}
