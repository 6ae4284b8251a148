//! The named limits of the initiator.

use std::time::Duration;

/// Most commands outstanding on a queue. The index has ten bits, and a queue of 1024 entries holds 1023 commands.
pub const QUEUE_DEPTH_MAX: u16 = 1023;
/// User commands that may be outstanding on the admin queue. Together with [`ADMIN_RESERVED`] they fill the 31 places of an
/// admin queue of 32 entries, which is the size that Linux uses.
pub const ADMIN_DEPTH: u16 = 31 - ADMIN_RESERVED;
/// Places on the admin queue for the initiator's own commands: event requests, a keep-alive, and one set-up or shutdown
/// command.
pub const ADMIN_RESERVED: u16 = EVENT_REQUESTS_MAX as u16 + 2;
/// Places on an I/O queue for the initiator's own commands: Connect, which must not wait behind commands that wait for the
/// connection.
pub const IO_RESERVED: u16 = 1;
/// Most I/O queues of one controller.
pub const IO_QUEUES_MAX: u16 = 128;
/// Most bytes of in-capsule data of a fabrics or admin command (TCP 3.3.1).
pub const ADMIN_CAPSULE_DATA: u32 = 8192;
/// READs that the controller may have outstanding on a queue over RDMA.
pub const RDMA_READS_SERVED: u8 = 16;
/// Size of the staging area while payloads are large, bytes. It takes a header and little of the payload.
pub const STAGING_NARROW: usize = 512;
/// Most data of one command, bytes; the controller may allow less.
pub const TRANSFER_MAX: u32 = io::limits::BUF_LEN_MAX as u32;
/// Events that are kept until they are fetched. A later event replaces the oldest.
pub const EVENTS_MAX: usize = 256;
/// Asynchronous Event Requests outstanding at a time.
pub const EVENT_REQUESTS_MAX: u8 = 4;
/// Most entries read of a discovery log page.
pub const DISCOVERY_ENTRIES_MAX: u64 = 1024;
/// Attempts to read a discovery log page that keeps changing.
pub const DISCOVERY_ATTEMPTS_MAX: u32 = 8;
/// Most discovery services queried, referrals included.
pub const REFERRALS_MAX: usize = 16;
/// Most bytes read of one log page.
pub const LOG_LEN_MAX: u64 = 4 << 20;
/// Time for the controller to close a connection after a termination request.
pub const TERM_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval of CSTS.RDY polls while a controller becomes ready.
pub const READY_POLL: Duration = Duration::from_millis(5);
/// Ticks per command timeout. More ticks keep the timeout more exactly.
pub const TIMEOUT_TICKS: u32 = 4;
