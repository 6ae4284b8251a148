//! iSCSI targets: `wirepool export iscsi`, `chap`, `discovery-chap` and `move`.
//!
//! **Called by** the commands. **Invariants**: a secret is never part of a command line, of the output, or of an
//! error.

use crate::cli_export::{IscsiArgs, SecretArgs};
use crate::commands::Ask;
use crate::table_targets as table;
use anyhow::{Context, Result, bail};
use console::Term;
use serde::Serialize;
use server::ByteSize;
use server::api::{
    AllowInitiator, Chap, Credential, DenyInitiator, Export, ExportIscsi, IscsiTarget, ListExports,
    ListTargets, MoveTarget, NamespaceState, RemoveTarget, SecretText, SetChap, SetDiscoveryChap,
    Status,
};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

/// Maximum length of a secret's file, bytes.
const SECRET_FILE_LEN_MAX: u64 = 4096;

/// Whether a name is an iSCSI name and not an NQN.
pub(crate) fn is_target(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["iqn.", "eui.", "naa."]
        .iter()
        .any(|prefix| lower.starts_with(prefix))
}

/// `wirepool export iscsi`.
pub(crate) fn export(ask: &Ask, args: IscsiArgs) -> Result<String> {
    let chap = secrets(args.chap, &args.secrets)?;
    let call = ExportIscsi {
        disk: args.disk.clone(),
        iqn: args.iqn,
        lun: args.lun,
        uuid: None,
        read_only: args.read_only,
        threshold: args.threshold,
        initiators: args.initiator,
        chap,
    };
    let target = ask.client.ask(&call)?;
    ask.print(&target, |t| exported(t, &args.disk) + &login(t))
}

/// `wirepool export chap`.
pub(crate) fn chap(
    ask: &Ask,
    iqn: String,
    user: Option<String>,
    from: &SecretArgs,
) -> Result<String> {
    let chap = secrets(user, from)?;
    ask.show(&SetChap { iqn, chap }, |t| match &t.chap {
        Some(user) => {
            let ours = t.chap_mutual.as_ref();
            let ours = ours.map_or(String::new(), |n| format!(", and the target as {n}"));
            format!(
                "CHAP for {}: initiators authenticate as {user}{ours}\n",
                t.iqn
            )
        }
        None => format!("CHAP for {} is off\n", t.iqn),
    })
}

/// `wirepool export discovery-chap`.
pub(crate) fn discovery_chap(ask: &Ask, user: Option<String>, from: &SecretArgs) -> Result<String> {
    let text = match &user {
        Some(user) => {
            format!("CHAP for discovery: initiators authenticate as {user}\n")
        }
        None => "initiators hear of targets without proving anything\n".to_owned(),
    };
    let chap = secrets(user, from)?;
    ask.show(&SetDiscoveryChap { chap }, |_| text)
}

/// `wirepool export move`.
pub(crate) fn relocate(
    ask: &Ask,
    iqn: String,
    to: Option<String>,
    permanently: bool,
) -> Result<String> {
    let call = MoveTarget {
        iqn,
        to,
        permanently,
    };
    ask.show(&call, |t| match &t.moved_to {
        Some(to) => format!("logins of {} are redirected to {to}\n", t.iqn),
        None => format!("logins of {} are not redirected\n", t.iqn),
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

/// The CHAP names and secrets, if there is a name.
fn secrets(user: Option<String>, from: &SecretArgs) -> Result<Option<Chap>> {
    let Some(user) = user else {
        if from.secret_file.is_some() || from.mutual.is_some() {
            bail!("a secret needs a CHAP name: use --chap USER");
        }
        return Ok(None);
    };
    let secret = secret(&user, from.secret_file.as_deref())?;
    let mutual = from.mutual.clone().map(|user| {
        let secret = self::secret(&user, from.mutual_secret_file.as_deref())?;
        anyhow::Ok(Credential { user, secret })
    });
    Ok(Some(Chap {
        user,
        secret,
        mutual: mutual.transpose()?,
    }))
}

/// Reads the secret from its file, or asks for it twice.
fn secret(user: &str, file: Option<&Path>) -> Result<SecretText> {
    let secret = match file {
        Some(path) => secret_in(path)?,
        None => secret_asked(user)?,
    };
    Ok(SecretText(secret))
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
        bail!("the secret in {} is not UTF-8 text", path.display());
    };
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn secret_asked(user: &str) -> Result<String> {
    let terminal = Term::stderr();
    if !terminal.is_term() {
        bail!("no terminal to read the secret from: use --secret-file");
    }
    let ask = |question: String| -> Result<String> {
        terminal.write_str(&question)?;
        Ok(terminal.read_secure_line()?)
    };
    let secret = ask(format!("CHAP secret of {user}: "))?;
    if ask("once more: ".to_owned())? != secret {
        bail!("the secrets differ: nothing was changed");
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

/// The targets, for the banner of `serve`.
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

/// A portal in the form of iscsiadm.
fn shown(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("ADDRESS:{}", address.port()),
        false => address.to_string(),
    }
}

/// The commands with which a Linux initiator logs in.
fn login(t: &IscsiTarget) -> String {
    let Some(address) = t.portals.first() else {
        return "iSCSI is off: give [iscsi] listen an address and restart the server\n".to_owned();
    };
    let portal = shown(*address);
    let mut out = format!("iscsiadm -m discovery -t sendtargets -p {portal}\n");
    let node = format!("iscsiadm -m node -T {} -p {portal}", t.iqn);
    if let Some(user) = &t.chap {
        let set = |name: &str, value: &str| {
            format!("{node} -o update -n node.session.auth.{name} -v {value}\n")
        };
        out += &set("authmethod", "CHAP");
        out += &set("username", user);
        out += &set("password", "SECRET");
        if let Some(ours) = &t.chap_mutual {
            out += &set("username_in", ours);
            out += &set("password_in", "SECRET_OF_THE_TARGET");
        }
    }
    out += &format!("{node} --login\n");
    if address.ip().is_unspecified() {
        out += "where ADDRESS is this machine's\n";
    }
    out
}

/// These commands for the banner of `serve`; empty without targets.
pub(crate) fn login_lines(status: &Status) -> String {
    let mut out = String::new();
    let on = |t: &&IscsiTarget| !t.portals.is_empty();
    for t in status.targets.iter().filter(on) {
        for line in login(t).lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    if out.is_empty() {
        return out;
    }
    format!("on a Linux client with open-iscsi:\n{out}")
}
