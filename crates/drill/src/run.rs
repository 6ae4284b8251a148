//! The course of a drill: load, disturbances one after the other, recovery after each, and the check at the end.
//!
//! **Owns** the order of these. **Called by** the drill. **Invariants**: a disturbance that began is ended, also after an
//! interruption or an error; every block is read back at the end unless the drill was interrupted.

use crate::client::{Watched, watch};
use crate::error::Error;
use crate::limits::{CALM_MIN, POLL, SETTLE};
use crate::load::Load;
use crate::timeline::{Layer, Timeline};
use serde::Serialize;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A disturbance of the path between load and disks.
pub trait Disturbance {
    /// Its name, for people.
    fn name(&self) -> String;

    /// Time from its begin to its end.
    fn length(&self) -> Duration;

    /// Whether the server loses its memory: writes that were not durable may be gone.
    fn loses_server(&self) -> bool {
        false
    }

    /// Whether writes are refused until it has ended, because there is no space.
    fn refuses_writes(&self) -> bool {
        false
    }

    /// Begins it.
    fn begin(&self) -> impl Future<Output = Result<(), Error>>;

    /// Ends it: afterwards commands must be answered again.
    fn end(&self) -> impl Future<Output = Result<(), Error>>;
}

/// Limits of a course.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Time of the load, without the waits for recovery beyond it.
    pub time: Duration,
    /// Longest wait for an answer after a disturbance has ended.
    pub recovery_max: Duration,
}

/// A disturbance that was carried out. Times in milliseconds; those with a reference point say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Its name.
    pub name: String,
    /// Its begin, from the start of the drill.
    pub at_ms: u64,
    /// From its begin to its end.
    pub length_ms: u64,
    /// Whether the initiator had to reconnect. A connection that survived is not counted as reconnected.
    pub reconnected: bool,
    /// From its end to the first answer; none if no command was answered in time.
    pub answered_ms: Option<u64>,
    /// From its end until the initiator was connected again, if it had to reconnect.
    pub reconnected_ms: Option<u64>,
    /// The longest time without an answer that overlaps it.
    pub pause_ms: u64,
    /// Whether it was to make the server refuse writes.
    pub refuses_writes: bool,
    /// Writes that were refused for lack of space while it lasted.
    pub refused: u64,
}

/// Result of a course, beside the load's own counts.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The disturbances that were carried out.
    pub ended: Vec<Ended>,
    /// Why the drill ended early, or did not read everything back.
    pub problems: Vec<String>,
    /// Whether the user interrupted the drill.
    pub is_interrupted: bool,
}

/// Runs a load, and disturbs it. `progress` gets a line for people now and then.
pub async fn run<S: Watched, D: Disturbance>(
    load: &Rc<Load<S>>,
    disturbances: &[D],
    course: Course,
    interrupt: &AtomicBool,
    progress: impl Fn(&str),
) -> Outcome {
    let timeline = load.timeline().clone();
    let watcher = io::spawn(watch(load.clone(), timeline.clone()));
    let disturbed: Duration = disturbances.iter().map(Disturbance::length).sum();
    let calm = course.time.saturating_sub(disturbed) / (disturbances.len() as u32 + 1);
    let mut drill = Drill {
        load,
        timeline: &timeline,
        interrupt,
        course,
        outcome: Outcome::default(),
    };
    timeline.note(Layer::Drill, "the load starts");
    load.start();
    for (number, disturbance) in disturbances.iter().enumerate() {
        drill.calm(calm.max(CALM_MIN)).await;
        let (now, all) = (number + 1, disturbances.len());
        progress(&format!("{now} of {all}: {}", disturbance.name()));
        if drill.is_over() || !drill.disturb(disturbance).await {
            break;
        }
    }
    if !drill.is_over() {
        drill.calm(calm.max(CALM_MIN)).await;
    }
    let mut outcome = drill.outcome;
    outcome.is_interrupted = interrupt.load(Ordering::Relaxed);
    timeline.note(Layer::Drill, "the load ends");
    if !load.stop().await {
        let text = "commands in flight at the end of the load were not answered";
        outcome.problems.push(text.to_owned());
    } else if !outcome.is_interrupted && outcome.problems.is_empty() {
        progress("every block is read back");
        if !load.read_back().await {
            let text = "not every block could be read back";
            outcome.problems.push(text.to_owned());
        }
        timeline.note(Layer::Drill, "every block was read back");
    }
    watcher.abort();
    // The task holds the load until it is dropped at its next turn.
    while !watcher.is_finished() && Rc::strong_count(load) > 1 {
        io::time::sleep(POLL).await;
    }
    outcome
}

