//! The configuration: disks, pools, exports and hosts.
//!
//! **Owns** the TOML file, its meaning and its changes. **Called by** [`crate::server`] at the start and by live
//! changes. **Invariants**: a [`Config`] is consistent (names resolve, nothing occurs twice, every value is within
//! [`crate::limits`]); a live change is parsed and checked like a file written by hand; comments and order survive.
//! Described in `docs/config.md`.

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
    /// Address of the metrics port, if any.
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
    /// Directory of reservations and other stored state.
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
    /// Addresses that serve only discovery.
    pub discovery: Vec<SocketAddr>,
    /// Addresses that discovery returns instead of `listen`.
    pub advertise: Vec<SocketAddr>,
    /// Other discovery services that discovery returns as referrals.
    pub referrals: Vec<SocketAddr>,
    /// Maximum number of connections; each queue is one.
    pub connections_max: usize,
}

/// `[[disk]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its name, unique.
    pub name: String,
    /// Its medium.
    pub medium: Medium,
    /// Logical block size, bytes; by default it depends on the medium.
    pub block_size: Option<u32>,
    /// Refuse writes.
    pub read_only: bool,
}

/// Medium of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A file.
    File {
        /// Where it is.
        path: PathBuf,
        /// Create it with this size if it is missing; without it a missing file holds its exports back.
        create: Option<ByteSize>,
        /// Use the page cache.
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
    /// A null disk: discards writes and reads as zeroes. For measurements.
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
    /// Paths of its disks.
    pub disks: Vec<PathBuf>,
    /// Memory for tree nodes, MiB; `None` for the pool's default.
    pub cache_mib: Option<u64>,
    /// Memory for dirty records, MiB; `None` for the pool's default.
    pub dirty_mib: Option<u64>,
    /// Memory of the record cache, MiB, 0 for none; `None` for the pool's default.
    pub record_cache_mib: Option<u64>,
    /// Open it read-only.
    pub read_only: bool,
}

/// `[[subsystem]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its name, unique.
    pub nqn: Nqn,
    /// Its serial number.
    pub serial: String,
    /// Hosts that may connect.
    pub hosts: HostList,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceConfig>,
}

/// Hosts that may connect to a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostList {
    /// All hosts.
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

    /// The namespace of a disk: a disk has at most one export, of either kind.
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
    /// Its word in the file: `file`, `block`, `mem` or `null`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Medium::File { .. } => "file",
            Medium::Block { .. } => "block",
            Medium::Memory { .. } => "mem",
            Medium::Null { .. } => "null",
        }
    }

    /// Its path, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Medium::File { path, .. } | Medium::Block { path } => Some(path),
            Medium::Memory { .. } | Medium::Null { .. } => None,
        }
    }
}
