//! Requests and answers about exports over iSCSI.
//!
//! **Called by** [`crate::api`], which re-exports them. **Invariants**: those of the API.

use crate::api::export::NamespaceState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use uuid::Uuid;

/// Exports over iSCSI, as a part of the server's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exports {
    /// Its iSCSI targets.
    #[serde(default)]
    pub targets: Vec<IscsiTarget>,
}

/// The export of a disk or volume over iSCSI, as a part of the disk or volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedAs {
    /// The iSCSI target that it is exported by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// The logical unit it is exported as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<u16>,
}

impl ExportedAs {
    pub(crate) fn name(&self) -> Option<&str> {
        self.iqn.as_deref()
    }

    pub(crate) fn words(&self) -> Option<String> {
        let lun = self.lun.unwrap_or_default();
        self.iqn.as_ref().map(|iqn| format!("{iqn} {lun}"))
    }
}

pub(crate) type Role = IscsiRole;

/// Values that only sessions of iSCSI initiators have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFacts {
    /// Values of iSCSI sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscsi: Option<IscsiFacts>,
}

/// Negotiated values of an iSCSI session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IscsiFacts {
    /// The initiator's alias.
    pub alias: Option<String>,
    /// Whether the initiator was authenticated.
    pub authenticated: bool,
    /// Most connections (MaxConnections).
    pub max_connections: u16,
    /// Writes wait for an R2T (InitialR2T).
    pub initial_r2t: bool,
    /// Data may come with commands (ImmediateData).
    pub immediate_data: bool,
    /// Longest data segment sent, bytes (the initiator's MaxRecvDataSegmentLength).
    pub max_send_data: u32,
    /// Longest accepted data segment, bytes (our MaxRecvDataSegmentLength).
    pub max_recv_data: u32,
    /// Longest solicited sequence, bytes (MaxBurstLength).
    pub max_burst: u32,
    /// Most unsolicited data of a command, bytes (FirstBurstLength).
    pub first_burst: u32,
    /// Most outstanding R2Ts of a task (MaxOutstandingR2T).
    pub max_outstanding_r2t: u16,
    /// 0 or 1 (ErrorRecoveryLevel).
    pub error_recovery_level: u8,
}

/// The service at an address: iSCSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum IscsiRole {
    /// Targets and their discovery.
    Iscsi,
}

/// An iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IscsiTarget {
    /// Its name.
    pub iqn: String,
    /// Its alias.
    pub alias: Option<String>,
    /// Tag of the portal group that serves it.
    pub portal_group: u16,
    /// The addresses of that group that discovery returns; none if iSCSI is off.
    pub portals: Vec<SocketAddr>,
    /// `["any"]`, or the initiators that may log in.
    pub initiators: Vec<String>,
    /// CHAP name of the initiators; none if CHAP is off.
    pub chap: Option<String>,
    /// CHAP name of the target, for mutual CHAP.
    pub chap_mutual: Option<String>,
    /// The address to which logins are redirected.
    pub moved_to: Option<String>,
    /// Whether the redirection is permanent.
    pub moved_permanently: bool,
    /// Number of present sessions.
    pub sessions: usize,
    /// Why every login is refused, if it is.
    pub reason: Option<String>,
    /// Its logical units.
    pub luns: Vec<TargetLun>,
}

/// A logical unit of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetLun {
    /// Its number.
    pub lun: u16,
    /// Its UUID.
    pub uuid: Uuid,
    /// The name of its disk.
    pub disk: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Used space, percent of the unit's or its pool's, at which initiators are warned.
    pub threshold: Option<u8>,
    /// Whether it is served.
    pub state: NamespaceState,
    /// Why it is held back.
    pub reason: Option<String>,
    /// Its size, bytes; 0 while it is held back.
    pub size: u64,
    /// Its logical block size, bytes; 0 while it is held back.
    pub block_size: u32,
}

/// A secret in a request; never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("format" = "password", "writeOnly" = true))]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// CHAP names and secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The name.
    pub user: String,
    /// The secret, 12 to 255 bytes.
    pub secret: SecretText,
    /// Name and secret of this server, for mutual CHAP; none without it.
    #[serde(default)]
    pub mutual: Option<Credential>,
}

/// A name and its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The name.
    pub user: String,
    /// The secret, 12 to 255 bytes; it must differ from the initiators'.
    pub secret: SecretText,
}

/// The targets.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListTargets {}

/// Exports a disk as a logical unit; the target is created if it does not exist.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportIscsi {
    /// The disk.
    pub disk: String,
    /// The target; by default a name made from the disk's identity.
    #[serde(default)]
    pub iqn: Option<String>,
    /// The logical unit's number; the lowest free one if not set.
    #[serde(default)]
    pub lun: Option<u16>,
    /// The logical unit's UUID; a random one if not set.
    #[serde(default)]
    pub uuid: Option<Uuid>,
    /// Refuse writes.
    #[serde(default)]
    pub read_only: bool,
    /// Used space, percent of the unit's or its pool's, at which initiators are warned (1 to 99).
    #[serde(default)]
    pub threshold: Option<u8>,
    /// Initiators to add to the list: their names, or `any`.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// New CHAP settings; unchanged if not set.
    #[serde(default)]
    pub chap: Option<Chap>,
}

/// Removes a logical unit, or a target with all of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveTarget {
    /// The target.
    pub iqn: String,
    /// The logical unit; the whole target if not set.
    #[serde(default)]
    pub lun: Option<u16>,
}

/// Sets CHAP of a target; present sessions stay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetChap {
    /// The target.
    pub iqn: String,
    /// The settings; none turns CHAP off.
    #[serde(default)]
    pub chap: Option<Chap>,
}

/// Sets CHAP of discovery sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetDiscoveryChap {
    /// The settings; none turns CHAP off.
    #[serde(default)]
    pub chap: Option<Chap>,
}

/// Redirects logins of a target; present sessions stay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveTarget {
    /// The target.
    pub iqn: String,
    /// The new address or name, with an optional port; none ends the redirection.
    #[serde(default)]
    pub to: Option<String>,
    /// Permanently: initiators remember the address.
    #[serde(default)]
    pub permanently: bool,
}

/// Allows an initiator, or any, to log in to a target.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowInitiator {
    /// The target.
    pub iqn: String,
    /// The initiator's name, or `any`.
    pub initiator: String,
}

/// Removes an initiator from a target's list, or with `any` allows only listed ones. Sessions that lose their
/// permission end.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyInitiator {
    /// The target.
    pub iqn: String,
    /// The initiator's name, or `any`.
    pub initiator: String,
}
