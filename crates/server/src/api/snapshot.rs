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

/// Gives a snapshot another name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Its new name, such as `tuesday` or `tank/vm1@tuesday`.
    pub new: String,
}
call!(RenameSnapshot, "/v1/snapshots/rename", Snapshot);

/// A hold of a snapshot, which keeps it from being destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The snapshot, such as `tank/vm1@monday`.
    pub name: String,
    /// Who or what holds it.
    pub tag: String,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
}

/// Keeps a snapshot from being destroyed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Who or what holds it: 1 to 255 letters, digits, `-`, `_`, `.` and `:`.
    pub tag: String,
}
call!(HoldSnapshot, "/v1/snapshots/hold", Vec<Hold>);

/// Takes a hold back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseSnapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// The hold.
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

/// Gives a volume that is not exported another name; its snapshots go with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameVolume {
    /// Such as `tank/vm1`.
    pub name: String,
    /// Its new name, in the same pool, such as `tank/vm3`.
    pub new: String,
}
call!(RenameVolume, "/v1/volumes/rename", Volume);

/// Lets a clone and the volume that it began as change places: the snapshots up to that one become the clone's.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromoteVolume {
    /// The clone, such as `tank/vm2`.
    pub name: String,
}
call!(PromoteVolume, "/v1/volumes/promote", Volume);
