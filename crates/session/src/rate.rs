//! Deadlines that follow from a size: a peer has a pause of its own, and the time that the bytes take at the least rate.
//!
//! **Invariants**: a deadline counts from the start of a request; bytes that arrive do not move it.

use crate::limits::RATE_MIN;
use io::time::Instant;
use std::time::Duration;

/// How long `bytes` may take.
#[must_use]
pub fn time_for(bytes: usize) -> Duration {
    Duration::from_millis((bytes as u64).saturating_mul(1000) / RATE_MIN)
}

/// When data must be here that was asked for at `start`: `pause` for the peer to begin, and the time for `bytes`, which
/// are this request's and those that were asked for before and may come first.
#[must_use]
pub fn deadline(start: Instant, pause: Duration, bytes: usize) -> Instant {
    start + pause + time_for(bytes)
}
