//! Text output: tables of the server, disks, hosts and sessions.
//!
//! **Called by** the commands. **Invariants**: an empty table has a line instead; columns are never truncated.

pub(crate) mod iostat;
pub(crate) mod pools;
pub(crate) mod scan;
pub(crate) mod writes;

use crate::columns::{duration, micros, table, text};
use crate::protocols;
use crate::protocols::protocol::host_name;
use server::ByteSize;
use server::api::{
    Disk, DiskState, Latency, Queue, RefusedHost, ServerState, Session, SessionSummary, Status,
};
use std::fmt::Write;

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

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
        let (_, role) = protocols::role(l.role);
        let _ = writeln!(out, "{role:<14} {}", l.address);
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
    let mut t = table(
        &[
            "SHARD",
            "CONNECTIONS",
            "CPU",
            "BUFFERS USED",
            "KEPT",
            "LIMIT",
            "WAITING",
        ],
        &[1, 2, 3, 4, 5, 6],
    );
    for shard in &s.shards {
        let bytes = |n: usize| ByteSize(n as u64).human();
        t.add_row([
            if shard.answers {
                shard.shard.to_string()
            } else {
                format!("{} (no answer)", shard.shard)
            },
            shard.connections.to_string(),
            duration(shard.cpu_ms),
            bytes(shard.buffer_used),
            bytes(shard.buffer_idle),
            bytes(shard.buffer_limit),
            shard.buffer_waiting.to_string(),
        ]);
    }
    let _ = write!(
        out,
        "\n{}\n{}\n{}{}",
        text(&t),
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
    let mut t = table(
        &[
            "DISK",
            "KIND",
            "STATE",
            "SIZE",
            "BLOCK",
            "USED",
            "EXPORTED AS",
            "PATH",
        ],
        &[3, 4, 5],
    );
    let mut notes = String::new();
    for d in disks {
        let state = match d.state {
            DiskState::Opening => "opening",
            DiskState::Online if d.read_only => "online, read-only",
            DiskState::Online => "online",
            DiskState::Held => "held",
        };
        let known = |text: String| {
            if d.state == DiskState::Online {
                text
            } else {
                "-".into()
            }
        };
        t.add_row([
            d.name.clone(),
            d.kind.clone(),
            state.to_owned(),
            known(ByteSize(d.size).human()),
            known(d.block_size.to_string()),
            d.used.map_or("-".into(), |u| ByteSize(u).human()),
            d.exported_as.words().unwrap_or("-".into()),
            d.path
                .as_ref()
                .map_or("-".into(), |p| p.display().to_string()),
        ]);
        if let Some(reason) = &d.reason {
            let _ = writeln!(notes, "{}: {reason}", d.name);
        }
    }
    text(&t) + &notes
}

/// `wirepool host list`.
pub(crate) fn hosts(list: &[(String, Vec<String>)]) -> String {
    if list.is_empty() {
        return "no subsystems: `wirepool export add --help`\n".into();
    }
    let mut t = table(&["SUBSYSTEM", "HOST"], &[]);
    for (nqn, hosts) in list {
        if hosts.is_empty() {
            t.add_row([nqn.as_str(), "none"]);
        }
        for h in hosts {
            t.add_row([nqn, h]);
        }
    }
    text(&t)
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
    let header = [
        "PROTOCOL",
        "HOST",
        "ADDRESS",
        "ASKED FOR",
        "TIMES",
        "TO ALLOW",
    ];
    let mut t = table(&header, &[4]);
    let given = |text: &str| match text {
        "" => "-".to_owned(),
        text => text.to_owned(),
    };
    for host in list {
        t.add_row([
            host.protocol.clone(),
            given(&host.host),
            host.address.to_string(),
            given(&host.export),
            host.count.to_string(),
            host.allow.clone(),
        ]);
    }
    text(&t)
}

