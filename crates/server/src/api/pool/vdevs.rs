//! Vdevs of a pool with their members and spares, the expansion and the removal of a vdev.

use super::times::OperationTimes;
use crate::api::{VdevClass, VdevLayout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Health of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Every member has every block.
    Online,
    /// A member is missing, faulted, offline or stale; another has its data.
    Degraded,
    /// A vdev has no member with every block.
    Faulted,
    /// The pool takes no writes, though all data can be read: a write or flush failed on every member of a vdev, or the file system below
    /// is full. `reason` says which.
    Suspended,
}

/// A top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vdev {
    /// Such as `mirror-0`.
    pub name: String,
    /// Its layout.
    pub layout: VdevLayout,
    /// Its class.
    #[serde(default)]
    pub class: VdevClass,
    /// Its health.
    pub health: Health,
    /// Bytes of its data, without parity.
    pub size: u64,
    /// Its expansion by a disk, while that is in progress.
    #[serde(default)]
    pub expansion: Option<Expansion>,
    /// Whether the pool's journal is on it, or moves to it.
    #[serde(default)]
    pub journal: bool,
    /// Its members.
    pub members: Vec<Member>,
}

/// A disk of a vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// Its path, if it is present.
    pub path: Option<PathBuf>,
    /// Its last known path, if it is missing.
    #[serde(default)]
    pub was: Option<PathBuf>,
    /// Whether it is being replaced, and will be detached.
    #[serde(default)]
    pub replaced: bool,
    /// Whether it is a spare that stands in for another disk.
    #[serde(default)]
    pub spare: bool,
    /// `online`, `stale`, `offline`, `faulted` or `missing`.
    pub state: String,
    /// Why it is faulted: `errors`, `gone` or `hung`.
    #[serde(default)]
    pub fault: Option<String>,
    /// Reads since the pool was opened.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed.
    pub write_errors: u64,
    /// Writes for which the file system below had no space.
    #[serde(default)]
    pub no_space: u64,
    /// Blocks with a wrong checksum.
    pub checksum_errors: u64,
    /// Blocks that were repaired from another member.
    pub repairs: u64,
    /// Trimmed bytes.
    #[serde(default)]
    pub trimmed_bytes: u64,
    /// Bytes that were read.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes that were written.
    #[serde(default)]
    pub written_bytes: u64,
    /// Durations of reads.
    #[serde(default)]
    pub read_times: OperationTimes,
    /// Durations of writes.
    #[serde(default)]
    pub write_times: OperationTimes,
    /// Durations of flushes.
    #[serde(default)]
    pub flush_times: OperationTimes,
}

impl Member {
    /// Its path; the last known one if it is missing.
    #[must_use]
    pub fn last_path(&self) -> Option<&PathBuf> {
        self.path.as_ref().or(self.was.as_ref())
    }
}

/// State of a hot spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpareState {
    /// It waits.
    Avail,
    /// It is a member of this pool, or of another one that shares it.
    Inuse,
    /// Its disk was not found.
    Unavail,
}

/// A hot spare: a disk that takes the place of one that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spare {
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// Its path, or its last known one.
    pub path: Option<PathBuf>,
    /// Its state.
    pub state: SpareState,
    /// Bytes of its disk.
    pub size: u64,
    /// If it is in use in this pool: the GUID of the member that its disk is.
    #[serde(default)]
    pub member: Option<String>,
    /// If it is in use in this pool: the path or GUID of the disk that it stands in for.
    #[serde(default)]
    pub instead_of: Option<String>,
    /// If it is in use in another pool: that pool.
    #[serde(default)]
    pub in_pool: Option<String>,
    /// Why it is not available.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The expansion of a raidz by a disk. The vdev has its new size when it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expansion {
    /// Bytes of each disk that are moved.
    pub done: u64,
    /// Bytes of each disk that are moved when it ends.
    pub of: u64,
    /// `done` when it began, or went on after the pool was opened.
    pub began_at: u64,
    /// Time since then in which it did not wait.
    pub active_ms: u64,
    /// The reason why it does not go on.
    pub waits_for: Option<String>,
    /// Number of disks of the vdev that may fail now without loss.
    pub may_fail: u64,
}

impl Expansion {
    /// Bytes of each disk that were moved since the expansion began or went on, and bytes that it then had to move.
    #[must_use]
    pub fn since_start(&self) -> (u64, u64) {
        let since = |n: u64| n.saturating_sub(self.began_at);
        (since(self.done), since(self.of))
    }
}

/// The removal of a vdev: its blocks are copied to the other vdevs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removal {
    /// The vdev, such as `mirror-1`.
    pub vdev: String,
    /// Bytes that were copied.
    pub copied: u64,
    /// Bytes that are still to be copied, about.
    pub left: u64,
    /// Of `copied`, bytes that were copied since the removal began or the pool was opened.
    pub copied_now: u64,
    /// Time that this took, without rests.
    pub active_ms: u64,
    /// Whether it was given up, and the copies are being freed.
    pub is_stopping: bool,
    /// The reason why it does not go on.
    pub waits_for: Option<String>,
}
