//! Encoding of a snapshot of the server as OpenMetrics text.
//!
//! **Invariants**: names follow the Prometheus conventions (prefix `wirepool_`, base units, counters end in
//! `_total`); the encoder escapes label values; sessions beyond [`METRIC_SESSIONS_MAX`] are only in the totals.

use super::{iscsi, pools};
use crate::api::{DiskState, NamespaceState, Session, Status};
use crate::limits::METRIC_SESSIONS_MAX;
use crate::word::word;
use nvmf::target::{Counters, LATENCY_BOUNDS_US, LatencyBuckets, SubsystemTotals};
use nvmf::wire::opcode::io as opcode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;

/// The values of one scrape.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) status: Status,
    pub(super) sessions: Vec<Session>,
    pub(super) counters: Counters,
    pub(super) iscsi: ::iscsi::target::Counters,
    pub(super) exports: Vec<SubsystemTotals>,
    pub(super) accepts_exhausted: u64,
    pub(super) accepts_dropped: u64,
}

/// Labels of one value.
pub(super) type Labels = Vec<(&'static str, String)>;

impl Snapshot {
    /// The metrics as OpenMetrics text. Errors: none with a string to write to.
    pub(super) fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("wirepool");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut out = Families(encoder);
        self.server(&mut out)?;
        self.shards(&mut out)?;
        self.disks(&mut out)?;
        pools::encode(&self.status, &mut out)?;
        self.exports(&mut out)?;
        self.traffic(&mut out)?;
        iscsi::targets(&self.status.targets, &mut out)?;
        iscsi::counters(&self.iscsi, &mut out)?;
        self.connections(&mut out)?;
        self.commands(&mut out)?;
        self.sessions(&mut out)
    }
}

/// Writes families of values.
pub(super) struct Families<'a>(DescriptorEncoder<'a>);

pub(super) fn none() -> Labels {
    Labels::new()
}

pub(super) fn one(key: &'static str, value: impl fmt::Display) -> Labels {
    vec![(key, value.to_string())]
}

impl Families<'_> {
    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        values
            .into_iter()
            .try_for_each(|(labels, v)| match labels.is_empty() {
                true => metric.encode_counter::<NoLabelSet, _, u64>(&v, None),
                false => metric
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&v, None),
            })
    }

    fn seconds_counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, v)| {
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, u64>(&v, None)
        })
    }

    /// Histograms of latencies, in seconds.
    fn latencies(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, LatencyBuckets)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        let bounds = LATENCY_BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
        let bounds: Vec<f64> = bounds.chain([f64::INFINITY]).collect();
        values.into_iter().try_for_each(|(labels, l)| {
            let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(l.counts).collect();
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(
                    l.sum_us as f64 / 1e6,
                    l.counts.iter().sum(),
                    &buckets,
                    None,
                )
        })
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        values
            .into_iter()
            .try_for_each(|(labels, v)| match labels.is_empty() {
                true => metric.encode_gauge(&v),
                false => metric.encode_family(&labels)?.encode_gauge(&v),
            })
    }
}

impl Snapshot {
    fn server(&self, out: &mut Families) -> fmt::Result {
        let s = &self.status;
        out.gauge(
            "build_info",
            "Always 1; the version is its label",
            [(one("version", &s.version), 1.0)],
        )?;
        out.gauge(
            "uptime_seconds",
            "Time since the server started",
            [(none(), s.uptime_s as f64)],
        )?;
        out.gauge(
            "warnings",
            "Things that `wirepool status` warns of",
            [(none(), s.warnings.len() as f64)],
        )?;
        out.gauge(
            "open_files_limit",
            "Limit of open descriptors",
            [(none(), s.fd_limit as f64)],
        )?;
        out.gauge(
            "connections_limit",
            "Limit of connections",
            [(none(), s.connections_max as f64)],
        )
    }

