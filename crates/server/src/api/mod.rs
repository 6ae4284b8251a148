//! Types of the control API: requests and answers.
//!
//! **Owns** the JSON shapes of version 1 of the control API. **Called by** [`crate::control`] and the command line,
//! which share these types. **Invariants**: within a version a field is added, never renamed or removed; sizes are
//! bytes, times as their names say. Described in `docs/control-api.md`.

mod advice;
mod call;
mod console;
pub(crate) mod export;
mod failure;
mod filesystem;
mod member;
mod pool;
mod records;
mod scan;
mod session;
mod snapshot;
mod stages;
mod vdev;
mod volume;
mod wear;

pub use advice::*;
pub use call::*;
pub use console::*;
pub use export::*;
pub use failure::*;
pub use filesystem::*;
pub use member::*;
pub use pool::*;
pub use records::*;
pub use scan::*;
pub use session::*;
pub use snapshot::*;
pub use stages::*;
pub use vdev::*;
pub use volume::*;
pub use wear::*;

use crate::protocols::protocols;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Re-exports the requests and answers of every protocol, and makes the types with a part of every protocol.
macro_rules! parts {
    ($($protocol:ident $type:ident $exports:ident;)*) => {
        $(pub use crate::protocols::$protocol::api::*;)*

        /// The exports of a server, of every protocol.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct Exports {
            $(
                #[serde(flatten)]
                #[doc = concat!("Over ", stringify!($protocol), ".")]
                pub $protocol: crate::protocols::$protocol::api::Exports,
            )*
        }

        /// The export of a disk or volume: it has at most one, over any protocol.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct ExportedAs {
            $(
                #[serde(flatten)]
                #[doc = concat!("Over ", stringify!($protocol), ".")]
                pub $protocol: crate::protocols::$protocol::api::ExportedAs,
            )*
        }

        impl ExportedAs {
            /// The name of the subsystem or target.
            #[must_use]
            pub fn name(&self) -> Option<&str> {
                None$(.or(self.$protocol.name()))*
            }

            /// The name of the subsystem or target, and the number in it.
            #[must_use]
            pub fn words(&self) -> Option<String> {
                None$(.or_else(|| self.$protocol.words()))*
            }
        }

        /// Values of a session that depend on its protocol.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct SessionFacts {
            $(
                #[serde(flatten)]
                #[doc = concat!("Of ", stringify!($protocol), ".")]
                pub $protocol: crate::protocols::$protocol::api::SessionFacts,
            )*
        }

        /// The service at an address.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(untagged)]
        pub enum ListenRole {
            $(
                #[doc = concat!("Of ", stringify!($protocol), ".")]
                $type(crate::protocols::$protocol::api::Role),
            )*
        }
    };
}
protocols!(parts);

/// State of a server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// Present state.
    pub state: ServerState,
    /// Its process.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Its configuration file.
    pub config: PathBuf,
    /// Its control socket.
    pub control: PathBuf,
    /// Directory of its reservations.
    pub state_dir: PathBuf,
    /// Listening addresses.
    pub listen: Vec<Listen>,
    /// Addresses of the configuration that are not served now. The server tries them again.
    #[serde(default)]
    pub not_listening: Vec<NotListening>,
    /// Address of the metrics port.
    pub metrics: Option<SocketAddr>,
    /// The web console, if it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<ConsoleStatus>,
    /// Limit of open descriptors.
    pub fd_limit: u64,
    /// Memory that it may lock for RDMA.
    #[serde(default)]
    pub locked_memory: LockedMemory,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Sessions now.
    pub sessions: usize,
    /// Its threads.
    pub shards: Vec<ShardStatus>,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Its pools.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// Their volumes.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Their filesystems.
    #[serde(default)]
    pub filesystems: Vec<Filesystem>,
    /// Its exports.
    #[serde(flatten)]
    pub exports: Exports,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// Memory that a server may lock for RDMA.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockedMemory {
    /// The limit (RLIMIT_MEMLOCK), bytes; absent if there is none.
    pub limit: Option<u64>,
    /// Registrations of memory that were refused since the process began.
    pub refused: u64,
}

impl From<io::rdma::LockedMemory> for LockedMemory {
    fn from(memory: io::rdma::LockedMemory) -> LockedMemory {
        LockedMemory {
            limit: memory.limit,
            refused: memory.refused,
        }
    }
}

/// Present state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// It takes connections and serves them.
    Serving,
    /// It finishes commands in flight and accepts no new ones.
    Draining,
}

/// An address the server listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listen {
    /// The address with the real port.
    pub address: SocketAddr,
    /// The service at this address.
    pub role: ListenRole,
    /// Tag of the portal group that it belongs to, if its protocol has portal groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portal_group: Option<u16>,
    /// The transport at this address.
    #[serde(default)]
    pub transport: Transport,
}

/// An address of the configuration that is not served now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotListening {
    /// The address.
    pub address: SocketAddr,
    /// The setting with the address, such as `[nvmf] listen_rdma`.
    pub setting: String,
    /// The transport at this address.
    pub transport: Transport,
    /// The reason, and the remedy if there is one.
    pub reason: String,
}

/// A transport of connections.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// RDMA: InfiniBand, RoCE or iWARP.
    Rdma,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 2] = [Transport::Tcp, Transport::Rdma];

    /// The word for it: `tcp` or `rdma`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Rdma => "rdma",
        }
    }
}

/// One thread of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardStatus {
    /// Its number.
    pub shard: usize,
    /// Whether it answered in time; if not, only the number of connections below is valid.
    pub answers: bool,
    /// Connections it serves.
    pub connections: usize,
    /// Processor time it took since it started, ms.
    pub cpu_ms: u64,
    /// Turns of its executor since it started.
    pub turns: u64,
    /// Limit of its buffer pool, bytes.
    pub buffer_limit: usize,
    /// Bytes of it in use.
    pub buffer_used: usize,
    /// Bytes of it that are idle and kept for reuse.
    pub buffer_idle: usize,
    /// Requests that wait for a buffer.
    pub buffer_waiting: usize,
    /// Time for which the shard has polled nothing and answered nothing, ms; see `watchdog_s` of `[server]`.
    #[serde(default)]
    pub stalled_ms: u64,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// `file`, `block`, `mem` or `null`.
    pub kind: String,
    /// Its path.
    pub path: Option<PathBuf>,
    /// Whether it can be used.
    pub state: DiskState,
    /// Why it cannot be used, or the error of the last check.
    pub reason: Option<String>,
    /// Its size, bytes; 0 while it is not known.
    pub size: u64,
    /// Its logical block size, bytes; 0 while it is not known.
    pub block_size: u32,
    /// Allocated space, bytes, if known.
    pub used: Option<u64>,
    /// Writes are refused.
    pub read_only: bool,
    /// Its export.
    #[serde(flatten)]
    pub exported_as: ExportedAs,
}

/// Whether a disk can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskState {
    /// It is being opened for the first time.
    Opening,
    /// It is open.
    Online,
    /// It could not be opened; its exports are held back, and the server tries again.
    Held,
}
