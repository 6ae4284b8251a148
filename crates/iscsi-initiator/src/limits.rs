//! The named limits of the initiator: what a target may make it keep, and how long it may take.

use std::time::Duration;

/// Most tasks outstanding of one session: an index of ten bits.
pub const QUEUE_DEPTH_MAX: u16 = 1024;
/// Staging area of a connection while payloads are small, bytes: many PDUs by one receive.
pub const STAGING_WIDE: usize = 128 << 10;
/// Staging area while payloads are large, bytes: the longest header and what [`CONTROL_DATA_MAX`] allows behind it, and
/// little of the next payload to copy.
pub const STAGING_NARROW: usize = 2304;
/// Data-In of at least so many bytes make the staging area narrow.
pub const LARGE_PAYLOAD: u32 = 16 << 10;
/// Most data of a PDU in full feature phase that is no Data-In, bytes: sense data, a refused header.
pub const CONTROL_DATA_MAX: u32 = 1024;
/// Largest MaxRecvDataSegmentLength declared, and largest bursts proposed, bytes.
pub const DATA_SEGMENT_MAX: u32 = 0xff_ffff;
/// Smallest of those (§13).
pub const DATA_SEGMENT_MIN: u32 = 512;
/// Most bytes of one task.
pub const TRANSFER_MAX: u32 = io::limits::BUF_LEN_MAX as u32;
/// Most text of one login response over all its PDUs, bytes.
pub const LOGIN_TEXT_MAX: usize = 16 << 10;
/// Most PDUs that one login may take.
pub const LOGIN_PDUS_MAX: usize = 32;
/// Redirections that one login follows.
pub const REDIRECTIONS_MAX: usize = 4;
/// Keys of a target that one login answers with `NotUnderstood`.
pub const UNKNOWN_KEYS_MAX: usize = 32;
/// Longest CHAP challenge taken from a target, bytes (§12.1.3).
pub const CHAP_CHALLENGE_MAX: usize = 1024;
/// Most text of one discovery, bytes.
pub const DISCOVERY_TEXT_MAX: usize = 1 << 20;
/// Most PDUs of one discovery.
pub const DISCOVERY_PDUS_MAX: usize = 1024;
/// Most targets of one discovery, and most addresses of one target.
pub const DISCOVERY_TARGETS_MAX: usize = 4096;
/// Events that wait to be fetched; later ones replace the oldest.
pub const EVENTS_MAX: usize = 256;
/// Pings of a target answered in one batch; more are a flood.
pub const NOP_REPLIES_MAX: u32 = 64;
/// Parts into which a command timeout is divided: how exactly it is kept.
pub const TIMEOUT_TICKS: u32 = 4;
/// Unit attentions in a row that one command is repeated for.
pub const UNIT_ATTENTIONS_MAX: u32 = 16;
/// Answers BUSY or TASK SET FULL in a row that one command is repeated for.
pub const BUSY_MAX: u32 = 20;
/// Pause before a command is repeated that found the unit busy.
pub const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Tasks being aborted at a time.
pub const ABORTS_MAX: usize = 16;
/// How long a logout may take before the connection is cut.
pub const LOGOUT_TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes asked for by a command whose answer has no fixed length.
pub const ANSWER_MAX: usize = 4096;
/// Logical units read of REPORT LUNS.
pub const LUNS_MAX: usize = 1024;
/// Descriptors of one UNMAP.
pub const UNMAP_RANGES_MAX: usize = 256;
