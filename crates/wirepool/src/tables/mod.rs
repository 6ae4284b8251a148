//! Text output: tables of the server, disks, hosts and sessions.
//!
//! **Called by** the commands. **Invariants**: an empty table has a line instead; columns are never truncated.

mod advice;
mod caches;
pub(crate) mod iostat;
pub(crate) mod pools;
pub(crate) mod scan;
pub(crate) mod writes;

use crate::columns::{duration, micros, or_dash, rows, with_parts, yes};
use crate::protocols;
use crate::protocols::protocol::host_name;
use crate::rdma_status_command::rate;
use doctor::facts::PortSummary;
use server::ByteSize;
use server::api::{
    Disk, DiskState, Latency, Queue, QueuePair, RefusedHost, ServerState, Session, SessionSummary,
    ShardStatus, Status,
};
use std::fmt::Write;

/// `wirepool status`.
pub(crate) fn status(s: &Status) -> String {
    let state = match s.state {
        ServerState::Serving => "serving",
        ServerState::Draining => "draining",
    };
    let mut out = format!(
        "wirepool {}, {state} for {}, process {}\n",
        s.version,
        duration(s.uptime_s * 1000),
        s.pid
    );
    let _ = writeln!(out, "configuration  {}", s.config.display());
    let _ = writeln!(out, "control        {}", s.control.display());
    for l in &s.listen {
        let (_, role) = protocols::role(l);
        let _ = writeln!(out, "{role:<14} {}", l.address);
    }
    for missing in &s.not_listening {
        let _ = writeln!(
            out,
            "not served     {} ({})",
            missing.address, missing.setting
        );
    }
    if let Some(address) = s.metrics {
        let _ = writeln!(out, "metrics        http://{address}/metrics");
    }
    if let Some(console) = &s.console {
        let _ = writeln!(out, "console        https://{}/", console.address);
        let _ = writeln!(
            out,
            "               certificate SHA-256 {}",
            console.fingerprint
        );
    }
    let connections: usize = s.shards.iter().map(|s| s.connections).sum();
    let _ = writeln!(
        out,
        "sessions       {}; connections {connections} of at most {}",
        s.sessions, s.connections_max
    );
    let _ = write!(
        out,
        "\n{}\n{}\n{}{}",
        shards(&s.shards),
        disks(&s.disks),
        pools_and_volumes(s),
        protocols::tables(&s.exports)
    );
    if !s.warnings.is_empty() {
        out.push('\n');
    }
    for w in &s.warnings {
        let _ = writeln!(out, "warning: {w}");
    }
    out
}

fn shards(list: &[ShardStatus]) -> String {
    let bytes = |n: usize| ByteSize(n as u64).human();
    rows(list)
        .left("SHARD", |s| match s.answers {
            true => s.shard.to_string(),
            false => format!("{} (no answer)", s.shard),
        })
        .right("CONNECTIONS", |s| s.connections.to_string())
        .right("CPU", |s| duration(s.cpu_ms))
        .right("BUFFERS USED", |s| bytes(s.buffer_used))
        .right("KEPT", |s| bytes(s.buffer_idle))
        .right("LIMIT", |s| bytes(s.buffer_limit))
        .right("WAITING", |s| s.buffer_waiting.to_string())
        .text()
}

/// The tables of pools, volumes and filesystems; empty without pools.
fn pools_and_volumes(s: &Status) -> String {
    if s.pools.is_empty() {
        return String::new();
    }
    let pools = crate::tables::pools::pools(&s.pools);
    let volumes = crate::tables::pools::volumes(&s.volumes);
    if s.filesystems.is_empty() {
        return format!("{pools}\n{volumes}\n");
    }
    let filesystems = crate::filesystems::list(&s.filesystems);
    format!("{pools}\n{volumes}\n{filesystems}\n")
}

/// `wirepool disk list`.
pub(crate) fn disks(disks: &[Disk]) -> String {
    if disks.is_empty() {
        return "no disks: `wirepool disk add --help`\n".into();
    }
    let known =
        |d: &Disk, text: String| or_dash(Some(text).filter(|_| d.state == DiskState::Online));
    let path = |d: &Disk| Some(d.path.as_ref()?.display().to_string());
    let table = rows(disks)
        .left("DISK", |d| d.name.clone())
        .left("KIND", |d| d.kind.clone())
        .left("STATE", |d| {
            let state = match d.state {
                DiskState::Opening => "opening",
                DiskState::Online if d.read_only => "online, read-only",
                DiskState::Online => "online",
                DiskState::Held => "held",
            };
            state.to_owned()
        })
        .right("SIZE", |d| known(d, ByteSize(d.size).human()))
        .right("BLOCK", |d| known(d, d.block_size.to_string()))
        .right("USED", |d| or_dash(d.used.map(|u| ByteSize(u).human())))
        .left("EXPORTED AS", |d| or_dash(d.exported_as.words()))
        .left("PATH", |d| or_dash(path(d)))
        .text();
    let notes = disks
        .iter()
        .filter_map(|d| Some((&d.name, d.reason.as_ref()?)));
    let notes = notes.map(|(name, reason)| format!("{name}: {reason}\n"));
    table + &notes.collect::<String>()
}

