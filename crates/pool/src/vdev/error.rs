//! Errors of creating, opening and changing a pool's devices, by what the operator does next.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::limits::DISK_SIZE_MIN;
use crate::error::{Error, file_system_full};
use crate::format::{
    JOURNAL_SEGMENTS_MAX, MEMBERS_MAX, MemberGuid, NAME_SIZE_MAX, PoolGuid, SPARE_POOLS_MAX,
    SpareGuid, VDEVS_MAX, VdevClass, VdevId,
};

/// Why a pool was not created, opened or changed. Nothing was written, unless the variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    /// No member has these blocks: restore or destroy the volumes that `pool status -v` names, and resilver again.
    #[error("no member has {blocks} blocks that member {:016x} lacks: it is not resilvered", member.0)]
    Lost {
        /// The member that was to be resilvered.
        member: MemberGuid,
        /// Number of lost blocks.
        blocks: u64,
    },
    /// Choose another name.
    #[error(
        "{name:?} is not a valid pool name: use 1 to {NAME_SIZE_MAX} letters, digits, '_', '-', '.' and ':', and begin with \
         a letter or digit"
    )]
    Name {
        /// The requested name.
        name: String,
    },
    /// Request another number of vdevs or members.
    #[error("a pool has 1 to {VDEVS_MAX} vdevs and a top 1 to {MEMBERS_MAX} members, not {got}")]
    Shape {
        /// The requested number.
        got: usize,
    },
    /// Use a larger disk.
    #[error("{}", too_small(path, *size))]
    TooSmall {
        /// The smallest of the disks that are too small.
        path: PathBuf,
        /// Its size, bytes.
        size: u64,
    },
    /// Use another disk.
    #[error("{} has blocks of {block} bytes: use a disk with blocks of at most {most} bytes", path.display())]
    BlockSize {
        /// The disk.
        path: PathBuf,
        /// Its block size, bytes.
        block: u32,
        /// Largest permitted block size, bytes.
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
    /// Use another disk, or force.
    #[error(
        "{} belongs to the pool {name:?}: use another disk, or force, which destroys that pool's data on it",
        path.display()
    )]
    InUse {
        /// The disk.
        path: PathBuf,
        /// The name of that pool.
        name: String,
    },
    /// Use another disk, remove the spare from its pool, or force.
    #[error(
        "{} is a spare of {names}: use another disk, `wirepool pool remove` it there first, or force, which takes it away",
        path.display()
    )]
    IsSpare {
        /// The disk.
        path: PathBuf,
        /// The names of its pools.
        names: String,
    },
    /// Use another disk, remove the cache device from its pool, or force.
    #[error(
        "{} is a cache device of the pool {name:?}: use another disk, `wirepool pool remove` it there first, or force, which takes it away",
        path.display()
    )]
    IsCache {
        /// The disk.
        path: PathBuf,
        /// The name of its pool.
        name: String,
    },
    /// Use a larger disk.
    #[error("{} is too small for a cache device: it needs {least} bytes", path.display())]
    CacheTooSmall {
        /// The disk.
        path: PathBuf,
        /// The least size, bytes.
        least: u64,
    },
    /// Name the disk that has the label.
    #[error("{} has no label of a cache device of this pool", path.display())]
    NotCache {
        /// The disk.
        path: PathBuf,
    },
    /// Connect the disks, or give up the journal on them.
    #[error("{}", log_missing(*vdev, members, *age, *was_exported))]
    LogMissing {
        /// The vdev.
        vdev: VdevId,
        /// Its members.
        members: Vec<MemberGuid>,
        /// The age of the newest checkpoint.
        age: Duration,
        /// Whether the pool was exported, so that nothing is in its journal.
        was_exported: bool,
    },
    /// Add a vdev for blocks.
    #[error(
        "a pool needs a vdev for its blocks beside those for the journal and those for metadata: name disks without the classes log and special"
    )]
    NoBlocks,
    /// Use a mirror.
    #[error(
        "a vdev for the journal is one disk or a mirror: a raidz writes parity for each small batch"
    )]
    LogLayout,
    /// Use a mirror.
    #[error(
        "a special vdev is one disk or a mirror: on a raidz each node of a tree would take a whole row"
    )]
    SpecialLayout,
    /// Use a larger disk.
    #[error(
        "a vdev for the journal needs {needed} bytes beside its labels, and its smallest disk has room for {room}: use larger disks"
    )]
    LogTooSmall {
        /// Bytes that the smallest disk has for data.
        room: u64,
        /// Bytes of the journal's area.
        needed: u64,
    },
    /// Use a larger disk.
    #[error(
        "{} has {size} bytes, and can stand in for no disk of the pool: use a spare of at least {least} bytes",
        path.display()
    )]
    SpareTooSmall {
        /// The disk.
        path: PathBuf,
        /// Its size, bytes.
        size: u64,
        /// The least size, bytes.
        least: u64,
    },
    /// Look at the pool's status.
    #[error("the pool has no spare {:016x} in a state that permits this: see its status", spare.0)]
    NoSpare {
        /// The requested spare.
        spare: SpareGuid,
    },
    /// Name the disk once.
    #[error("{} is a spare of this pool already", path.display())]
    SpareTwice {
        /// The disk.
        path: PathBuf,
    },
    /// Use another disk.
    #[error("{} is not the spare that was expected: it has no label of it, or another host took it over", path.display())]
    NotSpare {
        /// The disk.
        path: PathBuf,
    },
    /// Use another disk for this pool.
    #[error("{} is a spare of {SPARE_POOLS_MAX} pools already: use another disk", path.display())]
    SharedTooOften {
        /// The disk.
        path: PathBuf,
    },
    /// Use another disk, or force.
    #[error(
        "{} belongs to a pool of a later version: use another disk, or force, which destroys that pool's data on it",
        path.display()
    )]
    LaterVersion {
        /// The disk.
        path: PathBuf,
    },
    /// Open the disk for writing.
    #[error("{} was opened for reading only: open it for writing", path.display())]
    ReadOnlyDisk {
        /// The disk.
        path: PathBuf,
    },
    /// Check the disk.
    #[error("{}: {error}", path.display())]
    Io {
        /// The disk.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Free space in the file system.
    #[error("{} and try again", file_system_full(path))]
    FileSystemFull {
        /// The file that needs space.
        path: PathBuf,
    },
    /// Check the disks: labels were written in part.
    #[error("a disk failed while the pool's labels were written: check the disks and try again")]
    Device,
    /// Remove one of the copies.
    #[error(
        "{} and {} both have the label of member {:016x}: one is a copy, or one disk appears twice; remove one of them", first.display(), second.display(), guid.0
    )]
    Duplicate {
        /// The member that both labels name.
        guid: MemberGuid,
        /// One of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Export the pool on that host first, or force.
    #[error(
        "the pool {name:?} is in use by host {host:?}, or that host stopped without exporting it: export it there; force \
         the import only if that host certainly does not use it"
    )]
    ForeignHost {
        /// The pool's name.
        name: String,
        /// The name of the host that uses it.
        host: String,
    },
    /// Use a newer version; or open the pool for reading only, if `readable`.
    #[error(
        "the pool uses the feature {feature:?}, which this version does not have: use a newer version{}",
        if *readable { ", or open it for reading only" } else { "" }
    )]
    Feature {
        /// The feature.
        feature: String,
        /// Whether the pool can be opened for reading only.
        readable: bool,
    },
    /// Connect the disks of the vdev.
    #[error("no member of vdev {} with all of its data is present: connect {}{}", vdev.0, guids(members), loss_of(*class))]
    VdevMissing {
        /// Its index.
        vdev: VdevId,
        /// Its class.
        class: VdevClass,
        /// Its members that have all data, as far as they are known.
        members: Vec<MemberGuid>,
    },
    /// Connect the disk, or force.
    #[error(
        "vdev {} lacks {}, which may have writes that the present members lack: connect it; if it is lost for good, force \
         the import of the pool without it", vdev.0, guids(members)
    )]
    MemberMissing {
        /// Its index.
        vdev: VdevId,
        /// Its missing members.
        members: Vec<MemberGuid>,
    },
    /// Disconnect all but one of these members.
    #[error(
        "members of vdev {} were used apart from each other: each of {} has writes that the others lack; import the pool \
         with only one of them connected, then attach the others again", vdev.0, guids(members)
    )]
    Apart {
        /// Its index.
        vdev: VdevId,
        /// One member of each part.
        members: Vec<MemberGuid>,
    },
    /// Restore the length of the file.
    #[error("{} is shorter than its label says: it has space for {got} bytes of data instead of {want}", path.display())]
    Truncated {
        /// The disk.
        path: PathBuf,
        /// Space for data, bytes.
        got: u64,
        /// Size of the vdev's data, bytes.
        want: u64,
    },
    /// Create the pool again, with force.
    #[error(
        "the creation of the pool was interrupted, and nothing was written to it: create it again, with force"
    )]
    Unfinished {
        /// The pool's identifier.
        pool: PoolGuid,
    },
    /// Open the pool at the checkpoint of a member that missed writes, or connect other members.
    #[error(
        "every uberblock on the members that have all writes is damaged; labels and data may be intact: {}; do not create \
         the pool again, which destroys the data on its disks",
        uberblocks_lost(*checkpoint, missing)
    )]
    UberblocksLost {
        /// Sequence of the newest checkpoint on such a member.
        checkpoint: Option<u64>,
        /// The missing members.
        missing: Vec<MemberGuid>,
    },
    /// Connect all disks, or force.
    #[error(
        "the newest labels are lost: an uberblock was written with labels of epoch {written}, the newest found is {found}; \
         connect all disks of the pool, or force the import"
    )]
    LabelsLost {
        /// The label epoch in the newest uberblock.
        written: u64,
        /// The epoch of the newest label that was found.
        found: u64,
    },
    /// Choose an existing checkpoint.
    #[error("these disks have no checkpoint {sequence}, only {oldest} to {newest}: -n lists them")]
    NoUberblock {
        /// The requested sequence.
        sequence: u64,
        /// The oldest sequence on the disks.
        oldest: u64,
        /// The newest sequence on the disks.
        newest: u64,
    },
    /// Name a member in the required state.
    #[error("the pool has no member {:016x} in a state that permits this: see its status", member.0)]
    NoMember {
        /// The requested member.
        member: MemberGuid,
    },
    /// Name an existing vdev.
    #[error("the pool has no vdev {}: see its status", vdev.0)]
    NoVdev {
        /// The requested vdev.
        vdev: VdevId,
    },
    /// First let the vdev's other disks be resilvered, or attach one.
    #[error("without member {:016x} its vdev would lack data: first let its other disks be resilvered, or attach another disk", member.0)]
    LastMember {
        /// The member.
        member: MemberGuid,
    },
    /// A raidz keeps the members that it was created with.
    #[error("vdev {} is a raidz: its number of members cannot change", vdev.0)]
    FixedMembers {
        /// The vdev.
        vdev: VdevId,
    },
    /// Attach the disk to another vdev.
    #[error("vdev {} is no raidz", vdev.0)]
    NoRaidz {
        /// The vdev.
        vdev: VdevId,
    },
    /// Add a vdev first.
    #[error("vdev {} is the last one of the pool that has blocks: add another vdev before you remove it, or destroy the pool", vdev.0)]
    LastVdev {
        /// The vdev.
        vdev: VdevId,
    },
    /// Add a vdev to which the journal can move.
    #[error("vdev {} has the journal, and no other vdev can take it: a vdev that is small, or that an older release added, has no area for it; add another vdev first", vdev.0)]
    HasJournal {
        /// The vdev.
        vdev: VdevId,
    },
    /// Choose another vdev.
    #[error("vdev {} has no area for the journal: it is too small, or an older release added it", vdev.0)]
    NoJournalArea {
        /// The vdev.
        vdev: VdevId,
    },
    /// Choose more vdevs, or fewer.
    #[error(
        "these vdevs have {segments} segments for the journal, which needs 2 to {JOURNAL_SEGMENTS_MAX}: choose more vdevs, or fewer"
    )]
    JournalSegments {
        /// Segments in their areas.
        segments: u64,
    },
    /// Add a vdev, or free space.
    #[error("vdev {} cannot be removed: the other vdevs need {needed} bytes for its blocks, and have {free} bytes free", vdev.0)]
    NoRoom {
        /// The vdev.
        vdev: VdevId,
        /// Bytes of the blocks on it.
        needed: u64,
        /// Bytes that they may take on the other vdevs.
        free: u64,
    },
    /// Wait until the removal has ended, or stop it.
    #[error("vdev {} is being removed already: see `wirepool pool status`, or stop it with `wirepool pool remove --stop`", vdev.0)]
    Removing {
        /// The vdev.
        vdev: VdevId,
    },
    /// There is nothing to stop.
    #[error("no vdev is being removed")]
    NotRemoving,
    /// The last step of a removal cannot be stopped.
    #[error("vdev {} is leaving the pool: all of its blocks have copies, and its removal can no longer be stopped", vdev.0)]
    RemovalEnds {
        /// The vdev.
        vdev: VdevId,
    },
    /// Wait until the expansion has ended.
    #[error("vdev {} is being expanded already: attach the disk when `wirepool pool status` says that this has ended", vdev.0)]
    Expanding {
        /// The vdev.
        vdev: VdevId,
    },
    /// Replace or resilver the vdev's members first.
    #[error("vdev {} has a disk that is missing, faulted, offline or being resilvered: a raidz is expanded only when all of its disks work", vdev.0)]
    Degraded {
        /// The vdev.
        vdev: VdevId,
    },
    /// Add another vdev.
    #[error("vdev {} cannot have {got} disks: a raidz has {MEMBERS_MAX} at most, and 2^57 bytes of addresses; add a vdev", vdev.0)]
    Widest {
        /// The vdev.
        vdev: VdevId,
        /// The number of members that it would have.
        got: usize,
    },
    /// Connect the disk.
    #[error("the disk of member {:016x} is missing: connect it, or replace it by another one", member.0)]
    Absent {
        /// The member.
        member: MemberGuid,
    },
    /// Wait, or disconnect the disk.
    #[error("member {:016x} has operations outstanding from before it was faulted, which could overwrite newer data: wait, or disconnect its disk", member.0)]
    Owed {
        /// The member.
        member: MemberGuid,
    },
    /// Use the right disk, or attach this one as a new member.
    #[error("{} is not member {:016x} of this pool: to use it in that member's place, replace the member by it", path.display(), member.0)]
    OtherDisk {
        /// The disk.
        path: PathBuf,
        /// The expected member.
        member: MemberGuid,
    },
    /// Begin the resilver again.
    #[error("member {:016x} missed a write while it was resilvered: resilver it again", member.0)]
    Missed {
        /// The member.
        member: MemberGuid,
    },
    /// Make a checkpoint, then end the resilver.
    #[error("no checkpoint was written since the resilver of member {:016x} began", member.0)]
    NoCheckpoint {
        /// The member.
        member: MemberGuid,
    },
    /// Open the pool for writing.
    #[error("the pool was opened for reading only: open it for writing")]
    ReadOnly,
}

