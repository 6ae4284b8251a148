//! `wirepool rdma status`: RDMA on this machine, and the server's use of it.
//!
//! **Owns** the answer and its table. **Called by** `main`. **Invariants**: nothing is changed; without a running server
//! the machine is shown nevertheless.

use crate::ask::Ask;
use crate::columns::{or_dash, rows};
use anyhow::Result;
use doctor::capture::rdma_ports;
use doctor::facts::{Gid, Known, PortSummary, RdmaPort};
use doctor::source::Host;
use serde::Serialize;
use server::api::{
    GetStatus, ListSessions, LockedMemory, NotListening, SessionSummary, Status, Transport,
};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The answer of `rdma status`.
#[derive(Serialize)]
struct RdmaStatus {
    /// Whether programs of this machine can use RDMA: rdma-core is loaded, and the kernel has a device and its connection manager.
    usable: bool,
    /// The reason why not, and the remedy.
    reason: Option<String>,
    /// Ports of RDMA devices.
    ports: Vec<Port>,
    /// Why the ports are not known.
    ports_unknown: Option<String>,
    /// The running server.
    server: ServerState,
}

/// A port of a device with the table of its GIDs.
#[derive(Serialize)]
struct Port {
    #[serde(flatten)]
    summary: PortSummary,
    /// GIDs that are set.
    gids: Vec<Gid>,
}

/// The running server and RDMA.
#[derive(Serialize)]
struct ServerState {
    /// Why its state is not known.
    unknown: Option<String>,
    /// Addresses that it serves over RDMA.
    listening: Vec<SocketAddr>,
    /// Addresses of its configuration for RDMA that it cannot serve now.
    not_listening: Vec<NotListening>,
    /// Sessions over RDMA.
    sessions: usize,
    /// Memory that it may lock.
    locked_memory: Option<LockedMemory>,
}

/// Reads the machine and asks the server. Returns the text, or JSON.
pub(crate) fn run(control: Option<PathBuf>, json: bool) -> Result<String> {
    let ask = Ask::new(control, json);
    let found = rdma_ports(&Host::this());
    let support = io::rdma::support().map_err(|why| why.to_string());
    let status = status(&found, support, server(&ask));
    ask.print(&status, text)
}

/// The server's state, if one runs.
fn server(ask: &Ask) -> ServerState {
    let asked = ask.client.ask(&GetStatus {});
    let asked = asked.and_then(|status| Ok((status, ask.client.ask(&ListSessions {})?)));
    match asked {
        Ok((status, sessions)) => served(&status, &sessions),
        Err(e) => ServerState {
            unknown: Some(format!("no running server was found ({})", e.root_cause())),
            listening: Vec::new(),
            not_listening: Vec::new(),
            sessions: 0,
            locked_memory: None,
        },
    }
}

fn served(status: &Status, sessions: &[SessionSummary]) -> ServerState {
    let listening = status.listen.iter();
    let listening = listening.filter(|l| l.transport == Transport::Rdma);
    let missing = status.not_listening.iter();
    let missing = missing.filter(|m| m.transport == Transport::Rdma);
    let word = Transport::Rdma.word();
    ServerState {
        unknown: None,
        listening: listening.map(|l| l.address).collect(),
        not_listening: missing.cloned().collect(),
        sessions: sessions.iter().filter(|s| s.transport == word).count(),
        locked_memory: Some(status.locked_memory),
    }
}

fn status(
    found: &Known<Vec<RdmaPort>>,
    support: Result<(), String>,
    server: ServerState,
) -> RdmaStatus {
    let (ports, ports_unknown) = match found {
        Known::Value(ports) => (ports.iter().map(port).collect(), None),
        Known::Unknown { unknown } => (Vec::new(), Some(unknown.clone())),
    };
    RdmaStatus {
        usable: support.is_ok(),
        reason: support.err(),
        ports,
        ports_unknown,
        server,
    }
}

fn port(p: &RdmaPort) -> Port {
    let gids = p.gids.value().into_iter().flatten();
    let gids = gids.map(|g| Gid {
        kind: p.gid_type(g).to_owned(),
        ..g.clone()
    });
    Port {
        summary: p.summary(),
        gids: gids.collect(),
    }
}

fn text(s: &RdmaStatus) -> String {
    let mut out = match &s.reason {
        None => "programs  can use RDMA (rdma-core is loaded)\n".to_owned(),
        Some(reason) => format!("programs  cannot use RDMA: {reason}\n"),
    };
    server_lines(&s.server, &mut out);
    match &s.ports_unknown {
        Some(why) => {
            let _ = writeln!(out, "devices   not known: {why}");
        }
        None if s.ports.is_empty() => out.push_str("devices   none\n"),
        None => {
            let _ = write!(out, "\n{}\n{}", ports(&s.ports), gids(&s.ports));
        }
    }
    out
}

fn server_lines(server: &ServerState, out: &mut String) {
    if let Some(why) = &server.unknown {
        let _ = writeln!(out, "server    {why}");
        return;
    }
    for address in &server.listening {
        let _ = writeln!(out, "server    listens at {address}");
    }
    for missing in &server.not_listening {
        let _ = writeln!(
            out,
            "server    does not listen at {} of {}: {}",
            missing.address, missing.setting, missing.reason
        );
    }
    if server.listening.is_empty() && server.not_listening.is_empty() {
        out.push_str("server    is not configured for RDMA: set [nvmf] listen_rdma\n");
    }
    let _ = writeln!(out, "sessions  {} over RDMA", server.sessions);
    if let Some(memory) = server.locked_memory {
        let _ = writeln!(out, "memory    {}", locked(memory));
    }
}