    fn shards(&self, out: &mut Families) -> fmt::Result {
        let all = |of: fn(&crate::api::ShardStatus) -> f64| {
            let value = move |s: &crate::api::ShardStatus| (one("shard", s.shard), of(s));
            self.status.shards.iter().map(value).collect::<Vec<_>>()
        };
        out.gauge(
            "shard_up",
            "1 if the shard answers",
            all(|s| f64::from(u8::from(s.answers))),
        )?;
        out.gauge(
            "shard_connections",
            "Connections of the shard",
            all(|s| s.connections as f64),
        )?;
        out.seconds_counter(
            "shard_cpu_seconds",
            "Processor time of the shard",
            all(|s| s.cpu_ms as f64 / 1e3),
        )?;
        out.seconds_counter("shard_turns", "Turns of the shard", all(|s| s.turns as f64))?;
        out.gauge(
            "buffer_pool_limit_bytes",
            "Limit of the shard's buffer pool",
            all(|s| s.buffer_limit as f64),
        )?;
        out.gauge(
            "buffer_pool_used_bytes",
            "Bytes of the pool in use",
            all(|s| s.buffer_used as f64),
        )?;
        out.gauge(
            "buffer_pool_idle_bytes",
            "Bytes of the pool kept for reuse",
            all(|s| s.buffer_idle as f64),
        )?;
        out.gauge(
            "buffer_pool_waiting",
            "Requests that wait for a buffer",
            all(|s| s.buffer_waiting as f64),
        )
    }

    fn disks(&self, out: &mut Families) -> fmt::Result {
        let disks = &self.status.disks;
        let labels =
            |d: &crate::api::Disk| vec![("disk", d.name.clone()), ("kind", d.kind.clone())];
        let online =
            |d: &crate::api::Disk| (labels(d), f64::from(u8::from(d.state == DiskState::Online)));
        out.gauge(
            "disk_online",
            "1 if the disk is open, 0 if it is held back",
            disks.iter().map(online),
        )?;
        let well = |d: &crate::api::Disk| (labels(d), f64::from(u8::from(d.reason.is_none())));
        out.gauge(
            "disk_healthy",
            "1 if the last check of the disk found no error",
            disks.iter().map(well),
        )?;
        out.gauge(
            "disk_size_bytes",
            "Size of the disk",
            disks.iter().map(|d| (labels(d), d.size as f64)),
        )?;
        let used = disks
            .iter()
            .filter_map(|d| Some((labels(d), d.used? as f64)));
        out.gauge("disk_used_bytes", "Allocated space of the disk", used)
    }

    fn exports(&self, out: &mut Families) -> fmt::Result {
        let exports = &self.status.exports;
        let sessions = exports
            .iter()
            .map(|e| (one("subsystem", &e.nqn), e.sessions as f64));
        out.gauge("subsystem_sessions", "Sessions to the subsystem", sessions)?;
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
        out.gauge(
            "namespace_served",
            "1 if clients see the namespace, 0 if it is held back",
            served,
        )
    }

    fn traffic(&self, out: &mut Families) -> fmt::Result {
        let counts = |of: fn(&SubsystemTotals) -> u64| {
            let value = move |t: &SubsystemTotals| (one("subsystem", &t.nqn), of(t));
            self.exports.iter().map(value).collect::<Vec<_>>()
        };
        out.counter(
            "subsystem_read_bytes",
            "Bytes that clients read",
            counts(|t| t.bytes_read),
        )?;
        out.counter(
            "subsystem_written_bytes",
            "Bytes that clients wrote or zeroed",
            counts(|t| t.bytes_written),
        )?;
        out.counter(
            "subsystem_media_errors",
            "Commands that failed with a media error",
            counts(|t| t.media_errors),
        )?;
        let latencies = self.exports.iter().flat_map(|t| {
            t.latencies.iter().map(|l| {
                let labels = vec![("subsystem", t.nqn.to_string()), ("command", word(l.kind))];
                (labels, l.clone())
            })
        });
        out.latencies(
            "subsystem_command_seconds",
            "Time from an I/O command to its answer",
            latencies,
        )
    }

    fn connections(&self, out: &mut Families) -> fmt::Result {
        let c = &self.counters;
        out.counter(
            "connections_accepted",
            "Connections taken",
            [(none(), c.accepted)],
        )?;
        out.gauge(
            "connections_open",
            "Connections open now",
            [(none(), c.open as f64)],
        )?;
        let states = c
            .states
            .iter()
            .map(|(s, n)| (one("state", word(s)), *n as f64));
        out.gauge("connections", "Connections now, by state", states)?;
        let closed = c.closed.iter().map(|(r, n)| (one("reason", word(r)), *n));
        out.counter(
            "connections_closed",
            "Connections that ended, by reason",
            closed,
        )?;
        out.counter(
            "connects_refused",
            "Connect commands refused",
            [(none(), c.refused_connects)],
        )?;
        let help = "Connect commands refused because the host is not on the subsystem's list";
        out.counter("connects_forbidden", help, [(none(), c.forbidden_connects)])?;
        let help = "Pauses of listeners for lack of descriptors or memory";
        out.counter("accept_exhausted", help, [(none(), self.accepts_exhausted)])?;
        out.counter(
            "accept_dropped",
            "Connections that no shard accepted",
            [(none(), self.accepts_dropped)],
        )?;
        let pdus = c
            .pdu_errors
            .iter()
            .map(|(s, n)| (one("status", word(s)), *n));
        out.counter(
            "pdu_errors",
            "Fatal PDU errors found, by the status sent",
            pdus,
        )?;
        out.counter(
            "data_digest_errors",
            "Data digests that did not match",
            [(none(), c.data_digest_errors)],
        )?;
        out.counter(
            "log_lines_suppressed",
            "Log lines dropped by the rate limit",
            [(none(), c.log_suppressed)],
        )
    }

