//! Requests and answers about written bytes and the wear of disks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The bytes that pools wrote since they were opened, and the wear of their disks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWrites {}

/// Written bytes, and the wear of disks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Writes {
    /// Time of this answer on a clock that never goes back, ms.
    pub at_ms: u64,
    /// The open pools.
    pub pools: Vec<PoolWrites>,
}

/// Bytes that a pool wrote.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolWrites {
    /// Its name.
    pub name: String,
    /// Its GUID, 16 hexadecimal digits.
    pub guid: String,
    /// Blocks and batches, each once for all members of a mirror; without labels.
    pub written: WrittenBytes,
    /// Data of acknowledged writes of clients, all datasets.
    #[serde(default)]
    pub client: u64,
    /// Its journal.
    pub journal: JournalUse,
    /// Its volumes and filesystems.
    pub datasets: Vec<DatasetWrites>,
    /// Its present disks.
    pub disks: Vec<DiskWrites>,
}

/// Use of a pool's journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalUse {
    /// Bytes that replay would read.
    pub used: u64,
    /// Its size, bytes.
    pub size: u64,
    /// Number of times that a change found no room in it, and waited for a checkpoint.
    pub full: u64,
    /// Time of the last durable checkpoint, ms since 1970.
    pub checkpoint_ms: u64,
}

/// Written bytes by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenBytes {
    /// Records of volumes and files.
    pub data: u64,
    /// Batches of the journal.
    pub journal: u64,
    /// Nodes of trees.
    pub nodes: u64,
    /// Labels and uberblocks.
    pub labels: u64,
    /// Copies that reads, scrubs, resilvers and replay wrote again.
    pub repair: u64,
    /// Records that the row mover wrote again, to free rows of a raidz.
    #[serde(default)]
    pub moved: u64,
}

impl WrittenBytes {
    /// Each class with its name.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 6] {
        [
            ("data", self.data),
            ("journal", self.journal),
            ("nodes", self.nodes),
            ("labels", self.labels),
            ("repair", self.repair),
            ("moved", self.moved),
        ]
    }

    /// Bytes of all classes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.classes().iter().map(|(_, bytes)| bytes).sum()
    }
}

impl From<pool::WrittenBytes> for WrittenBytes {
    fn from(w: pool::WrittenBytes) -> WrittenBytes {
        WrittenBytes {
            data: w.data,
            journal: w.journal,
            nodes: w.nodes,
            labels: w.labels,
            repair: w.repair,
            moved: w.moved,
        }
    }
}

/// Bytes written for a volume or filesystem, each block once for all members of a mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetWrites {
    /// Such as `tank/vm1`.
    pub name: String,
    /// Data of acknowledged writes of clients.
    pub client: u64,
    /// Records as stored, in whole sectors.
    pub data: u64,
    /// Its records in the journal, without headers and padding of batches.
    pub journal: u64,
    /// Nodes of its tree.
    pub nodes: u64,
}

/// As `GET /v1/pools/writes`, without datasets: its size does not grow with volumes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWear {}

/// Bytes written to a disk, and its wear.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskWrites {
    /// The member's GUID, 16 hexadecimal digits.
    pub guid: String,
    /// Its path.
    pub path: PathBuf,
    /// Bytes that this server wrote to it.
    pub written: WrittenBytes,
    /// What the disk itself says.
    pub health: DiskHealth,
    /// How long its endurance lasts at the present rate.
    pub forecast: WearForecast,
}

/// Counters that a disk keeps about itself. A counter that the disk does not have is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskHealth {
    /// `nvme` or `ata`; none if nothing is known.
    pub source: Option<String>,
    /// Why nothing is known.
    pub unknown: Option<String>,
    /// Bytes that hosts wrote to it in its life.
    pub host_written: Option<u64>,
    /// Bytes that it wrote to its medium in its life.
    pub media_written: Option<u64>,
    /// Used part of its endurance as the vendor estimates it, %; may be above 100.
    pub percentage_used: Option<u64>,
    /// Time that it was powered, hours.
    pub power_on_hours: Option<u64>,
    /// Bytes that may be written to it in its life, as the configuration says (`[wear] rated_tbw`).
    pub rated_bytes: Option<u64>,
}

/// How long the endurance of a disk lasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WearForecast {
    /// Days that are left; none if they are unknown.
    pub days: Option<f64>,
    /// Where the endurance comes from.
    pub endurance: Option<EnduranceSource>,
    /// Where the rate of writing comes from.
    pub rate: Option<RateSource>,
    /// Written bytes per day at this rate.
    pub bytes_per_day: Option<f64>,
    /// Time over which the rate was observed, s.
    pub span_s: u64,
    /// Why the days are unknown.
    pub unknown: Option<String>,
}

/// Where the endurance of a disk comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnduranceSource {
    /// The rated bytes of the configuration.
    Rated,
    /// The percentage used, and the bytes that were written until then.
    PercentageUsed,
}

/// Where the rate of writing to a disk comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateSource {
    /// The disk's own counter of written bytes.
    Disk,
    /// The bytes that this server wrote, as the disk's counter is too coarse for the interval.
    Server,
    /// The mean over the time that the disk was powered.
    Life,
}
