//! The named limits of this crate.

/// Alignment of every [`crate::IoBuf`], bytes: a page, which is enough for O_DIRECT on all known devices.
pub const BUF_ALIGN: usize = 4096;
/// Largest [`crate::IoBuf`], bytes.
pub const BUF_LEN_MAX: usize = 2 << 20;
/// Entries of the submission queue of one ring.
pub const RING_ENTRIES: u32 = 1024;
/// Times that a thread polls its ready tasks before it checks its ring again.
pub const READY_ROUNDS_MAX: usize = 4;
/// Most segments of one `sendmsg` (UIO_MAXIOV).
pub const SEND_SEGMENTS_MAX: usize = 1024;
/// The ports that only privileged processes may use are below this one; the one of exports(5).
pub const PRIVILEGED_PORTS: u16 = 1024;
/// The first of the privileged ports that a client takes for itself, as Linux does (`sunrpc.min_resvport`): services have those below.
pub const PRIVILEGED_CLIENT_PORT_FIRST: u16 = 665;
/// Pending connections of a listener.
pub const LISTEN_BACKLOG: i32 = 1024;
/// Connection requests of a listener for RDMA that nothing has accepted. More are refused.
pub const RDMA_BACKLOG: usize = 1024;
/// Helper threads of a process for calls that block (open, ioctl).
pub const BLOCKING_THREADS_MAX: usize = 4;
