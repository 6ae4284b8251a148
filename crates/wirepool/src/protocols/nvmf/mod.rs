//! Exports over NVMe: `wirepool export nvme` and `export add`.
//!
//! **Called by** the commands.

mod table;

use super::RemoveArgs;
use super::protocol::{ExportSummary, Fact, Protocol, host_name, size_or_reason};
use crate::ask::Ask;
use crate::columns::duration;
use crate::tables::hosts;
use anyhow::Result;
use clap::{Args, Subcommand};
pub(crate) use server::api::Export;
use server::api::{
    AddExport, AllowHost, DenyHost, ExportNvme, Exports, GetSummary, Listen, ListenRole,
    NvmfRole as Role, RemoveExport, Session, SetExportTransports, Status, Summary, Transport,
};
use std::fmt::Write;
use std::net::SocketAddr;
use uuid::Uuid;

/// NVMe over TCP and RDMA.
pub(crate) struct Nvmf;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Export a disk or volume over NVMe in its own subsystem, and print how to connect.
    Nvme {
        /// The disk, or the volume such as tank/vm1.
        disk: String,
        /// The subsystem (default: a name made from the disk's identity).
        #[arg(long)]
        nqn: Option<String>,
        /// Allow this host (its NQN, or `any`); may be given several times.
        #[arg(long, value_name = "HOSTNQN")]
        host: Vec<String>,
        /// Transports over which hosts may connect, separated by commas (default: all).
        #[arg(long, value_delimiter = ',')]
        transport: Vec<Transport>,
    },
    /// Export a disk or volume as a namespace. The subsystem is created if it does not exist.
    Add {
        /// The subsystem, such as nqn.2026-01.org.example:vm1.
        nqn: String,
        /// The disk.
        disk: String,
        /// The namespace's identifier (default: the lowest free one).
        #[arg(long)]
        nsid: Option<u32>,
        /// The namespace's UUID (default: a random one).
        #[arg(long)]
        uuid: Option<Uuid>,
        /// Transports over which hosts may connect to the subsystem, separated by commas (default: all, or as they are).
        #[arg(long, value_delimiter = ',')]
        transport: Vec<Transport>,
    },
    /// Set the transports over which hosts may connect to a subsystem. Sessions over others end.
    Transport {
        /// The subsystem.
        nqn: String,
        /// Transports, separated by commas.
        #[arg(required = true, value_delimiter = ',')]
        transports: Vec<Transport>,
    },
}

#[derive(Args)]
#[group(skip)]
pub(crate) struct NumberArgs {
    /// The namespace (default: the whole subsystem).
    #[arg(long)]
    nsid: Option<u32>,
}

/// The subsystems.
pub(crate) fn exports(exports: &Exports) -> &[Export] {
    &exports.nvmf.exports
}

pub(crate) fn run(ask: &Ask, command: Command) -> Result<String> {
    match command {
        Command::Nvme {
            disk,
            nqn,
            host,
            transport,
        } => {
            let call = ExportNvme {
                disk,
                nqn,
                hosts: host,
                transports: transport,
            };
            export(ask, call)
        }
        Command::Transport { nqn, transports } => {
            let call = SetExportTransports { nqn, transports };
            ask.show(&call, |e| {
                format!("{} is served over {}\n", e.nqn, table::words(&e.transports))
            })
        }
        Command::Add {
            nqn,
            disk,
            nsid,
            uuid,
            transport,
        } => {
            let call = AddExport {
                nqn,
                disk: disk.clone(),
                nsid,
                uuid,
                transports: transport,
            };
            ask.show(&call, |e| exported(e, &disk))
        }
    }
}

/// `wirepool export nvme`.
fn export(ask: &Ask, call: ExportNvme) -> Result<String> {
    let export = ask.client.ask(&call)?;
    // Not the whole status: it has every volume and export.
    let summary = ask.client.ask(&GetSummary {})?;
    ask.print(&export, |e| {
        let lines = e.transports.iter().filter_map(|on| {
            let address = address_of(&summary, *on)?;
            Some(format!("nvme connect {} -n {}\n", at(*on, address), e.nqn))
        });
        exported(e, &call.disk) + &lines.collect::<String>()
    })
}

fn exported(e: &Export, disk: &str) -> String {
    let mut out = String::new();
    if let Some(n) = e.namespaces.iter().find(|n| n.disk == disk) {
        let what = size_or_reason(n.state, n.size, n.reason.as_deref());
        out = format!("{} namespace {}: disk {disk}, {what}\n", e.nqn, n.nsid);
    }
    if e.hosts.is_empty() {
        out += &format!(
            "no host may connect yet: `wirepool host allow {} any`, or a host's NQN\n",
            e.nqn
        );
    }
    out
}

