//! What one connection counts, and when others see it.
//!
//! **Called by** the connection, at the end of every turn. **Invariants**: within a turn nothing is counted but in plain
//! fields of the connection; one publication per turn takes one uncontended lock and a few atomics.

use super::connection::Core;
use super::counters::OPCODES;
use session::latency::CommandKind;
use std::sync::atomic::Ordering;

/// Counts since the last publication that only this protocol has.
#[derive(Default)]
pub(super) struct NvmeTally {
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) admin: u32,
    pub(super) fabrics: u32,
    pub(super) opcodes: [u32; OPCODES],
}

impl Core {
    /// Publishes what happened in this turn.
    pub(super) fn publish(&mut self) {
        let target = self.target().clone();
        let counters = &target.counters;
        self.link.tally().count_in(&target.connections.counters);
        let own = &mut self.own_tally;
        counters
            .admin_commands
            .fetch_add(u64::from(own.admin), Ordering::Relaxed);
        counters
            .fabrics_commands
            .fetch_add(u64::from(own.fabrics), Ordering::Relaxed);
        let now = io::time::now();
        if let Some(q) = &self.queue {
            let mut totals = q.handle.totals();
            totals.in_flight = (self.commands.len() + self.async_events.len()) as u64;
            let export = q.controller.subsystem().filter(|_| q.qid > 0);
            let us = now.since(self.link.now()).as_micros() as u64;
            let of_kind = self
                .link
                .tally()
                .publish(&mut totals, us, |kind, us, count| {
                    if let Some(s) = export {
                        s.totals.latencies.record(kind, us, count);
                    }
                });
            drop(totals);
            if let Some(s) = q.controller.subsystem() {
                s.totals
                    .bytes_read
                    .fetch_add(own.bytes_read, Ordering::Relaxed);
                s.totals
                    .bytes_written
                    .fetch_add(own.bytes_written, Ordering::Relaxed);
                if q.qid > 0 {
                    for (total, n) in counters.io_commands.iter().zip(&own.opcodes) {
                        if *n > 0 {
                            total.fetch_add(u64::from(*n), Ordering::Relaxed);
                        }
                    }
                    s.totals.reads.fetch_add(
                        u64::from(of_kind[CommandKind::Read as usize]),
                        Ordering::Relaxed,
                    );
                    s.totals.writes.fetch_add(
                        u64::from(of_kind[CommandKind::Write as usize]),
                        Ordering::Relaxed,
                    );
                }
            }
        }
        self.own_tally = NvmeTally::default();
    }
}
