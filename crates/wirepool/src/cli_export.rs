//! Command line of exports and access lists.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Subcommand)]
pub(crate) enum ExportCommand {
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
    },
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
    },
    /// Remove a namespace or LUN, or a subsystem or target with all of them.
    Remove {
        /// The subsystem, or the target.
        name: String,
        /// The namespace (default: the whole subsystem).
        #[arg(long)]
        nsid: Option<u32>,
        /// The logical unit (default: the whole target).
        #[arg(long, conflicts_with = "nsid")]
        lun: Option<u16>,
    },
    /// List the namespaces of all subsystems and the logical units of all targets.
    List,
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

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// Allow a host to connect, or an initiator to log in. A subsystem is created if it does not exist.
    Allow {
        /// The subsystem, or the target.
        name: String,
        /// The host's NQN (`cat /etc/nvme/hostnqn` on it) or the initiator's name
        /// (`cat /etc/iscsi/initiatorname.iscsi`), or `any`.
        host: String,
    },
    /// Remove a host or an initiator from the list. Its sessions end.
    Deny {
        /// The subsystem, or the target.
        name: String,
        /// The host's NQN or the initiator's name; `any` to allow only listed ones.
        host: String,
    },
    /// List the allowed hosts and initiators.
    List,
}
