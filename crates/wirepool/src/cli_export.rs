//! What the command line takes for exports and for who may use them.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Subcommand)]
pub(crate) enum ExportCommand {
    /// Export a disk or a volume over NVMe in a subsystem of its own, and say how to connect.
    Nvme {
        /// The disk, or the volume such as tank/vm1.
        disk: String,
        /// The subsystem; by default one whose name is made of the disk's identity.
        #[arg(long)]
        nqn: Option<String>,
        /// Let this host connect (its NQN, or `any`); may be given several times.
        #[arg(long, value_name = "HOSTNQN")]
        host: Vec<String>,
    },
    /// Export a disk or a volume over iSCSI, in a target of its own by default, and say how to log in.
    #[command(after_help = "\
Examples:
  wirepool export iscsi tank/vm1 --initiator any
  wirepool export iscsi tank/vm1 --initiator iqn.1993-08.org.debian:01:abc --chap alice   asks for the secret
  wirepool export iscsi tank/vm2 --iqn iqn.2026-01.org.example:vms                        one more LUN")]
    Iscsi(IscsiArgs),
    /// Say what initiators of a target prove themselves with.
    Chap {
        /// The target.
        iqn: String,
        /// The name that they give; the secret is asked for on the terminal.
        #[arg(required_unless_present = "off", conflicts_with = "off")]
        user: Option<String>,
        #[command(flatten)]
        secrets: SecretArgs,
        /// With nothing.
        #[arg(long)]
        off: bool,
    },
    /// Say what initiators prove themselves with before they hear of targets (SendTargets).
    DiscoveryChap {
        /// The name that they give; the secret is asked for on the terminal.
        #[arg(required_unless_present = "off", conflicts_with = "off")]
        user: Option<String>,
        #[command(flatten)]
        secrets: SecretArgs,
        /// With nothing.
        #[arg(long)]
        off: bool,
    },
    /// Send initiators of a target elsewhere when they log in; those that are logged in stay.
    Move {
        /// The target.
        iqn: String,
        /// Where it is now: an address or a name, and perhaps a port.
        #[arg(required_unless_present = "back", conflicts_with = "back")]
        to: Option<String>,
        /// For good: initiators remember it.
        #[arg(long, conflicts_with = "back")]
        permanently: bool,
        /// It is here again.
        #[arg(long)]
        back: bool,
    },
    /// Export a disk or volume as a namespace; the subsystem is made if there is none of that name.
    Add {
        /// The subsystem, such as nqn.2026-01.org.example:vm1.
        nqn: String,
        /// The disk.
        disk: String,
        /// The namespace's identifier; the lowest free one by default.
        #[arg(long)]
        nsid: Option<u32>,
        /// The namespace's UUID; a random one by default.
        #[arg(long)]
        uuid: Option<Uuid>,
    },
    /// Take back a namespace or LUN, or a subsystem or target with all of them.
    Remove {
        /// The subsystem, or the target.
        name: String,
        /// The namespace; the whole subsystem by default.
        #[arg(long)]
        nsid: Option<u32>,
        /// The logical unit; the whole target by default.
        #[arg(long, conflicts_with = "nsid")]
        lun: Option<u16>,
    },
    /// List the namespaces of all subsystems and the logical units of all targets.
    List,
}

/// What `export iscsi` takes.
#[derive(Args)]
pub(crate) struct IscsiArgs {
    /// The disk, or the volume such as tank/vm1.
    pub(crate) disk: String,
    /// The target; by default one whose name is made of the disk's identity.
    #[arg(long)]
    pub(crate) iqn: Option<String>,
    /// The logical unit's number; the lowest free one by default.
    #[arg(long)]
    pub(crate) lun: Option<u16>,
    /// Refuse writes.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Warn initiators when so much of the disk, or of the volume's pool, is used (thin provisioning threshold).
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) threshold: Option<u8>,
    /// Let this initiator log in (its name, or `any`); may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) initiator: Vec<String>,
    /// Initiators prove themselves with this name and a secret, which is asked for on the terminal.
    #[arg(long, value_name = "USER")]
    pub(crate) chap: Option<String>,
    #[command(flatten)]
    pub(crate) secrets: SecretArgs,
}

/// Where secrets of CHAP come from. They are never part of a command line.
#[derive(Args)]
pub(crate) struct SecretArgs {
    /// Read the secret from this file instead; a newline at its end does not count.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// This end proves itself too, with this name and a secret of its own, to initiators that ask for it (mutual CHAP).
    #[arg(long, value_name = "NAME")]
    pub(crate) mutual: Option<String>,
    /// Read that secret from this file.
    #[arg(long, value_name = "FILE", requires = "mutual")]
    pub(crate) mutual_secret_file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// Let a host connect, or an initiator log in; a subsystem is made if there is none of that name.
    Allow {
        /// The subsystem, or the target.
        name: String,
        /// The host's NQN (`cat /etc/nvme/hostnqn` on it) or the initiator's name
        /// (`cat /etc/iscsi/initiatorname.iscsi`), or `any`.
        host: String,
    },
    /// Keep a host or an initiator away; its sessions end.
    Deny {
        /// The subsystem, or the target.
        name: String,
        /// The host's NQN or the initiator's name; `any` to let in only those that are named.
        host: String,
    },
    /// List who may connect to what.
    List,
}
