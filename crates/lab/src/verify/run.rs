//! Runs that write and check stamped blocks, and checks of an earlier run.
//!
//! **Owns** the jobs of a verify run. **Called by** `wirepool bench verify` and by tests. **Invariants**: a block is
//! either quiet or busy with one read or write of this run, so the result of a read is known exactly.

use super::Outcome;
use super::check::Shape;
use super::journal::Journal;
use super::ledger::{Event, Judgement, Ledger};
use super::stamp::Stamp;
use crate::engine::Setup;
use crate::limits::POOL_SLACK;
use crate::targets::{Session, Target};
use crate::{Error, Result};
use io::rng::Prng;
use io::runtime::{Shard, ShardConfig};
use io::sync::oneshot;
use io::time::{Instant, now};
use io::{IoBuf, RuntimeConfig, spawn};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Shape of the blocks.
    pub shape: Shape,
    /// Number of blocks, from the start of the target.
    pub blocks: u64,
    /// Threads; each has its own blocks.
    pub jobs: u32,
    /// I/Os in flight per job.
    pub depth: u32,
    /// Duration of the random writes and checks, after every block was written once.
    pub runtime: Duration,
    /// Percentage of I/Os that read and check.
    pub read_percent: u8,
    /// Percentage of writes with FUA.
    pub fua_percent: u8,
    /// Number of writes of a job after which a flush follows.
    pub flush_every: u32,
    /// Whether the server may lose writes that were not durable during the run.
    pub lossy: bool,
}

/// Tries to choose a quiet block before giving the turn to others.
const CHOICES: u32 = 16;

struct Job<S> {
    session: S,
    plan: Plan,
    index: u32,
    journal: Arc<Journal>,
    state: RefCell<Bookkeeping>,
}

struct Bookkeeping {
    ledger: Ledger,
    busy: HashSet<u64>,
    rng: Prng,
    epoch: u64,
    flushes: u64,
    writes_since_flush: u32,
    out: Outcome,
    failed: Option<Error>,
}

/// Writes every block once, then writes and checks at random, then checks every block. Errors: the first I/O error;
/// the journal can be checked later. Mismatches are not an error here: they are in the outcome.
pub async fn run<T: Target>(
    target: &T,
    plan: &Plan,
    setup: &Setup,
    journal: Arc<Journal>,
) -> Result<Outcome> {
    let ledgers = (0..plan.jobs)
        .map(|j| Ledger::new(j.into(), plan.jobs.into(), plan.blocks))
        .collect();
    each_job(target, plan, setup, journal, ledgers, Phase::All).await
}

/// Reads every block that an earlier run wrote and judges it by the run's ledgers, allowing for a stop of server or
/// client at any moment. Errors: the first I/O error.
pub async fn check<T: Target>(
    target: &T,
    plan: &Plan,
    setup: &Setup,
    ledgers: Vec<Ledger>,
) -> Result<Outcome> {
    each_job(
        target,
        plan,
        setup,
        Arc::new(Journal::none()),
        ledgers,
        Phase::CheckOnly,
    )
    .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Write once, write and check at random, check all.
    All,
    /// Check all.
    CheckOnly,
}

async fn each_job<T: Target>(
    target: &T,
    plan: &Plan,
    setup: &Setup,
    journal: Arc<Journal>,
    ledgers: Vec<Ledger>,
    phase: Phase,
) -> Result<Outcome> {
    let (mut shards, mut reports) = (Vec::new(), Vec::new());
    for (index, ledger) in ledgers.into_iter().enumerate() {
        let shard = if setup.inline {
            Shard::here()
        } else {
            Shard::start(config(plan, setup, index))?
        };
        let (tx, rx) = oneshot::channel();
        let (target, plan, journal) = (target.clone(), plan.clone(), journal.clone());
        shard.spawn(move || async move {
            tx.send(job(target, plan, index as u32, journal, ledger, phase).await)
        })?;
        shards.push(shard);
        reports.push(rx);
    }
    let mut out = Outcome::default();
    let mut failed = None;
    for r in reports {
        match r
            .await
            .ok_or(Error::Io(io::Error::Cancelled))
            .and_then(|r| r)
        {
            Ok(o) => out.merge(o),
            Err(e) => failed = failed.or(Some(e)),
        }
    }
    for s in shards {
        s.stop();
    }
    failed.map_or(Ok(out), Err)
}

fn config(plan: &Plan, setup: &Setup, index: usize) -> ShardConfig {
    let slot = (plan.shape.block_size as usize)
        .next_power_of_two()
        .max(io::limits::BUF_ALIGN);
    let runtime = RuntimeConfig {
        spin_max: setup.spin,
        buffer_limit: 2 * slot * plan.depth as usize + POOL_SLACK,
        ..RuntimeConfig::default()
    };
    let cpu = (!setup.cpus.is_empty()).then(|| setup.cpus[index % setup.cpus.len()]);
    ShardConfig {
        name: format!("verify-{index}"),
        cpu,
        runtime,
    }
}

async fn job<T: Target>(
    target: T,
    plan: Plan,
    index: u32,
    journal: Arc<Journal>,
    ledger: Ledger,
    phase: Phase,
) -> Result<Outcome> {
    let session = target.connect(plan.depth).await?;
    let state = Bookkeeping {
        ledger,
        busy: HashSet::new(),
        rng: Prng::new(plan.shape.seed ^ (u64::from(index) << 48) ^ 0x7e51),
        epoch: session.epoch(),
        flushes: 0,
        writes_since_flush: 0,
        out: Outcome::default(),
        failed: None,
    };
    let until = now();
    let job = Rc::new(Job {
        session,
        plan,
        index,
        journal,
        state: RefCell::new(state),
    });
    if phase == Phase::All {
        job.slots(Work::LayDown).await?;
        job.flush().await?;
        let until = now().max(until) + job.plan.runtime;
        job.slots(Work::Random(until)).await?;
        job.flush().await?;
    }
    let exact = phase == Phase::All && !job.plan.lossy;
    job.slots(Work::CheckAll(if exact {
        Judgement::Exact
    } else {
        Judgement::AfterLoss
    }))
    .await?;
    let job = Rc::into_inner(job).expect("every slot has ended");
    job.session.close().await;
    Ok(job.state.into_inner().out)
}

