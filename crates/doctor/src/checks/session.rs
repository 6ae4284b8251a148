//! Checks of the server's sessions, and of paths to clients.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`].

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Known, Nic, Queue, Session};
use crate::report::Severity;
use crate::step::Step;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Bytes of IPv4 and TCP headers with time stamps; IPv6 has 20 more.
const HEADERS: u32 = 52;
/// Tolerance for options in a segment, bytes.
const SLACK: u32 = 40;
/// Smallest number of sent bytes that says something about losses.
const SENT_MIN: u64 = 16 << 20;
/// Retransmitted segments of 10,000 that are too many.
const LOST_OF_10000: u64 = 10;
/// Sent bytes of a connection with I/O: keep alives and logins stay far below.
const IO_BYTES_MIN: u64 = 4 << 20;
/// Round-trip time of a local network, µs.
const RTT_US_MAX: u32 = 1000;
/// Reconnects within an hour that are too many.
const RECONNECTS_PER_HOUR: u64 = 2;
/// Depth below which an NVMe queue limits a client.
const DEPTH_MIN: u32 = 32;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "path-mtu",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "a path that loses packets of the interface's own MTU (probed with `wirepool doctor ADDRESS`)",
        why: "Small requests work and large ones hang or crawl: the most common mistake with jumbo frames.",
        risk: "A smaller MTU costs processor time; a larger one has to be set on every device of the path.",
        judge: path_mtu,
    },
    Check {
        id: "session-mss",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a session with segments smaller than the MTU of the server's interface allows",
        why: "The client or a device between has a smaller MTU; the jumbo frames of this side are never used.",
        risk: "None from looking; an MTU changes for all traffic of the interface.",
        judge: session_mss,
    },
    Check {
        id: "session-retransmits",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "more than 0.1 % of a session's segments sent again",
        why: "Each loss makes requests wait for a round trip at least, at worst 200 ms.",
        risk: "None from looking.",
        judge: retransmits,
    },
    Check {
        id: "session-rtt",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a client whose sessions with I/O all have a round-trip time above 1 ms",
        why: "Each request at queue depth 1 takes at least this time; a local network has 20 to 200 µs.",
        risk: "None from looking.",
        judge: rtt,
    },
    Check {
        id: "session-congestion",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a session that sends under another congestion control than cubic",
        why: "The server asks for cubic (decision 0204); a kernel without it paces large reads.",
        risk: "Only new connections change.",
        judge: session_congestion,
    },
    Check {
        id: "session-keep-alive",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "an NVMe session without keep alive",
        why: "Neither side notices a silent cut until an I/O times out; the session stays as a zombie for 90 s.",
        risk: "The host has to reconnect.",
        judge: keep_alive,
    },
    Check {
        id: "session-reconnects",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a host that reconnects more than twice an hour",
        why: "The link, the host or a firewall ends its connections; each time its I/O waits.",
        risk: "None from looking.",
        judge: reconnects,
    },
    Check {
        id: "session-depth",
        side: Side::Server,
        severity: Severity::Note,
        finds: "an NVMe session with queues of fewer than 32 entries",
        why: "The host cannot have enough commands in flight to use a fast disk.",
        risk: "The host has to reconnect.",
        judge: depth,
    },
    Check {
        id: "session-errors",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a session of which more than 1 % of the commands failed",
        why: "A host that repeats refused commands wastes time; a failing disk shows here, too.",
        risk: "None from looking.",
        judge: errors,
    },
];

fn path_mtu(facts: &Facts, j: &mut Judge) {
    let Some(paths) = j.know("", &facts.probes.paths) else {
        return;
    };
    for p in paths {
        let object = p.address.to_string();
        let (Some(link), Some(path)) = (j.know(&object, &p.link_mtu), j.know(&object, &p.path_mtu))
        else {
            continue;
        };
        if path < link {
            let evidence =
                format!("MTU {link} here; packets of {path} bytes are the largest that arrive");
            let text = format!(
                "set MTU {link} on the switches and on {object}, or MTU {path} on the interface of this machine"
            );
            j.find(object, evidence, vec![Step::advice(text)]);
        }
    }
}

/// Sessions with the words for them.
fn sessions<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f Session)> {
    let server = j.know("", &facts.server);
    let sessions = server.into_iter().flat_map(|s| &s.sessions);
    let name = |s: &Session| format!("session {} of {}", s.id, s.host);
    sessions.map(|s| (name(s), s)).collect()
}

/// Sessions with their connections.
fn connections<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f [Queue])> {
    let mut out = Vec::new();
    for (name, s) in sessions(facts, j) {
        if let Some(queues) = j.know(&name, &s.queues) {
            out.push((name, queues.as_slice()));
        }
    }
    out
}

/// The interface with this address.
fn interface(facts: &Facts, address: IpAddr) -> Option<&Nic> {
    let nics = facts.nics.value()?;
    let has = |n: &&Nic| n.addresses.value().is_some_and(|a| a.contains(&address));
    nics.iter().find(has)
}

