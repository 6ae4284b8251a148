//! The named limits of the offline reader.

/// Memory for reads in flight, bytes.
pub const BUFFER_BYTES: usize = 32 << 20;
/// Most records read concurrently.
pub const READS_MAX: usize = 32;
/// Most nodes whose sums are kept, so that blocks shared by snapshots are not read again; approximately 300 bytes each.
/// Further nodes are read again.
pub const MEMO_MAX: usize = 1 << 19;
/// Most findings that are kept; further ones are counted.
pub const FINDINGS_MAX: usize = 10_000;
/// Most entries of a tree shown at once.
pub const ENTRIES_MAX: usize = 10_000;
/// Sums by which the names of a filesystem's objects are checked; 8 bytes each.
pub const TIE_SUMS: usize = 1 << 16;
/// Most wrong sums whose objects are examined.
pub const SUSPECTS_MAX: usize = 256;
/// Most statements about these objects that are kept at a time; approximately 64 bytes each.
pub const TIES_MAX: usize = 1 << 18;
/// Most users and groups whose space is compared; approximately 64 bytes each.
pub const OWNERS_MAX: usize = 1 << 18;
/// Most records of one file, shorter than its record size, whose lengths are kept; 16 bytes each.
pub const SHORT_RECORDS_MAX: usize = 1 << 20;
/// Most directories of a filesystem that are searched for circles; 17 bytes each.
pub const DIRECTORIES_MAX: usize = 1 << 22;
