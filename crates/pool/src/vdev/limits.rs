//! The named limits of the device layer.

use std::time::Duration;

/// How often a write to a side is tried before the side counts as having missed it.
pub const WRITE_TRIES: u32 = 2;
/// How many of a side's four label copies must be written for the side to have the label.
pub const LABEL_COPIES_MIN: usize = 2;
/// How many of a side's four copies of an uberblock must be written for the side to have it.
pub const UBERBLOCK_COPIES_MIN: usize = 2;
/// What an error adds to the evidence against a side. A success takes one away.
pub const EVIDENCE_OF_ERROR: u32 = 1 << 10;
/// Evidence at which a side is faulted: 32 errors, if they are more than one in about a thousand operations.
pub const EVIDENCE_MAX: u32 = 32 * EVIDENCE_OF_ERROR;
/// A side of a mirror that has not answered for so long is faulted, if another has everything.
pub const HANG_MAX: Duration = Duration::from_secs(10);
/// How often a write that finds no space in the file system below is tried again.
pub const SPACE_RETRY: Duration = Duration::from_secs(1);
/// How often labels are written anew because a side was lost while they were written.
pub const LABEL_ROUNDS_MAX: usize = 32;
/// Rounds of labels that nobody relied on and that a crash may leave on a member, at the most: far more than one
/// [`LABEL_ROUNDS_MAX`], since each act that changes labels may fail so.
pub const UNRELIED_ROUNDS_MAX: u64 = 1 << 16;
/// Memory for copies of what is written to more than one side, and for reads within reads, bytes.
pub const SCRATCH_BYTES: usize = 32 << 20;
/// The most bytes of one read of several blocks, and of a stored block.
pub const RUN_SIZE_MAX: usize = io::limits::BUF_LEN_MAX;
/// Blocks that are copied to a side that is resilvered at the same time.
pub const COPIES_MAX: usize = 16;
/// The smallest disk that a pool takes, bytes.
pub const DISK_SIZE_MIN: u64 = 64 << 20;
/// The least and the most of a vdev's data that a new pool's journal takes, bytes; between them one part in
/// [`JOURNAL_PART`].
pub const JOURNAL_SIZE: std::ops::RangeInclusive<u64> = (4 << 20)..=(256 << 20);
/// See [`JOURNAL_SIZE`].
pub const JOURNAL_PART: u64 = 32;
