//! Exports over NFS: `wirepool export nfs`.
//!
//! **Called by** the commands.

mod table;

use super::RemoveArgs;
use super::protocol::{ExportSummary, Fact, Protocol, size_or_reason};
use crate::ask::Ask;
use crate::columns::duration;
use crate::tables::hosts;
use anyhow::Result;
use clap::{Args, Subcommand};
pub(crate) use server::api::NfsExport as Export;
use server::api::{
    AllowNfs, DenyNfs, ExportNfs, Exports, GetStatus, Listen, ListenRole, NamespaceState,
    NfsRole as Role, RemoveNfs, Session, Status,
};
use std::fmt::Write;
use std::net::SocketAddr;

/// The port of NFS, which clients use without `port=`.
const PORT: u16 = 2049;
/// Most connections that a Linux client makes (`nconnect` of nfs(5)).
const NCONNECT_MAX: usize = 16;

/// NFS.
pub(crate) struct Nfs;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Export a filesystem over NFS, or set rights of clients of its export, and print how to mount it.
    #[command(after_help = "\
A client is an address, a network such as 10.0.0.0/24, the name of a host, @NETGROUP (of /etc/netgroup), or `*`, with options
behind a colon: ro (default), rw, squash=none|root|all (default: root), anonuid=N, anongid=N, xprtsec=none|tls|mtls (default: none,
which allows connections with and without TLS), secure (default: ports below 1024 only) or insecure. The most specific one applies.

Examples:
  wirepool export nfs tank/home --client 10.0.0.0/24:rw --client @lab:ro,squash=all
  wirepool export nfs tank/home --client 10.0.0.7:rw,squash=none       adds a client
  wirepool export nfs tank/home --xprtsec tls                          all clients must use TLS, see [nfs.tls]
  wirepool host deny /tank/home 10.0.0.7                               removes it
  wirepool export remove /tank/home")]
    Nfs {
        /// The filesystem, such as tank/home.
        filesystem: String,
        /// A client with its rights, such as 10.0.0.0/24:rw; may be given several times.
        #[arg(long, value_name = "CLIENT[:OPTIONS]")]
        client: Vec<String>,
        /// The path that clients mount (default: / and the filesystem's name).
        #[arg(long)]
        path: Option<String>,
        /// The protection that the named clients must use, or all clients if none is named: none, tls, or mtls (TLS with a certificate).
        #[arg(long, value_name = "none|tls|mtls")]
        xprtsec: Option<String>,
    },
}

/// An export has no numbers.
#[derive(Args)]
#[group(skip)]
pub(crate) struct NumberArgs {}

/// The exports.
pub(crate) fn exports(exports: &Exports) -> &[Export] {
    &exports.nfs.nfs_exports
}

pub(crate) fn run(ask: &Ask, command: Command) -> Result<String> {
    let Command::Nfs {
        filesystem,
        client,
        path,
        xprtsec,
    } = command;
    let call = ExportNfs {
        filesystem,
        path,
        clients: client,
        xprtsec,
    };
    let export = ask.client.ask(&call)?;
    let status = ask.client.ask(&GetStatus {})?;
    ask.print(&export, |e| exported(e) + &mount_line(&status, e))
}

fn exported(e: &Export) -> String {
    let mut out = String::new();
    let _ = match (e.state, e.reason.as_deref()) {
        (NamespaceState::Served, _) => {
            writeln!(
                out,
                "{}: filesystem {}, {}",
                e.path,
                e.filesystem,
                clients(e)
            )
        }
        (state, reason) => {
            let reason = size_or_reason(state, 0, reason);
            writeln!(out, "{}: filesystem {}, {reason}", e.path, e.filesystem)
        }
    };
    if e.clients.is_empty() {
        let _ = writeln!(
            out,
            "no client may mount it yet: `wirepool host allow {} '*:rw'`, or a client such as 10.0.0.0/24:rw",
            e.path
        );
    }
    out
}

fn clients(e: &Export) -> String {
    match e.clients.is_empty() {
        true => "no clients".to_owned(),
        false => e.clients.join(" "),
    }
}

