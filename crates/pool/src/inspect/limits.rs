//! The named limits of the offline reader.

/// Memory for what is being read, bytes.
pub const BUFFER_BYTES: usize = 32 << 20;
/// Records that are read at the same time.
pub const READS_MAX: usize = 32;
/// Nodes of which it is remembered what hangs below them, so that what snapshots share is not read again; about 300
/// bytes each. Beyond it they are read again.
pub const MEMO_MAX: usize = 1 << 19;
/// Findings that are kept; beyond it they are counted.
pub const FINDINGS_MAX: usize = 10_000;
/// Entries of a tree that are shown at once.
pub const ENTRIES_MAX: usize = 10_000;
