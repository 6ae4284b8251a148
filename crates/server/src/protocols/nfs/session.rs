//! NFS clients as sessions of the control API.
//!
//! **Called by** the protocol. **Invariants**: pure translations. A session of the API is a client with all of its NFS sessions and
//! connections, or a host that uses version 3.

use super::api::{self, NfsTls};
use crate::api::{Latency, NfsFacts, Queue, QueuePair, Session, SessionFacts, SessionSummary};
use crate::limits::SUMMARY_ENTRIES_MAX;
use crate::protocols::protocol::millis;
use nfs::service::{ClientInfo, ConnectionInfo, HostInfo, NfsTransport, Service};
use std::net::IpAddr;

/// Numbers of NFS clients begin above those of iSCSI sessions.
const FIRST_ID: u32 = 2 << 16;

/// The number of a client: from its part of the client ID that differs among the clients of a server.
fn number(client: u64) -> u32 {
    FIRST_ID + (client as u32) % (u32::MAX - FIRST_ID)
}

/// The client of a session's number, if it is one of NFS.
pub(super) fn client(service: &Service, id: u32) -> Option<u64> {
    let all = service.clients().into_iter();
    all.map(|c| c.id).find(|client| number(*client) == id)
}

/// Every client.
pub(super) fn sessions(service: &Service) -> Vec<Session> {
    let lease = millis(service.lease());
    let all = service.clients().into_iter();
    let clients = all.map(|c| session(c, lease, service));
    let hosts = service.hosts();
    clients
        .chain(hosts.iter().map(|h| host(h, lease, service)))
        .collect()
}

/// A host that uses version 3 as a session. Nothing is kept for it, so it cannot be ended.
fn host(h: &HostInfo, lease_ms: u64, service: &Service) -> Session {
    let age = millis(h.silent_for);
    let now = io::time::wall_clock_ms();
    let summary = SessionSummary {
        id: u32::MAX - h.number,
        protocol: "nfs".to_owned(),
        kind: "io".to_owned(),
        state: if age > lease_ms { "silent" } else { "active" }.to_owned(),
        client: h.host.to_string(),
        host_id: String::new(),
        export: String::new(),
        peer: None,
        transport: h.transport.word().to_owned(),
        device: None,
        not_rdma: None,
        header_digest: false,
        data_digest: false,
        io_queues: 0,
        depth: 0,
        bytes_in: h.bytes_in,
        bytes_out: h.bytes_out,
        commands: h.calls,
        errors: h.refused,
        rtt_us: 0,
        rtt_min_us: 0,
        retransmits: 0,
        keep_alive_age_ms: age,
        keep_alive_timeout_ms: lease_ms,
        connected_at_ms: now.saturating_sub(millis(h.known_for)),
        reconnects: 0,
    };
    let facts = NfsFacts {
        version: "3".to_owned(),
        exports: exports(service, Some(h.host)),
        ..NfsFacts::default()
    };
    Session {
        summary,
        latencies: Vec::new(),
        queues: Vec::new(),
        facts: SessionFacts {
            nfs: api::SessionFacts { nfs: Some(facts) },
            ..SessionFacts::default()
        },
    }
}

