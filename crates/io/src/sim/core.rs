//! Common state of the simulated world: clock, event queue, randomness, power, trace.
//!
//! **Called by** [`super::net`] and [`super::disk`]. **Invariants**: time never goes back; the seed decides the order of
//! events at the same time; an operation completes once.

use super::event::{Event, Nanos};
use super::trace::Trace;
use super::{SimConfig, SocketId};
use crate::rng::Prng;
use crate::runtime::{Completion, NodeId, Outcome};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::task::Waker;

struct Scheduled {
    at: Nanos,
    tie: u64,
    event: Event,
}

impl Scheduled {
    fn rank(&self) -> (Nanos, u64) {
        (self.at, self.tie)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

/// The component that handles an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holder {
    Socket(SocketId),
    Disk { serial: u64 },
}

/// A simulated machine's power.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Power {
    pub(super) off: bool,
    /// Disk steps (starts and ends of operations) until the power is cut.
    pub(super) cut_after: Option<u64>,
}

/// See the module header.
pub(super) struct Core {
    pub(super) config: SimConfig,
    pub(super) clock: Nanos,
    pub(super) rng: Prng,
    pub(super) schedule: Prng,
    pub(super) entropy: Prng,
    pub(super) pending: BTreeMap<usize, Holder>,
    pub(super) ready: Vec<Completion>,
    pub(super) nodes: Vec<Power>,
    pub(super) trace: Trace,
    pub(super) happened: u64,
    /// Whether the run is over: cancelled operations end at once.
    pub(super) ending: bool,
    /// Whether a task was woken without the end of an operation.
    pub(super) woken: bool,
    events: BinaryHeap<Scheduled>,
    serial: u64,
}

impl Core {
    pub(super) fn new(seed: u64, config: SimConfig) -> Core {
        let trace = Trace::new(config.trace);
        Core {
            config,
            clock: 1_000_000_000,
            rng: Prng::new(seed),
            schedule: Prng::new(seed ^ 0x5ced_51e5),
            entropy: Prng::new(seed ^ 0x0e47_4099),
            pending: BTreeMap::new(),
            ready: Vec::new(),
            nodes: vec![Power::default()],
            trace,
            happened: 0,
            ending: false,
            woken: false,
            events: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Returns a number that is unique in the run.
    pub(super) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Schedules `event` at `at`, or now if `at` has passed.
    pub(super) fn schedule(&mut self, at: Nanos, event: Event) {
        // The low bits make ties different from each other.
        let tie = (self.schedule.u64() << 40) | self.serial();
        self.events.push(Scheduled {
            at: at.max(self.clock),
            tie,
            event,
        });
    }

    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.events.peek().map(|s| s.at)
    }

    /// Takes the next event if it is due.
    pub(super) fn take_due(&mut self) -> Option<Event> {
        if self.next_at()? > self.clock {
            return None;
        }
        self.happened += 1;
        self.events.pop().map(|s| s.event)
    }

    /// Returns a random number from `0` to `most`, both included.
    pub(super) fn upto(&mut self, most: u64) -> u64 {
        self.rng.below(most.saturating_add(1).max(1))
    }

    /// Completes an operation with a count, a handle or a negative errno.
    pub(super) fn complete(&mut self, key: usize, result: i32) {
        self.complete_with(key, result, false);
    }

    pub(super) fn complete_with(&mut self, key: usize, result: i32, more: bool) {
        if self.pending.remove(&key).is_some() {
            self.trace
                .note(self.clock, "end", key as u64, result as u64);
            self.ready.push(Completion {
                key,
                outcome: Outcome { result, more },
            });
        }
    }

    /// Wakes a task that waits for something else than an operation.
    pub(super) fn wake(&mut self, waker: &Waker) {
        self.woken = true;
        waker.wake_by_ref();
    }

    /// Completes an operation as cancelled, a little later.
    pub(super) fn end_later(&mut self, key: usize) {
        let at = self.clock + self.upto(50_000);
        self.schedule(at, Event::End { key });
    }

    pub(super) fn is_off(&self, node: NodeId) -> bool {
        self.nodes.get(node as usize).is_none_or(|n| n.off)
    }

    /// Counts a disk step of `node`. Returns whether its power is cut at this step.
    pub(super) fn disk_step(&mut self, node: NodeId) -> bool {
        let Some(power) = self.nodes.get_mut(node as usize) else {
            return false;
        };
        match &mut power.cut_after {
            Some(0) => {
                power.cut_after = None;
                true
            }
            Some(n) => {
                *n -= 1;
                false
            }
            None => false,
        }
    }
}