/// Phase of a job, shared by its slots.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Write each block once.
    LayDown,
    /// Write and check at random until then.
    Random(Instant),
    /// Read and judge each block once.
    CheckAll(Judgement),
}

impl<S: Session> Job<S> {
    async fn slots(self: &Rc<Self>, work: Work) -> Result<()> {
        let next = Rc::new(std::cell::Cell::new(0));
        let slots: Vec<_> = (0..self.plan.depth)
            .map(|_| spawn(self.clone().slot(work, next.clone())))
            .collect();
        for s in slots {
            s.await;
        }
        match self.state.borrow_mut().failed.take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    async fn slot(self: Rc<Self>, work: Work, next: Rc<std::cell::Cell<u64>>) {
        let mut buf = io::pool().alloc(self.plan.shape.block_size as usize).await;
        while self.state.borrow().failed.is_none() {
            let done = match work {
                Work::LayDown | Work::CheckAll(_) => {
                    let turn = next.get();
                    if turn >= self.state.borrow().ledger.len() {
                        return;
                    }
                    next.set(turn + 1);
                    let block = turn * u64::from(self.plan.jobs) + u64::from(self.index);
                    match work {
                        Work::CheckAll(how) => self.read(block, buf, how).await,
                        _ => self.write(block, buf, false).await,
                    }
                }
                Work::Random(until) => {
                    if now() >= until {
                        return;
                    }
                    self.random(buf).await
                }
            };
            match done {
                Ok(b) => buf = b,
                Err(e) => {
                    self.state.borrow_mut().failed.get_or_insert(e);
                    return;
                }
            }
        }
    }

    /// One random read or write of a block that is quiet.
    async fn random(&self, buf: IoBuf) -> Result<IoBuf> {
        let Some((block, read, fua)) = self.choose() else {
            io::yield_now().await;
            return Ok(buf);
        };
        let how = if self.plan.lossy {
            Judgement::AfterLoss
        } else {
            Judgement::Exact
        };
        let done = if read {
            self.read(block, buf, how).await
        } else {
            self.write(block, buf, fua).await
        };
        self.state.borrow_mut().busy.remove(&block);
        let flush = {
            let mut s = self.state.borrow_mut();
            s.writes_since_flush += u32::from(!read);
            let due = s.writes_since_flush >= self.plan.flush_every;
            if due {
                s.writes_since_flush = 0;
            }
            due
        };
        if done.is_ok() && flush {
            self.flush().await?;
        }
        done
    }

    fn choose(&self) -> Option<(u64, bool, bool)> {
        let mut s = self.state.borrow_mut();
        let count = s.ledger.len();
        if count == 0 {
            return None;
        }
        for _ in 0..CHOICES {
            let block = s.rng.below(count) * u64::from(self.plan.jobs) + u64::from(self.index);
            if s.busy.insert(block) {
                let read = s.rng.below(100) < self.plan.read_percent.into();
                let fua = s.rng.below(100) < self.plan.fua_percent.into();
                return Some((block, read, fua));
            }
        }
        None
    }

    async fn write(&self, block: u64, mut buf: IoBuf, durable: bool) -> Result<IoBuf> {
        let generation = self
            .state
            .borrow()
            .ledger
            .get(block)
            .map_or(0, |b| b.issued)
            + 1;
        Stamp {
            seed: self.plan.shape.seed,
            block,
            generation,
        }
        .write(&mut buf);
        self.note(Event::Issued { block, generation })?;
        let (r, buf) = self
            .session
            .write(buf, self.plan.shape.offset(block), durable)
            .await;
        r?;
        self.note(Event::Acked {
            block,
            generation,
            durable,
        })?;
        let mut s = self.state.borrow_mut();
        s.out.writes += 1;
        s.out.durable += u64::from(durable);
        Ok(buf)
    }

    async fn read(&self, block: u64, buf: IoBuf, how: Judgement) -> Result<IoBuf> {
        let (r, buf) = self.session.read(buf, self.plan.shape.offset(block)).await;
        r?;
        let s = &mut *self.state.borrow_mut();
        self.plan
            .shape
            .judge(block, &buf, &s.ledger, how, &mut s.out);
        Ok(buf)
    }

    async fn flush(&self) -> Result<()> {
        let id = {
            let mut s = self.state.borrow_mut();
            s.flushes += 1;
            s.flushes
        };
        self.note(Event::FlushBegun { id })?;
        self.session.flush().await?;
        self.note(Event::FlushEnded { id })?;
        self.state.borrow_mut().out.flushes += 1;
        Ok(())
    }

    /// Applies an event, after a reconnection that happened in between.
    fn note(&self, event: Event) -> Result<()> {
        let s = &mut *self.state.borrow_mut();
        let epoch = self.session.epoch();
        if epoch != s.epoch {
            s.out.reconnects += epoch.saturating_sub(s.epoch);
            s.epoch = epoch;
            self.journal.record(self.index, Event::Reconnected)?;
            s.ledger.apply(Event::Reconnected);
        }
        self.journal.record(self.index, event)?;
        s.ledger.apply(event);
        Ok(())
    }
}
