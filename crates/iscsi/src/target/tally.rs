//! What one connection counts, and when others see it.
//!
//! **Called by** the connection, at the end of every turn. **Invariants**: within a turn nothing is counted but in plain
//! fields of the connection; one publication per turn takes one uncontended lock and a few atomics.

use super::connection::Core;
use super::session::lock;
use hdrhistogram::Histogram;
use io::net::{TcpInfo, TcpStream};
use io::time::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How old the kernel's numbers may be while there is traffic.
const INFO_AGE_MAX: Duration = Duration::from_secs(1);
/// Longest latency told apart, µs.
const LATENCY_MAX_US: u64 = 600_000_000;

/// What latencies are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CommandKind {
    /// READ of any length.
    Read,
    /// WRITE of any length.
    Write,
    /// SYNCHRONIZE CACHE.
    Flush,
    /// Every other command.
    Other,
}

impl CommandKind {
    /// All kinds, in the order of their histograms.
    pub const ALL: [CommandKind; 4] = [
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Flush,
        CommandKind::Other,
    ];

    /// The kind of a CDB, by its operation code (SPC-4 annex E.3).
    #[must_use]
    pub fn of(operation_code: u8) -> CommandKind {
        match operation_code {
            0x08 | 0x28 | 0x88 | 0xa8 => CommandKind::Read,
            0x0a | 0x2a | 0x8a | 0xaa => CommandKind::Write,
            0x35 | 0x91 => CommandKind::Flush,
            _ => CommandKind::Other,
        }
    }
}

/// The live numbers of one connection.
#[derive(Default)]
pub(crate) struct ConnectionTotals {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) in_flight: u64,
    pub(crate) tcp: TcpInfo,
    /// When something last came from the initiator; none before the login's end was published.
    pub(crate) heard_at: Option<Instant>,
    /// Made when the first command of a kind ends, so that an idle connection costs nothing.
    latency: [Option<Box<Histogram<u32>>>; 4],
}

impl ConnectionTotals {
    fn record(&mut self, kind: CommandKind, us: u64) {
        let slot = &mut self.latency[kind as usize];
        if slot.is_none() {
            *slot = Histogram::new_with_bounds(1, LATENCY_MAX_US, 2)
                .ok()
                .map(Box::new);
        }
        if let Some(h) = slot {
            h.saturating_record(us.max(1));
        }
    }

    /// Adds this connection's latencies to `sum`.
    pub(crate) fn add_to(&self, sum: &mut LatencySums) {
        for (own, sum) in self.latency.iter().zip(&mut sum.0) {
            if let Some(h) = own {
                for v in h.iter_recorded() {
                    sum.saturating_record_n(v.value_iterated_to(), u64::from(v.count_at_value()));
                }
            }
        }
    }
}

/// Latencies of several connections together.
pub(crate) struct LatencySums([Histogram<u64>; 4]);

impl LatencySums {
    pub(crate) fn new() -> LatencySums {
        LatencySums(std::array::from_fn(|_| {
            Histogram::new_with_bounds(1, LATENCY_MAX_US, 2).expect("the bounds are sound")
        }))
    }

    pub(crate) fn summary(&self) -> Vec<CommandLatency> {
        CommandKind::ALL
            .iter()
            .zip(&self.0)
            .filter(|(_, h)| !h.is_empty())
            .map(|(kind, h)| CommandLatency {
                kind: *kind,
                count: h.len(),
                mean_us: h.mean(),
                p50_us: h.value_at_quantile(0.5),
                p90_us: h.value_at_quantile(0.9),
                p99_us: h.value_at_quantile(0.99),
                p999_us: h.value_at_quantile(0.999),
                max_us: h.max(),
            })
            .collect()
    }
}

/// How long commands of a kind took in the target: from the arrival of the command PDU to its response being handed to
/// the socket, µs.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandLatency {
    /// Which commands.
    pub kind: CommandKind,
    /// How many.
    pub count: u64,
    /// Mean, µs.
    pub mean_us: f64,
    /// Median, µs.
    pub p50_us: u64,
    /// 90th percentile, µs.
    pub p90_us: u64,
    /// 99th percentile, µs.
    pub p99_us: u64,
    /// 99.9th percentile, µs.
    pub p999_us: u64,
    /// Largest, µs.
    pub max_us: u64,
}

/// What happened since the last publication.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) dirty: bool,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) commands: u64,
    pub(super) errors: u64,
    /// Commands that ended, with their latency in µs.
    pub(super) ended: Vec<(CommandKind, u64)>,
}

impl Core {
    /// Publishes what happened in this turn.
    pub(super) fn publish(&mut self, stream: &TcpStream) {
        if !self.tally.dirty {
            return;
        }
        let counters = &self.target().clone().counters;
        let t = &mut self.tally;
        counters.bytes_in.fetch_add(t.bytes_in, Ordering::Relaxed);
        counters.bytes_out.fetch_add(t.bytes_out, Ordering::Relaxed);
        counters.commands.fetch_add(t.commands, Ordering::Relaxed);
        if let Some(m) = &self.member {
            let mut totals = lock(&m.handle.totals);
            totals.bytes_in += t.bytes_in;
            totals.bytes_out += t.bytes_out;
            totals.commands += t.commands;
            totals.errors += t.errors;
            totals.in_flight = self.commands.len() as u64;
            totals.heard_at = Some(self.heard_at);
            for (kind, us) in t.ended.drain(..) {
                totals.record(kind, us);
            }
        }
        let ended = std::mem::take(&mut t.ended);
        *t = Tally {
            ended,
            ..Tally::default()
        };
        if self.turn.since(self.info_at) >= INFO_AGE_MAX {
            self.publish_info(stream);
        }
    }

    pub(super) fn publish_info(&mut self, stream: &TcpStream) {
        self.info_at = self.turn;
        if let (Some(m), Ok(info)) = (&self.member, stream.info()) {
            lock(&m.handle.totals).tcp = info;
        }
    }
}
