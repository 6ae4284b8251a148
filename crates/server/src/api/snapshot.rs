//! Requests and answers about snapshots.

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
    /// Bytes of its records as stored, including shared ones, as of the last checkpoint.
    pub referenced: u64,
    /// Time of its creation, ms since 1970.
    pub created_ms: u64,
    /// Its clones.
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

/// Creates a snapshot of a volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
}
call!(CreateSnapshot, "/v1/snapshots/create", Snapshot);

/// Destroys a snapshot without clones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroySnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
}
call!(DestroySnapshot, "/v1/snapshots/destroy", Done);

/// Creates a volume from a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneSnapshot {
    /// Such as `tank/vm1@monday`.
    pub snapshot: String,
    /// The new volume, in the same pool, such as `tank/vm2`.
    pub clone: String,
}
call!(CloneSnapshot, "/v1/snapshots/clone", Volume);

/// Rolls a volume back to its newest snapshot. The volume must not be exported.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackVolume {
    /// Such as `tank/vm1@monday`.
    pub snapshot: String,
    /// Confirms that later changes are lost.
    #[serde(default)]
    pub force: bool,
}
call!(RollbackVolume, "/v1/volumes/rollback", Volume);

/// Renames a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Its new name, such as `tuesday` or `tank/vm1@tuesday`.
    pub new: String,
}
call!(RenameSnapshot, "/v1/snapshots/rename", Snapshot);

/// A hold of a snapshot, which prevents its destruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The snapshot, such as `tank/vm1@monday`.
    pub name: String,
    /// Tag of the hold.
    pub tag: String,
    /// Time of its creation, ms since 1970.
    pub created_ms: u64,
}

/// Holds a snapshot, so that it cannot be destroyed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Tag of the hold: 1 to 255 letters, digits, `-`, `_`, `.` and `:`.
    pub tag: String,
}
call!(HoldSnapshot, "/v1/snapshots/hold", Vec<Hold>);

/// Releases a hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Tag of the hold.
    pub tag: String,
}
call!(ReleaseSnapshot, "/v1/snapshots/release", Vec<Hold>);

/// The holds of a snapshot, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListHolds {
    /// Such as `tank/vm1@monday`.
    pub name: String,
}
call!(ListHolds, "/v1/snapshots/holds", Vec<Hold>);

/// Renames a volume that is not exported, with its snapshots.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameVolume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// Its new name, in the same pool, such as `tank/vm3`.
    pub new: String,
}
call!(RenameVolume, "/v1/volumes/rename", Volume);

/// Promotes a clone: the snapshots of its origin volume up to its origin become its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromoteVolume {
    /// The clone, such as `tank/vm2`.
    pub name: String,
}
call!(PromoteVolume, "/v1/volumes/promote", Volume);