fn session_mss(facts: &Facts, j: &mut Judge) {
    for (name, queues) in connections(facts, j) {
        for q in queues {
            if q.local.ip().is_loopback() {
                continue;
            }
            let Some(nic) = interface(facts, q.local.ip()) else {
                let nics = facts.nics.value().into_iter().flatten();
                let mut lists = nics.map(|n| &n.addresses).filter(|a| a.value().is_none());
                match lists.next() {
                    Some(unknown) => j.know(&name, unknown).is_some(),
                    None => {
                        let reason = format!("no interface has {}", q.local.ip());
                        j.know::<()>(&name, &Known::unknown(reason)).is_some()
                    }
                };
                continue;
            };
            let Some(mtu) = j.know(&nic.name, &nic.mtu) else {
                continue;
            };
            let family = if q.local.is_ipv6() { 20 } else { 0 };
            let expected = mtu.saturating_sub(HEADERS + family);
            if q.mss > 0 && q.mss + SLACK < expected {
                let evidence = format!(
                    "segments of {} bytes to {}; MTU {mtu} of {} allows {expected}",
                    q.mss,
                    q.peer.ip(),
                    nic.name
                );
                let text = format!(
                    "set MTU {mtu} on {} and on the switches, then run `wirepool doctor {}`",
                    q.peer.ip(),
                    q.peer.ip()
                );
                j.find(&name, evidence, vec![Step::advice(text)]);
                break;
            }
        }
    }
}

fn retransmits(facts: &Facts, j: &mut Judge) {
    for (name, queues) in connections(facts, j) {
        let sent: u64 = queues.iter().map(|q| q.bytes_out).sum();
        let again: u64 = queues.iter().map(|q| q.retransmits).sum();
        let mss = queues.iter().map(|q| u64::from(q.mss)).max();
        let segments = sent / mss.unwrap_or_default().max(1);
        if sent >= SENT_MIN && again * 10_000 > segments * LOST_OF_10000 {
            let evidence = format!("{again} of about {segments} segments sent again");
            let text = "look at the findings about lost packets here, at the counters of the switch, and at the client";
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}

/// One finding for each client. A connection without I/O says nothing: its few segments are acknowledged late (RFC 1122, 4.2.3.2).
fn rtt(facts: &Facts, j: &mut Judge) {
    let mut clients: BTreeMap<IpAddr, (u32, usize)> = BTreeMap::new();
    for (_, queues) in connections(facts, j) {
        let with_io = queues.iter().filter(|q| q.bytes_out >= IO_BYTES_MIN);
        if let Some(fastest) = with_io.min_by_key(|q| q.rtt_us) {
            let client = clients.entry(fastest.peer.ip()).or_insert((u32::MAX, 0));
            client.0 = client.0.min(fastest.rtt_us);
            client.1 += 1;
        }
    }
    for (address, (rtt, sessions)) in clients {
        if rtt > RTT_US_MAX {
            let text = "bring client and server into one switch, or expect this latency";
            let evidence = format!("{rtt} µs on its fastest connection, of {sessions} sessions");
            let object = format!("client {address}");
            j.find(object, evidence, vec![Step::advice(text)]);
        }
    }
}

fn session_congestion(facts: &Facts, j: &mut Judge) {
    for (name, queues) in connections(facts, j) {
        let other = queues.iter().find(|q| q.congestion != "cubic");
        if let Some(q) = other {
            let steps = vec![Step::run(&["modprobe", "tcp_cubic"])];
            j.find(name, format!("it sends under {}", q.congestion), steps);
        }
    }
}

fn keep_alive(facts: &Facts, j: &mut Judge) {
    for (name, s) in sessions(facts, j) {
        if s.protocol == "nvme" && s.keep_alive_ms == 0 {
            let text = "on the host: nvme disconnect, then nvme connect with --keep-alive-tmo=5";
            j.find(name, "keep alive timeout 0", vec![Step::advice(text)]);
        }
    }
}

fn reconnects(facts: &Facts, j: &mut Judge) {
    for (name, s) in sessions(facts, j) {
        let hours = s.age_s / 3600 + 1;
        if s.reconnects > RECONNECTS_PER_HOUR * hours {
            let text = "read the host's kernel log (nvme, iscsid or NFS messages) for the reason";
            j.find(
                name,
                format!("{} reconnects", s.reconnects),
                vec![Step::advice(text)],
            );
        }
    }
}

fn depth(facts: &Facts, j: &mut Judge) {
    for (name, s) in sessions(facts, j) {
        if s.protocol == "nvme" && s.depth > 0 && s.depth < DEPTH_MIN {
            let text = "on the host: nvme connect with --queue-size=128";
            j.find(
                name,
                format!("queues of {} entries", s.depth),
                vec![Step::advice(text)],
            );
        }
    }
}

fn errors(facts: &Facts, j: &mut Judge) {
    for (name, s) in sessions(facts, j) {
        if s.errors > 100 && s.errors > s.commands / 100 {
            let evidence = format!("{} of {} commands failed", s.errors, s.commands);
            let text = "read the server's log: it names the first failures";
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}