    fn commands(&self, out: &mut Families) -> fmt::Result {
        let c = &self.counters;
        out.counter(
            "received_bytes",
            "Bytes received from clients",
            [(none(), c.bytes_in)],
        )?;
        out.counter(
            "sent_bytes",
            "Bytes sent to clients",
            [(none(), c.bytes_out)],
        )?;
        let by_class = [
            (one("class", "admin"), c.admin_commands),
            (one("class", "fabrics"), c.fabrics_commands),
        ];
        out.counter(
            "control_commands",
            "Commands other than I/O, by class",
            by_class,
        )?;
        let mut io = BTreeMap::<_, u64>::new();
        for (code, n) in &c.io_commands {
            *io.entry(io_opcode(*code)).or_default() += n;
        }
        let io = io.into_iter().map(|(name, n)| (one("opcode", name), n));
        out.counter("io_commands", "I/O commands, by opcode", io)?;
        let errors = c.errors.iter().map(|(s, n)| (one("status", s), *n));
        out.counter("command_errors", "Commands that failed, by status", errors)
    }

    fn sessions(&self, out: &mut Families) -> fmt::Result {
        let shown = &self.sessions[..self.sessions.len().min(METRIC_SESSIONS_MAX)];
        let labels = |s: &Session| {
            let s = &s.summary;
            vec![
                ("session", s.id.to_string()),
                ("host", s.host_nqn.clone()),
                ("subsystem", s.nqn.clone()),
            ]
        };
        let counts = |of: fn(&Session) -> u64| {
            shown
                .iter()
                .map(move |s| (labels(s), of(s)))
                .collect::<Vec<_>>()
        };
        let values = |of: fn(&Session) -> f64| {
            shown
                .iter()
                .map(move |s| (labels(s), of(s)))
                .collect::<Vec<_>>()
        };
        out.gauge(
            "sessions",
            "Sessions now",
            [(none(), self.sessions.len() as f64)],
        )?;
        out.counter(
            "session_received_bytes",
            "Bytes received from the host",
            counts(|s| s.summary.bytes_in),
        )?;
        out.counter(
            "session_sent_bytes",
            "Bytes sent to the host",
            counts(|s| s.summary.bytes_out),
        )?;
        out.counter(
            "session_commands",
            "Commands of the session",
            counts(|s| s.summary.commands),
        )?;
        out.counter(
            "session_errors",
            "Commands that failed",
            counts(|s| s.summary.errors),
        )?;
        out.counter(
            "session_retransmits",
            "TCP segments sent again",
            counts(|s| s.summary.retransmits),
        )?;
        out.counter(
            "session_reconnects",
            "Times the host connected again",
            counts(|s| s.summary.reconnects),
        )?;
        out.gauge(
            "session_queues",
            "I/O queues of the session",
            values(|s| s.summary.io_queues as f64),
        )?;
        let rtt = values(|s| f64::from(s.summary.rtt_us) / 1e6);
        out.gauge(
            "session_rtt_seconds",
            "Smoothed round-trip time of its slowest queue",
            rtt,
        )?;
        let age = values(|s| s.summary.keep_alive_age_ms as f64 / 1e3);
        out.gauge(
            "session_keep_alive_age_seconds",
            "Time since the last message of the host",
            age,
        )?;
        let quantiles = shown.iter().flat_map(|s| {
            s.latencies.iter().flat_map(move |l| {
                [
                    ("0.5", l.p50_us),
                    ("0.9", l.p90_us),
                    ("0.99", l.p99_us),
                    ("0.999", l.p999_us),
                ]
                .map(|(q, us)| {
                    let mut labels = labels(s);
                    labels.extend([("command", l.command.clone()), ("quantile", q.to_owned())]);
                    (labels, us as f64 / 1e6)
                })
            })
        });
        out.gauge(
            "session_latency_seconds",
            "Time from a command to its answer, by quantile",
            quantiles,
        )
    }
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
