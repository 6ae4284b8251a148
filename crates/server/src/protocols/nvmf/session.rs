//! Sessions of NVMe hosts as the control API shows them.
//!
//! **Called by** the protocol. **Invariants**: pure translations.

use crate::api::{Latency, Queue, QueuePair, Session, SessionFacts, SessionSummary};
use crate::protocols::protocol::millis;
use crate::word::word;
use nvmf::controller::{QueueInfo, SessionInfo, Transport};
use uuid::Uuid;

/// A session.
pub(super) fn session(s: SessionInfo) -> Session {
    let io = || s.queues.iter().filter(|q| q.qid != 0);
    let sum = |of: fn(&QueueInfo) -> u64| s.queues.iter().map(of).sum();
    let slowest = io().max_by_key(|q| q.tcp.rtt_us);
    let summary = SessionSummary {
        id: u32::from(s.cntlid),
        protocol: "nvme".to_owned(),
        kind: word(s.kind),
        state: word(s.state),
        client: s.host_nqn.to_string(),
        host_id: Uuid::from_bytes(s.host_id.0).to_string(),
        export: s.subsystem.to_string(),
        peer: s.queues.first().map(|q| q.peer),
        transport: s.transport.to_ascii_lowercase(),
        device: s
            .queues
            .iter()
            .find_map(|q| Some(q.rdma.as_ref()?.device.clone())),
        not_rdma: not_rdma(&s),
        header_digest: s.digests.header,
        data_digest: s.digests.data,
        io_queues: io().count(),
        depth: io().map(|q| u32::from(q.depth)).max().unwrap_or(0),
        bytes_in: sum(|q| q.bytes_in),
        bytes_out: sum(|q| q.bytes_out),
        commands: sum(|q| q.commands),
        errors: sum(|q| q.errors),
        rtt_us: slowest.map_or(0, |q| q.tcp.rtt_us),
        rtt_min_us: slowest.map_or(0, |q| q.tcp.rtt_min_us),
        retransmits: sum(|q| u64::from(q.tcp.retransmits)),
        keep_alive_age_ms: millis(s.keep_alive_age),
        keep_alive_timeout_ms: millis(s.keep_alive),
        connected_at_ms: s.connected_at_ms,
        reconnects: s.reconnects,
    };
    let latencies = s.latency.iter().map(Latency::from).collect();
    Session {
        summary,
        queues: s.queues.into_iter().map(queue).collect(),
        latencies,
        facts: SessionFacts::default(),
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
        path_mtu: q.rdma.as_ref().map_or(q.tcp.path_mtu, |r| r.path_mtu),
        rtt_us: q.tcp.rtt_us,
        rtt_var_us: q.tcp.rtt_var_us,
        retransmits: q.tcp.retransmits,
        congestion: q.tcp.congestion,
        in_flight: q.in_flight,
        bytes_in: q.bytes_in,
        bytes_out: q.bytes_out,
        commands: q.commands,
        errors: q.errors,
        rdma: q.rdma.map(QueuePair::from),
    }
}

/// Why a host cannot use RDMA if the server listens for it.
fn not_rdma(s: &SessionInfo) -> Option<String> {
    let export = s.subsystem.as_str();
    (!s.transports.has(Transport::Rdma)).then(|| {
        format!(
            "the subsystem is not served over RDMA: `wirepool export transport {export} tcp,rdma`"
        )
    })
}
