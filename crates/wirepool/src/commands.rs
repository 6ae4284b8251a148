//! Subcommands of a running server.
//!
//! **Called by** `main`. **Invariants**: each is one request; the result is text, or the answer's JSON.

use crate::cli::{ControlCommand, DiskAdd, DiskCommand, SessionCommand};
use crate::cli_export::{ExportCommand, HostCommand};
use crate::client::Client;
use crate::{pools, records, snapshots, table, targets};
use anyhow::{Result, bail};
use serde::Serialize;
use server::ByteSize;
use server::api::{
    AddDisk, AddExport, AllowHost, Call, DenyHost, EndSession, Export, GetStatus, ListDisks,
    ListExports, ListSessions, ListTargets, NamespaceState, NewMedium, RemoveDisk, RemoveExport,
    ResizeDisk, ShowSession,
};
use std::path::{Path, PathBuf};

/// Runs one command; returns its output.
pub(crate) fn run(command: ControlCommand, control: Option<PathBuf>, json: bool) -> Result<String> {
    let ask = Ask {
        client: Client::new(control, json),
        json,
    };
    match command {
        ControlCommand::Status => ask.show(&GetStatus {}, table::status),
        ControlCommand::Session(command) => session(&ask, command),
        ControlCommand::Disk(command) => disk(&ask, command),
        ControlCommand::Pool(command) => pools::pool(&ask, command),
        ControlCommand::Volume(command) => pools::volume(&ask, command),
        ControlCommand::Snapshot(command) => snapshots::snapshot(&ask, command),
        ControlCommand::Clone { snapshot, clone } => snapshots::clone(&ask, snapshot, clone),
        ControlCommand::Get { properties, names } => records::get(&ask, &properties, names),
        ControlCommand::Set { assignment, name } => records::set(&ask, &assignment, name),
        ControlCommand::Export(command) => export(&ask, command),
        ControlCommand::Host(command) => host(&ask, command),
    }
}

pub(crate) struct Ask {
    pub(crate) client: Client,
    json: bool,
}

impl Ask {
    /// Sends a request and formats the answer.
    pub(crate) fn show<C: Call>(
        &self,
        call: &C,
        text: impl FnOnce(&C::Reply) -> String,
    ) -> Result<String> {
        let reply = self.client.ask(call)?;
        self.print(&reply, text)
    }

    /// One part of a continuous output: JSON has one line for it.
    pub(crate) fn line<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<String> {
        if self.json {
            return Ok(exact(&serde_json::to_string(value)?));
        }
        Ok(text(value))
    }

    pub(crate) fn print<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<String> {
        if self.json {
            return Ok(exact(&serde_json::to_string_pretty(value)?));
        }
        Ok(text(value))
    }
}

/// JSON output: exact, and with control characters escaped.
pub(crate) fn exact(json: &str) -> String {
    io::printable::json(json).into_owned() + "\n"
}

fn session(ask: &Ask, command: SessionCommand) -> Result<String> {
    match command {
        SessionCommand::List => ask.show(&ListSessions {}, |s| table::sessions(s)),
        SessionCommand::Show { id } => ask.show(&ShowSession { id }, table::session),
        SessionCommand::End { id } => {
            ask.show(&EndSession { id }, |_| format!("session {id} ended\n"))
        }
    }
}

fn disk(ask: &Ask, command: DiskCommand) -> Result<String> {
    match command {
        DiskCommand::Add(args) => {
            let name = args.name.clone();
            ask.show(&add_disk(args)?, |d| {
                format!(
                    "disk {name}: {}, blocks of {} bytes\n",
                    ByteSize(d.size).human(),
                    d.block_size
                )
            })
        }
        DiskCommand::List => ask.show(&ListDisks {}, |d| table::disks(d)),
        DiskCommand::Resize { name, size, shrink } => {
            let call = ResizeDisk { name, size, shrink };
            ask.show(&call, |d| {
                format!("disk {}: now {}\n", d.name, ByteSize(d.size).human())
            })
        }
        DiskCommand::Remove { name } => {
            let text = format!(
                "disk {name} is closed and no longer in the configuration; its data stays\n"
            );
            ask.show(&RemoveDisk { name }, |_| text)
        }
    }
}

