//! The named limits of this crate.

use std::time::Duration;

/// Least speed that a peer must send its data and take its replies at, bytes per second.
pub const RATE_MIN: u64 = 256 << 10;
/// The part of the buffer pool that the ledger does not give away: for data inside of capsules, copies, comparisons. One
/// in this many bytes.
pub const POOL_KEPT: usize = 16;
/// A host that has moved data may hold at most this many times what stays free after it.
pub const EARNED_ALPHA: usize = 8;
/// Bytes that a peer need not receive for a send of them to end, because its socket and ours hold them. The first bytes
/// sent on a connection earn nothing.
pub const SOCKETS_HOLD: usize = 4 << 20;
/// A host that holds no more than this may go beyond the room for large requests of hosts that have earned nothing, bytes.
pub const SMALL_BYTES: usize = 64 << 10;
/// A connection must move what it holds once in this time, or it falls behind.
pub const TURNOVER: Duration = Duration::from_secs(4);
/// How far a connection may be behind before it is closed when others wait.
pub const BEHIND_MAX: Duration = Duration::from_secs(2);
/// How often somebody who waits looks for connections that are behind.
pub const RECLAIM_EVERY: Duration = Duration::from_millis(100);
/// Log lines about misbehaving peers of one service, per second.
pub const LOG_LINES_PER_SECOND: u64 = 10;
