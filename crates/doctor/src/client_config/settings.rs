//! The types of settings: an export, a system, files and commands.
//!
//! **Called by** the modules beside it, which fill them, and by the command line.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// The system of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Debian and its relatives.
    Debian,
    /// Red Hat Enterprise Linux and its relatives.
    Rhel,
    /// Proxmox VE.
    Proxmox,
    /// VMware ESXi.
    Esxi,
    /// Windows Server.
    Windows,
}

/// The transport between a client and the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientTransport {
    /// TCP.
    #[default]
    Tcp,
    /// RDMA: NVMe/RDMA, iSER, NFS over RDMA.
    Rdma,
}

impl ClientTransport {
    /// The word for it in settings of NVMe and NFS.
    pub(super) fn word(self) -> &'static str {
        match self {
            ClientTransport::Tcp => "tcp",
            ClientTransport::Rdma => "rdma",
        }
    }
}

/// An address for clients: host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// An IP address or a name.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// `host:port`, with brackets around an IPv6 address.
    pub(super) fn portal(&self) -> String {
        format!("{}:{}", self.in_path(), self.port)
    }

    /// The host as NFS and URLs have it.
    pub(super) fn in_path(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        }
    }
}

/// An export of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// A subsystem over NVMe.
    Nvme {
        /// Its NQN.
        nqn: String,
        /// Addresses for discovery.
        discovery: Vec<Address>,
        /// UUIDs of its namespaces.
        namespaces: Vec<String>,
    },
    /// A target over iSCSI.
    Iscsi {
        /// Its name.
        iqn: String,
        /// Its portals.
        portals: Vec<Address>,
        /// Numbers of its logical units.
        luns: Vec<u16>,
        /// Whether it asks for CHAP.
        has_chap: bool,
    },
    /// A filesystem over NFS.
    Nfs {
        /// The path that clients mount.
        path: String,
        /// Addresses.
        addresses: Vec<Address>,
        /// Threads of the server.
        shards: usize,
    },
}

impl Export {
    /// The name of the subsystem or target, or the path.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Export::Nvme { nqn, .. } => nqn,
            Export::Iscsi { iqn, .. } => iqn,
            Export::Nfs { path, .. } => path,
        }
    }

    pub(super) fn addresses(&self) -> &[Address] {
        match self {
            Export::Nvme { discovery, .. } => discovery,
            Export::Iscsi { portals, .. } => portals,
            Export::Nfs { addresses, .. } => addresses,
        }
    }

    /// Whether clients reach it over several addresses.
    pub(super) fn has_paths(&self) -> bool {
        self.addresses().len() > 1
    }
}

/// Settings of a client for one export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSettings {
    /// The export.
    pub export: String,
    /// The system.
    pub os: Os,
    /// The transport.
    pub transport: ClientTransport,
    /// Commands that install packages. They come first: a package asks about its file of settings if that exists before it.
    pub packages: Vec<String>,
    /// Files of settings.
    pub files: Vec<ConfigFile>,
    /// Commands after the files are in place, in their order.
    pub commands: Vec<String>,
    /// Work that needs a person, as sentences.
    pub notes: Vec<String>,
}

/// A file of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// Its path.
    pub path: String,
    /// Whether the lines are added to a file that exists (`/etc/fstab`), instead of being the whole file.
    pub is_added: bool,
    /// Its text; comments have the reason of each value.
    pub text: String,
}

/// Why there are no settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// The system has no client for the protocol.
    NoClient(&'static str),
    /// The export has no address over this transport.
    NoAddress(ClientTransport),
    /// A name has characters that a file of settings cannot have.
    Name(String),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::NoClient(reason) => f.write_str(reason),
            Unsupported::NoAddress(transport) => {
                let setting = match transport {
                    ClientTransport::Tcp => "listen",
                    ClientTransport::Rdma => "listen_rdma",
                };
                write!(
                    f,
                    "the server has no address for this export over {}: give the protocol's section a `{setting}`",
                    transport.word().to_uppercase()
                )
            }
            Unsupported::Name(name) => write!(
                f,
                "{name:?} has characters that a file of settings cannot have; export it under a name of letters, digits and -_.:/"
            ),
        }
    }
}

impl std::error::Error for Unsupported {}

impl ClientSettings {
    pub(super) fn file(&mut self, path: &str, text: String) {
        self.files.push(ConfigFile {
            path: path.to_owned(),
            is_added: false,
            text,
        });
    }

    pub(super) fn lines(&mut self, path: &str, text: String) {
        self.files.push(ConfigFile {
            path: path.to_owned(),
            is_added: true,
            text,
        });
    }

    /// What every client needs for RDMA: the package of the libraries, and the setup of the card.
    pub(super) fn needs_rdma(&mut self) {
        if self.transport == ClientTransport::Rdma {
            self.package("rdma-core", "rdma-core");
            self.note(
                "`wirepool rdma setup --client` on the client names the rest that its card needs",
            );
        }
    }

    pub(super) fn command(&mut self, command: impl Into<String>) {
        self.commands.push(command.into());
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The command that installs a package; its name may differ between systems.
    pub(super) fn package(&mut self, debian: &str, rhel: &str) {
        self.packages.push(match self.os {
            Os::Rhel => format!("dnf install -y {rhel}"),
            _ => format!("apt-get install -y {debian}"),
        });
    }

    /// The settings for people: files with their paths, then commands.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.packages.is_empty() {
            let packages = self.packages.join("\n");
            let _ = writeln!(out, "==> first, as administrator\n{packages}\n");
        }
        for file in &self.files {
            let kind = if file.is_added { "add to" } else { "file" };
            let _ = writeln!(out, "==> {kind} {}\n{}", file.path, file.text);
        }
        if !self.commands.is_empty() {
            let _ = writeln!(
                out,
                "==> then, as administrator\n{}\n",
                self.commands.join("\n")
            );
        }
        if !self.notes.is_empty() {
            out.push_str("==> by hand\n");
        }
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        out
    }
}
