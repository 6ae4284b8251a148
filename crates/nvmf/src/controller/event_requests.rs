//! Async Event Requests of one admin queue that wait for an event (Base 5.2).
//!
//! **Owns** the requests. **Called by** the admin commands. **Invariants**: at most [`ASYNC_EVENTS_MAX`] wait; requests that
//! wait when the connection ends are abandoned.

use super::command::Command;
use super::limits::ASYNC_EVENTS_MAX;
use crate::wire::command::Cid;
use std::collections::VecDeque;

/// The requests that wait, oldest first.
#[derive(Default)]
pub(super) struct EventRequests(VecDeque<Command>);

impl EventRequests {
    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a request. Returns it if [`ASYNC_EVENTS_MAX`] wait already.
    pub(super) fn push(&mut self, request: Command) -> Option<Command> {
        if self.0.len() >= ASYNC_EVENTS_MAX {
            return Some(request);
        }
        self.0.push_back(request);
        None
    }

    /// Takes the oldest request.
    pub(super) fn pop(&mut self) -> Option<Command> {
        self.0.pop_front()
    }

    /// Takes the request with this identifier.
    pub(super) fn remove(&mut self, cid: Cid) -> Option<Command> {
        let at = self.0.iter().position(|c| c.cid() == cid)?;
        self.0.remove(at)
    }
}

impl Drop for EventRequests {
    /// The connection ends: nothing is owed to its host any longer.
    fn drop(&mut self) {
        while let Some(request) = self.0.pop_front() {
            request.abandon();
        }
    }
}
