//! The named limits of the protocol: lengths, counts and times that a client is granted.

use std::time::Duration;

/// Most bytes that one READ returns or one WRITE takes.
pub const TRANSFER_MAX: u32 = 1 << 20;
/// Bytes of a request or reply beyond the data of its READ or WRITE.
pub const OVERHEAD_MAX: u32 = 8 << 10;
/// Longest request, bytes (`ca_maxrequestsize`, §18.36.3).
pub const REQUEST_MAX: u32 = TRANSFER_MAX + OVERHEAD_MAX;
/// Longest reply, bytes (`ca_maxresponsesize`).
pub const REPLY_MAX: u32 = TRANSFER_MAX + OVERHEAD_MAX;
/// Most fragments of one RPC record (RFC 5531, section 11).
pub const FRAGMENTS_MAX: u32 = 64;
/// Longest credential or verifier of an RPC call, bytes (RFC 5531, section 8.2).
pub const AUTH_LEN_MAX: usize = 400;
/// Longest machine name of an AUTH_SYS credential, bytes (RFC 5531, appendix A).
pub const MACHINE_NAME_MAX: usize = 255;
/// Most further groups of an AUTH_SYS credential (RFC 5531, appendix A).
pub const GROUPS_MAX: usize = 16;
/// Longest tag of a COMPOUND, bytes. It is sent back (§16.2.3).
pub const TAG_MAX: usize = 1024;
/// Longest file handle, bytes (`NFS4_FHSIZE`).
pub const HANDLE_LEN_MAX: usize = 128;
/// Longest text of a user or group, bytes.
pub const PRINCIPAL_LEN_MAX: usize = 1024;
/// Most answers about users and groups that are kept.
pub const ANSWERS_MAX: usize = 8192;
/// Longest opaque value of a client owner, open owner or lock owner, bytes (`NFS4_OPAQUE_LIMIT`).
pub const OWNER_LEN_MAX: usize = 1024;
/// Most words of an attribute mask that are kept; further words are read and ignored.
pub const BITMAP_WORDS: usize = 3;
/// Most words of an attribute mask that a request may have.
pub const BITMAP_WORDS_MAX: usize = 8;
/// Most callback security parameters of a request.
pub const CALLBACK_SECURITY_MAX: usize = 8;
/// Most stateids of one TEST_STATEID.
pub const TEST_STATEIDS_MAX: usize = 1024;
/// Most slots of one session.
pub const SESSION_SLOTS_MAX: u32 = 64;
/// Most operations of a COMPOUND (`ca_maxoperations`).
pub const OPERATIONS_MAX: u32 = 64;
/// Longest reply that is kept for a retry, bytes (`ca_maxresponsesize_cached`).
pub const CACHED_REPLY_MAX: u32 = 4 << 10;
/// The least length of requests and replies that a session may have, bytes: room for headers and SEQUENCE.
pub const MESSAGE_MIN: u32 = 256;
/// How long a client may keep a delegation that is recalled, as long as it goes on writing its data back.
pub const RECALL_MAX: Duration = Duration::from_secs(900);
/// Most exports.
pub const EXPORTS_MAX: usize = 4096;
/// Requests of one connection that are executed at a time. Further ones wait in the socket.
pub const CONNECTION_REQUESTS_MAX: usize = 256;
/// Longest request that is received in the staging area, bytes. Longer ones get a buffer of their own.
pub const SMALL_REQUEST_MAX: usize = 32 << 10;
/// Staging area of a connection, bytes.
pub const STAGING_LEN: usize = 64 << 10;
/// Replies of a connection that may lie unsent before it takes no further request.
pub const UNSENT_REPLIES_MAX: usize = 1024;
/// Entries that READDIR asks the file system for at a time.
pub const READDIR_BATCH: usize = 128;
/// Replies of changes of version 3 that are kept for repeated requests, of one client.
pub const DUPLICATES_OF_CLIENT_MAX: usize = 1024;
/// The same, of all clients. Each takes less than 1 KiB.
pub const DUPLICATES_MAX: usize = 16 << 10;
/// How long they are kept.
pub const DUPLICATE_AGE: Duration = Duration::from_secs(180);
/// Mounts of version 3 in the list of mounts, of one host.
pub const MOUNTS_OF_HOST_MAX: usize = 64;
/// The same, of all hosts.
pub const MOUNTS_MAX: usize = 4096;
/// How long one call of rpcbind may take.
pub const RPCBIND_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest reply of rpcbind, bytes.
pub const RPCBIND_REPLY_MAX: usize = 1024;
/// Most bytes that one COPY copies; the client asks again for the rest (RFC 7862, section 15.2).
pub const COPY_MAX: u64 = 16 << 20;
/// Most servers that a COPY names as having its source.
pub const NETLOCS_MAX: usize = 16;
/// Longest name or address of such a server, bytes.
pub const NETLOC_LEN_MAX: usize = 1024;
/// Most stretches of data and holes of one READ_PLUS.
pub const READ_PLUS_SEGMENTS_MAX: usize = 64;
/// Most slots of a back channel that the server uses.
pub const BACK_SLOTS_MAX: u32 = 16;
/// Most connections of one session's back channel.
pub const BACK_PATHS_MAX: usize = 16;
/// Most callbacks that wait for their replies on one connection.
pub const CALLBACKS_MAX: usize = 256;
/// Most referring calls of a callback, and lists of them, that are read.
pub const REFERRING_CALLS_MAX: usize = 64;
/// Most client records of hosts that no export admits, together.
pub const STRANGERS_MAX: usize = 64;
/// Hosts of version 3 whose calls are counted.
pub const HOSTS_MAX: usize = 1024;
/// Calls that a client may have outstanding on one connection over RDMA: the credits of each reply (RFC 8166, section 3.3.1).
pub const RDMA_CREDITS: u16 = 64;
/// Longest message over RDMA in both directions, bytes: a multiple of 1024.
pub const RDMA_INLINE_MAX: u32 = 4096;
/// Callbacks that may be outstanding on one connection over RDMA, if the client grants them (RFC 8167, section 4.2).
pub const RDMA_CALLBACKS_MAX: u16 = 16;
/// Reads of clients' memory that are outstanding on one connection.
pub const RDMA_READS_MAX: u8 = 16;
