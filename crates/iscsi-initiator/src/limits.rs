//! The named limits of the initiator: memory that a target can make it use, and time that a target may take.

use std::time::Duration;

/// Most outstanding tasks of one session: the index has ten bits.
pub const QUEUE_DEPTH_MAX: u16 = 1024;
/// Size of the staging area while payloads are large, bytes. It takes the longest header, [`CONTROL_DATA_MAX`] bytes behind
/// it, and little of the next payload.
pub const STAGING_NARROW: usize = 2304;
/// Most data of a PDU other than Data-In in full feature phase, bytes: sense data, a rejected header.
pub const CONTROL_DATA_MAX: u32 = 1024;
/// Largest MaxRecvDataSegmentLength declared, and largest bursts proposed, bytes.
pub const DATA_SEGMENT_MAX: u32 = 0xff_ffff;
/// Smallest MaxRecvDataSegmentLength and bursts (§13), bytes.
pub const DATA_SEGMENT_MIN: u32 = 512;
/// Most data of one task, bytes.
pub const TRANSFER_MAX: u32 = io::limits::BUF_LEN_MAX as u32;
/// Most text of one login response in all its PDUs, bytes.
pub const LOGIN_TEXT_MAX: usize = 16 << 10;
/// Most PDUs of one login.
pub const LOGIN_PDUS_MAX: usize = 32;
/// Redirections that one login follows.
pub const REDIRECTIONS_MAX: usize = 4;
/// Unknown keys of a target that one login answers with `NotUnderstood`.
pub const UNKNOWN_KEYS_MAX: usize = 32;
/// Longest CHAP challenge accepted from a target, bytes (§12.1.3).
pub const CHAP_CHALLENGE_MAX: usize = 1024;
/// Most text of one discovery, bytes.
pub const DISCOVERY_TEXT_MAX: usize = 1 << 20;
/// Most PDUs of one discovery.
pub const DISCOVERY_PDUS_MAX: usize = 1024;
/// Most targets of one discovery, and most addresses of one target.
pub const DISCOVERY_TARGETS_MAX: usize = 4096;
/// Events that are kept until they are fetched. A later event replaces the oldest.
pub const EVENTS_MAX: usize = 256;
/// Most pings of a target that one batch answers. More are a protocol error.
pub const NOP_REPLIES_MAX: u32 = 64;
/// Ticks per command timeout. More ticks keep the timeout more exactly.
pub const TIMEOUT_TICKS: u32 = 4;
/// Unit attentions in a row for which one command is repeated.
pub const UNIT_ATTENTIONS_MAX: u32 = 16;
/// BUSY or TASK SET FULL answers in a row for which one command is repeated.
pub const BUSY_MAX: u32 = 20;
/// Pause before a command is repeated after BUSY.
pub const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Most aborts outstanding.
pub const ABORTS_MAX: usize = 16;
/// Time limit of a logout. The connection is closed after it.
pub const LOGOUT_TIMEOUT: Duration = Duration::from_secs(2);
/// Allocation length of commands whose answer has no fixed length, bytes.
pub const ANSWER_MAX: usize = 4096;
/// Most logical units read from a REPORT LUNS answer.
pub const LUNS_MAX: usize = 1024;
/// Most ranges of one UNMAP.
pub const UNMAP_RANGES_MAX: usize = 256;
/// Receives of a connection over iSER beyond those for responses to tasks.
pub const ISER_OTHER_PDUS: u16 = 64;
/// READs of our memory that a target may have outstanding.
pub const ISER_READS_SERVED: u8 = 16;
