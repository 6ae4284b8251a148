//! iSCSI targets: `wirepool export iscsi` and what goes with it.
//!
//! **Called by** the commands. **Invariants**: a secret is never part of a command line, of the output, or of an error.

use crate::cli_export::IscsiArgs;
use crate::commands::Ask;
use crate::table_targets as table;
use anyhow::{Context, Result, bail};
use console::Term;
use serde::Serialize;
use server::ByteSize;
use server::api::{
    AllowInitiator, Chap, DenyInitiator, Export, ExportIscsi, GetStatus, IscsiTarget, ListExports,
    ListTargets, ListenRole, NamespaceState, RemoveTarget, SecretText, SetChap, Status,
};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A secret's file is not read beyond this, bytes.
const SECRET_FILE_LEN_MAX: u64 = 4096;

/// Whether a name is one of iSCSI and not of NVMe.
pub(crate) fn is_target(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["iqn.", "eui.", "naa."]
        .iter()
        .any(|prefix| lower.starts_with(prefix))
}

/// `wirepool export iscsi`.
pub(crate) fn export(ask: &Ask, args: IscsiArgs) -> Result<String> {
    let chap = match args.chap {
        Some(user) => Some(credential(user, args.secret_file.as_deref())?),
        None => None,
    };
    let call = ExportIscsi {
        disk: args.disk.clone(),
        iqn: args.iqn,
        lun: args.lun,
        uuid: None,
        read_only: args.read_only,
        initiators: args.initiator,
        chap,
    };
    let target = ask.client.ask(&call)?;
    let status = ask.client.ask(&GetStatus {})?;
    ask.print(&target, |t| exported(t, &args.disk) + &login(&status, t))
}

/// `wirepool export chap`.
pub(crate) fn chap(
    ask: &Ask,
    iqn: String,
    user: Option<String>,
    secret_file: Option<PathBuf>,
) -> Result<String> {
    let chap = match user {
        Some(user) => Some(credential(user, secret_file.as_deref())?),
        None => None,
    };
    ask.show(&SetChap { iqn, chap }, |t| match &t.chap {
        Some(user) => format!("initiators of {} prove themselves as {user}\n", t.iqn),
        None => format!("initiators of {} prove nothing\n", t.iqn),
    })
}

/// `wirepool export remove` of a target.
pub(crate) fn remove(ask: &Ask, iqn: String, lun: Option<u16>) -> Result<String> {
    let text = match lun {
        Some(lun) => format!("{iqn} LUN {lun} is no longer exported\n"),
        None => format!("{iqn} is no longer exported\n"),
    };
    ask.show(&RemoveTarget { iqn, lun }, |_| text)
}

