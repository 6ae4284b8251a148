//! What one connection counts, and when others see it.
//!
//! **Called by** the connection, at the end of every turn. **Invariants**: within a turn nothing is counted but in plain
//! fields of the connection; one publication per turn takes one uncontended lock and a few atomics.

use super::connection::Core;
use super::session::lock;
use io::time::Instant;
use session::latency::CommandKind;
use session::tally::Totals;
use std::sync::atomic::Ordering;

/// The kind of a CDB, by its operation code (SPC-4 annex E.3).
pub(super) fn kind_of(operation_code: u8) -> CommandKind {
    match operation_code {
        0x08 | 0x28 | 0x88 | 0xa8 => CommandKind::Read,
        0x0a | 0x2a | 0x8a | 0xaa => CommandKind::Write,
        0x35 | 0x91 => CommandKind::Flush,
        _ => CommandKind::Other,
    }
}

/// The totals of one connection, as others see them.
#[derive(Default)]
pub(crate) struct ConnectionTotals {
    pub(crate) shared: Totals,
    /// When something last came from the initiator; none before the login's end was published.
    pub(crate) heard_at: Option<Instant>,
}

impl Core {
    /// Publishes what happened in this turn.
    pub(super) fn publish(&mut self) {
        let target = self.target().clone();
        let commands = self.link.tally().count_in(&target.connections.counters);
        target
            .counters
            .commands
            .fetch_add(commands, Ordering::Relaxed);
        if let Some(m) = &self.member {
            let mut totals = lock(&m.handle.totals);
            totals.heard_at = Some(self.heard_at);
            totals.shared.in_flight = self.commands.len() as u64;
            let us = self.link.now().elapsed().as_micros() as u64;
            self.link
                .tally()
                .publish(&mut totals.shared, us, |_, _, _| {});
        }
    }
}
