//! Counters that every protocol has: connections by state and by reason of their end, bytes, errors, log lines.
//!
//! **Owns** the live counters of one service. **Called by** every connection (one publication per turn), read by the control
//! plane. **Invariants**: every counter is an atomic or behind a lock that only errors take.

use crate::limits::LOG_LINES_PER_SECOND;
use io::sync::lock;
use io::time::Instant;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A type of few values, each with a counter.
pub trait Enumerated: Copy + PartialEq + 'static {
    /// All values, in the order of their counters.
    const ALL: &'static [Self];
}

/// A counter for each value of an enumeration.
pub struct CountersBy<K> {
    counts: Box<[AtomicU64]>,
    of: std::marker::PhantomData<K>,
}

impl<K: Enumerated> Default for CountersBy<K> {
    fn default() -> CountersBy<K> {
        CountersBy {
            counts: K::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            of: std::marker::PhantomData,
        }
    }
}

impl<K: Enumerated> CountersBy<K> {
    fn of(&self, key: K) -> Option<&AtomicU64> {
        self.counts.get(K::ALL.iter().position(|k| *k == key)?)
    }

    /// One more of `key`.
    pub fn add(&self, key: K) {
        self.of(key).map(|n| n.fetch_add(1, Ordering::Relaxed));
    }

    /// One less of `key`.
    pub fn subtract(&self, key: K) {
        self.of(key).map(|n| n.fetch_sub(1, Ordering::Relaxed));
    }

    /// All counts.
    pub fn snapshot(&self) -> Vec<(K, u64)> {
        let counts = self.counts.iter().map(|n| n.load(Ordering::Relaxed));
        K::ALL.iter().copied().zip(counts).collect()
    }
}

/// Counters of events that are rare and of many kinds.
pub struct RareCounters<K>(Mutex<BTreeMap<K, u64>>);

impl<K> Default for RareCounters<K> {
    fn default() -> RareCounters<K> {
        RareCounters(Mutex::default())
    }
}

impl<K: Ord + Copy> RareCounters<K> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, u64>> {
        lock(&self.0)
    }

    /// One more of `key`.
    pub fn add(&self, key: K) {
        *self.lock().entry(key).or_default() += 1;
    }

    /// All counts that are not zero.
    pub fn snapshot(&self) -> Vec<(K, u64)> {
        self.lock().iter().map(|(k, n)| (*k, *n)).collect()
    }
}

/// The count of `key` in a snapshot.
pub fn count_of<K: PartialEq>(counts: &[(K, u64)], key: &K) -> u64 {
    counts.iter().find(|(k, _)| k == key).map_or(0, |(_, n)| *n)
}

/// Bounds the log lines about misbehaving peers.
#[derive(Default)]
pub struct LogLimit {
    second: AtomicU64,
    lines: AtomicU64,
    suppressed: AtomicU64,
}

impl LogLimit {
    /// Whether another line may be logged in the second of `now`.
    pub fn may_log(&self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.lines.store(0, Ordering::Relaxed);
        }
        let allowed = self.lines.fetch_add(1, Ordering::Relaxed) < LOG_LINES_PER_SECOND;
        if !allowed {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
        }
        allowed
    }

    /// Lines that were not logged.
    pub fn suppressed(&self) -> u64 {
        self.suppressed.load(Ordering::Relaxed)
    }
}

/// The counters of a service's connections, by state `S` and reason of their end `R`.
pub struct ConnectionCounters<S, R> {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections open now.
    pub open: AtomicU64,
    /// Bytes received.
    pub bytes_in: AtomicU64,
    /// Bytes sent.
    pub bytes_out: AtomicU64,
    /// Log lines about connections.
    pub log: LogLimit,
    states: CountersBy<S>,
    closed: CountersBy<R>,
}

impl<S: Enumerated, R: Enumerated> Default for ConnectionCounters<S, R> {
    fn default() -> ConnectionCounters<S, R> {
        ConnectionCounters {
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            log: LogLimit::default(),
            states: CountersBy::default(),
            closed: CountersBy::default(),
        }
    }
}

impl<S: Enumerated, R: Enumerated> ConnectionCounters<S, R> {
    /// A connection went from one state to another; none before its first and after its last.
    pub fn moved(&self, from: Option<S>, to: Option<S>) {
        if let Some(s) = from {
            self.states.subtract(s);
        }
        if let Some(s) = to {
            self.states.add(s);
        }
    }

    /// A connection ended.
    pub fn closed(&self, why: R) {
        self.closed.add(why);
    }

    /// All counters now.
    pub fn snapshot(&self) -> ConnectionTotals<S, R> {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        ConnectionTotals {
            accepted: get(&self.accepted),
            open: get(&self.open),
            states: self.states.snapshot(),
            closed: self.closed.snapshot(),
            bytes_in: get(&self.bytes_in),
            bytes_out: get(&self.bytes_out),
            log_suppressed: self.log.suppressed(),
        }
    }
}

/// Totals of a service's connections since its start, by state `S` and reason of their end `R`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionTotals<S, R> {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections now in each state.
    pub states: Vec<(S, u64)>,
    /// Connections that ended, by reason.
    pub closed: Vec<(R, u64)>,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Log lines that were not written because there were too many.
    pub log_suppressed: u64,
}

impl<S: PartialEq, R: PartialEq> ConnectionTotals<S, R> {
    /// Connections that ended for this reason.
    #[must_use]
    pub fn closed_for(&self, why: R) -> u64 {
        count_of(&self.closed, &why)
    }

    /// Connections now in this state.
    #[must_use]
    pub fn in_state(&self, state: S) -> u64 {
        count_of(&self.states, &state)
    }
}
