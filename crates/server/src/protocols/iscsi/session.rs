//! Translation of iSCSI sessions to the server's types.
//!
//! **Called by** the protocol. **Invariants**: pure functions.

use super::api;
use crate::api::{IscsiFacts, Latency, Queue, QueuePair, Session, SessionFacts, SessionSummary};
use crate::protocols::protocol::millis;
use iscsi::portal::{ConnectionInfo, SessionInfo, Target};
use std::time::Duration;

/// Numbers of iSCSI sessions begin above those of NVMe controllers, which have 16 bits.
const FIRST_ID: u32 = 1 << 16;

/// The TSIH of a session's number, if it is one of iSCSI.
pub(crate) fn tsih(id: u32) -> Option<u16> {
    u16::try_from(id.checked_sub(FIRST_ID)?).ok()
}

/// Every session.
pub(crate) fn sessions(target: &Target) -> Vec<Session> {
    let patience = target.patience();
    let all = target.sessions().into_iter();
    all.map(|s| session(s, patience)).collect()
}

fn session(s: SessionInfo, patience: Duration) -> Session {
    let all = &s.connections;
    let sum = |of: fn(&ConnectionInfo) -> u64| all.iter().map(of).sum();
    let kind = if s.target.is_some() {
        "io"
    } else {
        "discovery"
    };
    let p = &s.parameters;
    let slowest = all.iter().max_by_key(|c| c.tcp.rtt_us);
    let summary = SessionSummary {
        id: FIRST_ID + u32::from(s.tsih),
        protocol: "iscsi".to_owned(),
        kind: kind.to_owned(),
        state: "logged_in".to_owned(),
        client: s.initiator.to_string(),
        host_id: s.isid.to_string(),
        export: s
            .target
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        peer: all.first().map(|c| c.peer),
        transport: s.transport.word().to_owned(),
        device: all
            .iter()
            .find_map(|c| Some(c.rdma.as_ref()?.device.clone())),
        not_rdma: None,
        header_digest: p.header_digest,
        data_digest: p.data_digest,
        io_queues: all.len(),
        depth: 0,
        bytes_in: sum(|c| c.bytes_in),
        bytes_out: sum(|c| c.bytes_out),
        commands: sum(|c| c.commands),
        errors: sum(|c| c.errors),
        rtt_us: slowest.map_or(0, |c| c.tcp.rtt_us),
        rtt_min_us: slowest.map_or(0, |c| c.tcp.rtt_min_us),
        retransmits: sum(|c| u64::from(c.tcp.retransmits)),
        // Traffic of any connection keeps the session.
        keep_alive_age_ms: all.iter().map(|c| millis(c.silent)).min().unwrap_or(0),
        keep_alive_timeout_ms: millis(patience),
        connected_at_ms: s.connected_at_ms,
        reconnects: 0,
    };
    let facts = IscsiFacts {
        alias: s.alias,
        authenticated: s.authenticated,
        max_connections: p.max_connections,
        initial_r2t: p.initial_r2t,
        immediate_data: p.immediate_data,
        max_send_data: p.max_send_data,
        max_recv_data: p.max_recv_data,
        max_burst: p.max_burst,
        first_burst: p.first_burst,
        max_outstanding_r2t: p.max_outstanding_r2t,
        error_recovery_level: p.error_recovery_level,
    };
    Session {
        summary,
        latencies: s.latency.iter().map(Latency::from).collect(),
        queues: s.connections.into_iter().map(queue).collect(),
        facts: SessionFacts {
            iscsi: api::SessionFacts { iscsi: Some(facts) },
            ..SessionFacts::default()
        },
    }
}

fn queue(c: ConnectionInfo) -> Queue {
    Queue {
        qid: c.cid,
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
        commands: c.commands,
        errors: c.errors,
        rdma: c.rdma.map(QueuePair::from),
    }
}
