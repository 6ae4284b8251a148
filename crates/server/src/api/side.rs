//! Disks of a pool that come and go: what is asked. A disk is named by its path or its GUID.

use super::call::{Call, call};
use super::pool::Pool;
use crate::size::ByteSize;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Adds vdevs to a pool, whose space is used at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddVdevs {
    /// The pool.
    pub pool: String,
    /// Each the absolute path of a disk, or of the sides of a mirror.
    pub vdevs: Vec<Vec<PathBuf>>,
    /// Make files that are missing, of this size.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Take disks that belong to another pool, whose data on them is lost.
    #[serde(default)]
    pub force: bool,
}
call!(AddVdevs, "/v1/pools/add", Pool);

/// Adds a disk to the vdev of another: a mirror gets one side more. It is resilvered at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachSide {
    /// The pool.
    pub pool: String,
    /// A disk of the vdev.
    pub disk: String,
    /// The new disk; absolute.
    pub new: PathBuf,
    /// Make the file, if it is missing, of this size.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Take a disk that belongs to another pool, whose data on it is lost.
    #[serde(default)]
    pub force: bool,
}
call!(AttachSide, "/v1/pools/attach", Pool);

/// Removes a disk from its mirror for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachSide {
    /// The pool.
    pub pool: String,
    /// The disk.
    pub disk: String,
}
call!(DetachSide, "/v1/pools/detach", Pool);

/// Attaches a disk, and detaches another once the new one has everything, also after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceSide {
    /// The pool.
    pub pool: String,
    /// The disk that goes.
    pub disk: String,
    /// The new disk, absolute; where the old one was if not set.
    #[serde(default)]
    pub new: Option<PathBuf>,
    /// Make the file, if it is missing, of this size.
    #[serde(default)]
    pub size: Option<ByteSize>,
    /// Take a disk that belongs to another pool, whose data on it is lost.
    #[serde(default)]
    pub force: bool,
}
call!(ReplaceSide, "/v1/pools/replace", Pool);

/// Uses a disk again; it is resilvered at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnlineSide {
    /// The pool.
    pub pool: String,
    /// The disk.
    pub disk: String,
    /// Where it is now, absolute; where it was if not set.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Use the room that its vdev gained because all its disks became larger.
    #[serde(default)]
    pub expand: bool,
}
call!(OnlineSide, "/v1/pools/online", Pool);

/// Leaves a disk of a mirror alone until it is online again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfflineSide {
    /// The pool.
    pub pool: String,
    /// The disk.
    pub disk: String,
}
call!(OfflineSide, "/v1/pools/offline", Pool);
