//! Requests and answers about exports over NVMe.
//!
//! **Called by** [`crate::api`], which re-exports them. **Invariants**: those of the API.

use crate::api::Transport;
use crate::api::export::NamespaceState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use uuid::Uuid;

/// Exports over NVMe, as a part of the server's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exports {
    /// Addresses that discovery returns, if they differ from the listening ones.
    pub advertise: Vec<SocketAddr>,
    /// The same for RDMA.
    #[serde(default)]
    pub advertise_rdma: Vec<SocketAddr>,
    /// Its subsystems.
    pub exports: Vec<Export>,
}

/// The export of a disk or volume over NVMe, as a part of the disk or volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedAs {
    /// The subsystem it is exported by.
    pub nqn: Option<String>,
    /// The namespace it is exported as.
    pub nsid: Option<u32>,
}

impl ExportedAs {
    pub(crate) fn name(&self) -> Option<&str> {
        self.nqn.as_deref()
    }

    pub(crate) fn words(&self) -> Option<String> {
        let nsid = self.nsid.unwrap_or_default();
        self.nqn.as_ref().map(|nqn| format!("{nqn} {nsid}"))
    }
}

pub(crate) type Role = NvmfRole;

/// Values that only sessions of NVMe hosts have: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFacts {}

/// The service at an address: NVMe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum NvmfRole {
    /// I/O and discovery.
    Io,
    /// Only discovery.
    Discovery,
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
    /// The transports over which hosts may connect.
    #[serde(default)]
    pub transports: Vec<Transport>,
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

/// The subsystems with their namespaces and hosts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListExports {}

/// Exports a disk or volume over NVMe, in a subsystem of its own.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportNvme {
    /// The disk or volume.
    pub disk: String,
    /// The subsystem; by default a name made from the disk's identity.
    #[serde(default)]
    pub nqn: Option<String>,
    /// Allowed hosts: host NQNs, or `any`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The transports over which hosts may connect; if it is empty all of a new subsystem, and those of an existing one as they are.
    #[serde(default)]
    pub transports: Vec<Transport>,
}

/// Exports a disk as a namespace; the subsystem is created if it does not exist.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddExport {
    /// The subsystem.
    pub nqn: String,
    /// The disk.
    pub disk: String,
    /// The namespace's identifier; the lowest free one if not set.
    #[serde(default)]
    pub nsid: Option<u32>,
    /// The namespace's UUID; a random one if not set.
    #[serde(default)]
    pub uuid: Option<Uuid>,
    /// The transports over which hosts may connect; if it is empty all of a new subsystem, and those of an existing one as they are.
    #[serde(default)]
    pub transports: Vec<Transport>,
}

/// Sets the transports over which hosts may connect to a subsystem. Sessions over others end.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetExportTransports {
    /// The subsystem.
    pub nqn: String,
    /// The transports, at least one.
    pub transports: Vec<Transport>,
}

/// Removes a namespace, or a subsystem with all of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveExport {
    /// The subsystem.
    pub nqn: String,
    /// The namespace; the whole subsystem if not set.
    #[serde(default)]
    pub nsid: Option<u32>,
}

/// Allows a host, or any, to connect to a subsystem, which is created if it does not exist.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowHost {
    /// The subsystem.
    pub nqn: String,
    /// The host's NQN, or `any`.
    pub host: String,
}

/// Removes a host from a subsystem's list, or with `any` allows only listed hosts. Sessions that lose their
/// permission end.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyHost {
    /// The subsystem.
    pub nqn: String,
    /// The host's NQN, or `any`.
    pub host: String,
}
