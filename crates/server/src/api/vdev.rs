//! Vdevs in requests: their layout, class and members.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// How the members of a vdev hold its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VdevLayout {
    /// One disk.
    Disk,
    /// Each of two or more disks has every block.
    Mirror,
    /// Rows over two or more disks with one parity: one disk may fail.
    Raidz1,
    /// Rows over three or more disks with two parities: two disks may fail.
    Raidz2,
    /// Rows over four or more disks with three parities: three disks may fail.
    Raidz3,
}

impl VdevLayout {
    /// Every layout.
    pub const ALL: [Self; 5] = [
        Self::Disk,
        Self::Mirror,
        Self::Raidz1,
        Self::Raidz2,
        Self::Raidz3,
    ];

    /// The name of such a vdev of a pool: `raidz2-0`.
    #[must_use]
    pub fn vdev_name(self, index: u16) -> String {
        format!("{self}-{index}")
    }

    /// Whether a word is the name of a vdev.
    #[must_use]
    pub fn is_vdev_name(word: &str) -> bool {
        word.rsplit_once('-').is_some_and(|(layout, index)| {
            index.parse::<u16>().is_ok() && Self::ALL.iter().any(|l| l.to_string() == layout)
        })
    }

    /// The fewest disks of such a vdev.
    #[must_use]
    pub fn least_disks(self) -> usize {
        match self {
            Self::Disk => 1,
            Self::Mirror | Self::Raidz1 => 2,
            Self::Raidz2 => 3,
            Self::Raidz3 => 4,
        }
    }

    /// Whether such a vdev can have this number of disks.
    #[must_use]
    pub fn takes(self, disks: usize) -> bool {
        disks >= self.least_disks() && (disks == 1 || self != Self::Disk)
    }

    /// How many of `disks` disks may fail without loss of data.
    #[must_use]
    pub fn failures(self, disks: usize) -> usize {
        match self {
            Self::Disk => 0,
            Self::Mirror => disks.saturating_sub(1),
            Self::Raidz1 => 1,
            Self::Raidz2 => 2,
            Self::Raidz3 => 3,
        }
    }
}

impl fmt::Display for VdevLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disk => "disk",
            Self::Mirror => "mirror",
            Self::Raidz1 => "raidz1",
            Self::Raidz2 => "raidz2",
            Self::Raidz3 => "raidz3",
        })
    }
}

/// What a vdev is used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VdevClass {
    /// All blocks of a pool, and the journal if no vdev is of its class.
    #[default]
    Normal,
    /// The journal only: it makes durable writes as fast as this vdev.
    Log,
    /// Metadata and small records (`special_small_blocks`), as long as it has room. The pool is lost with it.
    Special,
}

/// The special class of a pool: metadata and small records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpecialClass {
    /// Bytes of its vdevs: `used` + `freeing` + `free`. They are not in the sizes of the pool.
    pub size: u64,
    /// Bytes taken.
    pub used: u64,
    /// Freed bytes that the next checkpoint makes reusable.
    pub freeing: u64,
    /// Free bytes.
    pub free: u64,
    /// Whether small records go to it. The last quarter of it is for metadata.
    pub takes_small_records: bool,
    /// Bytes of metadata and small records that went to normal vdevs since the pool was opened because the class had no room, by dataset.
    pub spilled: Vec<Spilled>,
    /// The same of metadata that belongs to no dataset.
    pub spilled_of_pool: u64,
    /// Why blocks are moved between the class and normal vdevs now; `None` if none are.
    #[serde(default)]
    pub moves: Option<ClassReason>,
    /// Bytes that were moved so since the pool was opened.
    #[serde(default)]
    pub moved: u64,
    /// Whether the last such moves left metadata or small records on normal vdevs because the class had no room.
    #[serde(default)]
    pub lacks_room: bool,
}

/// Why blocks are moved between the special class and normal vdevs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClassReason {
    /// Earlier moves did not end: many blocks are in the other class.
    Opened,
    /// A special vdev was added.
    Added,
    /// `special_small_blocks` changed.
    Threshold,
    /// The class had no room for some metadata or records, and has room again.
    Room,
}

/// Changes that a pool lost with its journal: it was imported without the log that had them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostChanges {
    /// All changes after this time are lost, durable ones too, with datasets that were created since; milliseconds since 1970.
    pub since_ms: u64,
    /// Datasets that are not named did not change from this time until then, milliseconds since 1970.
    pub known_ms: u64,
    /// Datasets that changed between the two times, the last one first.
    pub changed: Vec<LastChange>,
}

/// The last known change of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastChange {
    /// Its name.
    pub dataset: String,
    /// When the checkpoint with the change was written, milliseconds since 1970.
    pub time_ms: u64,
}

impl std::fmt::Display for LostChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let now = io::time::wall_clock_ms();
        let ago = |ms: u64| now.saturating_sub(ms) / 1000;
        let (since, known) = (ago(self.since_ms), ago(self.known_ms));
        write!(
            f,
            "all changes since the newest checkpoint, {since} s ago, are lost with the log, durable ones too"
        )?;
        if self.changed.is_empty() {
            return write!(
                f,
                "; no dataset changed in the {} s before it",
                known - since
            );
        }
        let of = |last: &LastChange| format!("{} ({} s ago)", last.dataset, ago(last.time_ms));
        let changed: Vec<_> = self.changed.iter().map(of).collect();
        write!(
            f,
            "; datasets that changed in the {} s before it, and may have lost changes: {}",
            known - since,
            changed.join(", ")
        )
    }
}

impl SpecialClass {
    /// Bytes that it had no room for since the pool was opened.
    #[must_use]
    pub fn spilled_bytes(&self) -> u64 {
        let of_datasets: u64 = self.spilled.iter().map(|of| of.bytes).sum();
        of_datasets + self.spilled_of_pool
    }
}

/// Bytes of a dataset that the special class had no room for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spilled {
    /// The dataset, with the pool.
    pub dataset: String,
    /// Bytes since the pool was opened.
    pub bytes: u64,
}

/// A vdev to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VdevSpec {
    /// Its layout.
    pub layout: VdevLayout,
    /// Its class.
    #[serde(default)]
    pub class: VdevClass,
    /// The disks of its members, absolute paths.
    pub members: Vec<PathBuf>,
}

impl VdevSpec {
    /// A vdev of the normal class without parity: one disk, or a mirror.
    #[must_use]
    pub fn mirror(members: Vec<PathBuf>) -> Self {
        let layout = match members.len() {
            1 => VdevLayout::Disk,
            _ => VdevLayout::Mirror,
        };
        Self {
            layout,
            class: VdevClass::Normal,
            members,
        }
    }

    /// The members of all of them.
    pub fn paths(vdevs: &[Self]) -> impl Iterator<Item = &Path> {
        vdevs.iter().flat_map(|v| &v.members).map(PathBuf::as_path)
    }
}
