//! Command line of access lists.

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum HostCommand {
    /// Allow a host to connect, an initiator to log in, or a client to mount. A subsystem is created if it does not exist.
    Allow {
        /// The subsystem, the target, or the path of an NFS export.
        name: String,
        /// The host's NQN (`cat /etc/nvme/hostnqn` on it) or the initiator's name
        /// (`cat /etc/iscsi/initiatorname.iscsi`), or `any`; the NFS client with its rights, such as 10.0.0.0/24:rw.
        host: String,
    },
    /// Remove a host, an initiator or an NFS client from the list. Sessions of a host or an initiator end.
    Deny {
        /// The subsystem, the target, or the path of an NFS export.
        name: String,
        /// The host's NQN or the initiator's name, `any` to allow only listed ones; or the NFS client.
        host: String,
    },
    /// List the allowed hosts, initiators and NFS clients.
    List,
}
