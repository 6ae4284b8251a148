//! Times for which requests wait until their data is durable.
//!
//! **Owns** the histogram. **Called by** the committer, and by advice about a log. **Invariant**: a request that found its data durable, and a
//! checkpoint, are not counted.

use std::time::Duration;

use io::histogram::{Histogram, Times};
use io::time::{Instant, now};

/// Waits for durable data since a pool was opened: flushes, durable writes and commits of clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurableWaits {
    /// Times from the owner's receipt of a request to the flush that answered it, µs.
    pub times: Times,
    /// Time since the pool was opened.
    pub open_for: Duration,
}

/// See the module header.
pub(super) struct Waits {
    times: Histogram,
    opened_at: Instant,
}

impl Waits {
    /// No waits. The pool is being opened.
    pub(super) fn new() -> Self {
        Self {
            times: Histogram::default(),
            opened_at: now(),
        }
    }

    /// A request that the owner took at this time is answered.
    pub(super) fn ended(&self, taken_at: Instant) {
        self.times.record_micros_since(taken_at);
    }

    pub(super) fn read(&self) -> DurableWaits {
        DurableWaits {
            times: self.times.read(),
            open_for: self.opened_at.elapsed(),
        }
    }
}
