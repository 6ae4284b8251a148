//! Requests about the disks of a pool. A disk is named by its path or its GUID.

use super::VdevSpec;
use crate::size::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Adds vdevs to a pool, which new writes use at once, hot spares, or cache devices.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddVdevs {
    /// The pool.
    pub pool: String,
    /// The vdevs.
    #[serde(default)]
    pub vdevs: Vec<VdevSpec>,
    /// Disks that become hot spares. Pools of one server may share a spare: the first one that needs it takes it.
    #[serde(default)]
    pub spares: Vec<PathBuf>,
    /// Disks that become cache devices.
    #[serde(default)]
    pub caches: Vec<PathBuf>,
    /// Create missing files with this size.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Use disks that belong to another pool or have other contents, such as a file system: everything on them is lost. Also accept a
    /// vdev that loses data after fewer failures than the others, and a raidz of disks of different sizes.
    #[serde(default)]
    pub force: bool,
}

/// Attaches a disk to a mirror, and resilvers it at once; or expands a raidz by it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachMember {
    /// The pool.
    pub pool: String,
    /// A disk of the mirror, or the name of the vdev, such as `raidz2-0`.
    pub disk: String,
    /// The new disk; absolute.
    pub new: PathBuf,
    /// Create the file with this size if it is missing.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Use a disk that belongs to another pool or has other contents, such as a file system: everything on it is lost.
    #[serde(default)]
    pub force: bool,
}

/// Removes a hot spare that is not in use, or a cache device; or begins to remove a vdev: its blocks are copied to the other vdevs in the background, and then
/// its disks leave the pool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveDevice {
    /// The pool.
    pub pool: String,
    /// The spare or cache device, by its path or GUID; or the vdev, by its name, such as `mirror-1`, or by one of its disks.
    pub disk: String,
}

/// Gives up the removal of a vdev, which then takes writes again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRemoval {
    /// The pool.
    pub pool: String,
}

/// Detaches a disk from its mirror permanently. A spare that is detached waits again; if the disk that it stands in for is detached, the
/// spare remains as a member.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetachMember {
    /// The pool.
    pub pool: String,
    /// The disk.
    pub disk: String,
}

/// Replaces a disk: the new one is resilvered, then the old one is detached, also after a restart. In a raidz the old one leaves at once,
/// since its rows cannot have a member more.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceMember {
    /// The pool.
    pub pool: String,
    /// The disk to replace.
    pub disk: String,
    /// Absolute path of the new disk; by default that of the old one.
    #[serde(default)]
    pub new: Option<PathBuf>,
    /// Create the file with this size if it is missing.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Use a disk that belongs to another pool or has other contents, such as a file system: everything on it is lost.
    #[serde(default)]
    pub force: bool,
}

/// Brings a disk online, and resilvers it at once.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnlineMember {
    /// The pool.
    pub pool: String,
    /// The disk.
    pub disk: String,
    /// Its new absolute path; by default the old one.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Use the space of grown disks, if all disks of its vdev have grown.
    #[serde(default)]
    pub expand: bool,
}

/// Takes a disk of a mirror offline.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfflineMember {
    /// The pool.
    pub pool: String,
    /// The disk.
    pub disk: String,
}
