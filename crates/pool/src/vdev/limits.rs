//! The named limits of the device layer.

use std::time::Duration;

/// Attempts of a write to a member. Then the member has missed the write.
pub const WRITE_TRIES: u32 = 2;
/// Least number of a member's four label copies that must be written for the member to have the label.
pub const LABEL_COPIES_MIN: usize = 2;
/// Least number of a member's four copies of an uberblock that must be written for the member to have it.
pub const UBERBLOCK_COPIES_MIN: usize = 2;
/// Weight of an error in the evidence against a member. A success subtracts 1.
pub const EVIDENCE_OF_ERROR: u32 = 1 << 10;
/// Evidence at which a member is faulted: 32 errors, if they are more than about one in a thousand operations.
pub const EVIDENCE_MAX: u32 = 32 * EVIDENCE_OF_ERROR;
/// Time without an answer after which a member of a mirror is faulted, if another member is in.
pub const HANG_MAX: Duration = Duration::from_secs(10);
/// Interval at which a write that finds no space in the file system below is repeated.
pub const SPACE_RETRY: Duration = Duration::from_secs(1);
/// Most rounds of labels in a row, each written because a member was lost during the one before.
pub const LABEL_ROUNDS_MAX: usize = 32;
/// Most rounds of labels that a crash can leave on a member without any write relying on them. Far more than one
/// [`LABEL_ROUNDS_MAX`], because each operation that changes labels may fail in this way.
pub const UNRELIED_ROUNDS_MAX: u64 = 1 << 16;
/// Memory for copies of writes to several members, and for reads within reads, bytes.
pub const SCRATCH_BYTES: usize = 32 << 20;
/// Memory for rows that a raidz writes, and for the columns that it reads, bytes for each vdev.
pub const ROW_BYTES: usize = 32 << 20;
/// Most bytes of one read of several blocks, and of a stored block.
pub const RUN_SIZE_MAX: usize = io::limits::BUF_LEN_MAX;
/// Blocks that are copied concurrently to a resilvered member.
pub const COPIES_MAX: usize = 16;
/// Bytes of addresses after which a run of blocks that is rebuilt at once ends.
pub const RUN_SIZE: u64 = 1 << 20;
/// The same if the next block shares a row of a raidz with the run.
pub const RUN_CHAIN_MAX: u64 = 8 << 20;
/// Bytes of data that an expansion reads and writes with one operation on each member.
pub const EXPANSION_CHUNK: u64 = io::limits::BUF_LEN_MAX as u64;
/// Such parts that are copied concurrently.
pub const EXPANSION_CHUNKS_MAX: usize = 3;
/// Most bytes of data that an expansion moves before labels record the position.
pub const EXPANSION_BATCH: u64 = 256 << 20;
/// Smallest disk of a pool, bytes.
pub const DISK_SIZE_MIN: u64 = 64 << 20;
/// Smallest and largest part of a vdev's data for a new pool's journal, bytes. Between them it is one part in
/// [`JOURNAL_PART`].
pub const JOURNAL_SIZE: std::ops::RangeInclusive<u64> = (4 << 20)..=(256 << 20);
/// See [`JOURNAL_SIZE`].
pub const JOURNAL_PART: u64 = 32;
