//! Encoding of a snapshot of the server as OpenMetrics text.
//!
//! **Invariants**: names follow the Prometheus conventions (prefix `wirepool_`, base units, counters end in
//! `_total`); sessions beyond [`METRIC_SESSIONS_MAX`] are only in the totals.

use super::families::{Families, none, one};
use super::{filesystems, pools, writes};
use crate::api::{DiskState, ExportStages, RequestStages, Session, Status, Writes};
use crate::limits::METRIC_SESSIONS_MAX;
use crate::protocols::set::Protocols;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;

/// The values of one scrape.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) status: Status,
    pub(super) mounts: Vec<filesystems::Totals>,
    pub(super) writes: Writes,
    pub(super) sessions: Vec<Session>,
    pub(super) protocols: Arc<Protocols>,
    pub(super) accepts_exhausted: u64,
    pub(super) accepts_dropped: u64,
}

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
        writes::encode(&self.writes.pools, &mut out)?;
        filesystems::encode(&self.status.filesystems, &self.mounts, &mut out)?;
        for protocol in self.protocols.all() {
            protocol.metrics(&self.status.exports, &mut out)?;
        }
        self.stages(&mut out)?;
        self.refusals(&mut out)?;
        self.sessions(&mut out)
    }
}

impl Snapshot {
    fn server(&self, out: &mut Families) -> fmt::Result {
        let s = &self.status;
        out.gauge("build_info", [(one("version", &s.version), 1.0)])?;
        out.gauge("uptime_seconds", [(none(), s.uptime_s as f64)])?;
        out.gauge("warnings", [(none(), s.warnings.len() as f64)])?;
        out.gauge("open_files_limit", [(none(), s.fd_limit as f64)])?;
        out.gauge("connections_limit", [(none(), s.connections_max as f64)])?;
        out.counter("accept_exhausted", [(none(), self.accepts_exhausted)])?;
        out.counter("accept_dropped", [(none(), self.accepts_dropped)])
    }

    fn refusals(&self, out: &mut Families) -> fmt::Result {
        let all = self.protocols.all().map(|p| p.refusals());
        let all = all.flat_map(|(protocol, totals)| totals.map(|(why, n)| (protocol, why, n)));
        let values = all.map(|(protocol, why, n)| {
            let labels = vec![
                ("protocol", protocol.to_owned()),
                ("reason", why.word().to_owned()),
            ];
            (labels, n)
        });
        out.counter("hosts_refused", values)
    }

    fn stages(&self, out: &mut Families) -> fmt::Result {
        let now = io::time::now();
        let protocols = self.protocols.all();
        let exports: Vec<_> = protocols.flat_map(|p| p.stages(now)).collect();
        let of_command = exports
            .iter()
            .flat_map(|e| e.requests.iter().map(move |r| (e, r)));
        let labels = |e: &ExportStages, r: &RequestStages| {
            let mut labels = one("protocol", &e.protocol);
            labels.extend([("export", e.export.clone()), ("command", r.command.clone())]);
            labels
        };
        let requests = of_command.clone().map(|(e, r)| (labels(e, r), r.count));
        out.counter("requests", requests)?;
        let seconds = of_command.flat_map(|(e, r)| {
            r.stages.iter().map(move |s| {
                let mut labels = labels(e, r);
                labels.push(("stage", s.stage.clone()));
                (labels, s.sum_ns as f64 / 1e9)
            })
        });
        out.counter("request_stage_seconds", seconds)
    }

    fn shards(&self, out: &mut Families) -> fmt::Result {
        let all = |of: fn(&crate::api::ShardStatus) -> f64| {
            let value = move |s: &crate::api::ShardStatus| (one("shard", s.shard), of(s));
            self.status.shards.iter().map(value).collect::<Vec<_>>()
        };
        out.gauge("shard_up", all(|s| f64::from(u8::from(s.answers))))?;
        out.gauge("shard_connections", all(|s| s.connections as f64))?;
        out.gauge("shard_stalled_seconds", all(|s| s.stalled_ms as f64 / 1e3))?;
        out.counter("shard_cpu_seconds", all(|s| s.cpu_ms as f64 / 1e3))?;
        out.counter("shard_turns", all(|s| s.turns as f64))?;
        out.gauge("buffer_pool_limit_bytes", all(|s| s.buffer_limit as f64))?;
        out.gauge("buffer_pool_used_bytes", all(|s| s.buffer_used as f64))?;
        out.gauge("buffer_pool_idle_bytes", all(|s| s.buffer_idle as f64))?;
        out.gauge("buffer_pool_waiting", all(|s| s.buffer_waiting as f64))
    }

    fn disks(&self, out: &mut Families) -> fmt::Result {
        let disks = &self.status.disks;
        let labels =
            |d: &crate::api::Disk| vec![("disk", d.name.clone()), ("kind", d.kind.clone())];
        let online =
            |d: &crate::api::Disk| (labels(d), f64::from(u8::from(d.state == DiskState::Online)));
        out.gauge("disk_online", disks.iter().map(online))?;
        let well = |d: &crate::api::Disk| (labels(d), f64::from(u8::from(d.reason.is_none())));
        out.gauge("disk_healthy", disks.iter().map(well))?;
        out.gauge(
            "disk_size_bytes",
            disks.iter().map(|d| (labels(d), d.size as f64)),
        )?;
        let used = disks
            .iter()
            .filter_map(|d| Some((labels(d), d.used? as f64)));
        out.gauge("disk_used_bytes", used)
    }

    fn sessions(&self, out: &mut Families) -> fmt::Result {
        let shown = &self.sessions[..self.sessions.len().min(METRIC_SESSIONS_MAX)];
        let labels = |s: &Session| {
            let s = &s.summary;
            vec![
                ("session", s.id.to_string()),
                ("client", s.client.clone()),
                ("export", s.export.clone()),
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
        out.gauge("sessions", [(none(), self.sessions.len() as f64)])?;
        out.counter("session_received_bytes", counts(|s| s.summary.bytes_in))?;
        out.counter("session_sent_bytes", counts(|s| s.summary.bytes_out))?;
        out.counter("session_commands", counts(|s| s.summary.commands))?;
        out.counter("session_errors", counts(|s| s.summary.errors))?;
        out.counter("session_retransmits", counts(|s| s.summary.retransmits))?;
        out.counter("session_reconnects", counts(|s| s.summary.reconnects))?;
        out.gauge("session_queues", values(|s| s.summary.io_queues as f64))?;
        let rtt = values(|s| f64::from(s.summary.rtt_us) / 1e6);
        out.gauge("session_rtt_seconds", rtt)?;
        let age = values(|s| s.summary.keep_alive_age_ms as f64 / 1e3);
        out.gauge("session_keep_alive_age_seconds", age)?;
        let quantiles = shown.iter().flat_map(|s| {
            s.latencies.iter().flat_map(move |l| {
                [
                    ("50", l.p50_us),
                    ("90", l.p90_us),
                    ("99", l.p99_us),
                    ("99.9", l.p999_us),
                ]
                .map(|(q, us)| {
                    let mut labels = labels(s);
                    labels.extend([("command", l.command.clone()), ("percentile", q.to_owned())]);
                    (labels, us as f64 / 1e6)
                })
            })
        });
        out.gauge("session_latency_seconds", quantiles)
    }
}