/// `wirepool host list`.
pub(crate) fn hosts(list: &[(String, Vec<String>)]) -> String {
    if list.is_empty() {
        return "no subsystems: `wirepool export add --help`\n".into();
    }
    rows(&with_parts(list, |(_, hosts)| hosts))
        .left("SUBSYSTEM", |((nqn, _), _)| nqn.clone())
        .left("HOST", |(_, host)| host.cloned().unwrap_or("none".into()))
        .text()
}

fn digests(header: bool, data: bool) -> &'static str {
    match (header, data) {
        (true, true) => "header+data",
        (true, false) => "header",
        (false, true) => "data",
        (false, false) => "none",
    }
}

/// `wirepool session refused`: refused hosts, each with the command that allows it.
pub(crate) fn refused(list: &[RefusedHost]) -> String {
    if list.is_empty() {
        return "no host was refused\n".into();
    }
    let given = |text: &str| or_dash(Some(text.to_owned()).filter(|text| !text.is_empty()));
    rows(list)
        .left("PROTOCOL", |h| h.protocol.clone())
        .left("HOST", |h| given(&h.host))
        .left("ADDRESS", |h| h.address.to_string())
        .left("ASKED FOR", |h| given(&h.export))
        .right("TIMES", |h| h.count.to_string())
        .left("TO ALLOW", |h| h.allow.clone())
        .text()
}

/// `wirepool session list`.
pub(crate) fn sessions(list: &[SessionSummary]) -> String {
    if list.is_empty() {
        return "no sessions\n".into();
    }
    let of_queues = |s: &SessionSummary, text: String| {
        or_dash(Some(text).filter(|_| protocols::of_session(s).has_queues()))
    };
    let of_tcp = |s: &SessionSummary, text| or_dash(Some(text).filter(|_| s.device.is_none()));
    rows(list)
        .right("ID", |s| s.id.to_string())
        .left("PROTOCOL", |s| s.protocol.clone())
        .left("KIND", |s| s.kind.clone())
        .left("STATE", |s| s.state.clone())
        .left("HOST", |s| host_name(s).to_owned())
        .left("PEER", |s| or_dash(s.peer.map(|p| p.to_string())))
        .left("SUBSYSTEM", |s| s.export.clone())
        .left("TRANSPORT", |s| match &s.device {
            Some(device) => format!("{} ({device})", s.transport),
            None => s.transport.clone(),
        })
        .left("DIGESTS", |s| {
            digests(s.header_digest, s.data_digest).to_owned()
        })
        .right("QUEUES", |s| s.io_queues.to_string())
        .right("DEPTH", |s| of_queues(s, s.depth.to_string()))
        .right("RTT", |s| of_tcp(s, micros(u64::from(s.rtt_us))))
        .right("RETRANS", |s| of_tcp(s, s.retransmits.to_string()))
        .right("IN", |s| ByteSize(s.bytes_in).human())
        .right("OUT", |s| ByteSize(s.bytes_out).human())
        .right("COMMANDS", |s| s.commands.to_string())
        .right("ERRORS", |s| s.errors.to_string())
        .right("LAST HEARD", |s| {
            of_queues(s, duration(s.keep_alive_age_ms) + " ago")
        })
        .right("RECONNECTS", |s| s.reconnects.to_string())
        .text()
}

/// `wirepool session show`.
pub(crate) fn session(s: &Session) -> String {
    let m = &s.summary;
    let mut out = format!("session {} ({}, {})\n", m.id, m.kind, m.state);
    let protocol = protocols::of_session(m);
    let mut facts = protocol.facts(s);
    let device = m.device.iter().map(|d| ("RDMA device", d.clone()));
    let reason = m.not_rdma.iter().map(|why| ("not over RDMA", why.clone()));
    facts.extend(device.chain(reason));
    facts.extend([
        ("header digest", yes(m.header_digest).to_owned()),
        ("data digest", yes(m.data_digest).to_owned()),
        ("received", ByteSize(m.bytes_in).human()),
        ("sent", ByteSize(m.bytes_out).human()),
        ("commands", format!("{}, {} failed", m.commands, m.errors)),
    ]);
    for (key, value) in facts {
        let _ = writeln!(out, "  {key:<14} {value}");
    }
    let queues = queues(&s.queues, protocol.has_queues());
    let pairs = queue_pairs(&s.queues, protocol.has_queues());
    let _ = write!(out, "\n{queues}{pairs}\n{}", latencies(&s.latencies));
    out
}

