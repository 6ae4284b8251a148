//! The named limits of the transport: lengths, counts and times that an initiator is granted.

use std::time::Duration;

/// Longest iSCSI name, bytes (§4.2.7.2).
pub const NAME_LEN_MAX: usize = 223;
/// Longest key name, bytes (§6.1).
pub const KEY_LEN_MAX: usize = 63;
/// Longest value of a key, bytes (§6.1: 255 for all but binary values, and a CHAP challenge of 1024 bytes in
/// hexadecimal is 2050).
pub const VALUE_LEN_MAX: usize = 2050;
/// Most bytes of one text or login request over all its PDUs.
pub const TEXT_LEN_MAX: usize = 16 << 10;
/// Most keys of one text or login request.
pub const TEXT_KEYS_MAX: usize = 128;
/// Most PDUs of one login.
pub const LOGIN_PDUS_MAX: usize = 32;
/// Data segment of a login PDU, bytes: the default of MaxRecvDataSegmentLength, which no login changes (§13.12).
pub const LOGIN_DATA_MAX: u32 = 8192;
/// Longest CHAP challenge taken from an initiator, bytes (§12.1.3).
pub const CHAP_CHALLENGE_MAX: usize = 1024;
/// Bytes of the challenge sent.
pub const CHAP_CHALLENGE_LEN: usize = 32;
/// Wrong secrets of one initiator before its logins are refused unseen for a while.
pub const CHAP_FAILURES_FREE: u32 = 5;
/// The longest such while.
pub const CHAP_BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Initiators whose wrong secrets are remembered.
pub const CHAP_FAILURES_REMEMBERED_MAX: usize = 4096;

/// Largest data segment taken, bytes (MaxRecvDataSegmentLength declared).
pub const RECV_DATA_MAX: u32 = 1 << 20;
/// Largest MaxBurstLength and FirstBurstLength agreed to, bytes.
pub const BURST_MAX: u32 = 1 << 20;
/// Most connections of one session.
pub const SESSION_CONNECTIONS_MAX: u16 = 16;
/// Most outstanding R2Ts of one task.
pub const OUTSTANDING_R2T_MAX: u16 = 16;
/// Largest command window of a session (MaxCmdSN - ExpCmdSN + 1).
pub const COMMAND_WINDOW_MAX: u32 = 1024;
/// Immediate commands that one connection may have outstanding; further ones are rejected (§11.17.1).
pub const IMMEDIATE_COMMANDS_MAX: usize = 64;
/// Most sessions: TSIH runs from 1 to FFFFh.
pub const SESSIONS_MAX: usize = 0xffff;
/// Most bytes of ping data echoed (NOP-Out); more is cut off (§11.18.2).
pub const PING_DATA_MAX: usize = 64 << 10;
/// Responses retained for retransmission at error recovery level 1, per connection.
pub const RETAINED_RESPONSES_MAX: usize = 128;
/// Bytes of read data kept for retransmission at error recovery level 1, per connection.
pub const RETAINED_BYTES_MAX: usize = 4 << 20;
/// Recovery R2Ts of one task (error recovery level 1) before it fails.
pub const RECOVERY_R2T_MAX: u32 = 16;
/// Staging area of a connection: room for many commands, bytes.
pub const STAGING_MAX: usize = 64 << 10;
/// Staging area while data is awaited, bytes. It is small because data that arrives in it is copied.
pub const STAGING_MIN: usize = 4 << 10;
/// Unsent replies of a connection; beyond this number no further command is taken.
pub const UNSENT_REPLIES_MAX: usize = 2048;
/// Most discovery sessions that can be configured.
pub const DISCOVERY_MAX: usize = 4096;
/// Bytes of unsolicited data that one connection may have outside of the buffer pool, because its other commands wait for PDUs
/// that follow this data.
pub const EARLY_OUTSIDE_MAX: usize = 4 << 20;

/// Longest data segment taken in a message over iSER, bytes (TargetRecvDataSegmentLength): the length of a login's text, so that all receives
/// are of one size.
pub const ISER_RECV_DATA_MAX: u32 = LOGIN_DATA_MAX;
/// Longest additional header segments taken in a message over iSER, bytes: enough for a CDB of 76 bytes.
pub const ISER_AHS_MAX: usize = 64;
/// Longest data segment sent in a message of a normal session over iSER, bytes. Linux' receives have no room for more, although its
/// InitiatorRecvDataSegmentLength is larger.
pub const ISER_SEND_DATA_MAX: u32 = 128;
/// Receives of a connection over iSER beyond its command window: for requests that take no place in the window, and for unsolicited data
/// (MaxOutstandingUnexpectedPDUs). A message that finds no receive is sent again by the initiator's device.
pub const ISER_OTHER_PDUS: u16 = 32;
/// READs of an initiator's memory that one connection over iSER may have outstanding.
pub const ISER_READS_MAX: u8 = 16;