impl SetupError {
    /// The error for labels or uberblocks that could not be written.
    pub(crate) fn failed(error: Error) -> Self {
        match error {
            Error::FileSystemFull { path } => SetupError::FileSystemFull { path },
            _ => SetupError::Device,
        }
    }
}

fn uberblocks_lost(checkpoint: Option<u64>, missing: &[MemberGuid]) -> String {
    match (checkpoint, missing.is_empty()) {
        (Some(sequence), _) => format!(
            "a member that missed writes has checkpoint {sequence}: import the pool with --rewind {sequence}, which loses \
             later writes"
        ),
        (None, false) => format!("connect {}, which may have intact ones", guids(missing)),
        (None, true) => "restore the pool from a backup".into(),
    }
}

fn too_small(path: &Path, size: u64) -> String {
    let (path, least) = (path.display(), DISK_SIZE_MIN >> 20);
    match size {
        0 => format!(
            "{path} has no bytes: it is empty, or a drive without a medium, such as a loop device without a file (losetup); use a disk of at \
             least {least} MiB"
        ),
        size => format!("{path} has {size} bytes: use a disk of at least {least} MiB"),
    }
}

fn log_missing(vdev: VdevId, members: &[MemberGuid], age: Duration, was_exported: bool) -> String {
    let loss = match was_exported {
        true => "nothing is lost then, because the pool was exported".to_owned(),
        false => format!(
            "all changes since the newest checkpoint, which was written {} s ago, are lost then, durable ones too",
            age.as_secs()
        ),
    };
    format!(
        "vdev {}, which has the journal, is missing (members {}): connect its disks, or import the pool without it; {loss}",
        vdev.0,
        guids(members)
    )
}

/// The contents of a vdev without which a pool cannot be opened.
fn loss_of(class: VdevClass) -> &'static str {
    match class {
        VdevClass::Special => {
            "; this special vdev has the pool's metadata: the other vdevs cannot be read without it, and the pool is lost if its disks are"
        }
        VdevClass::Normal | VdevClass::Log => "",
    }
}

fn guids(members: &[MemberGuid]) -> String {
    let each: Vec<_> = members
        .iter()
        .map(|member| format!("{:016x}", member.0))
        .collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_without_a_medium_is_no_small_disk() {
        let empty = too_small(Path::new("/dev/loop0"), 0);
        assert!(
            empty.contains("without a medium") && empty.contains("losetup"),
            "{empty}"
        );
        let small = too_small(Path::new("/dev/sda"), 4096);
        assert_eq!(
            small,
            "/dev/sda has 4096 bytes: use a disk of at least 64 MiB"
        );
    }
}
