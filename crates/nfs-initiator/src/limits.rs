//! The named limits of the initiator: memory that a server can make it use, and time that a server may take.

use std::time::Duration;

/// Most slots of a session.
pub const SLOTS_MAX: u16 = initiator::slots::SLOTS_MAX;
/// Most connections of a session.
pub const CONNECTIONS_MAX: u16 = 16;
/// Largest READ and WRITE that are asked for, bytes.
pub const TRANSFER_MAX: u32 = nfs::limits::TRANSFER_MAX;
/// Longest reply that is received, bytes.
pub const REPLY_MAX: u32 = nfs::limits::REPLY_MAX;
/// Longest request that is sent, bytes.
pub const REQUEST_MAX: u32 = nfs::limits::REQUEST_MAX;
/// Longest reply that a server has to keep for a repeated request, bytes.
pub const CACHED_MAX: u32 = 2 << 10;
/// Most operations of a COMPOUND.
pub const OPERATIONS_MAX: u32 = 32;
/// Longest reply of a [`crate::Channel`], bytes.
pub const CHANNEL_REPLY_MAX: usize = 2 << 20;
/// Size of the staging area while payloads are large, bytes: the head of a READ's reply, and little of the next payload.
pub const STAGING_NARROW: usize = 2304;
/// Calls and their replies that are on the way on one connection over RDMA, at most.
pub const RDMA_DEPTH_MAX: u16 = 128;
/// READs of the server that are served at a time on one connection.
pub const RDMA_READS_SERVED: u8 = 16;
/// Bytes of the memory for a reply with extended attributes.
pub const XATTR_REPLY_MAX: u32 = 72 << 10;
/// Longest text of a user or group that is kept, bytes.
pub const PRINCIPAL_LEN_MAX: usize = nfs::limits::PRINCIPAL_LEN_MAX;
/// Longest name in a directory, bytes.
pub const NAME_LEN_MAX: usize = 1024;
/// Components of a path.
pub const COMPONENTS_MAX: usize = 24;
/// Most entries of one READDIR that are read.
pub const ENTRIES_MAX: usize = 1 << 16;
/// Bytes of one READDIR's result that are asked for.
pub const READDIR_BYTES: u32 = 1 << 20;
/// Ticks per time limit of a call. More ticks keep the limit more exactly.
pub const TIMEOUT_TICKS: u32 = 4;
/// NFS4ERR_DELAY in a row for which one call is repeated.
pub const DELAYS_MAX: u32 = 50;
/// Pause before a call is repeated after NFS4ERR_DELAY.
pub const DELAY_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of an orderly end. The connections are closed after it.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
