//! The named limits of states.

/// Most opens, lock states and delegations of all clients together. A client gets another one while it has fewer than are free, or fewer
/// than [`STATES_OF_CLIENT_MIN`].
pub const STATES_MAX: usize = 1 << 18;
/// States that each client may have while any are free.
pub const STATES_OF_CLIENT_MIN: usize = 64;
/// Most locked ranges of one file.
pub const FILE_LOCKS_MAX: usize = 1 << 14;
/// Most delegations of all clients.
pub const DELEGATIONS_MAX: usize = 1 << 16;
/// Shards of the table of states, by file; a power of two, which the numbers of states have as a part.
pub const STATE_SHARDS: u64 = 64;
/// Most files of one shard of which it is remembered that a delegation was recalled.
pub const RECALLED_FILES_MAX: usize = 64;
/// Most lock owners that wait for locks of one file and are told when these are free. Others ask again.
pub const LOCK_WAITERS_OF_FILE_MAX: usize = 256;
/// The same, of all files. Each takes less than 2 KiB.
pub const LOCK_WAITERS_MAX: usize = 8192;
