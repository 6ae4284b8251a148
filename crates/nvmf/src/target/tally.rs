//! What one connection counts, and when others see it.
//!
//! **Called by** the connection, at the end of every turn. **Invariants**: within a turn nothing is counted but in plain
//! fields of the connection; one publication per turn takes one uncontended lock and a few atomics.

use super::connection::Core;
use super::counters::OPCODES;
use super::session::CommandKind;
use io::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How old the kernel's numbers may be while there is traffic.
const INFO_AGE_MAX: Duration = Duration::from_secs(1);

/// What happened since the last publication.
pub(super) struct Tally {
    pub(super) dirty: bool,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) commands: u32,
    pub(super) errors: u32,
    pub(super) admin: u32,
    pub(super) fabrics: u32,
    pub(super) opcodes: [u32; OPCODES],
    /// Commands that were taken and answered within this turn, by kind.
    pub(super) at_once: [u32; 4],
    /// The others, with their latency in µs.
    pub(super) later: Vec<(CommandKind, u64)>,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            dirty: false,
            bytes_in: 0,
            bytes_out: 0,
            bytes_read: 0,
            bytes_written: 0,
            commands: 0,
            errors: 0,
            admin: 0,
            fabrics: 0,
            opcodes: [0; OPCODES],
            at_once: [0; 4],
            later: Vec::new(),
        }
    }

    /// Starts anew; the opcodes were taken one by one.
    fn clear(&mut self) {
        let later = std::mem::take(&mut self.later);
        *self = Tally {
            later,
            ..Tally::new()
        };
        self.later.clear();
    }
}

impl Core {
    /// Publishes what happened in this turn.
    pub(super) fn publish(&mut self, stream: &TcpStream) {
        if !self.tally.dirty {
            return;
        }
        let target = self.target().clone();
        let counters = &target.counters;
        let t = &mut self.tally;
        counters.bytes_in.fetch_add(t.bytes_in, Ordering::Relaxed);
        counters.bytes_out.fetch_add(t.bytes_out, Ordering::Relaxed);
        counters
            .admin_commands
            .fetch_add(u64::from(t.admin), Ordering::Relaxed);
        counters
            .fabrics_commands
            .fetch_add(u64::from(t.fabrics), Ordering::Relaxed);
        let now = io::time::now();
        if let Some(q) = &self.queue {
            let mut totals = q.handle.totals();
            totals.bytes_in += t.bytes_in;
            totals.bytes_out += t.bytes_out;
            totals.commands += u64::from(t.commands);
            totals.errors += u64::from(t.errors);
            totals.in_flight = (self.commands.len() + self.async_events.len()) as u64;
            let export = q.controller.subsystem().filter(|_| q.qid > 0);
            let mut record = |kind, us, count| {
                totals.record(kind, us, count);
                if let Some(s) = export {
                    s.totals.latencies.record(kind, us, count);
                }
            };
            let us = now.since(self.turn).as_micros() as u64;
            for kind in CommandKind::ALL {
                if t.at_once[kind as usize] > 0 {
                    record(kind, us, t.at_once[kind as usize]);
                }
            }
            let mut of_kind = t.at_once;
            for (kind, us) in t.later.drain(..) {
                record(kind, us, 1);
                of_kind[kind as usize] += 1;
            }
            drop(totals);
            if let Some(s) = q.controller.subsystem() {
                s.totals
                    .bytes_read
                    .fetch_add(t.bytes_read, Ordering::Relaxed);
                s.totals
                    .bytes_written
                    .fetch_add(t.bytes_written, Ordering::Relaxed);
                if q.qid > 0 {
                    for (total, n) in counters.io_commands.iter().zip(&mut t.opcodes) {
                        if *n > 0 {
                            total.fetch_add(u64::from(std::mem::take(n)), Ordering::Relaxed);
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
        t.clear();
        if now.since(self.info_at) >= INFO_AGE_MAX {
            self.publish_info(stream);
        }
    }

    pub(super) fn publish_info(&mut self, stream: &TcpStream) {
        self.info_at = self.turn;
        if let (Some(q), Ok(info)) = (&self.queue, stream.info()) {
            q.handle.totals().tcp = info;
        }
    }
}