/// The title of a column with numbers of queues, or of connections if these are no queues.
fn number_title(are_queues: bool) -> &'static str {
    match are_queues {
        true => "QUEUE",
        false => "CONNECTION",
    }
}

/// The number of a queue or connection. The first queue is the admin queue.
fn number_of(qid: u16, are_queues: bool) -> String {
    match are_queues && qid == 0 {
        true => "admin".to_owned(),
        false => qid.to_string(),
    }
}

/// The queues of a session, or its connections if these are no queues.
fn queues(list: &[Queue], are_queues: bool) -> String {
    let of_tcp = |q: &Queue, text| or_dash(Some(text).filter(|_| q.rdma.is_none()));
    rows(list)
        .right(number_title(are_queues), |q| number_of(q.qid, are_queues))
        .right("DEPTH", |q| {
            or_dash(are_queues.then(|| q.depth.to_string()))
        })
        .left("SHARD", |q| q.shard.clone())
        .left("PEER", |q| q.peer.to_string())
        .left("LOCAL", |q| q.local.to_string())
        .right("MSS", |q| of_tcp(q, q.mss.to_string()))
        .right("PATH MTU", |q| q.path_mtu.to_string())
        .right("RTT", |q| of_tcp(q, micros(u64::from(q.rtt_us))))
        .right("RTT VAR", |q| of_tcp(q, micros(u64::from(q.rtt_var_us))))
        .right("RETRANS", |q| of_tcp(q, q.retransmits.to_string()))
        .left("CONGESTION", |q| of_tcp(q, q.congestion.clone()))
        .right("IN FLIGHT", |q| q.in_flight.to_string())
        .right("IN", |q| ByteSize(q.bytes_in).human())
        .right("OUT", |q| ByteSize(q.bytes_out).human())
        .right("COMMANDS", |q| q.commands.to_string())
        .right("ERRORS", |q| q.errors.to_string())
        .text()
}

/// Receives of a queue pair: its own, or the posted ones of its shared queue.
fn receives(p: &QueuePair) -> String {
    match p.shared_receives {
        0 => p.receives.to_string(),
        all => format!("{} of {all} shared", p.receives),
    }
}

/// The queue pairs of a session over RDMA; empty over other transports.
fn queue_pairs(list: &[Queue], are_queues: bool) -> String {
    let pairs: Vec<(u16, &QueuePair)> = list
        .iter()
        .filter_map(|q| Some((q.qid, q.rdma.as_ref()?)))
        .collect();
    if pairs.is_empty() {
        return String::new();
    }
    let known = |n: u32| or_dash(Some(n).filter(|n| *n > 0).map(|n| n.to_string()));
    let table = rows(&pairs)
        .right(number_title(are_queues), |(qid, _)| {
            number_of(*qid, are_queues)
        })
        .left("DEVICE", |(_, p)| p.device.clone())
        .right("PORT", |(_, p)| {
            or_dash(p.port.as_ref().map(|port| port.port.to_string()))
        })
        .left("STATE", |(_, p)| of_port(p, |port| port.state.clone()))
        .right("RATE", |(_, p)| of_port(p, rate))
        .left("GID", |(_, p)| {
            of_port(p, |port| port.gid_types.first().cloned())
        })
        .right("QUEUE PAIR", |(_, p)| p.number.to_string())
        .right("OF HOST", |(_, p)| known(p.peer_number))
        .right("PATH MTU", |(_, p)| known(p.path_mtu))
        .right("READS OUT", |(_, p)| p.reads_out.to_string())
        .right("READS IN", |(_, p)| p.reads_in.to_string())
        .right("RECEIVES", |(_, p)| receives(p))
        .right("OF BYTES", |(_, p)| p.receive_len.to_string())
        .right("INLINE", |(_, p)| p.inline_max.to_string())
        .right("RNR RETRIES", |(_, p)| {
            or_dash(p.rnr_retries.map(|n| n.to_string()))
        })
        .text();
    format!("\n{table}")
}

/// A text of the port of a queue pair; a dash if it is not known.
fn of_port(pair: &QueuePair, text: impl Fn(&PortSummary) -> Option<String>) -> String {
    or_dash(pair.port.as_ref().and_then(text))
}

fn latencies(list: &[Latency]) -> String {
    if list.is_empty() {
        return "no commands yet\n".into();
    }
    rows(list)
        .left("COMMAND", |l| l.command.clone())
        .right("COUNT", |l| l.count.to_string())
        .right("MEAN", |l| format!("{:.1} µs", l.mean_us))
        .right("P50", |l| micros(l.p50_us))
        .right("P90", |l| micros(l.p90_us))
        .right("P99", |l| micros(l.p99_us))
        .right("P99.9", |l| micros(l.p999_us))
        .right("MAX", |l| micros(l.max_us))
        .text()
}