impl Protocol for Nvmf {
    fn word(&self) -> &'static str {
        "nvme"
    }

    fn role(&self, listen: &Listen) -> Option<(&'static str, &'static str)> {
        match (listen.role, listen.transport) {
            (ListenRole::Nvmf(Role::Io), Transport::Tcp) => Some(("io", "NVMe/TCP")),
            (ListenRole::Nvmf(Role::Io), Transport::Rdma) => Some(("rdma", "NVMe/RDMA")),
            (ListenRole::Nvmf(Role::Discovery), _) => Some(("discovery", "discovery")),
            _ => None,
        }
    }

    fn is_export(&self, name: &str) -> bool {
        name.starts_with("nqn.")
    }

    fn number_flag(&self) -> (&'static str, &'static str) {
        ("a subsystem has namespaces", "--nsid")
    }

    fn has_number(&self, args: &RemoveArgs) -> bool {
        args.nvmf.nsid.is_some()
    }

    fn remove(&self, ask: &Ask, nqn: String, args: RemoveArgs) -> Result<String> {
        let nsid = args.nvmf.nsid;
        let text = match nsid {
            Some(nsid) => format!("{nqn} namespace {nsid} is no longer exported\n"),
            None => format!("{nqn} is no longer exported\n"),
        };
        ask.show(&RemoveExport { nqn, nsid }, |_| text)
    }

    fn allow(&self, ask: &Ask, nqn: String, host: String) -> Result<String> {
        ask.show(&AllowHost { nqn, host }, hosts_of)
    }

    fn deny(&self, ask: &Ask, nqn: String, host: String) -> Result<String> {
        ask.show(&DenyHost { nqn, host }, hosts_of)
    }

    fn access_lists(&self, exports: &Exports) -> Vec<(String, Vec<String>)> {
        let all = exports.nvmf.exports.iter();
        all.map(|e| (e.nqn.clone(), e.hosts.clone())).collect()
    }

    fn summaries(&self, exports: &Exports) -> Vec<ExportSummary> {
        let of_export = |e: &Export| ExportSummary {
            name: e.nqn.clone(),
            disks: e
                .namespaces
                .iter()
                .map(|n| (n.disk.clone(), n.state))
                .collect(),
            sessions: Some(e.sessions),
        };
        exports.nvmf.exports.iter().map(of_export).collect()
    }

    fn table(&self, exports: &Exports) -> Option<String> {
        let exports = &exports.nvmf.exports;
        (!exports.is_empty()).then(|| table::exports(exports))
    }

    fn banner(&self, status: &Status) -> String {
        let mut out = String::new();
        for e in &status.exports.nvmf.exports {
            for n in &e.namespaces {
                let what = size_or_reason(n.state, n.size, n.reason.as_deref());
                let _ = writeln!(
                    out,
                    "  {} namespace {}: disk {}, {what}",
                    e.nqn, n.nsid, n.disk
                );
            }
        }
        out
    }

    fn client_lines(&self, status: &Status) -> String {
        let mut out = String::new();
        for on in Transport::ALL {
            let Some(address) = client_address(status, on) else {
                continue;
            };
            let place = at(on, address);
            let _ = writeln!(out, "on a Linux client (modprobe nvme-{}):", on.word());
            let _ = writeln!(out, "  nvme discover {place}");
            let all = status.exports.nvmf.exports.iter();
            for e in all.filter(|e| e.transports.contains(&on)) {
                let _ = writeln!(out, "  nvme connect {place} -n {}", e.nqn);
            }
            if address.ip().is_unspecified() {
                out.push_str("  where ADDRESS is this machine's\n");
            }
        }
        out
    }

    fn has_queues(&self) -> bool {
        true
    }

    fn facts(&self, session: &Session) -> Vec<Fact> {
        let m = &session.summary;
        let keep_alive = match m.keep_alive_timeout_ms {
            0 => "off".to_owned(),
            ms => format!("every {} at most", duration(ms)),
        };
        vec![
            ("protocol", "NVMe".to_owned()),
            ("host", host_name(m).to_owned()),
            ("host ID", m.host_id.clone()),
            ("subsystem", m.export.clone()),
            ("transport", m.transport.clone()),
            (
                "I/O queues",
                format!("{} of {} entries", m.io_queues, m.depth),
            ),
            (
                "keep alive",
                format!(
                    "{keep_alive}; last heard {} ago",
                    duration(m.keep_alive_age_ms)
                ),
            ),
            ("reconnects", m.reconnects.to_string()),
        ]
    }
}

fn hosts_of(e: &Export) -> String {
    hosts(&[(e.nqn.clone(), e.hosts.clone())])
}

/// The address that clients connect to over a transport; one of the loopback interface only if there is no other.
fn client_address(status: &Status, on: Transport) -> Option<SocketAddr> {
    let listening = for_hosts(&status.listen, on);
    let nvmf = &status.exports.nvmf;
    match on {
        Transport::Tcp => nvmf.advertise.first().copied().or(listening),
        Transport::Rdma => listening.map(|l| nvmf.advertise_rdma.first().copied().unwrap_or(l)),
    }
}

/// The same, from the state in short.
fn address_of(summary: &Summary, on: Transport) -> Option<SocketAddr> {
    let listening = for_hosts(&summary.listen, on);
    let told = summary.told.iter().find(|l| serves_hosts(l, on));
    let told = told.map(|l| l.address);
    match on {
        Transport::Tcp => told.or(listening),
        Transport::Rdma => listening.map(|l| told.unwrap_or(l)),
    }
}

fn serves_hosts(l: &Listen, on: Transport) -> bool {
    l.role == ListenRole::Nvmf(Role::Io) && l.transport == on
}

/// The address for hosts among the listening ones; one of the loopback interface only if there is no other.
fn for_hosts(listen: &[Listen], on: Transport) -> Option<SocketAddr> {
    let io = listen.iter().filter(|l| serves_hosts(l, on));
    io.map(|l| l.address).min_by_key(|a| a.ip().is_loopback())
}

/// An address in the form of nvme-cli.
fn at(on: Transport, address: SocketAddr) -> String {
    let ip = match address.ip() {
        ip if ip.is_unspecified() => "ADDRESS".to_owned(),
        ip => ip.to_string(),
    };
    format!("-t {} -a {ip} -s {}", on.word(), address.port())
}
