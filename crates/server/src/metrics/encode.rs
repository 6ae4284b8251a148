//! Encoding of a snapshot of the server as OpenMetrics text.
//!
//! **Invariants**: names follow the Prometheus conventions (prefix `wirepool_`, base units, counters end in
//! `_total`); sessions beyond [`METRIC_SESSIONS_MAX`] are only in the totals.

use super::families::{Families, metrics};
use super::table::percentiles;
use super::{filesystems, pools, writes};
use crate::api::{Disk, DiskState, ExportStages, Session, ShardStatus, Status, Transport, Writes};
use crate::limits::METRIC_SESSIONS_MAX;
use crate::protocols::set::Protocols;
use crate::word::word;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The values of one scrape.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) status: Status,
    pub(super) mounts: Vec<filesystems::Totals>,
    pub(super) config_writes: u64,
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
        let status = &self.status;
        server(&[self], &mut out)?;
        shards(&status.shards, &mut out)?;
        disks(&status.disks, &mut out)?;
        pools::encode(status, &mut out)?;
        writes::encode(&self.writes.pools, &mut out)?;
        filesystems::encode(&status.filesystems, &self.mounts, &mut out)?;
        for protocol in self.protocols.all() {
            protocol.metrics(&status.exports, &mut out)?;
        }
        let now = io::time::now();
        let exports = self.protocols.all().flat_map(|p| p.stages(now));
        requests(&exports.collect::<Vec<_>>(), &mut out)?;
        let refusals = self.protocols.all().map(|p| p.refusals());
        let refusals = refusals.map(|(protocol, totals)| {
            let by_reason = totals.map(|(why, n)| (why.word(), n));
            (protocol, by_reason.to_vec())
        });
        self::refusals(&refusals.collect::<Vec<_>>(), &mut out)?;
        let shown = &self.sessions[..self.sessions.len().min(METRIC_SESSIONS_MAX)];
        sessions(shown, &mut out)
    }
}

/// The stages of the requests of an export: command and stage, and their time in seconds.
fn stages(e: &ExportStages) -> impl Iterator<Item = ((&str, &str), f64)> {
    e.requests.iter().flat_map(|r| {
        let stages = r.stages.iter();
        stages.map(|s| ((&*r.command, &*s.stage), s.sum_ns as f64 / 1e9))
    })
}

/// Numbers of sessions, by protocol and transport.
fn by_transport(sessions: &[Session]) -> BTreeMap<(&str, &str), u64> {
    let mut out = BTreeMap::new();
    for s in sessions {
        let key = (s.summary.protocol.as_str(), s.summary.transport.as_str());
        *out.entry(key).or_default() += 1;
    }
    out
}

/// Numbers of addresses that are not served, by transport.
fn not_served(status: &Status) -> impl Iterator<Item = (&'static str, u64)> {
    Transport::ALL.into_iter().map(|transport| {
        let missing = status.not_listening.iter();
        let count = missing.filter(|m| m.transport == transport).count();
        (transport.word(), count as u64)
    })
}

