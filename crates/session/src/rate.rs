//! Deadlines that follow from a size: a fixed pause, plus the time that the bytes take at the least rate.
//!
//! **Invariants**: a deadline counts from the start of a request; bytes that arrive do not move it.

use crate::limits::RATE_MIN;
use io::time::Instant;
use std::time::Duration;

/// Time for `bytes` at [`RATE_MIN`].
#[must_use]
pub fn time_for(bytes: usize) -> Duration {
    Duration::from_millis((bytes as u64).saturating_mul(1000) / RATE_MIN)
}

/// Deadline for data that was requested at `start`: `pause` for the peer to begin, plus the time for `bytes`. `bytes`
/// includes data of earlier requests that may arrive first.
#[must_use]
pub fn deadline(start: Instant, pause: Duration, bytes: usize) -> Instant {
    start + pause + time_for(bytes)
}
