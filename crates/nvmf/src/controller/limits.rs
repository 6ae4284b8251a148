//! The named limits of the target: sizes, counts and times.

use std::time::Duration;

/// Most I/O queues of one controller.
pub const IO_QUEUES_MAX: u16 = 128;
/// Most entries of one I/O queue.
pub const QUEUE_DEPTH_MAX: u16 = 1024;
/// Most entries of an admin queue (ASQSZ, at least 32).
pub const ADMIN_DEPTH_MAX: u16 = 128;
/// Most namespaces of a subsystem; also the largest namespace ID, so that an ID is an index.
pub const NAMESPACES_MAX: u32 = 1024;
/// Most controllers of the target: CNTLID runs from 1 to FFEFh (Base 3.1.2).
pub const CONTROLLERS_MAX: u16 = 0xffef;
/// In-capsule data of an admin queue, bytes: hosts assume it before Identify (TCP 3.2).
pub const ADMIN_IN_CAPSULE: u32 = 8192;
/// Most in-capsule data of an I/O queue that can be configured, bytes.
pub const IN_CAPSULE_MAX: u32 = 64 << 10;
/// Most in-capsule data over RDMA, bytes: what Linux uses too.
pub const RDMA_IN_CAPSULE_MAX: u32 = 4096;
/// Most entries of one I/O queue over RDMA: what Linux uses too.
pub const RDMA_QUEUE_DEPTH_MAX: u16 = 128;
/// READs of one connection that may be posted at a time. The host may serve fewer.
pub const RDMA_READS_MAX: u8 = 16;
/// Receives that the connections of one thread and device may share at most (RDMA).
pub const RDMA_SHARED_RECEIVES_MAX: u32 = 16_384;
/// Receives that the connections of one thread and device share at least, if they share any: enough for one whole queue.
pub const RDMA_SHARED_RECEIVES_MIN: u32 = 128;
/// Largest MDTS that can be configured, bytes: a command's data lies in one buffer.
pub const MDTS_MAX: u32 = 1 << 20;
/// Async Event Requests held per controller (AERL + 1).
pub const ASYNC_EVENTS_MAX: usize = 4;
/// Concurrent Aborts announced (ACL + 1). An Abort is answered at once, so no more are ever held.
pub const ABORTS_MAX: u8 = 4;
/// Entries of a controller's error log (ELPE + 1).
pub const ERROR_LOG_MAX: usize = 64;
/// Reservation notifications kept per controller.
pub const RESERVATION_LOG_MAX: usize = 255;
/// Registrants of one namespace.
pub const REGISTRANTS_MAX: usize = 256;
/// Largest log page answer, bytes; a longer wish is refused, a host reads on by offset.
pub const LOG_PAGE_MAX: u64 = 1 << 20;
/// Staging area of a queue: room for several capsules, bytes.
pub const STAGING_MAX: usize = 128 << 10;
/// Source ranges of one Copy (MSRC + 1).
pub const COPY_RANGES_MAX: usize = 128;
/// Bytes of one Copy source range (MSSRL).
pub const COPY_RANGE_BYTES_MAX: u32 = 1 << 20;
/// Bytes of one Copy (MCL).
pub const COPY_BYTES_MAX: u32 = 16 << 20;
/// Copies of one connection that read and write at a time.
pub const COPIES_MAX: usize = 4;
/// Bytes that Verify reads at a time.
pub const VERIFY_STEP_BYTES: u32 = 1 << 20;
/// Connections beyond the configured limit, of which the half is still told so in answer to its Connect.
pub const CONNECTIONS_REFUSED_MAX: usize = session::admission::SLACK;
/// Most discovery controllers that can be configured; twice as many have a CNTLID, since evicted ones end a moment later.
pub const DISCOVERY_MAX: usize = 4096;
/// Hosts whose reconnects are counted.
pub const HOSTS_REMEMBERED_MAX: usize = 4096;
/// Bytes of structures (Identify, log pages) that an admin queue may have unsent before it takes no further command.
pub const ADMIN_UNSENT_MAX: usize = LOG_PAGE_MAX as usize;
/// Keep alive granularity: KAS is in units of 100 ms.
pub const KAS_100MS: u16 = 10;
/// How long a discovery controller without a keep alive timeout may idle (Base 3.1.2.3).
pub const DISCOVERY_IDLE: Duration = Duration::from_secs(120);
/// Silence after which the kernel probes the peer of an I/O controller without a keep alive timeout. Hosts whose KATO is 0
/// (`nvme connect --keep-alive-tmo=0`, SPDK with keep alive off) send no command while they are idle, which Base 3.9
/// allows. So silence of the host does not end a connection; silence of its kernel does.
pub const PEER_PROBE_AFTER: Duration = Duration::from_secs(60);
/// How long CSTS.RDY may take, in units of 500 ms (CAP.TO).
pub const READY_TIMEOUT_500MS: u8 = 15;
