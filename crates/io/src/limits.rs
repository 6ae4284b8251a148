//! The named limits of this crate.

/// Alignment of every [`crate::IoBuf`], bytes: a page, enough for O_DIRECT on every device we know.
pub const BUF_ALIGN: usize = 4096;
/// Largest [`crate::IoBuf`], bytes.
pub const BUF_LEN_MAX: usize = 2 << 20;
/// Entries of the submission queue of one ring.
pub const RING_ENTRIES: u32 = 1024;
/// How often a thread polls its ready tasks before it looks at its ring again.
pub const READY_ROUNDS_MAX: usize = 4;
/// Most segments one `sendmsg` may carry (UIO_MAXIOV).
pub const SEND_SEGMENTS_MAX: usize = 1024;
/// Pending connections a listener keeps.
pub const LISTEN_BACKLOG: i32 = 1024;
/// Helper threads for calls that block (open, ioctl), per process.
pub const BLOCKING_THREADS_MAX: usize = 4;
