//! Rate limits of scrub, trim and resilver, bytes per second.

use crate::size::ByteSize;
use std::time::Duration;

/// The requested limit; 0 for none.
pub(super) fn asked(rate: ByteSize) -> Option<u64> {
    Some(rate.0).filter(|rate| *rate > 0)
}

/// Minimum duration for `bytes`: zero without a limit; a limit is not 0.
pub(super) fn time(bytes: u64, limit: Option<u64>) -> Duration {
    limit.map_or(Duration::ZERO, |limit| {
        Duration::from_secs_f64(bytes as f64 / limit as f64)
    })
}