/// The command with which a Linux client mounts an export: as many connections as the server has shards, and the longest reads and
/// writes of the server.
fn mount_line(status: &Status, e: &Export) -> String {
    let Some(address) = e.addresses.first() else {
        return "NFS is off: give [nfs] listen an address and restart the server\n".to_owned();
    };
    let mut options = format!("hard,rsize={0},wsize={0}", e.transfer_max);
    let connections = status.shards.len().min(NCONNECT_MAX);
    if connections > 1 {
        let _ = write!(options, ",nconnect={connections}");
    }
    if !matches!(e.xprtsec.as_str(), "" | "none") {
        let _ = write!(options, ",xprtsec={}", e.xprtsec);
    }
    if address.port() != PORT {
        let _ = write!(options, ",port={}", address.port());
    }
    let mut out = format!(
        "mount -t nfs -o {options} {}:{} /mnt\n",
        server(*address),
        e.path
    );
    if address.ip().is_unspecified() {
        out += "where ADDRESS is this machine's\n";
    }
    out
}

/// An address in the form of mount.nfs.
fn server(address: SocketAddr) -> String {
    match address {
        address if address.ip().is_unspecified() => "ADDRESS".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}

fn hosts_of(e: &Export) -> String {
    hosts(&[(e.path.clone(), e.clients.clone())])
}

impl Protocol for Nfs {
    fn word(&self) -> &'static str {
        "nfs"
    }

    fn role(&self, listen: &Listen) -> Option<(&'static str, &'static str)> {
        match listen.role {
            ListenRole::Nfs(Role::Nfs) => Some(("nfs", "NFS")),
            _ => None,
        }
    }

    /// A path, or a filesystem.
    fn is_export(&self, name: &str) -> bool {
        name.contains('/')
    }

    fn number_flag(&self) -> (&'static str, &'static str) {
        ("an NFS export has no numbers", "no flag")
    }

    fn has_number(&self, _args: &RemoveArgs) -> bool {
        false
    }

    fn remove(&self, ask: &Ask, name: String, _args: RemoveArgs) -> Result<String> {
        let text = format!("{name} is no longer exported\n");
        ask.show(&RemoveNfs { export: name }, |_| text)
    }

    fn allow(&self, ask: &Ask, export: String, client: String) -> Result<String> {
        ask.show(&AllowNfs { export, client }, hosts_of)
    }

    fn deny(&self, ask: &Ask, export: String, client: String) -> Result<String> {
        ask.show(&DenyNfs { export, client }, hosts_of)
    }

    fn access_lists(&self, exports: &Exports) -> Vec<(String, Vec<String>)> {
        let all = exports.nfs.nfs_exports.iter();
        all.map(|e| (e.path.clone(), e.clients.clone())).collect()
    }

    fn summaries(&self, exports: &Exports) -> Vec<ExportSummary> {
        let of_export = |e: &Export| ExportSummary {
            name: e.path.clone(),
            disks: vec![(e.filesystem.clone(), e.state)],
            sessions: None,
        };
        exports.nfs.nfs_exports.iter().map(of_export).collect()
    }

    fn table(&self, exports: &Exports) -> Option<String> {
        let exports = &exports.nfs.nfs_exports;
        (!exports.is_empty()).then(|| table::exports(exports))
    }

    fn banner(&self, status: &Status) -> String {
        let all = status.exports.nfs.nfs_exports.iter();
        all.map(|e| format!("  {}", exported(e))).collect()
    }

    fn client_lines(&self, status: &Status) -> String {
        let on = |e: &&Export| !e.addresses.is_empty();
        let all = status.exports.nfs.nfs_exports.iter().filter(on);
        let lines: Vec<String> = all.map(|e| mount_line(status, e)).collect();
        if lines.is_empty() {
            return String::new();
        }
        let mut out = String::from("on a Linux client with nfs-common or nfs-utils:\n");
        for line in lines.iter().flat_map(|lines| lines.lines()) {
            let _ = writeln!(out, "  {line}");
        }
        out
    }

    fn has_queues(&self) -> bool {
        false
    }

    fn facts(&self, session: &Session) -> Vec<Fact> {
        let m = &session.summary;
        let mut facts = vec![
            ("protocol", "NFS".to_owned()),
            ("client", m.client.clone()),
            ("client ID", m.host_id.clone()),
            ("transport", m.transport.clone()),
            (
                "lease",
                format!(
                    "{}; renewed {} ago",
                    duration(m.keep_alive_timeout_ms),
                    duration(m.keep_alive_age_ms)
                ),
            ),
        ];
        let values = session.facts.nfs.nfs.as_ref();
        facts.extend(values.into_iter().flat_map(table::facts));
        facts
    }
}
