//! The protocols of a first export: section, port, and commands.
//!
//! **Called by** the modules beside it. **Invariants**: commands have the form that a person would type.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use server::api::{IscsiRole, ListenRole, NfsRole, NvmfRole};
use server::config::Config;
use std::net::SocketAddr;

/// The protocol of the first export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    /// A disk over NVMe/TCP: the fastest; Linux, ESXi.
    Nvme,
    /// A disk over iSCSI: every system.
    Iscsi,
    /// A directory over NFS.
    Nfs,
}

/// All, in the order of the question.
pub(crate) const ALL: [Protocol; 3] = [Protocol::Nvme, Protocol::Iscsi, Protocol::Nfs];

impl Protocol {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Protocol::Nvme => "nvme",
            Protocol::Iscsi => "iscsi",
            Protocol::Nfs => "nfs",
        }
    }

    /// One line for people.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Protocol::Nvme => "a disk over NVMe/TCP: the fastest; Linux and ESXi",
            Protocol::Iscsi => "a disk over iSCSI: every system, also Windows and boot firmware",
            Protocol::Nfs => "a directory over NFS, which many clients use at the same time",
        }
    }

    /// Whether it exports a volume; else it exports a filesystem.
    pub(crate) fn has_volume(self) -> bool {
        self != Protocol::Nfs
    }

    /// The proposed name of the volume or filesystem.
    pub(crate) fn first_name(self) -> &'static str {
        match self.has_volume() {
            true => "vm1",
            false => "home",
        }
    }

    /// The well-known port.
    pub(crate) fn port(self) -> u16 {
        match self {
            Protocol::Nvme => 4420,
            Protocol::Iscsi => 3260,
            Protocol::Nfs => 2049,
        }
    }

    /// The section of the configuration.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Protocol::Nvme => "nvmf",
            Protocol::Iscsi => "iscsi",
            Protocol::Nfs => "nfs",
        }
    }

    /// The addresses of that section; of iSCSI those of its first portal group.
    pub(crate) fn configured(self, config: &Config) -> &[SocketAddr] {
        match self {
            Protocol::Nvme => &config.nvmf.listen,
            Protocol::Iscsi => {
                let first = config.iscsi.groups.iter().find(|g| g.tag == 1);
                first.map_or(&[], |g| g.listen.as_slice())
            }
            Protocol::Nfs => &config.nfs.listen,
        }
    }

    /// Whether a listener is this protocol's, for I/O.
    pub(crate) fn is_of(self, role: ListenRole) -> bool {
        match self {
            Protocol::Nvme => role == ListenRole::Nvmf(NvmfRole::Io),
            Protocol::Iscsi => matches!(role, ListenRole::Iscsi(IscsiRole::Iscsi)),
            Protocol::Nfs => matches!(role, ListenRole::Nfs(NfsRole::Nfs)),
        }
    }

    /// What a client is called, with an example.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Protocol::Nvme => "host NQNs (/etc/nvme/hostnqn of each client), or any",
            Protocol::Iscsi => {
                "initiator names (/etc/iscsi/initiatorname.iscsi of each client), or any"
            }
            Protocol::Nfs => "addresses or networks with rights, such as 10.0.0.0/24:rw",
        }
    }

    /// Words of the command that exports a volume or filesystem to clients.
    pub(crate) fn export(self, dataset: &str, clients: &[String]) -> Vec<String> {
        let flag = match self {
            Protocol::Nvme => "--host",
            Protocol::Iscsi => "--initiator",
            Protocol::Nfs => "--client",
        };
        let mut words: Vec<String> = ["export", self.word(), dataset].map(str::to_owned).into();
        for client in clients {
            words.extend([flag.to_owned(), client.clone()]);
        }
        words
    }
}
