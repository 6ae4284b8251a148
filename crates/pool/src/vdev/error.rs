//! Why a pool cannot be made or opened, by what the operator does next.

use std::path::PathBuf;

use thiserror::Error;

use super::limits::DISK_SIZE_MIN;
use crate::error::{Error, file_system_full};
use crate::format::{NAME_SIZE_MAX, PoolGuid, SIDES_MAX, SideGuid, VDEVS_MAX, VdevId};

/// Why a pool was not made or not opened. Nothing was written, unless it says so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    /// Blocks that a side lacks are nowhere: restore or destroy what `pool status -v` names, and resilver again.
    #[error("{blocks} blocks that {:016x} lacks cannot be read from any side: it is not resilvered", side.0)]
    Lost {
        /// The side that was to be resilvered.
        side: SideGuid,
        /// How many.
        blocks: u64,
    },
    /// Choose another name.
    #[error(
        "{name:?} is no name for a pool: take 1 to {NAME_SIZE_MAX} letters, digits, '_', '-', '.' and ':', the first a \
         letter or digit"
    )]
    Name {
        /// The name that was asked for.
        name: String,
    },
    /// Ask for another number of vdevs or sides.
    #[error("a pool has 1 to {VDEVS_MAX} vdevs and a mirror 1 to {SIDES_MAX} sides, not {got}")]
    Shape {
        /// How many were asked for.
        got: usize,
    },
    /// Take a larger disk.
    #[error(
        "{} has {size} bytes: take a disk of {} MiB or more", path.display(), DISK_SIZE_MIN >> 20
    )]
    TooSmall {
        /// The smallest of those that are too small.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// Take another disk.
    #[error("{} has blocks of {block} bytes: a pool takes disks with blocks up to {most}", path.display())]
    BlockSize {
        /// The disk.
        path: PathBuf,
        /// Bytes of its blocks.
        block: u32,
        /// The most that will do.
        most: u32,
    },
    /// Name each disk once.
    #[error("{} and {} are the same disk: name it once", first.display(), second.display())]
    SameDisk {
        /// One path.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Take another disk, or force it.
    #[error(
        "{} belongs to the pool {name:?}: take another disk, or force it, which destroys that pool's data on it",
        path.display()
    )]
    InUse {
        /// The disk.
        path: PathBuf,
        /// The pool that it belongs to.
        name: String,
    },
    /// Take another disk, or force it.
    #[error(
        "{} belongs to a pool of a later version: take another disk, or force it, which destroys that pool's data on it",
        path.display()
    )]
    LaterVersion {
        /// The disk.
        path: PathBuf,
    },
    /// Open the disk for writing.
    #[error("{} was opened for reading only", path.display())]
    ReadOnlyDisk {
        /// The disk.
        path: PathBuf,
    },
    /// Look after the disk.
    #[error("{}: {error}", path.display())]
    Io {
        /// The disk.
        path: PathBuf,
        /// What it reported.
        error: io::Error,
    },
    /// Make room in the file system.
    #[error("{} and try again", file_system_full(path))]
    FileSystemFull {
        /// The file that it has no space for.
        path: PathBuf,
    },
    /// Look after the disks: something was written, and not all of it.
    #[error("a disk failed while the pool's labels were written: see to the disks and try again")]
    Device,
    /// Unplug one of the copies.
    #[error(
        "{} and {} both say that they are disk {:016x} of the pool: one is a copy, or one disk is seen twice; leave one \
         out", first.display(), second.display(), guid.0
    )]
    Duplicate {
        /// What both claim to be.
        guid: SideGuid,
        /// One of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Export it there first, or force it.
    #[error(
        "the pool {name:?} is in use by host {host:?}, or was when that host stopped: export it there; force the import \
         only if that host surely does not use it any more"
    )]
    ForeignHost {
        /// The pool.
        name: String,
        /// Who uses it.
        host: String,
    },
    /// Use a newer version, or open for reading only if that may be.
    #[error(
        "the pool uses {feature:?}, which this version does not know: use a newer one{}",
        if *readable { ", or open it for reading only" } else { "" }
    )]
    Feature {
        /// The feature.
        feature: String,
        /// Whether it may be read.
        readable: bool,
    },
    /// Attach the disks of the vdev.
    #[error("vdev {} is missing with every side that has its data: attach {}", vdev.0, guids(sides))]
    VdevMissing {
        /// Its index.
        vdev: VdevId,
        /// Its sides with everything, as far as they are known.
        sides: Vec<SideGuid>,
    },
    /// Attach the disk, or force it.
    #[error(
        "vdev {} lacks {}, and nothing says that the sides that are there have all that it has: attach it; if it is gone \
         for good, force the import of the pool without it", vdev.0, guids(sides)
    )]
    SideMissing {
        /// Its index.
        vdev: VdevId,
        /// Its sides that should be there.
        sides: Vec<SideGuid>,
    },
    /// Leave disks out.
    #[error(
        "sides of vdev {} were used apart from each other: {} each has what the other lacks; import with only one of them \
         attached, then attach the other anew", vdev.0, guids(sides)
    )]
    Apart {
        /// Its index.
        vdev: VdevId,
        /// One side of each part.
        sides: Vec<SideGuid>,
    },
    /// Make the file as long as it was.
    #[error("{} is shorter than its label says: it has room for {got} bytes of data instead of {want}", path.display())]
    Truncated {
        /// The disk.
        path: PathBuf,
        /// Bytes of data there is room for.
        got: u64,
        /// Bytes there were.
        want: u64,
    },
    /// Make it anew, by force.
    #[error("the pool was never finished, and nothing was written to it: make it anew, by force")]
    Unfinished {
        /// Which.
        pool: PoolGuid,
    },
    /// Open it at a checkpoint that a member that missed writes has, or attach other members.
    #[error(
        "every uberblock on the members that have all writes is damaged; labels and data may be whole: {}; do not make the \
         pool anew, which destroys what is on its disks",
        uberblocks_lost(*checkpoint, missing)
    )]
    UberblocksLost {
        /// The newest checkpoint that another member has.
        checkpoint: Option<u64>,
        /// Members that are not there.
        missing: Vec<SideGuid>,
    },
    /// Attach all disks, or force it.
    #[error(
        "the newest labels are lost: an uberblock was written with labels of epoch {written}, the newest found is {found}; \
         attach all disks of the pool, or force the import"
    )]
    LabelsLost {
        /// The epoch that the uberblock knows.
        written: u64,
        /// The newest that was found.
        found: u64,
    },
    /// Choose one that is there.
    #[error(
        "there is no checkpoint {sequence} on these disks: they have {oldest} to {newest}, and -n lists them"
    )]
    NoUberblock {
        /// The sequence that was asked for.
        sequence: u64,
        /// The oldest that is there.
        oldest: u64,
        /// The newest that is there.
        newest: u64,
    },
    /// Name one that is there.
    #[error("the pool has no disk {:016x} of which that could be asked: see its status", side.0)]
    NoSide {
        /// What was asked for.
        side: SideGuid,
    },
    /// Name one that is there.
    #[error("the pool has no vdev {}: see its status", vdev.0)]
    NoVdev {
        /// What was asked for.
        vdev: VdevId,
    },
    /// Attach another side, or resilver one, first.
    #[error("disk {:016x} is the last of its vdev with everything: attach another and let it be resilvered first", side.0)]
    LastSide {
        /// The side.
        side: SideGuid,
    },
    /// Plug it in.
    #[error("disk {:016x} is not there: plug it in, or attach another in its place", side.0)]
    Absent {
        /// The side.
        side: SideGuid,
    },
    /// Wait, or unplug it.
    #[error("disk {:016x} still owes answers from when it was given up, which could overwrite what is newer: wait for it, or unplug it", side.0)]
    Owed {
        /// The side.
        side: SideGuid,
    },
    /// Take the right one, or attach this one as a new side.
    #[error("{} is not disk {:016x} of this pool: attach it as a new one if it is to take its place", path.display(), side.0)]
    OtherDisk {
        /// The disk.
        path: PathBuf,
        /// The side that it should be.
        side: SideGuid,
    },
    /// Begin to resilver it again.
    #[error("disk {:016x} missed a write while it was resilvered: begin again", side.0)]
    Missed {
        /// The side.
        side: SideGuid,
    },
    /// Checkpoint, and end the resilvering after.
    #[error("no checkpoint was made since resilvering of disk {:016x} began", side.0)]
    NoCheckpoint {
        /// The side.
        side: SideGuid,
    },
    /// Open the pool for writing.
    #[error("the pool was opened for reading only: open it for writing")]
    ReadOnly,
}

impl SetupError {
    /// What it means that labels or uberblocks could not be written.
    pub(crate) fn failed(error: Error) -> Self {
        match error {
            Error::FileSystemFull { path } => SetupError::FileSystemFull { path },
            _ => SetupError::Device,
        }
    }
}

fn uberblocks_lost(checkpoint: Option<u64>, missing: &[SideGuid]) -> String {
    match (checkpoint, missing.is_empty()) {
        (Some(sequence), _) => format!(
            "a member that missed writes has checkpoint {sequence}: import the pool with --rewind {sequence}, which loses \
             what was written later"
        ),
        (None, false) => format!("attach {}, which may have some", guids(missing)),
        (None, true) => "restore the pool from a backup".into(),
    }
}

fn guids(sides: &[SideGuid]) -> String {
    let each: Vec<_> = sides
        .iter()
        .map(|side| format!("{:016x}", side.0))
        .collect();
    each.join(", ")
}
