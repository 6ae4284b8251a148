//! The limit of what runs beside clients: scrub, trim, resilver. Bytes for each second.

use crate::size::ByteSize;
use std::time::Duration;

/// The limit that was asked for; 0 asks for none.
pub(super) fn asked(rate: ByteSize) -> Option<u64> {
    Some(rate.0).filter(|rate| *rate > 0)
}

/// How long so many bytes take at least: no time without a limit, which is not 0.
pub(super) fn time(bytes: u64, limit: Option<u64>) -> Duration {
    limit.map_or(Duration::ZERO, |limit| {
        Duration::from_secs_f64(bytes as f64 / limit as f64)
    })
}