fn session(c: ClientInfo, lease_ms: u64, service: &Service) -> Session {
    let all = &c.connections;
    let sum = |of: fn(&ConnectionInfo) -> u64| all.iter().map(of).sum();
    let age = millis(c.age);
    let slowest = all.iter().max_by_key(|c| c.tcp.rtt_us);
    let summary = SessionSummary {
        id: number(c.id),
        protocol: "nfs".to_owned(),
        kind: "io".to_owned(),
        state: if age > lease_ms { "expired" } else { "active" }.to_owned(),
        client: String::from_utf8_lossy(&c.owner).into_owned(),
        host_id: format!("{:016x}", c.id),
        export: String::new(),
        peer: all.first().map(|c| c.peer),
        transport: transport(all),
        device: all
            .iter()
            .find_map(|c| Some(c.rdma.as_ref()?.device.clone())),
        not_rdma: not_rdma(all),
        header_digest: false,
        data_digest: false,
        io_queues: all.len(),
        depth: 0,
        bytes_in: sum(|c| c.bytes_in),
        bytes_out: sum(|c| c.bytes_out),
        commands: sum(|c| c.requests),
        errors: sum(|c| c.failures),
        rtt_us: slowest.map_or(0, |c| c.tcp.rtt_us),
        rtt_min_us: slowest.map_or(0, |c| c.tcp.rtt_min_us),
        retransmits: sum(|c| u64::from(c.tcp.retransmits)),
        keep_alive_age_ms: age,
        keep_alive_timeout_ms: lease_ms,
        connected_at_ms: c.connected_at_ms,
        reconnects: 0,
    };
    let facts = NfsFacts {
        version: match all.is_empty() {
            true => String::new(),
            false => format!("4.{}", c.minor),
        },
        sessions: c.sessions,
        slots: c.slots,
        opens: c.opens,
        locks: c.locks,
        delegations: c.delegations,
        exports: exports(service, all.first().map(|c| c.peer.ip())),
        tls: tls(all),
    };
    Session {
        summary,
        latencies: c.latency.iter().map(Latency::from).collect(),
        queues: (1..).zip(c.connections).map(queue).collect(),
        facts: SessionFacts {
            nfs: api::SessionFacts { nfs: Some(facts) },
            ..SessionFacts::default()
        },
    }
}

/// The first exports that a host may use; none without a connection.
fn exports(service: &Service, host: Option<IpAddr>) -> Vec<String> {
    let mut paths = host.map_or_else(Vec::new, |host| service.exports_for(host));
    paths.truncate(SUMMARY_ENTRIES_MAX);
    paths
}

/// RDMA if a connection is over it; else TCP, with TLS if all connections have it.
fn transport(all: &[ConnectionInfo]) -> String {
    let over_rdma = all.iter().filter(|c| c.transport == NfsTransport::Rdma);
    match over_rdma.count() {
        0 => {}
        over_rdma if over_rdma == all.len() => return "rdma".to_owned(),
        over_rdma => return format!("rdma ({over_rdma} of {})", all.len()),
    }
    match all.iter().filter(|c| c.tls.is_some()).count() {
        0 => "tcp".to_owned(),
        protected if protected == all.len() => "tcp+tls".to_owned(),
        protected => format!("tcp+tls ({protected} of {})", all.len()),
    }
}

/// Why a client cannot use RDMA if the server listens for it.
fn not_rdma(all: &[ConnectionInfo]) -> Option<String> {
    let protected = all.iter().any(|c| c.tls.is_some());
    protected.then(|| "the client uses TLS, which NFS over RDMA does not have".to_owned())
}

/// What connections agreed on, each once.
fn tls(all: &[ConnectionInfo]) -> Vec<NfsTls> {
    let mut out = Vec::new();
    for session in all.iter().filter_map(|c| c.tls.as_ref()) {
        let session = NfsTls {
            version: session.version.to_owned(),
            cipher: session.cipher.clone(),
            certificate: session.peer.clone(),
        };
        if !out.contains(&session) {
            out.push(session);
        }
    }
    out
}

fn queue((number, c): (u16, ConnectionInfo)) -> Queue {
    Queue {
        qid: number,
        depth: 0,
        shard: c.shard,
        peer: c.peer,
        local: c.local,
        mss: c.tcp.mss,
        path_mtu: c.rdma.as_ref().map_or(c.tcp.path_mtu, |r| r.path_mtu),
        rtt_us: c.tcp.rtt_us,
        rtt_var_us: c.tcp.rtt_var_us,
        retransmits: c.tcp.retransmits,
        congestion: c.tcp.congestion,
        in_flight: c.in_flight,
        bytes_in: c.bytes_in,
        bytes_out: c.bytes_out,
        commands: c.requests,
        errors: c.failures,
        rdma: c.rdma.map(QueuePair::from),
    }
}
