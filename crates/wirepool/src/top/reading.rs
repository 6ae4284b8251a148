//! One reading of the server's counters.
//!
//! **Called by** the reading thread and `--once`. **Invariants**: a reading has the time at which it was complete.

use crate::client::Client;
use anyhow::Result;
use server::api::{GetStages, GetStatus, ListSessions, SessionSummary};
use std::time::Instant;

/// Answers of the server at one time.
pub(super) struct Reading {
    /// Status and times of requests; without sessions in full, each of which would be a request.
    pub(super) facts: server::why::Reading,
    pub(super) sessions: Vec<SessionSummary>,
    pub(super) at: Instant,
}

impl Reading {
    /// Asks the server. Errors: it does not answer, or refuses.
    pub(super) fn take(client: &Client) -> Result<Reading> {
        Ok(Reading {
            facts: server::why::Reading {
                stages: client.ask(&GetStages {})?,
                status: client.ask(&GetStatus {})?,
                sessions: Vec::new(),
            },
            sessions: client.ask(&ListSessions {})?,
            at: Instant::now(),
        })
    }
}
