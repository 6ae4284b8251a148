//! A job: one session, its queue slots, and their measurements.
//!
//! **Called by** [`super::run()`] on the job's own shard. **Invariants**: at most `depth` I/Os are in flight, one per
//! slot; each slot has its own buffers, so the data path allocates nothing.

use super::observe::Observed;
use super::result::{Direction, JobReport};
use super::window::Window;
use crate::limits::ZERO_SAMPLE_EVERY;
use crate::stats::{Latency, Series};
use crate::targets::Session;
use crate::workload::pace::Pace;
use crate::workload::pattern::{Choice, Pattern};
use crate::workload::{Sync, Workload};
use crate::{Error, Result};
use io::rng::Prng;
use io::time::{Instant, now, sleep_until};
use io::{IoBuf, spawn};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) struct Job<S> {
    session: S,
    w: Workload,
    window: Window,
    meter: Option<Arc<AtomicU64>>,
    state: RefCell<Progress>,
}

struct Progress {
    pattern: Pattern,
    pace: Option<Pace>,
    rng: Prng,
    budget: Option<u64>,
    writes_since_flush: u32,
    reads_seen: u64,
    read: Direction,
    write: Direction,
    flush: Latency,
    series: Series,
    zeroes: (u64, u64),
    ended: Instant,
    failed: Option<Error>,
}

/// The buffers of one slot, allocated on first use. Reads and writes have separate ones, so that read data is never
/// written.
#[derive(Default)]
struct Buffers {
    read: Option<IoBuf>,
    write: Option<IoBuf>,
}

impl<S: Session> Job<S> {
    /// Runs job `index` to its end.
    pub(super) async fn run(
        session: S,
        w: &Workload,
        index: u32,
        region: u64,
        window: Window,
        meter: Option<Arc<AtomicU64>>,
    ) -> Result<JobReport> {
        let share = |total: u64| {
            total * u64::from(index + 1) / u64::from(w.jobs)
                - total * u64::from(index) / u64::from(w.jobs)
        };
        let state = Progress {
            pattern: Pattern::new(w, index, region),
            pace: w.rate.map(|r| Pace::new(window.begin, r, index, w.jobs)),
            rng: Prng::new(w.seed ^ 0x5eed_0f11 ^ (u64::from(index) << 32)),
            budget: w.bytes.map(|b| share(b / u64::from(w.block_size))),
            writes_since_flush: 0,
            reads_seen: 0,
            read: Direction::default(),
            write: Direction::default(),
            flush: Latency::default(),
            series: Series::default(),
            zeroes: (0, 0),
            ended: window.from,
            failed: None,
        };
        let job = Rc::new(Job {
            session,
            w: w.clone(),
            window,
            meter,
            state: RefCell::new(state),
        });
        let epoch = job.session.epoch();
        let cpu = Observed::start(window, io::linux::thread_cpu_time);
        sleep_until(window.begin).await;
        let slots: Vec<_> = (0..w.depth).map(|_| spawn(job.clone().slot())).collect();
        for s in slots {
            s.await;
        }
        let cpu = cpu
            .finish()
            .map_or(Duration::ZERO, |(a, b)| b.saturating_sub(a));
        let job = Rc::into_inner(job).expect("every slot has ended");
        let reconnects = job.session.epoch().saturating_sub(epoch);
        job.session.close().await;
        let mut s = job.state.into_inner();
        if let Some(e) = s.failed {
            return Err(e);
        }
        let missed = charge_missed(&mut s, &job.w, window);
        let Progress {
            read,
            write,
            flush,
            series,
            zeroes,
            ended,
            ..
        } = s;
        Ok(JobReport {
            read,
            write,
            flush,
            series,
            cpu,
            zeroes,
            missed,
            reconnects,
            ended,
        })
    }

    async fn slot(self: Rc<Self>) {
        let mut bufs = Buffers::default();
        // The end of one I/O is the start of the next: the clock is read once per read, twice per write.
        let mut at = now();
        while let Some((choice, due)) = self.turn(at) {
            if let Some(due) = due {
                sleep_until(due).await;
                at = due;
            }
            let done = if choice.read {
                self.read(choice.offset, at, &mut bufs).await
            } else {
                self.write(choice.offset, due, &mut bufs).await
            };
            match done {
                Ok(end) => at = end,
                Err(e) => {
                    self.state.borrow_mut().failed.get_or_insert(e);
                    return;
                }
            }
        }
    }

