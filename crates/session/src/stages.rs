//! Time of requests by stage, for one export since it was published.
//!
//! **Owns** a histogram for each kind of request and stage ([`StageCounters`]), and the slowest requests of the last minute.
//! **Called by** connections, once per turn, and by the control plane. **Invariants**: counts never fall; a histogram takes memory
//! only once a request was in its stage; the time of a reply in the socket's line ([`Stage::Send`]) is known after the request
//! ended, so slow requests do not have it.

use crate::latency::CommandKind;
use io::histogram::{Histogram, Times};
use io::stage::{Spent, Stage};
use io::sync::lock;
use io::time::Instant;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Slow requests are kept for this many windows.
const WINDOWS: u64 = 6;
/// The time of one window.
const WINDOW: Duration = Duration::from_secs(10);
/// The slowest requests that a window keeps.
const SLOWEST: usize = 8;

/// The counters of one export.
#[derive(Default)]
pub struct StageCounters {
    kinds: [Kind; CommandKind::ALL.len()],
    slowest: Slowest,
}

#[derive(Default)]
struct Kind {
    requests: AtomicU64,
    stages: [OnceLock<Histogram>; Stage::ALL.len()],
}

/// A slow request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowRequest {
    /// When it ended.
    pub ended_at: Instant,
    /// Its kind.
    pub kind: CommandKind,
    /// The client's address.
    pub peer: SocketAddr,
    /// Its time by stage, without [`Stage::Send`].
    pub spent: Spent,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindStages {
    /// The kind.
    pub kind: CommandKind,
    /// Requests that ended.
    pub requests: u64,
    /// Stages in which requests were, in the order of [`Stage::ALL`], with their times in ns.
    pub stages: Vec<(Stage, Times)>,
}

impl StageCounters {
    /// `count` requests of a kind ended, each after this time.
    pub fn ended(&self, kind: CommandKind, spent: &Spent, count: u32) {
        let of_kind = &self.kinds[kind as usize];
        of_kind
            .requests
            .fetch_add(u64::from(count), Ordering::Relaxed);
        for stage in Stage::ALL {
            let ns = spent.of(stage);
            if ns > 0 {
                of_kind.record(stage, ns, count);
            }
        }
    }

    /// `count` replies of a kind were handed to the socket, `ns` nanoseconds after their requests had ended.
    pub fn sent(&self, kind: CommandKind, ns: u64, count: u32) {
        self.kinds[kind as usize].record(Stage::Send, ns, count);
    }

    /// Keeps a request if it is one of the slowest of its window.
    pub fn note(&self, request: SlowRequest) {
        self.slowest.note(request);
    }

    /// All kinds of which a request has ended.
    #[must_use]
    pub fn read(&self) -> Vec<KindStages> {
        let kinds = CommandKind::ALL.iter().zip(&self.kinds);
        let all = kinds.map(|(kind, counts)| KindStages {
            kind: *kind,
            requests: counts.requests.load(Ordering::Relaxed),
            stages: counts.read(),
        });
        all.filter(|k| k.requests > 0).collect()
    }

    /// The slowest requests of the last minute before `now`, slowest first.
    #[must_use]
    pub fn slowest(&self, now: Instant) -> Vec<SlowRequest> {
        self.slowest.read(now)
    }
}

impl Kind {
    fn record(&self, stage: Stage, ns: u64, count: u32) {
        let histogram = self.stages[stage as usize].get_or_init(Histogram::default);
        histogram.record(ns, count);
    }

    fn read(&self) -> Vec<(Stage, Times)> {
        let stages = Stage::ALL.iter().zip(&self.stages);
        stages
            .filter_map(|(stage, times)| Some((*stage, times.get()?.read())))
            .collect()
    }
}

/// The slowest requests of some windows.
#[derive(Default)]
struct Slowest {
    /// The newest window, and the least time in it that is worth a look, ns. Read without the lock.
    window: AtomicU64,
    floor_ns: AtomicU64,
    requests: Mutex<Vec<(u64, SlowRequest)>>,
}

/// The number of the window that a point in time belongs to.
fn window_of(at: Instant) -> u64 {
    at.as_nanos() / WINDOW.as_nanos() as u64
}

impl Slowest {
    fn note(&self, request: SlowRequest) {
        let (window, ns) = (window_of(request.ended_at), request.spent.total());
        let is_newest = self.window.load(Ordering::Relaxed) == window;
        if is_newest && ns <= self.floor_ns.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = lock(&self.requests);
        kept.retain(|(w, _)| w + WINDOWS > window);
        kept.push((window, request));
        let mut of_window: Vec<u64> = kept
            .iter()
            .filter(|(w, _)| *w == window)
            .map(|(_, r)| r.spent.total())
            .collect();
        of_window.sort_unstable_by(|a, b| b.cmp(a));
        let floor = of_window.get(SLOWEST - 1).copied().unwrap_or(0);
        if of_window.len() > SLOWEST {
            let least = of_window[SLOWEST];
            let found = kept
                .iter()
                .position(|(w, r)| *w == window && r.spent.total() == least);
            found.map(|at| kept.swap_remove(at));
        }
        self.window.store(window, Ordering::Relaxed);
        self.floor_ns.store(floor, Ordering::Relaxed);
    }

    fn read(&self, now: Instant) -> Vec<SlowRequest> {
        let newest = window_of(now);
        let kept = lock(&self.requests);
        let recent = kept.iter().filter(|(w, _)| w + WINDOWS > newest);
        let mut all: Vec<SlowRequest> = recent.map(|(_, r)| *r).collect();
        all.sort_unstable_by_key(|r| std::cmp::Reverse(r.spent.total()));
        all.truncate(SLOWEST);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::sim::{Sim, SimConfig};

    fn request(ended_at: Instant, us: u64) -> SlowRequest {
        SlowRequest {
            ended_at,
            kind: CommandKind::Read,
            peer: ([127, 0, 0, 1], 1).into(),
            spent: Spent::only(Stage::Device, us * 1000),
        }
    }

    #[test]
    fn the_slowest_requests_of_the_last_minute_are_kept() {
        Sim::new(1, SimConfig::default()).block_on(async {
            let counters = StageCounters::default();
            let start = io::time::now();
            for us in (1..=100).rev().chain(1..=100) {
                counters.note(request(start, us));
            }
            let kept = counters.slowest(start);
            let times: Vec<u64> = kept.iter().map(|r| r.spent.total() / 1000).collect();
            assert_eq!(times, [100, 100, 99, 99, 98, 98, 97, 97]);
            let later = start + Duration::from_secs(30);
            counters.note(request(later, 5));
            assert_eq!(counters.slowest(later)[0].spent.total(), 100_000);
            let much_later = start + Duration::from_secs(75);
            let kept = counters.slowest(much_later);
            assert_eq!(kept.len(), 1, "the first ones are older than a minute");
            assert_eq!(kept[0].spent.total(), 5_000);
        });
    }

    #[test]
    fn times_are_counted_by_kind_and_stage() {
        let counters = StageCounters::default();
        counters.ended(CommandKind::Write, &Spent::only(Stage::Flush, 700), 3);
        counters.sent(CommandKind::Write, 50, 3);
        let [write] = &counters.read()[..] else {
            panic!("one kind of requests ended");
        };
        assert_eq!((write.kind, write.requests), (CommandKind::Write, 3));
        let sums: Vec<(Stage, u64)> = write.stages.iter().map(|(s, t)| (*s, t.sum)).collect();
        assert_eq!(sums, [(Stage::Flush, 2100), (Stage::Send, 150)]);
    }
}
