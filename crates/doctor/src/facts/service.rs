//! Facts about the server as a service of systemd.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::Known;
use serde::{Deserialize, Serialize};

/// The server as a service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Its unit `wirepool.service` with all drop-ins; none if there is none.
    pub unit: Known<Option<Unit>>,
    /// The user that it runs as, or will run as.
    pub uid: Known<u32>,
    /// The groups that it has, or will have.
    pub gids: Known<Vec<u32>>,
}

/// Settings of a unit (systemd.exec(5), systemd.resource-control(5)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unit {
    /// `User=`; empty for root.
    pub user: String,
    /// `Group=`; empty for the first group of the user.
    pub group: String,
    /// `SupplementaryGroups=`.
    pub groups: Vec<String>,
    /// Limit of locked memory of `LimitMEMLOCK=`, or the default of systemd, bytes; none for unlimited.
    pub memlock: Option<u64>,
    /// `DevicePolicy=`: `auto`, `closed` or `strict`.
    pub device_policy: String,
    /// `DeviceAllow=`, such as `block-* rw`.
    pub device_allow: Vec<String>,
    /// `PrivateDevices=`: a `/dev` without devices.
    pub has_private_devices: bool,
}
