//! Counts of one connection, and their publication once per turn.
//!
//! **Owns** the counts since the last publication ([`Tally`]) and the totals that others read ([`Totals`]). **Called by** the
//! connection: while it works, and at the end of every turn. **Invariants**: within a turn only plain fields are counted; a
//! publication takes one uncontended lock and a few atomics.

use crate::carrier::CarrierInfo;
use crate::counters::ConnectionCounters;
use crate::latency::{CommandKind, Latencies};
use crate::stages::{SlowRequest, StageCounters};
use io::stage::{Spent, Stage, Trail};
use io::time::Instant;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most age of the transport's own numbers while there is traffic.
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
    /// The transport's own numbers.
    pub carrier: CarrierInfo,
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
    /// The others, with the time of their end and their time by stage.
    later: Vec<(CommandKind, Instant, Spent)>,
    sends: Sends,
}

/// Replies that were handed to the socket, by kind: their number, and the sum of the times since their requests ended, ns.
pub(crate) type Sends = [(u32, u64); CommandKind::ALL.len()];

/// Where a publication counts the time of requests besides the connection's totals.
pub struct Export<'a> {
    /// The counters of the export that the connection uses, if it uses one.
    pub stages: Option<&'a StageCounters>,
    /// The client's address.
    pub peer: SocketAddr,
    /// When the turn began.
    pub turn: Instant,
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

    /// Bytes were sent, and with them replies.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize, replies: &Sends) {
        self.bytes_out += bytes as u64;
        for (all, new) in self.sends.iter_mut().zip(replies) {
            *all = (all.0 + new.0, all.1 + new.1);
        }
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

    /// A command ended, in the turn that began at `turn`. Returns when it ended: a command of this turn counts as ended at
    /// the turn's beginning, because its time is known only when the turn is over.
    #[inline]
    pub(crate) fn ended(&mut self, kind: CommandKind, trail: Trail, turn: Instant) -> Instant {
        self.is_dirty = true;
        if trail.began() == turn && trail.is_fresh() {
            self.at_once[kind as usize] += 1;
            return turn;
        }
        let now = io::time::now();
        self.later.push((kind, now, trail.end(now)));
        now
    }

    /// Adds bytes and commands to a service's counters. Returns the commands added.
    pub fn count_in<S, R>(&self, counters: &ConnectionCounters<S, R>) -> u64 {
        let add = |total: &std::sync::atomic::AtomicU64, n| total.fetch_add(n, Ordering::Relaxed);
        add(&counters.bytes_in, self.bytes_in);
        add(&counters.bytes_out, self.bytes_out);
        u64::from(self.commands)
    }

    /// Adds everything to a connection's totals and to the counters of its export. `record` is called for each latency that is
    /// recorded, with its µs. Returns the commands that ended, by kind.
    pub fn publish(
        &mut self,
        totals: &mut Totals,
        export: &Export<'_>,
        mut record: impl FnMut(CommandKind, u64, u32),
    ) -> [u32; 4] {
        let turn_ns = export.turn.elapsed().as_nanos() as u64;
        totals.bytes_in += self.bytes_in;
        totals.bytes_out += self.bytes_out;
        totals.commands += u64::from(self.commands);
        totals.errors += u64::from(self.errors);
        let mut of_kind = self.at_once;
        for kind in CommandKind::ALL {
            let at_once = self.at_once[kind as usize];
            if at_once > 0 {
                totals.latencies.record(kind, turn_ns / 1000, at_once);
                record(kind, turn_ns / 1000, at_once);
                if let Some(stages) = export.stages {
                    stages.ended(kind, &Spent::only(Stage::Compute, turn_ns), at_once);
                }
            }
            let (sent, ns) = self.sends[kind as usize];
            if let (Some(stages), Some(each)) = (export.stages, ns.checked_div(sent.into())) {
                stages.sent(kind, each, sent);
            }
        }
        for (kind, ended_at, spent) in self.later.drain(..) {
            let us = spent.total() / 1000;
            totals.latencies.record(kind, us, 1);
            record(kind, us, 1);
            of_kind[kind as usize] += 1;
            if let Some(stages) = export.stages {
                stages.ended(kind, &spent, 1);
                let peer = export.peer;
                stages.note(SlowRequest {
                    ended_at,
                    kind,
                    peer,
                    spent,
                });
            }
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
