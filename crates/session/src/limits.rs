//! The named limits of this crate.

use std::time::Duration;

/// Least rate at which a peer must send its data and receive its replies, bytes per second.
pub const RATE_MIN: u64 = 256 << 10;
/// Divisor of the part of the buffer pool that the ledger does not grant: one byte in this many. It serves in-capsule data,
/// copies and comparisons.
pub const POOL_KEPT: usize = 16;
/// A host that has moved data may hold at most this multiple of the bytes that stay free.
pub const EARNED_ALPHA: usize = 8;
/// Bytes that the two sockets of a connection may hold, so that a send can end before the peer has received them. The first
/// bytes sent on a connection earn nothing.
pub const SOCKETS_HOLD: usize = 4 << 20;
/// Small requests, bytes: a host that holds at most this much may use more than the part for large requests.
pub const SMALL_BYTES: usize = 64 << 10;
/// Time within which a connection must move the bytes that it holds. Otherwise it falls behind.
pub const TURNOVER: Duration = Duration::from_secs(4);
/// Time by which a connection may be behind before the ledger closes it for a waiting request.
pub const BEHIND_MAX: Duration = Duration::from_secs(2);
/// Interval at which a waiting request looks for connections that are behind.
pub const RECLAIM_EVERY: Duration = Duration::from_millis(100);
/// Longest wait of a new connection for a place while evicted ones end.
pub const ENTRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// Interval at which it looks for a place.
pub const ENTRY_POLL: Duration = Duration::from_millis(1);
/// Most hosts that a service remembers to have refused.
pub const REFUSED_HOSTS_MAX: usize = 256;
/// Log lines per second and service about peers that break the protocol.
pub const LOG_LINES_PER_SECOND: u64 = 10;