/// A subsystem or a target.
#[derive(Serialize)]
#[serde(untagged)]
enum Exported<'a> {
    Subsystem(&'a Export),
    Target(&'a IscsiTarget),
}

/// `wirepool export list`.
pub(crate) fn list(ask: &Ask) -> Result<String> {
    let exports = ask.client.ask(&ListExports {})?;
    let targets = ask.client.ask(&ListTargets {})?;
    let subsystems = exports.iter().map(Exported::Subsystem);
    let all: Vec<_> = subsystems
        .chain(targets.iter().map(Exported::Target))
        .collect();
    ask.print(&all, |_| table::exports(&exports, &targets))
}

/// `wirepool host allow` for a target.
pub(crate) fn allow(ask: &Ask, iqn: String, initiator: String) -> Result<String> {
    ask.show(&AllowInitiator { iqn, initiator }, initiators)
}

/// `wirepool host deny` for a target.
pub(crate) fn deny(ask: &Ask, iqn: String, initiator: String) -> Result<String> {
    ask.show(&DenyInitiator { iqn, initiator }, initiators)
}

fn initiators(t: &IscsiTarget) -> String {
    crate::table::hosts(&[(t.iqn.clone(), t.initiators.clone())])
}

/// Reads the secret from its file, or asks for it twice.
fn credential(user: String, file: Option<&Path>) -> Result<Chap> {
    let secret = match file {
        Some(path) => secret_in(path)?,
        None => secret_asked(&user)?,
    };
    Ok(Chap {
        user,
        secret: SecretText(secret),
    })
}

fn secret_in(path: &Path) -> Result<String> {
    let read = || format!("reading the secret from {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .with_context(read)?
        .take(SECRET_FILE_LEN_MAX)
        .read_to_end(&mut bytes)
        .with_context(read)?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("the secret in {} is no UTF-8 text", path.display());
    };
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn secret_asked(user: &str) -> Result<String> {
    let terminal = Term::stderr();
    if !terminal.is_term() {
        bail!("there is no terminal to ask for the secret on: give --secret-file");
    }
    let ask = |question: String| -> Result<String> {
        terminal.write_str(&question)?;
        Ok(terminal.read_secure_line()?)
    };
    let secret = ask(format!("CHAP secret of {user}: "))?;
    if ask("once more: ".to_owned())? != secret {
        bail!("the two are not the same: nothing is changed");
    }
    Ok(secret)
}

fn exported(t: &IscsiTarget, disk: &str) -> String {
    let mut out = String::new();
    for l in t.luns.iter().filter(|l| l.disk == disk) {
        let what = match l.state {
            NamespaceState::Served => ByteSize(l.size).human(),
            NamespaceState::Held => {
                format!("held back: {}", l.reason.as_deref().unwrap_or("not known"))
            }
        };
        let _ = writeln!(out, "{} LUN {}: disk {disk}, {what}", t.iqn, l.lun);
    }
    if t.initiators.is_empty() {
        let _ = writeln!(
            out,
            "no initiator may log in yet: `wirepool host allow {} any`, or an initiator's name",
            t.iqn
        );
    }
    out
}

/// What is served, for the banner of `serve`.
pub(crate) fn served(targets: &[IscsiTarget]) -> String {
    let mut out = String::new();
    for t in targets {
        for l in &t.luns {
            let what = match l.state {
                NamespaceState::Served => ByteSize(l.size).human(),
                NamespaceState::Held => {
                    format!("held back: {}", l.reason.as_deref().unwrap_or("not known"))
                }
            };
            let _ = writeln!(out, "  {} LUN {}: disk {}, {what}", t.iqn, l.lun, l.disk);
        }
    }
    out
}

/// Where initiators of a target come to.
fn portal(status: &Status, group: u16) -> Option<SocketAddr> {
    let ours =
        |l: &&server::api::Listen| l.role == ListenRole::Iscsi && l.portal_group == Some(group);
    status.listen.iter().find(ours).map(|l| l.address)
}

/// A portal as iscsiadm takes it.
fn shown(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("ADDRESS:{}", address.port()),
        false => address.to_string(),
    }
}

/// The commands with which a Linux initiator logs in.
fn login(status: &Status, t: &IscsiTarget) -> String {
    let Some(address) = portal(status, t.portal_group) else {
        return "iSCSI is off: give [iscsi] listen an address and restart the server\n".to_owned();
    };
    let portal = shown(address);
    let mut out = format!("iscsiadm -m discovery -t sendtargets -p {portal}\n");
    let node = format!("iscsiadm -m node -T {} -p {portal}", t.iqn);
    if let Some(user) = &t.chap {
        let set = |name: &str, value: &str| {
            format!("{node} -o update -n node.session.auth.{name} -v {value}\n")
        };
        out += &set("authmethod", "CHAP");
        out += &set("username", user);
        out += &set("password", "SECRET");
    }
    out += &format!("{node} --login\n");
    if address.ip().is_unspecified() {
        out += "where ADDRESS is this machine's\n";
    }
    out
}

/// The same for the banner of `serve`; nothing if there are no targets.
pub(crate) fn login_lines(status: &Status) -> String {
    let mut out = String::new();
    let on = |t: &&IscsiTarget| portal(status, t.portal_group).is_some();
    for t in status.targets.iter().filter(on) {
        for line in login(status, t).lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("on a Linux client with open-iscsi:\n{out}")
}
