//! Time-outs and depths that clients should have.
//!
//! **Owns** the values; each has its reason. **Called by** [`super`] and by the checks of clients.

/// Seconds until an NVMe host or controller without messages counts as lost. A cut is noticed within twice this time.
pub const NVME_KEEP_ALIVE_S: u64 = 5;
/// Seconds between attempts of an NVMe host to reconnect.
pub const NVME_RECONNECT_S: u64 = 2;
/// Seconds that an NVMe host tries before its I/O fails: a restart of the server, with recovery of a pool (10 s at most)
/// and a boot of its machine, fits into it.
pub const NVME_LOSS_S: u64 = 600;
/// Entries of an NVMe queue.
pub const NVME_QUEUE_ENTRIES: u64 = 128;
/// Seconds between NOP-Outs of an idle iSCSI connection, and seconds to wait for the answer.
pub const ISCSI_NOOP_S: u64 = 5;
/// Seconds that I/O of an iSCSI disk without multipath waits for the server.
pub const ISCSI_REPLACEMENT_S: u64 = 600;
/// The same with multipath: the other path takes over.
pub const ISCSI_REPLACEMENT_MULTIPATH_S: u64 = 15;
/// Commands in flight of an iSCSI disk.
pub const ISCSI_QUEUE_DEPTH: u64 = 128;
/// Commands in flight of an iSCSI session.
pub const ISCSI_SESSION_COMMANDS: u64 = 1024;
/// Seconds after which the kernel cancels a SCSI command; more than the server's slowest answer to a healthy disk.
pub const SCSI_COMMAND_S: u64 = 60;
/// Tenths of a second after which an NFS client repeats a request over TCP.
pub const NFS_TIMEO: u64 = 600;
/// Connections of an NFS client to a server.
pub const NFS_CONNECTIONS: u64 = 4;
