//! The state of machine and server that a plan starts from, and the choices that a plan carries out.
//!
//! **Owns** the types. **Called by** the modules beside it.

use super::answers::{Layout, ListenAddress};
use super::disks::Disk;
use super::protocol::Protocol;
use crate::client_config_command::System;
use server::ByteSize;
use server::config::ConfigFile;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The state before anything is done.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// The version of the server.
    pub(crate) version: String,
    /// Its configuration.
    pub(crate) config: ConfigFile,
    /// Its control socket.
    pub(crate) control: PathBuf,
    /// The disks of this machine.
    pub(crate) disks: Vec<Disk>,
    /// The server's pools, each with its free bytes.
    pub(crate) pools: Vec<(String, u64)>,
    /// Its volumes and filesystems.
    pub(crate) datasets: Vec<String>,
    /// The addresses that it listens on now.
    pub(crate) listen: Vec<(Protocol, SocketAddr)>,
    /// The addresses of this machine, without those of loopback.
    pub(crate) addresses: Vec<IpAddr>,
}

/// A disk or file of a new pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its name in the configuration.
    pub(crate) path: PathBuf,
    /// Bytes.
    pub(crate) size: u64,
    /// Model and the like, for people.
    pub(crate) about: String,
    /// Whether its name may change at a reboot.
    pub(crate) is_unstable: bool,
}

/// The pool of the export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PoolChoice {
    /// One of the server.
    Existing(String),
    /// A new one.
    New(NewPool),
}

impl PoolChoice {
    pub(crate) fn name(&self) -> &str {
        match self {
            PoolChoice::Existing(name) => name,
            PoolChoice::New(pool) => &pool.name,
        }
    }
}

/// A pool to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewPool {
    pub(crate) name: String,
    /// How its disks are joined.
    pub(crate) layout: Layout,
    /// The members of its vdevs.
    pub(crate) vdevs: Vec<Vec<Member>>,
    /// The size of files that are created.
    pub(crate) file_size: Option<ByteSize>,
}

/// All answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) pool: PoolChoice,
    pub(crate) protocol: Protocol,
    /// Name of the volume or filesystem, without the pool's.
    pub(crate) name: String,
    /// Size of the volume.
    pub(crate) size: Option<ByteSize>,
    pub(crate) listen: Vec<ListenAddress>,
    pub(crate) clients: Vec<String>,
    pub(crate) os: System,
}

#[cfg(test)]
impl Facts {
    /// A server with the package's configuration; two free disks of 2 TB and one with a file system.
    pub(crate) fn example() -> Facts {
        let disk = |path: &str, serial: &str, found: &[&str]| Disk {
            path: path.into(),
            stable: Some(format!("/dev/disk/by-id/ata-{serial}").into()),
            size: 2_000_000_000_000,
            model: "SSD".into(),
            serial: serial.into(),
            found: found.iter().map(|f| (*f).to_owned()).collect(),
            ..Disk::default()
        };
        let config = include_str!("../../package/wirepool.toml");
        let local = "127.0.0.1:4420".parse().expect("an address");
        Facts {
            version: "0.1.0".into(),
            config: ConfigFile::unsaved(config).expect("the package's configuration"),
            control: "/run/wirepool/control.sock".into(),
            disks: vec![
                disk("/dev/sda", "A", &["ext4", "mounted at /"]),
                disk("/dev/sdb", "B", &[]),
                disk("/dev/sdc", "C", &[]),
            ],
            pools: Vec::new(),
            datasets: Vec::new(),
            listen: vec![(Protocol::Nvme, local)],
            addresses: vec!["10.0.0.7".parse().expect("an address")],
        }
    }
}
