//! Requests and answers about the import of pools: pools on disks, imports, and trials of them.

use super::vdevs::Health;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A pool found by the labels of disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// `active` or `exported`.
    pub state: String,
    /// The host that used it last.
    pub host: String,
    /// Its present disks.
    pub disks: Vec<PathBuf>,
    /// Number of its missing disks.
    pub missing: usize,
    /// Disks of it that are too short to be used, each with its size.
    #[serde(default)]
    pub short: Vec<String>,
    /// Why it cannot be imported without force.
    pub reason: Option<String>,
}

/// Looks for pools on disks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanPools {
    /// Disks, and directories with disks; absolute paths. Without any: the search directories of the configuration.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
}

/// Imports a pool from its disks, and stores it in the configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportPool {
    /// Its name, or its GUID in hexadecimal digits; optional if there is only one pool.
    #[serde(default)]
    pub name: Option<String>,
    /// New name; by default its own.
    #[serde(default)]
    pub rename: Option<String>,
    /// Disks, and directories with disks; absolute paths. Without any: the search directories of the configuration.
    #[serde(default)]
    pub disks: Vec<PathBuf>,
    /// Import it although another host has it.
    #[serde(default)]
    pub force: bool,
    /// Import it although missing disks may have later labels: acknowledged writes may be lost.
    #[serde(default)]
    pub force_missing: bool,
    /// Open it read-only.
    #[serde(default)]
    pub read_only: bool,
    /// Use the space of grown disks, if all disks of a vdev have grown.
    #[serde(default)]
    pub expand: bool,
    /// Open it at this checkpoint; later changes are lost. For the newest checkpoint, the journal is applied up to
    /// the first damaged batch.
    #[serde(default)]
    pub rewind: Option<u64>,
}

/// Trial of an import: returns the result, and changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TryImport {
    /// The import.
    pub import: ImportPool,
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The name that the pool would have.
    pub name: String,
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// The checkpoint that it would be opened at.
    pub sequence: u64,
    /// Time of that checkpoint, ms since 1970.
    pub time_ms: u64,
    /// The health that it would have.
    pub health: Option<Health>,
    /// The volumes and filesystems that it would have; empty if it would not open.
    pub volumes: Vec<String>,
    /// Why it would not open.
    pub problem: Option<String>,
    /// The recovery with the smallest loss; none if the newest checkpoint opens without loss.
    pub advice: Option<String>,
    /// The checkpoints, newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Disks of it that are too short to be used, each with its size.
    #[serde(default)]
    pub short: Vec<String>,
}

/// A checkpoint that a pool may be opened at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its number.
    pub sequence: u64,
    /// The epoch that it ended: it holds every block born up to then that was not freed.
    pub epoch: u64,
    /// Time of writing, ms since 1970.
    pub time_ms: u64,
    /// Why the pool cannot be opened at it; none if its trees can be read.
    pub reason: Option<String>,
    /// Batches of the journal that are applied on top of it.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Durable batches of the journal that are lost with this choice.
    pub lost_batches: u64,
    /// Newer checkpoints that are lost with this choice.
    pub lost_checkpoints: u64,
}
