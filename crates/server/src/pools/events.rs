//! The last events of pools, in memory.
//!
//! **Called by** the history. **Invariants**: at most [`EVENTS_MAX`] are kept; sequence numbers start at 1 and have no gaps.

use crate::api::Event;
use crate::limits::EVENTS_MAX;
use std::collections::VecDeque;

/// The last events.
#[derive(Default)]
pub(crate) struct Events {
    last: VecDeque<Event>,
    count: u64,
}

impl Events {
    /// Adds an event and gives it its sequence number.
    pub(super) fn add(&mut self, event: Event) {
        self.count += 1;
        self.last.push_back(Event {
            sequence: self.count,
            ..event
        });
        if self.last.len() > EVENTS_MAX {
            self.last.pop_front();
        }
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.last.iter()
    }
}
