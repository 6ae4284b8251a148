//! Command line of access lists.

use clap::Subcommand;

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
