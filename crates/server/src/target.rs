//! Translation between the server's types and those of the NVMe target.
//!
//! **Called by** the rest of this crate; only this file uses the target's types. **Invariants**: pure functions.

use crate::api::{Latency, ListenRole, Queue, Session, SessionSummary};
use crate::config::{Config, HostList, SubsystemConfig};
use nvmf::target::{
    self, CommandLatency, HostPolicy, PortInfo, PortRole, QueueInfo, Referral, SessionInfo, Target,
    TargetConfig,
};
use nvmf::wire::nqn::Nqn;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use uuid::Uuid;

/// Model number shown to hosts.
const MODEL: &str = "Wirepool";

/// The target's limits. `connections_max` is the number that descriptors allow.
pub(crate) fn config(connections_max: usize) -> TargetConfig {
    TargetConfig {
        connections_max,
        ..TargetConfig::default()
    }
}

/// A subsystem without namespaces.
pub(crate) fn subsystem(s: &SubsystemConfig) -> target::SubsystemConfig {
    target::SubsystemConfig {
        nqn: s.nqn.clone(),
        serial: s.serial.clone(),
        model: MODEL.to_owned(),
        hosts: hosts(&s.hosts),
    }
}

/// The hosts that may connect.
pub(crate) fn hosts(list: &HostList) -> HostPolicy {
    match list {
        HostList::Any => HostPolicy::Any,
        HostList::Listed(names) => HostPolicy::List(names.clone()),
    }
}

/// The role of an address; none for an iSCSI address.
pub(crate) fn port_role(role: ListenRole) -> Option<PortRole> {
    match role {
        ListenRole::Io => Some(PortRole::Io),
        ListenRole::Discovery => Some(PortRole::DiscoveryOnly),
        ListenRole::Iscsi => None,
    }
}

/// Addresses that discovery returns: the advertised ones, or the listening ones.
pub(crate) fn ports(
    config: &Config,
    listening: &[(SocketAddr, ListenRole)],
) -> (Vec<PortInfo>, Vec<Referral>) {
    let advertised = config.nvmf.advertise.iter().map(|a| (*a, ListenRole::Io));
    let listened = |r: &&(SocketAddr, ListenRole)| {
        config.nvmf.advertise.is_empty() || r.1 == ListenRole::Discovery
    };
    let all = advertised.chain(listening.iter().filter(listened).copied());
    let roles = all.filter_map(|(addr, role)| Some((addr, port_role(role)?)));
    let ports = (1..)
        .zip(roles)
        .map(|(id, (addr, role))| PortInfo { id, addr, role })
        .collect();
    let referrals = config
        .nvmf
        .referrals
        .iter()
        .map(|a| Referral {
            addr: *a,
            nqn: Nqn::discovery(),
        })
        .collect();
    (ports, referrals)
}

/// Every session.
pub(crate) fn sessions(target: &Target) -> Vec<Session> {
    target.sessions().into_iter().map(session).collect()
}

fn session(s: SessionInfo) -> Session {
    let io = || s.queues.iter().filter(|q| q.qid != 0);
    let sum = |of: fn(&QueueInfo) -> u64| s.queues.iter().map(of).sum();
    let summary = SessionSummary {
        id: u32::from(s.cntlid),
        protocol: "nvme".to_owned(),
        kind: word(s.kind),
        state: word(s.state),
        host_nqn: s.host_nqn.to_string(),
        host_id: Uuid::from_bytes(s.host_id.0).to_string(),
        nqn: s.subsystem.to_string(),
        peer: s.queues.first().map(|q| q.peer),
        transport: s.transport.to_owned(),
        header_digest: s.digests.header,
        data_digest: s.digests.data,
        io_queues: io().count(),
        depth: io().map(|q| u32::from(q.depth)).max().unwrap_or(0),
        bytes_in: sum(|q| q.bytes_in),
        bytes_out: sum(|q| q.bytes_out),
        commands: sum(|q| q.commands),
        errors: sum(|q| q.errors),
        rtt_us: s.queues.iter().map(|q| q.tcp.rtt_us).max().unwrap_or(0),
        retransmits: sum(|q| u64::from(q.tcp.retransmits)),
        keep_alive_age_ms: millis(s.keep_alive_age),
        keep_alive_timeout_ms: millis(s.keep_alive),
        connected_at_ms: s.connected_at_ms,
        reconnects: s.reconnects,
    };
    let latencies = s.latency.iter().map(latency).collect();
    Session {
        summary,
        queues: s.queues.into_iter().map(queue).collect(),
        latencies,
        iscsi: None,
    }
}

fn queue(q: QueueInfo) -> Queue {
    Queue {
        qid: q.qid,
        depth: u32::from(q.depth),
        shard: q.shard,
        peer: q.peer,
        local: q.local,
        mss: q.tcp.mss,
        path_mtu: q.tcp.path_mtu,
        rtt_us: q.tcp.rtt_us,
        rtt_var_us: q.tcp.rtt_var_us,
        retransmits: q.tcp.retransmits,
        congestion: q.tcp.congestion,
        in_flight: q.in_flight,
        bytes_in: q.bytes_in,
        bytes_out: q.bytes_out,
        commands: q.commands,
        errors: q.errors,
    }
}

fn latency(l: &CommandLatency) -> Latency {
    Latency {
        command: word(l.kind),
        count: l.count,
        mean_us: l.mean_us,
        p50_us: l.p50_us,
        p90_us: l.p90_us,
        p99_us: l.p99_us,
        p999_us: l.p999_us,
        max_us: l.max_us,
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// A variant's name as a word for programs: `KeepAlive` is `keep_alive`.
pub(crate) fn word(variant: impl fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
