//! Timeline of a drill: answered commands per step, pauses, and events of all layers.
//!
//! **Owns** these records. **Called by** the load, the disturbances and the observer of the server, from any thread.
//! **Invariants**: all times count from [`Timeline::start`]; memory is bounded.

use crate::limits::{EVENTS_MAX, PAUSE_MIN, PAUSES_MAX, STEP, STEPS_MAX};
use io::sync::lock;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The layer that an event belongs to, from the drill down to the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The drill itself.
    Drill,
    /// The initiator in the drill's process.
    Initiator,
    /// The connections between initiator and server.
    Cable,
    /// The server's process.
    Server,
    /// The server's session of the drill's host.
    Session,
    /// The pool.
    Pool,
    /// Disks of the pool.
    Device,
}

impl Layer {
    /// All layers, in this order.
    pub const ALL: [Layer; 7] = [
        Layer::Drill,
        Layer::Initiator,
        Layer::Cable,
        Layer::Server,
        Layer::Session,
        Layer::Pool,
        Layer::Device,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Drill => "drill",
            Layer::Initiator => "initiator",
            Layer::Cable => "cable",
            Layer::Server => "server",
            Layer::Session => "session",
            Layer::Pool => "pool",
            Layer::Device => "device",
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Milliseconds since the start.
    pub at_ms: u64,
    /// Its layer.
    pub layer: Layer,
    /// Description, for people.
    pub text: String,
}

/// A stretch of time without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The last answer before it.
    pub from: Duration,
    /// The first answer after it, or the end of the load.
    pub to: Duration,
}

impl Pause {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.to.saturating_sub(self.from)
    }
}

#[derive(Default)]
struct Records {
    events: Vec<Event>,
    more_events: u64,
    steps: Vec<u32>,
    /// The last answer while the load runs.
    last: Option<Duration>,
    pauses: Vec<Pause>,
    longest: Option<Pause>,
    /// The end of the load.
    load_end: Option<Duration>,
}

/// Records of a drill.
pub struct Timeline {
    start: Instant,
    records: Mutex<Records>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// An empty timeline that starts now.
    #[must_use]
    pub fn new() -> Timeline {
        Timeline {
            start: Instant::now(),
            records: Mutex::default(),
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        lock(&self.records)
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records an event.
    pub fn note(&self, layer: Layer, text: impl Into<String>) {
        let at_ms = self.now().as_millis() as u64;
        let mut records = self.records();
        if records.events.len() == EVENTS_MAX {
            records.more_events += 1;
            return;
        }
        let text = text.into();
        records.events.push(Event { at_ms, layer, text });
    }

    /// The load starts: pauses count from now.
    pub(crate) fn begin(&self) {
        let now = self.now();
        self.records().last = Some(now);
    }

    /// The end of the load, if it has ended: later answers are those of the check of all data.
    pub(crate) fn load_end(&self) -> Option<Duration> {
        self.records().load_end
    }

    /// The load ends: a pause that is under way ends too.
    pub(crate) fn end(&self) {
        let now = self.now();
        let mut records = self.records();
        records.pause_until(now);
        records.last = None;
        records.load_end = Some(now);
    }

    /// A command was answered with success.
    pub(crate) fn answered(&self) {
        let now = self.now();
        let mut records = self.records();
        records.pause_until(now);
        if records.last.is_some() {
            records.last = Some(now);
        }
        let step = (now.as_millis() / STEP.as_millis()) as usize;
        let step = step.min(STEPS_MAX - 1);
        if records.steps.len() <= step {
            records.steps.resize(step + 1, 0);
        }
        records.steps[step] += 1;
    }

    /// Time of the last answer, while the load runs.
    pub(crate) fn last_answer(&self) -> Option<Duration> {
        self.records().last
    }

    /// The longest pause; `None` before the first answer.
    pub(crate) fn longest(&self) -> Option<Pause> {
        self.records().longest
    }

    /// The longest kept pause that overlaps a stretch of time.
    pub(crate) fn longest_within(&self, from: Duration, to: Duration) -> Option<Pause> {
        let records = self.records();
        let overlapping = records
            .pauses
            .iter()
            .filter(|p| p.from <= to && p.to >= from);
        overlapping.max_by_key(|p| p.length()).copied()
    }

    /// Answers per step, from the start.
    pub(crate) fn steps(&self) -> Vec<u32> {
        self.records().steps.clone()
    }

    /// The events in the order of their times, and the number of events beyond the limit.
    pub(crate) fn events(&self) -> (Vec<Event>, u64) {
        let records = self.records();
        let mut events = records.events.clone();
        events.sort_by_key(|e| e.at_ms);
        (events, records.more_events)
    }
}

impl Records {
    fn pause_until(&mut self, now: Duration) {
        let Some(from) = self.last else { return };
        let pause = Pause { from, to: now };
        if self.longest.is_none_or(|l| l.length() < pause.length()) {
            self.longest = Some(pause);
        }
        if pause.length() >= PAUSE_MIN && self.pauses.len() < PAUSES_MAX {
            self.pauses.push(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_lie_between_answers_and_end_with_the_load() {
        let mut records = Records {
            last: Some(Duration::from_secs(1)),
            ..Records::default()
        };
        records.pause_until(Duration::from_secs(3));
        records.last = Some(Duration::from_secs(3));
        records.pause_until(Duration::from_millis(3010));
        let longest = records.longest.expect("a pause");
        assert_eq!(longest.length(), Duration::from_secs(2));
        assert_eq!(records.pauses, [longest], "10 ms are no pause");
    }

    #[test]
    fn events_beyond_the_limit_are_counted() {
        let timeline = Timeline::new();
        for _ in 0..EVENTS_MAX + 3 {
            timeline.note(Layer::Pool, "x");
        }
        let (events, more) = timeline.events();
        assert_eq!((events.len(), more), (EVENTS_MAX, 3));
    }
}