    /// The next I/O and when it is due (open loop); `None` once the run is over.
    fn turn(&self, at: Instant) -> Option<(Choice, Option<Instant>)> {
        let mut s = self.state.borrow_mut();
        if s.failed.is_some() || at >= self.window.until {
            return None;
        }
        if let Some(left) = &mut s.budget {
            *left = left.checked_sub(1)?;
        }
        let due = match &mut s.pace {
            Some(p) if p.peek() >= self.window.until => return None,
            Some(p) => Some(p.take()),
            None => None,
        };
        Some((s.pattern.choose(), due))
    }

    /// Reads a block; returns the time of its end. Its latency counts from `start`.
    async fn read(&self, offset: u64, start: Instant, bufs: &mut Buffers) -> Result<Instant> {
        let buf = match bufs.read.take() {
            Some(b) => b,
            None => io::pool().alloc(self.w.block_size as usize).await,
        };
        let (r, buf) = self.session.read(buf, offset).await;
        let end = now();
        r?;
        let mut s = self.state.borrow_mut();
        s.reads_seen += 1;
        if s.reads_seen % ZERO_SAMPLE_EVERY == 1 {
            s.zeroes.0 += 1;
            s.zeroes.1 += u64::from(buf.iter().all(|b| *b == 0));
        }
        bufs.read = Some(buf);
        let bytes = u64::from(self.w.block_size);
        if start >= self.window.from {
            let s = &mut *s;
            s.read.latency.record(end.since(start));
            s.read.bytes += bytes;
        }
        self.completed(&mut s, end, bytes);
        Ok(end)
    }

    /// Writes a block, and flushes if a flush is due; returns the time of its end. The latency counts from `due`, or
    /// from when the contents are made.
    async fn write(
        &self,
        offset: u64,
        due: Option<Instant>,
        bufs: &mut Buffers,
    ) -> Result<Instant> {
        let mut buf = match bufs.write.take() {
            Some(b) => b,
            None => {
                let mut b = io::pool().alloc(self.w.block_size as usize).await;
                self.w
                    .fill
                    .prepare(&mut b, &mut self.state.borrow_mut().rng);
                b
            }
        };
        self.w
            .fill
            .refresh(&mut buf, &mut self.state.borrow_mut().rng);
        let start = due.unwrap_or_else(now);
        let (r, buf) = self
            .session
            .write(buf, offset, self.w.sync == Sync::Fua)
            .await;
        let end = now();
        r?;
        bufs.write = Some(buf);
        let bytes = u64::from(self.w.block_size);
        {
            let mut s = self.state.borrow_mut();
            if start >= self.window.from {
                s.write.latency.record(end.since(start));
                s.write.bytes += bytes;
            }
            self.completed(&mut s, end, bytes);
        }
        Ok(self.flush_in_turn().await?.unwrap_or(end))
    }

    fn completed(&self, s: &mut Progress, end: Instant, bytes: u64) {
        if end >= self.window.from {
            s.series.record(end.since(self.window.from), bytes);
        }
        s.ended = s.ended.max(end);
        if let Some(m) = &self.meter {
            m.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Flushes after the given number of writes; returns the time of the flush's end.
    async fn flush_in_turn(&self) -> Result<Option<Instant>> {
        let Sync::FlushEvery(every) = self.w.sync else {
            return Ok(None);
        };
        {
            let mut s = self.state.borrow_mut();
            s.writes_since_flush += 1;
            if s.writes_since_flush < every {
                return Ok(None);
            }
            s.writes_since_flush = 0;
        }
        let start = now();
        self.session.flush().await?;
        let end = now();
        let mut s = self.state.borrow_mut();
        if start >= self.window.from {
            s.flush.record(end.since(start));
        }
        s.ended = s.ended.max(end);
        Ok(Some(end))
    }
}

/// Counts the I/Os that were due in the window and never started: their latency is at least the time to the end.
fn charge_missed(s: &mut Progress, w: &Workload, window: Window) -> u64 {
    let Some(pace) = &mut s.pace else { return 0 };
    if s.budget.is_some() {
        return 0;
    }
    let end = s.ended.max(window.until);
    let side = if w.reads() { &mut s.read } else { &mut s.write };
    let mut missed = 0;
    while pace.peek() < window.until {
        let due = pace.take();
        if due >= window.from {
            side.latency.record(end.since(due));
            missed += 1;
        }
    }
    missed
}