fn add_disk(args: DiskAdd) -> Result<AddDisk> {
    let absolute = |path: &Path| std::path::absolute(path);
    let DiskAdd {
        name,
        medium,
        size,
        buffered,
        block_size,
        read_only,
    } = args;
    let medium = match (medium.file, medium.block, medium.mem, medium.null) {
        (Some(path), ..) => NewMedium::File {
            path: absolute(&path)?,
            size,
            buffered,
        },
        (_, Some(path), ..) => NewMedium::Block {
            path: absolute(&path)?,
        },
        (_, _, Some(size), _) => NewMedium::Mem { size },
        (_, _, _, Some(size)) => NewMedium::Null { size },
        _ => bail!("the kind of disk is missing: use --file, --block, --mem or --null"),
    };
    let block_size = block_size.map(|b| b.parse()).transpose()?;
    Ok(AddDisk {
        name,
        medium,
        block_size,
        read_only,
    })
}

fn export(ask: &Ask, command: ExportCommand) -> Result<String> {
    match command {
        ExportCommand::Nvme { disk, nqn, host } => pools::export_nvme(ask, disk, nqn, host),
        ExportCommand::Add {
            nqn,
            disk,
            nsid,
            uuid,
        } => {
            let call = AddExport {
                nqn,
                disk: disk.clone(),
                nsid,
                uuid,
            };
            ask.show(&call, |e| exported(e, &disk))
        }
        ExportCommand::Iscsi(args) => targets::export(ask, args),
        ExportCommand::Chap {
            iqn, user, secrets, ..
        } => targets::chap(ask, iqn, user, &secrets),
        ExportCommand::DiscoveryChap { user, secrets, .. } => {
            targets::discovery_chap(ask, user, &secrets)
        }
        ExportCommand::Move {
            iqn,
            to,
            permanently,
            ..
        } => targets::relocate(ask, iqn, to, permanently),
        ExportCommand::Remove { name, nsid, lun } if targets::is_target(&name) => {
            if nsid.is_some() {
                pools::usage("a target has LUNs: --lun, not --nsid");
            }
            targets::remove(ask, name, lun)
        }
        ExportCommand::Remove {
            name: nqn,
            nsid,
            lun,
        } => {
            if lun.is_some() {
                pools::usage("a subsystem has namespaces: --nsid, not --lun");
            }
            let text = match nsid {
                Some(nsid) => format!("{nqn} namespace {nsid} is no longer exported\n"),
                None => format!("{nqn} is no longer exported\n"),
            };
            ask.show(&RemoveExport { nqn, nsid }, |_| text)
        }
        ExportCommand::List => targets::list(ask),
    }
}

pub(crate) fn exported(e: &Export, disk: &str) -> String {
    let mut out = String::new();
    if let Some(n) = e.namespaces.iter().find(|n| n.disk == disk) {
        out = format!(
            "{} namespace {}: disk {disk}, {}\n",
            e.nqn,
            n.nsid,
            ByteSize(n.size).human()
        );
        if n.state == NamespaceState::Held {
            let reason = n.reason.as_deref().unwrap_or("not known");
            out = format!(
                "{} namespace {}: disk {disk}, held back: {reason}\n",
                e.nqn, n.nsid
            );
        }
    }
    if e.hosts.is_empty() {
        out += &format!(
            "no host may connect yet: `wirepool host allow {} any`, or a host's NQN\n",
            e.nqn
        );
    }
    out
}

/// The list of hosts of one subsystem, or of initiators of one target.
#[derive(Serialize)]
struct Hosts {
    nqn: String,
    hosts: Vec<String>,
}

fn host(ask: &Ask, command: HostCommand) -> Result<String> {
    let hosts = |e: &Export| table::hosts(&[(e.nqn.clone(), e.hosts.clone())]);
    match command {
        HostCommand::Allow { name, host } if targets::is_target(&name) => {
            targets::allow(ask, name, host)
        }
        HostCommand::Deny { name, host } if targets::is_target(&name) => {
            targets::deny(ask, name, host)
        }
        HostCommand::Allow { name: nqn, host } => ask.show(&AllowHost { nqn, host }, hosts),
        HostCommand::Deny { name: nqn, host } => ask.show(&DenyHost { nqn, host }, hosts),
        HostCommand::List => {
            let exports = ask.client.ask(&ListExports {})?;
            let targets = ask.client.ask(&ListTargets {})?;
            let of_exports = exports.into_iter().map(|e| (e.nqn, e.hosts));
            let of_targets = targets.into_iter().map(|t| (t.iqn, t.initiators));
            let list: Vec<_> = of_exports
                .chain(of_targets)
                .map(|(nqn, hosts)| Hosts { nqn, hosts })
                .collect();
            ask.print(&list, |l| {
                let rows: Vec<_> = l.iter().map(|h| (h.nqn.clone(), h.hosts.clone())).collect();
                table::hosts(&rows)
            })
        }
    }
}
