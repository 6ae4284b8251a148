//! Snapshots: what is asked and answered.

use super::call::{Call, Done, call};
use super::pool::Volume;
use serde::{Deserialize, Serialize};

/// A snapshot of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Bytes of the volume as it was.
    pub size: u64,
    /// Bytes of its records as stored, as of the last checkpoint; it shares them with others.
    pub referenced: u64,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// The volumes that began as it is.
    pub clones: Vec<String>,
}

/// The snapshots, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSnapshots {
    /// Of this volume; of all if not set.
    #[serde(default)]
    pub volume: Option<String>,
}
call!(ListSnapshots, "/v1/snapshots", Vec<Snapshot>);

/// Keeps a volume as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
}
call!(CreateSnapshot, "/v1/snapshots/create", Snapshot);

/// Destroys a snapshot that has no clone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroySnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
}
call!(DestroySnapshot, "/v1/snapshots/destroy", Done);

/// Makes a volume that begins as a snapshot is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneSnapshot {
    /// Such as `tank/vm1@monday`.
    pub snapshot: String,
    /// The new volume, in the same pool, such as `tank/vm2`.
    pub clone: String,
}
call!(CloneSnapshot, "/v1/snapshots/clone", Volume);

/// Makes a volume what its newest snapshot is. It must not be exported meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackVolume {
    /// Such as `tank/vm1@monday`.
    pub snapshot: String,
    /// It is meant: what was written since is lost.
    #[serde(default)]
    pub force: bool,
}
call!(RollbackVolume, "/v1/volumes/rollback", Volume);
