//! iSCSI targets: `wirepool export iscsi`, `chap`, `discovery-chap` and `move`.
//!
//! **Called by** the commands. **Invariants**: a secret is never part of a command line, of the output, or of an
//! error.

mod table;

use super::RemoveArgs;
use super::protocol::{ExportSummary, Fact, Protocol, size_or_reason};
use crate::ask::Ask;
use crate::tables::hosts;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use console::Term;
pub(crate) use server::api::IscsiTarget as Export;
use server::api::{
    AllowInitiator, Chap, Credential, DenyInitiator, ExportIscsi, Exports, IscsiRole as Role,
    IscsiTarget, Listen, ListenRole, MoveTarget, RemoveTarget, SecretText, Session, SetChap,
    SetDiscoveryChap, Status, Transport,
};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Maximum length of a secret's file, bytes.
const SECRET_FILE_LEN_MAX: u64 = 4096;

/// iSCSI.
pub(crate) struct Iscsi;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Export a disk or volume over iSCSI, by default in its own target, and print how to log in.
    #[command(after_help = "\
Examples:
  wirepool export iscsi tank/vm1 --initiator any
  wirepool export iscsi tank/vm1 --initiator iqn.1993-08.org.debian:01:abc --chap alice   reads the secret from the terminal
  wirepool export iscsi tank/vm2 --iqn iqn.2026-01.org.example:vms                        a LUN of an existing target")]
    Iscsi(IscsiArgs),
    /// Set the CHAP authentication of a target's initiators.
    Chap {
        /// The target.
        iqn: String,
        /// The CHAP name of the initiators; the secret is read from the terminal.
        #[arg(required_unless_present = "off", conflicts_with = "off")]
        user: Option<String>,
        #[command(flatten)]
        secrets: SecretArgs,
        /// Turn CHAP off.
        #[arg(long)]
        off: bool,
    },
    /// Set the CHAP authentication of discovery sessions (SendTargets).
    DiscoveryChap {
        /// The CHAP name of the initiators; the secret is read from the terminal.
        #[arg(required_unless_present = "off", conflicts_with = "off")]
        user: Option<String>,
        #[command(flatten)]
        secrets: SecretArgs,
        /// Turn CHAP off.
        #[arg(long)]
        off: bool,
    },
    /// Redirect logins of a target to another address. Present sessions stay.
    Move {
        /// The target.
        iqn: String,
        /// The new address or name, with an optional port.
        #[arg(required_unless_present = "back", conflicts_with = "back")]
        to: Option<String>,
        /// Redirect permanently: initiators remember the new address.
        #[arg(long, conflicts_with = "back")]
        permanently: bool,
        /// End the redirection.
        #[arg(long)]
        back: bool,
    },
}

/// Arguments of `export iscsi`.
#[derive(Args)]
pub(crate) struct IscsiArgs {
    /// The disk, or the volume such as tank/vm1.
    pub(crate) disk: String,
    /// The target (default: a name made from the disk's identity).
    #[arg(long)]
    pub(crate) iqn: Option<String>,
    /// The logical unit's number (default: the lowest free one).
    #[arg(long)]
    pub(crate) lun: Option<u16>,
    /// Read-only: refuse writes.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Warn initiators when this percentage of the disk, or of the volume's pool, is used (thin provisioning
    /// threshold).
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) threshold: Option<u8>,
    /// Allow this initiator (its name, or `any`); may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) initiator: Vec<String>,
    /// The CHAP name of the initiators; the secret is read from the terminal.
    #[arg(long, value_name = "USER")]
    pub(crate) chap: Option<String>,
    #[command(flatten)]
    pub(crate) secrets: SecretArgs,
}

/// Sources of CHAP secrets. A secret is never part of a command line.
#[derive(Args)]
pub(crate) struct SecretArgs {
    /// Read the secret from this file. A newline at its end is ignored.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Mutual CHAP: the name with which this server authenticates itself to initiators that ask for it; it has a
    /// secret of its own.
    #[arg(long, value_name = "NAME")]
    pub(crate) mutual: Option<String>,
    /// Read the secret of mutual CHAP from this file.
    #[arg(long, value_name = "FILE", requires = "mutual")]
    pub(crate) mutual_secret_file: Option<PathBuf>,
}

#[derive(Args)]
#[group(skip)]
pub(crate) struct NumberArgs {
    /// The logical unit (default: the whole target).
    #[arg(long)]
    lun: Option<u16>,
}

/// The targets.
pub(crate) fn exports(exports: &Exports) -> &[Export] {
    &exports.iscsi.targets
}

