//! Types of the control API: requests and answers.
//!
//! **Owns** the JSON shapes of version 1 of the control API. **Called by** [`crate::control`] and the command line,
//! which share these types. **Invariants**: within a version a field is added, never renamed or removed; sizes are
//! bytes, times as their names say. Described in `docs/control-api.md`.

mod call;
mod pool;
mod records;
mod scan;
mod session;
mod side;
mod snapshot;
mod target;

pub use call::*;
pub use pool::*;
pub use records::*;
pub use scan::*;
pub use session::*;
pub use side::*;
pub use snapshot::*;
pub use target::*;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use uuid::Uuid;

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
    /// Addresses that discovery returns, if they differ from the listening ones.
    pub advertise: Vec<SocketAddr>,
    /// Address of the metrics port.
    pub metrics: Option<SocketAddr>,
    /// Limit of open descriptors.
    pub fd_limit: u64,
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
    /// Its subsystems.
    pub exports: Vec<Export>,
    /// Its iSCSI targets.
    #[serde(default)]
    pub targets: Vec<IscsiTarget>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
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
    /// Tag of the iSCSI portal group that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portal_group: Option<u16>,
}

/// The service at an address: NVMe/TCP, or iSCSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListenRole {
    /// I/O and discovery.
    Io,
    /// Only discovery.
    Discovery,
    /// iSCSI: targets and their discovery.
    Iscsi,
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
    /// The subsystem it is exported by.
    pub nqn: Option<String>,
    /// The namespace it is exported as.
    pub nsid: Option<u32>,
    /// The iSCSI target that it is exported by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// The logical unit it is exported as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<u16>,
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

/// A subsystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Export {
    /// Its name.
    pub nqn: String,
    /// Its serial number.
    pub serial: String,
    /// `["any"]`, or the hosts that may connect.
    pub hosts: Vec<String>,
    /// Sessions to it now.
    pub sessions: usize,
    /// Its namespaces.
    pub namespaces: Vec<Namespace>,
}

/// A namespace of a subsystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: u32,
    /// Its UUID.
    pub uuid: Uuid,
    /// The name of its disk.
    pub disk: String,
    /// Whether it is served.
    pub state: NamespaceState,
    /// Why it is held back.
    pub reason: Option<String>,
    /// Its size, bytes; 0 while it is held back.
    pub size: u64,
    /// Its logical block size, bytes; 0 while it is held back.
    pub block_size: u32,
}

/// Whether a namespace is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceState {
    /// Clients see it.
    Served,
    /// Its disk is temporarily unavailable.
    Held,
}

/// An answer for a failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Kind of failure, for programs.
    pub code: FailureCode,
    /// Description and remedy, for people.
    pub message: String,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The request has an invalid value. HTTP 400.
    Invalid,
    /// The named object does not exist. HTTP 404.
    NotFound,
    /// The named object is in use or exists already. HTTP 409.
    Conflict,
    /// The server tried and failed. HTTP 500.
    Failed,
    /// The server is shutting down or too busy. HTTP 503.
    Unavailable,
}
