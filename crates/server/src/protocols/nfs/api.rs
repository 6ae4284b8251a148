//! Requests and answers about exports over NFS.
//!
//! **Called by** [`crate::api`], which re-exports them. **Invariants**: those of the API.

use crate::api::export::NamespaceState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Exports over NFS, as a part of the server's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exports {
    /// Exported filesystems.
    #[serde(default)]
    pub nfs_exports: Vec<NfsExport>,
}

/// The export of a disk or volume over NFS: there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedAs {}

impl ExportedAs {
    pub(crate) fn name(&self) -> Option<&str> {
        None
    }

    pub(crate) fn words(&self) -> Option<String> {
        None
    }
}

pub(crate) type Role = NfsRole;

/// The service at an address: NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum NfsRole {
    /// NFS.
    Nfs,
}

/// Values that only sessions of NFS clients have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFacts {
    /// Of an NFS client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfs: Option<NfsFacts>,
}

/// Values of an NFS client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NfsFacts {
    /// The version that it used last, such as `4.1`; empty without a connection.
    pub version: String,
    /// Sessions of its connections; connections share them.
    pub sessions: usize,
    /// Slots of all sessions: requests that it may have in flight.
    pub slots: usize,
    /// Files that it has open, one for each open owner and file.
    pub opens: usize,
    /// Lock states, one for each lock owner and file.
    pub locks: usize,
    /// Files whose reads or writes were delegated to it.
    pub delegations: usize,
    /// Paths of the exports that its address may use, at most 20.
    #[serde(default)]
    pub exports: Vec<String>,
    /// What its connections agreed on in their TLS handshakes, each once; empty without TLS.
    #[serde(default)]
    pub tls: Vec<NfsTls>,
}

/// A TLS session of an NFS client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NfsTls {
    /// The version, such as `1.3`.
    pub version: String,
    /// The cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// The name in the client's certificate; none if it has shown none.
    pub certificate: Option<String>,
}

/// An exported filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NfsExport {
    /// The filesystem, such as `tank/home`.
    pub filesystem: String,
    /// The path that clients mount.
    pub path: String,
    /// The clients with their rights, such as `10.0.0.0/24:rw`; the most specific one that fits a host applies.
    pub clients: Vec<String>,
    /// Whether it is served.
    pub state: NamespaceState,
    /// Why it is held back.
    pub reason: Option<String>,
    /// Addresses that serve NFS.
    pub addresses: Vec<SocketAddr>,
    /// Most bytes of one read or write.
    pub transfer_max: u32,
    /// The filesystem or pool whose property `sharenfs` makes the export; none for an export of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_by: Option<String>,
    /// The filesystem or pool whose property `sharenfs` is not used, because this export of the configuration counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_property: Option<String>,
    /// The highest protection that a client's rights demand: `none`, `tls` or `mtls`.
    #[serde(default)]
    pub xprtsec: String,
}

/// The exported filesystems.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListNfs {}

/// Exports a filesystem over NFS, or sets rights of clients of its export.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportNfs {
    /// The filesystem, such as `tank/home`.
    pub filesystem: String,
    /// The path that clients mount; by default `/` and the filesystem's name.
    #[serde(default)]
    pub path: Option<String>,
    /// Clients with their rights, such as `10.0.0.0/24:rw`, `@lab:ro,squash=all` or `*`.
    #[serde(default)]
    pub clients: Vec<String>,
    /// The protection that the named clients must use, if their options name none: `none`, `tls` or `mtls`. Without clients: that all clients
    /// of the export must use.
    #[serde(default)]
    pub xprtsec: Option<String>,
}

/// Ends the export of a filesystem. Clients that have it mounted get stale file handles.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveNfs {
    /// The path of the export, or the filesystem.
    pub export: String,
}

/// Sets the rights of clients of an export. Clients stay connected.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowNfs {
    /// The path of the export, or the filesystem.
    pub export: String,
    /// The clients with their rights, such as `10.0.0.0/24:rw`.
    pub client: String,
}

/// Removes clients from an export. Clients stay connected, but see nothing of the export unless another rule fits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyNfs {
    /// The path of the export, or the filesystem.
    pub export: String,
    /// The clients, such as `10.0.0.0/24`.
    pub client: String,
}