/// The latencies of a session's commands: command and percentile, and the time in seconds.
fn latencies(s: &Session) -> impl Iterator<Item = ((&str, &'static str), f64)> {
    s.latencies.iter().flat_map(|l| {
        let all = percentiles([l.p50_us, l.p90_us, l.p99_us, l.p999_us]);
        all.map(|(percentile, s)| ((&*l.command, percentile), s))
    })
}

metrics! {
    /// The server.
    pub(super) SERVER, server: s in &Snapshot, [] {
        Gauge build_info by [version] "Always 1; the version is its label": [(&*s.status.version, 1.0)];
        Gauge uptime_seconds "Time since the server started": s.status.uptime_s;
        Gauge warnings "Number of warnings in `wirepool status`": s.status.warnings.len();
        Counter config_writes "Writes of the configuration file; changes of exports that wait at the same time share one": s.config_writes;
        Gauge open_files_limit "Limit of open descriptors": s.status.fd_limit;
        Gauge connections_limit "Limit of connections": s.status.connections_max;
        Counter accept_exhausted "Pauses of listeners for lack of descriptors or memory": s.accepts_exhausted;
        Counter accept_dropped "Connections that no shard accepted": s.accepts_dropped;
        Gauge sessions "Sessions now": s.sessions.len();
        Gauge sessions_by_transport by [protocol transport] "Sessions now, by protocol and transport": by_transport(&s.sessions);
        Gauge addresses_not_served by [transport] "Addresses of the configuration that are not served now; `wirepool status` has the reasons": not_served(&s.status);
        Counter rdma_device_events by [event] "Asynchronous events of RDMA devices: failures and links of ports": io::rdma::device_events().into_iter().map(|(event, n)| (word(event), n));
    }
}

metrics! {
    /// Shards.
    pub(super) SHARDS, shards: s in ShardStatus, [shard: s.shard] {
        Gauge shard_up "1 if the shard answers, 0 if its thread does not": s.answers;
        Gauge shard_connections "Connections of the shard": s.connections;
        Gauge shard_stalled_seconds "Time for which the shard has made no progress, by the watchdog": s.stalled_ms as f64 / 1e3;
        Counter shard_cpu_seconds "Processor time of the shard": s.cpu_ms as f64 / 1e3;
        Counter shard_turns "Turns of the shard": s.turns;
        Gauge buffer_pool_limit_bytes "Limit of the shard's buffer pool": s.buffer_limit;
        Gauge buffer_pool_used_bytes "Bytes of the pool in use": s.buffer_used;
        Gauge buffer_pool_idle_bytes "Bytes of the pool kept for reuse": s.buffer_idle;
        Gauge buffer_pool_waiting "Requests that wait for a buffer; above zero for long means that buffer_mib is too small": s.buffer_waiting;
    }
}

metrics! {
    /// Disks.
    pub(super) DISKS, disks: d in Disk, [disk: d.name, kind: d.kind] {
        Gauge disk_online "1 if the disk is open, 0 if it is held back": d.state == DiskState::Online;
        Gauge disk_healthy "1 if the last check of the disk found no error": d.reason.is_none();
        Gauge disk_size_bytes "Size of the disk": d.size;
        Gauge disk_used_bytes "Allocated space of the disk": d.used;
    }
}

metrics! {
    /// Requests of exports.
    pub(super) REQUESTS, requests: e in ExportStages, [protocol: e.protocol, export: e.export] {
        Counter requests by [command] "Requests that ended, since the export was published; export is the subsystem or target, and nfs for all exports over NFS": e.requests.iter().map(|r| (&*r.command, r.count));
        Counter request_stage_seconds by [command stage] "Time of these requests in each stage; divided by the requests, the parts of the mean latency": stages(e);
    }
}

metrics! {
    /// Refused hosts, by protocol.
    pub(super) REFUSALS, refusals: r in (&str, Vec<(&str, u64)>), [protocol: r.0] {
        Counter hosts_refused by [reason] "Connections, logins and mounts of hosts that were refused, by reason: not_listed (no access list or client rule has the host), no_secret or unprivileged_port; `wirepool session refused` names the hosts": r.1.iter().copied();
    }
}

metrics! {
    /// Sessions.
    pub(super) SESSIONS, sessions: s in Session, [session: s.summary.id, client: s.summary.client, export: s.summary.export] {
        Counter session_received_bytes "Bytes received from the host": s.summary.bytes_in;
        Counter session_sent_bytes "Bytes sent to the host": s.summary.bytes_out;
        Counter session_commands "Commands of the session": s.summary.commands;
        Counter session_errors "Commands that failed": s.summary.errors;
        Counter session_retransmits "TCP segments sent again": s.summary.retransmits;
        Counter session_reconnects "Times the host connected again": s.summary.reconnects;
        Gauge session_queues "I/O queues of the session": s.summary.io_queues as u64;
        Gauge session_rtt_seconds "Smoothed round-trip time of its slowest I/O queue": f64::from(s.summary.rtt_us) / 1e6;
        Gauge session_keep_alive_age_seconds "Time since the last message of the host": s.summary.keep_alive_age_ms as f64 / 1e3;
        Gauge session_latency_seconds by [command percentile] "Time from a command to its answer since the session began, by percentile": latencies(s);
    }
}
