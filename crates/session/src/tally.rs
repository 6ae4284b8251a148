//! Counts of one connection, and their publication once per turn.
//!
//! **Owns** the counts since the last publication ([`Tally`]) and the totals that others read ([`Totals`]). **Called by** the
//! connection: while it works, and at the end of every turn. **Invariants**: within a turn only plain fields are counted; a
//! publication takes one uncontended lock and a few atomics.

use crate::counters::ConnectionCounters;
use crate::latency::{CommandKind, Latencies};
use io::net::TcpInfo;
use io::time::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most age of the kernel's numbers while there is traffic.
pub(crate) const INFO_AGE_MAX: Duration = Duration::from_secs(1);

/// The totals of one connection, as others see them.
#[derive(Default)]
pub struct Totals {
    /// Commands taken.
    pub commands: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Commands without a reply now.
    pub in_flight: u64,
    /// The kernel's view of the connection.
    pub tcp: TcpInfo,
    /// Latencies of ended commands.
    pub latencies: Latencies,
}

/// Counts since the last publication.
#[derive(Default)]
pub struct Tally {
    is_dirty: bool,
    bytes_in: u64,
    bytes_out: u64,
    commands: u32,
    errors: u32,
    /// Commands that were taken and answered within this turn, by kind.
    at_once: [u32; 4],
    /// The others, with their latency in µs.
    later: Vec<(CommandKind, u64)>,
}

impl Tally {
    /// Whether there is something to publish.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Bytes were received.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        self.bytes_in += bytes as u64;
        self.is_dirty = true;
    }

    /// Bytes were sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes_out += bytes as u64;
        self.is_dirty = true;
    }

    /// A command was taken.
    #[inline]
    pub fn command(&mut self) {
        self.commands += 1;
        self.is_dirty = true;
    }

    /// A command failed.
    #[inline]
    pub fn error(&mut self) {
        self.errors += 1;
    }

    /// A command that was `started` at this time ended, in the turn that began at `turn`.
    #[inline]
    pub(crate) fn ended(&mut self, kind: CommandKind, started: Instant, turn: Instant) {
        if started == turn {
            self.at_once[kind as usize] += 1;
        } else {
            self.later
                .push((kind, started.elapsed().as_micros() as u64));
        }
        self.is_dirty = true;
    }

    /// Adds bytes and commands to a service's counters. Returns the commands added.
    pub fn count_in<S, R>(&self, counters: &ConnectionCounters<S, R>) -> u64 {
        let add = |total: &std::sync::atomic::AtomicU64, n| total.fetch_add(n, Ordering::Relaxed);
        add(&counters.bytes_in, self.bytes_in);
        add(&counters.bytes_out, self.bytes_out);
        u64::from(self.commands)
    }

    /// Adds everything to a connection's totals; commands of this turn took `us` microseconds. `record` is called for each
    /// latency that is recorded. Returns the commands that ended, by kind.
    pub fn publish(
        &mut self,
        totals: &mut Totals,
        us: u64,
        mut record: impl FnMut(CommandKind, u64, u32),
    ) -> [u32; 4] {
        totals.bytes_in += self.bytes_in;
        totals.bytes_out += self.bytes_out;
        totals.commands += u64::from(self.commands);
        totals.errors += u64::from(self.errors);
        let mut of_kind = self.at_once;
        for kind in CommandKind::ALL {
            if self.at_once[kind as usize] > 0 {
                totals
                    .latencies
                    .record(kind, us, self.at_once[kind as usize]);
                record(kind, us, self.at_once[kind as usize]);
            }
        }
        for (kind, us) in self.later.drain(..) {
            totals.latencies.record(kind, us, 1);
            record(kind, us, 1);
            of_kind[kind as usize] += 1;
        }
        of_kind
    }

    /// Sets all counts to zero.
    pub(crate) fn clear(&mut self) {
        // The list is used again.
        let mut later = std::mem::take(&mut self.later);
        later.clear();
        *self = Tally {
            later,
            ..Tally::default()
        };
    }
}