struct Drill<'a, S> {
    load: &'a Rc<Load<S>>,
    timeline: &'a Timeline,
    interrupt: &'a AtomicBool,
    course: Course,
    outcome: Outcome,
}

impl<S: Watched> Drill<'_, S> {
    fn is_over(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed) || !self.outcome.problems.is_empty()
    }

    /// Lets the load run for a while, or until the user interrupts.
    async fn calm(&self, time: Duration) {
        let until = self.timeline.now() + time;
        while self.timeline.now() < until && !self.is_over() {
            io::time::sleep(POLL.min(time)).await;
        }
    }

    /// Carries out one disturbance. False if the drill cannot go on.
    async fn disturb<D: Disturbance>(&mut self, disturbance: &D) -> bool {
        let name = disturbance.name();
        let epoch = self.load.session().epoch();
        let refused = self.load.counts().refused;
        self.timeline.note(Layer::Drill, format!("{name} begins"));
        let at = self.timeline.now();
        if let Err(error) = disturbance.begin().await {
            self.problem(&name, &error);
            // Half a disturbance is undone as well as possible.
            let _ = disturbance.end().await;
            return false;
        }
        if disturbance.loses_server() {
            self.load.server_lost();
        }
        self.calm(disturbance.length()).await;
        if disturbance.refuses_writes() {
            self.refusal(refused).await;
        }
        let ended = disturbance.end().await;
        let back = self.timeline.now();
        self.timeline
            .note(Layer::Drill, format!("{name} has ended"));
        if let Err(error) = ended {
            self.problem(&name, &error);
            return false;
        }
        if disturbance.refuses_writes() {
            // Refusals that were sent before its end arrive.
            self.calm(SETTLE).await;
        }
        let refused = self.load.counts().refused - refused;
        let (answered, reconnected) = self.recovery(epoch, back).await;
        let until = answered.unwrap_or_else(|| self.timeline.now());
        let pause = self.timeline.longest_within(at, until);
        let since = |time: Duration| time.saturating_sub(back).as_millis() as u64;
        self.outcome.ended.push(Ended {
            name: name.clone(),
            at_ms: at.as_millis() as u64,
            length_ms: (back - at).as_millis() as u64,
            reconnected: reconnected.is_some(),
            answered_ms: answered.map(since),
            reconnected_ms: reconnected.map(since),
            pause_ms: pause.map_or(0, |p| p.length().as_millis() as u64),
            refuses_writes: disturbance.refuses_writes(),
            refused,
        });
        if answered.is_none() && !self.interrupt.load(Ordering::Relaxed) {
            let wait = self.course.recovery_max.as_secs();
            let text = format!("{name}: no command was answered within {wait} s after its end");
            self.outcome.problems.push(text);
        }
        !self.is_over()
    }

    /// Waits until more writes were refused than before, or for as long as for a recovery.
    async fn refusal(&self, before: u64) {
        let until = self.timeline.now() + self.course.recovery_max;
        while self.load.counts().refused == before && self.timeline.now() < until && !self.is_over()
        {
            io::time::sleep(POLL).await;
        }
    }

    /// Waits for the first answer after `back`. Returns its time, and the time of the reconnection if there was one.
    async fn recovery(&self, epoch: u64, back: Duration) -> (Option<Duration>, Option<Duration>) {
        let until = back + self.course.recovery_max;
        let mut reconnected = None;
        loop {
            let now = self.timeline.now();
            if reconnected.is_none() && self.load.session().epoch() > epoch {
                reconnected = Some(now);
            }
            if let Some(last) = self.timeline.last_answer().filter(|last| *last > back) {
                return (Some(last), reconnected);
            }
            if now > until || self.interrupt.load(Ordering::Relaxed) {
                return (None, reconnected);
            }
            io::time::sleep(POLL).await;
        }
    }

    fn problem(&mut self, name: &str, error: &Error) {
        self.outcome.problems.push(format!("{name}: {error}"));
    }
}
