//! The one durable configuration: what is served, from which disks, to whom.
//!
//! **Owns** the TOML file, its meaning and its changes. **Called by** [`crate::server`] at the start and by live
//! changes. **Invariants**: a [`Config`] that exists is consistent (names resolve, nothing is there twice, every
//! value is within [`crate::limits`]); what a live change writes was parsed and checked like a file written by
//! hand; comments and order survive. Described for people in `docs/config.md`.

mod check;
mod congestion;
mod edit;
mod edit_target;
mod error;
mod file;
mod pools;
mod schema;
mod targets;

pub use check::default_control;
pub(crate) use check::{UUID_SPACE, random_uuid};
pub use edit::Edit;
pub use edit_target::TargetEdit;
pub use error::ConfigError;
pub use file::ConfigFile;
pub(crate) use pools::split_volume;
pub use targets::{ChapNames, ExportedAs, IscsiConfig, LunConfig, PortalGroup, TargetConfig};

use crate::size::ByteSize;
use nvmf::wire::nqn::Nqn;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The process.
    pub server: ServerConfig,
    /// NVMe over TCP.
    pub nvmf: NvmfConfig,
    /// iSCSI.
    pub iscsi: IscsiConfig,
    /// Where metrics are served over HTTP, if at all.
    pub metrics: Option<SocketAddr>,
    /// The disks, in the order they are opened.
    pub disks: Vec<DiskConfig>,
    /// The pools, in the order they are opened.
    pub pools: Vec<PoolConfig>,
    /// The subsystems, in the order they are exported.
    pub subsystems: Vec<SubsystemConfig>,
    /// The iSCSI targets, in the order they are exported.
    pub targets: Vec<TargetConfig>,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Threads that serve; 0 means one per processor.
    pub shards: usize,
    /// The control socket.
    pub control: PathBuf,
    /// Where reservations are kept.
    pub state_dir: PathBuf,
    /// Longest adaptive polling of a shard.
    pub spin: Duration,
    /// Limit of the buffer pool of each shard, bytes.
    pub buffer_limit: usize,
    /// Congestion control of all connections, NVMe and iSCSI; `None` leaves it to the system.
    pub congestion: Option<String>,
}

/// `[nvmf]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmfConfig {
    /// Addresses that serve I/O and discovery.
    pub listen: Vec<SocketAddr>,
    /// Addresses that serve discovery alone.
    pub discovery: Vec<SocketAddr>,
    /// Addresses that discovery names instead of `listen`.
    pub advertise: Vec<SocketAddr>,
    /// Other discovery services that discovery refers to.
    pub referrals: Vec<SocketAddr>,
    /// Most connections at a time; each queue is one.
    pub connections_max: usize,
}

/// `[[disk]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its name, unique.
    pub name: String,
    /// What it is made of.
    pub medium: Medium,
    /// Logical block size, bytes; the medium's own choice if not set.
    pub block_size: Option<u32>,
    /// Refuse writes.
    pub read_only: bool,
}

/// What a disk is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A file.
    File {
        /// Where it is.
        path: PathBuf,
        /// Make it of this size if it is missing; without it a missing file holds its exports back.
        create: Option<ByteSize>,
        /// Go through the page cache.
        buffered: bool,
    },
    /// A block device.
    Block {
        /// Where it is.
        path: PathBuf,
    },
    /// RAM, lost with the process.
    Memory {
        /// Its size.
        size: ByteSize,
    },
    /// Nothing: writes vanish and reads give zeroes. To measure with.
    Null {
        /// Its size.
        size: ByteSize,
    },
}

/// `[[pool]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Its name, unique.
    pub name: String,
    /// Where its disks are looked for.
    pub disks: Vec<PathBuf>,
    /// Memory for tree nodes, MiB; the pool's own choice if not set.
    pub cache_mib: Option<u64>,
    /// Memory for records that are not written yet, MiB; the pool's own choice if not set.
    pub dirty_mib: Option<u64>,
    /// Memory for records that were read, MiB, 0 for none; the pool's own choice if not set.
    pub record_cache_mib: Option<u64>,
    /// Nothing is written to it.
    pub read_only: bool,
}

/// `[[subsystem]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its name, unique.
    pub nqn: Nqn,
    /// Its serial number.
    pub serial: String,
    /// Who may connect.
    pub hosts: HostList,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceConfig>,
}

/// Who may connect to a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostList {
    /// Everybody.
    Any,
    /// The hosts with these names.
    Listed(BTreeSet<Nqn>),
}

/// `[[subsystem.namespace]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Its identifier, unique in the subsystem.
    pub nsid: u32,
    /// The name of its disk.
    pub disk: String,
    /// Its UUID. If the file has none it is made of the subsystem's name, the identifier and the disk's name.
    pub uuid: Uuid,
}

impl Config {
    /// Parses and checks the text of `path`; relative paths in it start from the file's directory.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        schema::parse(text, path).and_then(|raw| check::check(raw, text, path))
    }

    /// The disk of that name.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<&DiskConfig> {
        self.disks.iter().find(|d| d.name == name)
    }

    /// The pool of that name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// The subsystem of that name.
    #[must_use]
    pub fn subsystem(&self, nqn: &Nqn) -> Option<&SubsystemConfig> {
        self.subsystems.iter().find(|s| s.nqn == *nqn)
    }

    /// The namespace that a disk is exported as: a disk has one export at most, of either kind.
    #[must_use]
    pub fn export_of(&self, disk: &str) -> Option<(&SubsystemConfig, &NamespaceConfig)> {
        self.subsystems
            .iter()
            .find_map(|s| s.namespaces.iter().find(|n| n.disk == disk).map(|n| (s, n)))
    }
}

impl SubsystemConfig {
    /// The namespace of that identifier.
    #[must_use]
    pub fn namespace(&self, nsid: u32) -> Option<&NamespaceConfig> {
        self.namespaces.iter().find(|n| n.nsid == nsid)
    }
}

impl Medium {
    /// The word for it in the file: `file`, `block`, `mem` or `null`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Medium::File { .. } => "file",
            Medium::Block { .. } => "block",
            Medium::Memory { .. } => "mem",
            Medium::Null { .. } => "null",
        }
    }

    /// Where it is, if it is anywhere.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Medium::File { path, .. } | Medium::Block { path } => Some(path),
            Medium::Memory { .. } | Medium::Null { .. } => None,
        }
    }
}
