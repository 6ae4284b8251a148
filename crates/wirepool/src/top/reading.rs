//! One reading of the server's counters.
//!
//! **Called by** the reading thread and `--once`. **Invariants**: a reading has the time at which it was complete.

use crate::client::Client;
use crate::why;
use anyhow::Result;
use std::time::Instant;

/// Answers of the server at one time.
pub(super) struct Reading {
    pub(super) facts: server::why::Reading,
    pub(super) at: Instant,
}

impl Reading {
    /// Asks the server. Errors: it does not answer, or refuses.
    pub(super) fn take(client: &Client) -> Result<Reading> {
        Ok(Reading {
            facts: why::read(client)?,
            at: Instant::now(),
        })
    }
}
