//! iSCSI targets: what is asked and answered.

use super::call::call;
use super::{Call, Done, NamespaceState};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use uuid::Uuid;

/// An iSCSI target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IscsiTarget {
    /// Its name.
    pub iqn: String,
    /// Its name for people.
    pub alias: Option<String>,
    /// Tag of the portal group that serves it.
    pub portal_group: u16,
    /// The addresses of that group, as discovery names them; none if iSCSI is off.
    pub portals: Vec<SocketAddr>,
    /// `["any"]`, or the initiators that may log in.
    pub initiators: Vec<String>,
    /// The name with which initiators prove themselves; none if they do not have to.
    pub chap: Option<String>,
    /// The name with which the target does, for initiators that ask for it.
    pub chap_mutual: Option<String>,
    /// Where initiators are sent to instead.
    pub moved_to: Option<String>,
    /// They are told that it is for good.
    pub moved_permanently: bool,
    /// Sessions with it now.
    pub sessions: usize,
    /// Why nobody can log in, if that is so.
    pub reason: Option<String>,
    /// Its logical units.
    pub luns: Vec<TargetLun>,
}

/// A logical unit of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetLun {
    /// Its number.
    pub lun: u16,
    /// Its UUID.
    pub uuid: Uuid,
    /// The name of its disk.
    pub disk: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Used space, percent of the unit's or its pool's, from which on initiators are warned.
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

/// A secret on its way to the server; never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// With what initiators prove themselves (CHAP).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The name.
    pub user: String,
    /// The secret, 12 to 255 bytes.
    pub secret: SecretText,
    /// What this end proves itself with, for initiators that ask for it (mutual CHAP); nothing if not set.
    #[serde(default)]
    pub mutual: Option<Credential>,
}

/// A name and its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The name.
    pub user: String,
    /// The secret, 12 to 255 bytes, another one than the initiators'.
    pub secret: SecretText,
}

/// The targets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListTargets {}
call!(ListTargets, "/v1/targets", Vec<IscsiTarget>, read true);

/// Exports a disk as a logical unit; the target is made if there is none of that name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportIscsi {
    /// The disk.
    pub disk: String,
    /// The target; if not set, one whose name is made of the disk's identity.
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
    /// Used space, percent of the unit's or its pool's, from which on initiators are warned (1 to 99).
    #[serde(default)]
    pub threshold: Option<u8>,
    /// Initiators to let in besides those that are: their names, or `any`.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// What initiators prove themselves with from now on; as before if not set.
    #[serde(default)]
    pub chap: Option<Chap>,
}
call!(ExportIscsi, "/v1/targets/export", IscsiTarget);

/// Takes back a logical unit, or a whole target with all of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTarget {
    /// The target.
    pub iqn: String,
    /// The logical unit; the whole target if not set.
    #[serde(default)]
    pub lun: Option<u16>,
}
call!(RemoveTarget, "/v1/targets/remove", Done);

/// Says what initiators of a target prove themselves with; those that are logged in stay.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetChap {
    /// The target.
    pub iqn: String,
    /// With this; with nothing if not set.
    #[serde(default)]
    pub chap: Option<Chap>,
}
call!(SetChap, "/v1/targets/chap", IscsiTarget);

/// Says what initiators prove themselves with in discovery sessions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetDiscoveryChap {
    /// With this; with nothing if not set.
    #[serde(default)]
    pub chap: Option<Chap>,
}
call!(SetDiscoveryChap, "/v1/targets/discovery-chap", Done);

/// Sends initiators of a target elsewhere; those that are logged in stay.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveTarget {
    /// The target.
    pub iqn: String,
    /// Where to: an address or a name, and perhaps a port; it is here again if not set.
    #[serde(default)]
    pub to: Option<String>,
    /// For good: initiators remember it.
    #[serde(default)]
    pub permanently: bool,
}
call!(MoveTarget, "/v1/targets/move", IscsiTarget);

/// Lets an initiator, or any, log in to a target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowInitiator {
    /// The target.
    pub iqn: String,
    /// The initiator's name, or `any`.
    pub initiator: String,
}
call!(AllowInitiator, "/v1/initiators/allow", IscsiTarget);

/// Keeps an initiator from a target, or with `any` everybody who is not named; sessions that lose their right end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenyInitiator {
    /// The target.
    pub iqn: String,
    /// The initiator's name, or `any`.
    pub initiator: String,
}
call!(DenyInitiator, "/v1/initiators/deny", IscsiTarget);