/// The limit of locked memory, and whether it was enough.
fn locked(memory: LockedMemory) -> String {
    let LockedMemory { limit, refused } = memory;
    let limit = limit.map_or("unlimited".to_owned(), |b| {
        format!("at most {} KiB", b >> 10)
    });
    match refused {
        0 => format!("{limit} may be locked"),
        _ => format!(
            "{limit} may be locked: {refused} registrations were refused; `wirepool rdma setup` prints the setting of the unit"
        ),
    }
}

fn ports(list: &[Port]) -> String {
    let interface = |p: &PortSummary| Some(p.interface.clone()).filter(|i| !i.is_empty());
    rows(list)
        .left("PORT", |p| p.summary.name())
        .left("STATE", |p| or_dash(p.summary.state.clone()))
        .left("LINK", |p| or_dash(p.summary.link_layer.clone()))
        .left("CABLE", |p| or_dash(p.summary.phys_state.clone()))
        .left("RATE", |p| or_dash(rate(&p.summary)))
        .left("INTERFACE", |p| or_dash(interface(&p.summary)))
        .right("GIDS", |p| p.gids.len().to_string())
        .text()
}

/// The rate of a port, if it is known.
pub(crate) fn rate(p: &PortSummary) -> Option<String> {
    p.rate_gbps.map(|gbps| format!("{gbps} Gb/s"))
}

fn gids(list: &[Port]) -> String {
    let all = list.iter().flat_map(|p| p.gids.iter().map(move |g| (p, g)));
    let all: Vec<(&Port, &Gid)> = all.collect();
    rows(&all)
        .left("PORT", |(p, _)| p.summary.name())
        .right("GID", |(_, g)| g.index.to_string())
        .left("TYPE", |(_, g)| g.kind.clone())
        .left("VALUE", |(_, g)| g.gid.clone())
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::facts::Rate;

    fn idle(unknown: Option<&str>) -> ServerState {
        ServerState {
            unknown: unknown.map(str::to_owned),
            listening: Vec::new(),
            not_listening: Vec::new(),
            sessions: 0,
            locked_memory: None,
        }
    }

    #[test]
    fn the_limit_of_locked_memory_is_named() {
        let shown = |limit, refused| {
            let mut server = idle(None);
            server.locked_memory = Some(LockedMemory { limit, refused });
            text(&status(&machine(), Ok(()), server))
        };
        let small = shown(Some(8 << 20), 3);
        assert!(
            small.contains("at most 8192 KiB may be locked: 3 registrations were refused"),
            "{small}"
        );
        let enough = shown(None, 0);
        assert!(
            enough.contains("memory    unlimited may be locked\n"),
            "{enough}"
        );
    }

    fn machine() -> Known<Vec<RdmaPort>> {
        let value = |text: &str| Known::Value(text.to_owned());
        let port = RdmaPort {
            device: "mlx5_0".into(),
            port: 1,
            netdev: "eth2".into(),
            state: value("ACTIVE"),
            phys_state: value("LinkUp"),
            rate: Known::Value(Rate {
                gbps: 100.0,
                lanes: 4,
            }),
            link_layer: value("Ethernet"),
            gids: Known::Value(vec![Gid {
                index: 3,
                gid: "0000:0000:0000:0000:0000:ffff:0a00:0001".into(),
                kind: "RoCE v2".into(),
                netdev: "eth2".into(),
            }]),
            ..RdmaPort::default()
        };
        Known::Value(vec![port])
    }

    #[test]
    fn devices_and_listeners_are_shown() {
        let mut server = idle(None);
        let address = "0.0.0.0:4420".parse().expect("an address");
        server.listening = vec![address];
        server.sessions = 2;
        let shown = text(&status(&machine(), Ok(()), server));
        for part in [
            "can use RDMA",
            "listens at 0.0.0.0:4420",
            "2 over RDMA",
            "mlx5_0/1",
            "ACTIVE",
            "LinkUp",
            "100 Gb/s",
            "Ethernet",
            "eth2",
            "RoCE v2",
            "ffff:0a00:0001",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn the_reason_why_nothing_can_be_used_is_shown() {
        let none = Known::Value(Vec::new());
        let missing = NotListening {
            address: "0.0.0.0:4420".parse().expect("an address"),
            setting: "[nvmf] listen_rdma".into(),
            transport: Transport::Rdma,
            reason: "no rdma-core".into(),
        };
        let mut server = idle(None);
        server.not_listening = vec![missing];
        let broken = status(&none, Err("no rdma-core".into()), server);
        let shown = text(&broken);
        assert!(shown.contains("cannot use RDMA: no rdma-core"), "{shown}");
        assert!(shown.contains("does not listen at 0.0.0.0:4420"), "{shown}");
        assert!(shown.contains("devices   none"), "{shown}");
        let json = serde_json::to_value(&broken).expect("JSON");
        assert_eq!(json["usable"], false);
        assert_eq!(json["server"]["not_listening"][0]["transport"], "rdma");

        let unknown = Known::unknown("permission denied");
        let shown = text(&status(&unknown, Ok(()), idle(Some("no server"))));
        assert!(shown.contains("not known: permission denied"), "{shown}");
        assert!(shown.contains("server    no server"), "{shown}");
        let shown = text(&status(&none, Ok(()), idle(None)));
        assert!(shown.contains("set [nvmf] listen_rdma"), "{shown}");
    }
}