pub(crate) fn run(ask: &Ask, command: Command) -> Result<String> {
    match command {
        Command::Iscsi(args) => export(ask, args),
        Command::Chap {
            iqn, user, secrets, ..
        } => chap(ask, iqn, user, &secrets),
        Command::DiscoveryChap { user, secrets, .. } => discovery_chap(ask, user, &secrets),
        Command::Move {
            iqn,
            to,
            permanently,
            ..
        } => relocate(ask, iqn, to, permanently),
    }
}

/// `wirepool export iscsi`.
fn export(ask: &Ask, args: IscsiArgs) -> Result<String> {
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
fn chap(ask: &Ask, iqn: String, user: Option<String>, from: &SecretArgs) -> Result<String> {
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
fn discovery_chap(ask: &Ask, user: Option<String>, from: &SecretArgs) -> Result<String> {
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
fn relocate(ask: &Ask, iqn: String, to: Option<String>, permanently: bool) -> Result<String> {
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

impl Protocol for Iscsi {
    fn word(&self) -> &'static str {
        "iscsi"
    }

    fn role(&self, listen: &Listen) -> Option<(&'static str, &'static str)> {
        match (listen.role, listen.transport) {
            (ListenRole::Iscsi(Role::Iscsi), Transport::Tcp) => Some(("iscsi", "iSCSI")),
            (ListenRole::Iscsi(Role::Iscsi), Transport::Rdma) => Some(("iser", "iSER")),
            _ => None,
        }
    }

    fn is_export(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        ["iqn.", "eui.", "naa."]
            .iter()
            .any(|prefix| lower.starts_with(prefix))
    }

    fn number_flag(&self) -> (&'static str, &'static str) {
        ("a target has LUNs", "--lun")
    }

    fn has_number(&self, args: &RemoveArgs) -> bool {
        args.iscsi.lun.is_some()
    }

    fn remove(&self, ask: &Ask, iqn: String, args: RemoveArgs) -> Result<String> {
        let lun = args.iscsi.lun;
        let text = match lun {
            Some(lun) => format!("{iqn} LUN {lun} is no longer exported\n"),
            None => format!("{iqn} is no longer exported\n"),
        };
        ask.show(&RemoveTarget { iqn, lun }, |_| text)
    }

    fn allow(&self, ask: &Ask, iqn: String, initiator: String) -> Result<String> {
        ask.show(&AllowInitiator { iqn, initiator }, initiators)
    }

    fn deny(&self, ask: &Ask, iqn: String, initiator: String) -> Result<String> {
        ask.show(&DenyInitiator { iqn, initiator }, initiators)
    }

    fn access_lists(&self, exports: &Exports) -> Vec<(String, Vec<String>)> {
        let all = exports.iscsi.targets.iter();
        all.map(|t| (t.iqn.clone(), t.initiators.clone())).collect()
    }

    fn summaries(&self, exports: &Exports) -> Vec<ExportSummary> {
        let of_target = |t: &IscsiTarget| ExportSummary {
            name: t.iqn.clone(),
            disks: t.luns.iter().map(|l| (l.disk.clone(), l.state)).collect(),
            sessions: Some(t.sessions),
        };
        exports.iscsi.targets.iter().map(of_target).collect()
    }

    fn table(&self, exports: &Exports) -> Option<String> {
        let targets = &exports.iscsi.targets;
        (!targets.is_empty()).then(|| table::targets(targets))
    }

    fn banner(&self, status: &Status) -> String {
        let mut out = String::new();
        for t in &status.exports.iscsi.targets {
            for l in &t.luns {
                let what = size_or_reason(l.state, l.size, l.reason.as_deref());
                let _ = writeln!(out, "  {} LUN {}: disk {}, {what}", t.iqn, l.lun, l.disk);
            }
        }
        out
    }

    fn client_lines(&self, status: &Status) -> String {
        let mut out = String::new();
        let on = |t: &&IscsiTarget| !t.portals.is_empty();
        for t in status.exports.iscsi.targets.iter().filter(on) {
            for line in login(t).lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
        if out.is_empty() {
            return out;
        }
        format!("on a Linux client with open-iscsi:\n{out}")
    }

    fn has_queues(&self) -> bool {
        false
    }

    fn facts(&self, session: &Session) -> Vec<Fact> {
        let m = &session.summary;
        let mut facts = vec![
            ("protocol", "iSCSI".to_owned()),
            ("initiator", m.client.clone()),
            ("ISID", m.host_id.clone()),
            ("target", m.export.clone()),
            ("transport", m.transport.clone()),
        ];
        let negotiated = session.facts.iscsi.iscsi.as_ref();
        facts.extend(negotiated.into_iter().flat_map(table::facts));
        facts
    }
}

fn initiators(t: &IscsiTarget) -> String {
    hosts(&[(t.iqn.clone(), t.initiators.clone())])
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
        let what = size_or_reason(l.state, l.size, l.reason.as_deref());
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
