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
