//! The named limits of the initiator.

use std::time::Duration;

/// Most commands outstanding on a queue: an index of ten bits, and a queue of 1024 entries holds
/// one less.
pub const QUEUE_DEPTH_MAX: u16 = 1023;
/// Commands of users outstanding on the admin queue. With [`ADMIN_RESERVED`] they fill Linux's 32
/// entries, less one.
pub const ADMIN_DEPTH: u16 = 31 - ADMIN_RESERVED;
/// Places on the admin queue for the initiator's own commands: event requests, a keep alive, and
/// one that sets up or shuts down.
pub const ADMIN_RESERVED: u16 = EVENT_REQUESTS_MAX as u16 + 2;
/// Places on an I/O queue for the initiator's own commands: its Connect, which goes before all
/// that waits for it.
pub const IO_RESERVED: u16 = 1;
/// Most I/O queues of one controller.
pub const IO_QUEUES_MAX: u16 = 128;
/// Most bytes of in-capsule data of a fabrics or admin command (TCP 3.3.1).
pub const ADMIN_CAPSULE_DATA: u32 = 8192;
/// Staging area of a connection while payloads are small, bytes: many PDUs by one receive.
pub const STAGING_WIDE: usize = 128 << 10;
/// Staging area while payloads are large, bytes: a header, and little of the payload to copy.
pub const STAGING_NARROW: usize = 512;
/// C2HData of at least so many bytes make the staging area narrow.
pub const LARGE_PAYLOAD: u32 = 16 << 10;
/// Most data of one command that has no smaller limit, bytes.
pub const TRANSFER_MAX: u32 = io::limits::BUF_LEN_MAX as u32;
/// Asynchronous events that wait to be fetched; later ones replace the oldest.
pub const EVENTS_MAX: usize = 256;
/// Asynchronous Event Requests kept outstanding.
pub const EVENT_REQUESTS_MAX: u8 = 4;
/// Entries of a discovery log page that are read.
pub const DISCOVERY_ENTRIES_MAX: u64 = 1024;
/// Attempts to read a discovery log page that changes meanwhile.
pub const DISCOVERY_ATTEMPTS_MAX: u32 = 8;
/// Discovery services asked, referrals included.
pub const REFERRALS_MAX: usize = 16;
/// Most bytes read of one log page.
pub const LOG_LEN_MAX: u64 = 4 << 20;
/// How long the peer may take to end a connection after a termination request, before it is cut.
pub const TERM_TIMEOUT: Duration = Duration::from_millis(500);
/// How often CSTS.RDY is looked at while a controller becomes ready.
pub const READY_POLL: Duration = Duration::from_millis(5);
/// Parts into which a command timeout is divided: how exactly it is kept.
pub const TIMEOUT_TICKS: u32 = 4;
