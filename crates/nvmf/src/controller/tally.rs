//! Publication of the counts of one connection.
//!
//! **Called by** the connection, at the end of every turn that has counts. **Invariants**: one publication takes one
//! uncontended lock and a few atomics.

use super::phase::Core;
use session::latency::CommandKind;
use session::tally::Export;
use std::sync::atomic::Ordering;

impl Core {
    /// Publishes the counts of this turn.
    pub(super) fn publish(&mut self) {
        let target = self.common.target().clone();
        let counters = &target.counters;
        let own = std::mem::take(&mut self.common.tally);
        self.common
            .link
            .tally()
            .count_in(&target.connections.counters);
        counters
            .admin_commands
            .fetch_add(u64::from(own.admin), Ordering::Relaxed);
        counters
            .fabrics_commands
            .fetch_add(u64::from(own.fabrics), Ordering::Relaxed);
        let in_flight = self.outstanding() as u64;
        let (peer, turn) = (self.common.link.peer(), self.common.now());
        let (Some(q), link) = self.queue_and_link() else {
            return;
        };
        let subsystem = q.controller().subsystem();
        let export = subsystem.filter(|_| !q.is_admin());
        let stages = export.map(|s| &*s.totals.stages);
        let to = Export { stages, peer, turn };
        let mut totals = q.handle().totals();
        totals.in_flight = in_flight;
        let of_kind = link.tally().publish(&mut totals, &to, |kind, us, count| {
            if let Some(s) = export {
                s.totals.latencies.record(kind, us, count);
            }
        });
        drop(totals);
        let Some(s) = subsystem else { return };
        let add = |total: &std::sync::atomic::AtomicU64, n| total.fetch_add(n, Ordering::Relaxed);
        add(&s.totals.bytes_read, own.bytes_read);
        add(&s.totals.bytes_written, own.bytes_written);
        if q.is_admin() {
            return;
        }
        for (total, n) in counters.io_commands.iter().zip(&own.opcodes) {
            if *n > 0 {
                add(total, u64::from(*n));
            }
        }
        add(
            &s.totals.reads,
            u64::from(of_kind[CommandKind::Read as usize]),
        );
        add(
            &s.totals.writes,
            u64::from(of_kind[CommandKind::Write as usize]),
        );
    }
}
