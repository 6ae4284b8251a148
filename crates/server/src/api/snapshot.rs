//! Requests and answers about snapshots.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A snapshot of a volume or filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Such as `tank/vm1@monday`.
    pub name: String,
    /// Bytes of the volume as it was; 0 for a filesystem.
    pub size: u64,
    /// Bytes of its records as stored, including shared ones, as of the last checkpoint.
    pub referenced: u64,
    /// Bytes that are free once it alone is destroyed, as of the last checkpoint.
    #[serde(default)]
    pub used: u64,
    /// Whether `used` is only an upper bound: it holds too many blocks to count them for an answer, or its list is damaged.
    #[serde(default)]
    pub used_at_most: bool,
    /// Time of its creation, ms since 1970.
    pub created_ms: u64,
    /// Its clones.
    pub clones: Vec<String>,
}

/// The snapshots, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ListSnapshots {
    /// The volume or filesystem (default: all).
    #[serde(default)]
    pub volume: Option<String>,
}

/// Creates a snapshot of a volume or filesystem.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// The volume or filesystem, and the name of the snapshot, such as tank/vm1@monday.
    pub name: String,
    /// Also create snapshots of all datasets below it, at the same moment: all of them, or none.
    #[serde(default)]
    #[arg(short, long)]
    pub recursive: bool,
}

/// Destroys a snapshot without clones.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct DestroySnapshot {
    /// The snapshot, such as tank/vm1@monday.
    pub name: String,
    /// Also destroy the snapshots of this name of all datasets below it: all of them, or none.
    #[serde(default)]
    #[arg(short, long)]
    pub recursive: bool,
}

/// Creates a volume or filesystem from a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct CloneSnapshot {
    /// The snapshot, such as tank/vm1@monday.
    pub snapshot: String,
    /// The new volume or filesystem, in the same pool, such as tank/vm2.
    pub clone: String,
}

/// Rolls a volume back to its newest snapshot. The volume must not be exported.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct RollbackVolume {
    /// The snapshot, such as tank/vm1@monday.
    pub snapshot: String,
    /// Confirm that changes since the snapshot are lost.
    #[serde(default)]
    #[arg(short, long)]
    pub force: bool,
}

/// Renames a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct RenameSnapshot {
    /// The snapshot, such as tank/vm1@monday.
    pub name: String,
    /// The new name, such as tuesday or tank/vm1@tuesday.
    pub new: String,
}

/// A hold of a snapshot, which prevents its destruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// The snapshot, such as `tank/vm1@monday`.
    pub name: String,
    /// Tag of the hold.
    pub tag: String,
    /// Time of its creation, ms since 1970.
    pub created_ms: u64,
}

/// Holds a snapshot, so that it cannot be destroyed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct HoldSnapshot {
    /// The snapshot, such as tank/vm1@monday.
    #[arg(index = 2)]
    pub name: String,
    /// The tag of the hold, such as backup: 1 to 255 letters, digits, '-', '_', '.' and ':'.
    #[arg(index = 1)]
    pub tag: String,
}

/// Releases a hold.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ReleaseSnapshot {
    /// The snapshot, such as tank/vm1@monday.
    #[arg(index = 2)]
    pub name: String,
    /// The tag of the hold, such as backup: 1 to 255 letters, digits, '-', '_', '.' and ':'.
    #[arg(index = 1)]
    pub tag: String,
}

/// The holds of a snapshot, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ListHolds {
    /// The snapshot, such as tank/vm1@monday.
    pub name: String,
}

/// Renames a volume with its snapshots, and all datasets below it. None of them may be exported.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct RenameVolume {
    /// The volume, such as tank/vm1.
    pub name: String,
    /// The new name, in the same pool, such as tank/vm3.
    pub new: String,
}

/// Promotes a clone: the snapshots of its origin volume up to its origin become its own.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct PromoteVolume {
    /// The clone, such as tank/vm2.
    pub name: String,
}