/// `wirepool session list`.
pub(crate) fn sessions(list: &[SessionSummary]) -> String {
    if list.is_empty() {
        return "no sessions\n".into();
    }
    let header = [
        "ID",
        "PROTOCOL",
        "KIND",
        "STATE",
        "HOST",
        "PEER",
        "SUBSYSTEM",
        "TRANSPORT",
        "DIGESTS",
        "QUEUES",
        "DEPTH",
        "RTT",
        "RETRANS",
        "IN",
        "OUT",
        "COMMANDS",
        "ERRORS",
        "LAST HEARD",
        "RECONNECTS",
    ];
    let mut t = table(&header, &[0, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
    for s in list {
        t.add_row([
            s.id.to_string(),
            s.protocol.clone(),
            s.kind.clone(),
            s.state.clone(),
            host_name(s).to_owned(),
            s.peer.map_or("-".into(), |p| p.to_string()),
            s.export.clone(),
            s.transport.clone(),
            digests(s.header_digest, s.data_digest).to_owned(),
            s.io_queues.to_string(),
            match protocols::of_session(s).has_queues() {
                true => s.depth.to_string(),
                false => "-".into(),
            },
            micros(u64::from(s.rtt_us)),
            s.retransmits.to_string(),
            ByteSize(s.bytes_in).human(),
            ByteSize(s.bytes_out).human(),
            s.commands.to_string(),
            s.errors.to_string(),
            match protocols::of_session(s).has_queues() {
                true => duration(s.keep_alive_age_ms) + " ago",
                false => "-".into(),
            },
            s.reconnects.to_string(),
        ]);
    }
    text(&t)
}

/// `wirepool session show`.
pub(crate) fn session(s: &Session) -> String {
    let m = &s.summary;
    let mut out = format!("session {} ({}, {})\n", m.id, m.kind, m.state);
    let protocol = protocols::of_session(m);
    let mut facts = protocol.facts(s);
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
    let _ = write!(out, "\n{queues}\n{}", latencies(&s.latencies));
    out
}

/// The queues of a session, or its connections if these are no queues.
fn queues(list: &[Queue], are_queues: bool) -> String {
    let header = [
        if are_queues { "QUEUE" } else { "CONNECTION" },
        "DEPTH",
        "SHARD",
        "PEER",
        "LOCAL",
        "MSS",
        "PATH MTU",
        "RTT",
        "RTT VAR",
        "RETRANS",
        "CONGESTION",
        "IN FLIGHT",
        "IN",
        "OUT",
        "COMMANDS",
        "ERRORS",
    ];
    let mut t = table(&header, &[0, 1, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15]);
    for q in list {
        t.add_row([
            if are_queues && q.qid == 0 {
                "admin".to_owned()
            } else {
                q.qid.to_string()
            },
            match are_queues {
                true => q.depth.to_string(),
                false => "-".into(),
            },
            q.shard.clone(),
            q.peer.to_string(),
            q.local.to_string(),
            q.mss.to_string(),
            q.path_mtu.to_string(),
            micros(u64::from(q.rtt_us)),
            micros(u64::from(q.rtt_var_us)),
            q.retransmits.to_string(),
            q.congestion.clone(),
            q.in_flight.to_string(),
            ByteSize(q.bytes_in).human(),
            ByteSize(q.bytes_out).human(),
            q.commands.to_string(),
            q.errors.to_string(),
        ]);
    }
    text(&t)
}

fn latencies(list: &[Latency]) -> String {
    if list.is_empty() {
        return "no commands yet\n".into();
    }
    let mut t = table(
        &[
            "COMMAND", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", "MAX",
        ],
        &[1, 2, 3, 4, 5, 6, 7],
    );
    for l in list {
        t.add_row([
            l.command.clone(),
            l.count.to_string(),
            format!("{:.1} µs", l.mean_us),
            micros(l.p50_us),
            micros(l.p90_us),
            micros(l.p99_us),
            micros(l.p999_us),
            micros(l.max_us),
        ]);
    }
    text(&t)
}
