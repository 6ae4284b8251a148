//! The verifying load: paced reads, writes and flushes of blocks with known contents.
//!
//! **Owns** the session and the blocks' expected contents. **Called by** the course of a drill. **Invariants**: a block has at
//! most one read or write under way; the expected contents change only with answers; the rate is bounded, so that a drill does
//! not starve the clients of a real server.

use crate::blocks::{Blocks, Findings};
use crate::limits::{CLOSE_MAX, FAILED_WAIT, POLL, TOLD_MAX};
use crate::timeline::{Layer, Timeline};
use io::rng::Prng;
use io::{IoBuf, JoinHandle};
use lab::targets::Session;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Percentage of commands that read and judge a block.
const READ_PERCENT: u64 = 30;
/// Percentage of writes with FUA.
const FUA_PERCENT: u64 = 30;
/// One in this number of writes is followed by a flush.
const FLUSH_EVERY: u64 = 16;
/// The status of a write for which there is no space, in words.
const CAPACITY_EXCEEDED: &str = "capacity exceeded";
/// Attempts to choose a quiet block before waiting.
const CHOICES: u32 = 16;

/// Options of a load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of blocks, from the start of the target.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Commands in flight.
    pub depth: u32,
    /// Most commands per second.
    pub per_second: u32,
    /// Seed of contents and order.
    pub seed: u64,
}

/// Counts of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Writes acknowledged.
    pub writes: u64,
    /// Of these, with FUA.
    pub durable_writes: u64,
    /// Flushes acknowledged.
    pub flushes: u64,
    /// Blocks read and judged during the drill.
    pub reads: u64,
    /// Blocks read back and judged at the end.
    pub read_back: u64,
    /// Writes and flushes that were refused for lack of space.
    pub refused: u64,
    /// Commands that failed otherwise.
    pub failed: u64,
    /// The first of their errors, each text once.
    pub errors: Vec<String>,
}

/// A load on one session.
pub struct Load<S> {
    session: S,
    plan: Plan,
    timeline: Arc<Timeline>,
    blocks: RefCell<Blocks>,
    counts: RefCell<Counts>,
    rng: RefCell<Prng>,
    /// Epoch of the session when the server was lost last: answers of this epoch and older ones came from it.
    lost_epoch: Cell<Option<u64>>,
    is_stopping: Cell<bool>,
    writers: RefCell<Vec<JoinHandle<()>>>,
}

impl<S: Session> Load<S> {
    /// A load that does not run yet.
    #[must_use]
    pub fn new(session: S, plan: Plan, timeline: Arc<Timeline>) -> Rc<Load<S>> {
        Rc::new(Load {
            blocks: RefCell::new(Blocks::new(plan.seed, plan.blocks)),
            rng: RefCell::new(Prng::new(plan.seed ^ 0x6472_696c)),
            session,
            plan,
            timeline,
            counts: RefCell::default(),
            lost_epoch: Cell::new(None),
            is_stopping: Cell::new(false),
            writers: RefCell::default(),
        })
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &S {
        &self.session
    }

    /// The timeline.
    #[must_use]
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// Counts until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.borrow().clone()
    }

    /// Findings until now.
    #[must_use]
    pub fn findings(&self) -> Findings {
        self.blocks.borrow().findings()
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.plan.block_size
    }

    /// Starts the load.
    pub fn start(self: &Rc<Self>) {
        self.timeline.begin();
        let writers = (0..self.plan.depth).map(|_| io::spawn(self.clone().worker()));
        self.writers.borrow_mut().extend(writers);
    }

    /// Ends the load after the commands in flight. False if they are not answered in time.
    pub async fn stop(&self) -> bool {
        self.is_stopping.set(true);
        let writers = std::mem::take(&mut *self.writers.borrow_mut());
        let all_ended = io::timeout(CLOSE_MAX, async {
            for writer in &writers {
                while !writer.is_finished() {
                    io::time::sleep(POLL).await;
                }
            }
        })
        .await
        .is_ok();
        writers.iter().for_each(JoinHandle::abort);
        self.timeline.end();
        all_ended
    }

    /// The server was lost: writes that were not durable may be gone.
    pub fn server_lost(&self) {
        self.lost_epoch.set(Some(self.session.epoch()));
        self.blocks.borrow_mut().server_lost();
    }

    /// Flushes, then reads every block back and judges it. False if a command failed.
    pub async fn read_back(&self) -> bool {
        let mut is_complete = self.flush().await;
        let count = self.blocks.borrow().len();
        let mut buf = io::pool().alloc(self.plan.block_size as usize).await;
        for block in 0..count {
            let read;
            (read, buf) = self.read(block, buf).await;
            is_complete &= read;
            self.counts.borrow_mut().read_back += u64::from(read);
        }
        is_complete
    }

    /// Ends the session.
    pub async fn close(self: Rc<Self>) {
        if let Some(load) = Rc::into_inner(self) {
            // A server that does not answer is left alone.
            let _ = io::timeout(CLOSE_MAX, load.session.close()).await;
        }
    }

    async fn pace(&self) {
        let per_worker = f64::from(self.plan.depth) / f64::from(self.plan.per_second.max(1));
        io::time::sleep(Duration::from_secs_f64(per_worker)).await;
    }

    async fn worker(self: Rc<Self>) {
        let mut buf = io::pool().alloc(self.plan.block_size as usize).await;
        while !self.is_stopping.get() {
            let Some(block) = self.choose() else {
                io::time::sleep(POLL).await;
                continue;
            };
            let [is_read, is_durable, is_flushed] = {
                let mut rng = self.rng.borrow_mut();
                [
                    rng.below(100) < READ_PERCENT,
                    rng.below(100) < FUA_PERCENT,
                    rng.below(FLUSH_EVERY) == 0,
                ]
            };
            let mut is_good;
            (is_good, buf) = match is_read {
                true => {
                    let (read, buf) = self.read(block, buf).await;
                    self.counts.borrow_mut().reads += u64::from(read);
                    (read, buf)
                }
                false => self.write(block, buf, is_durable).await,
            };
            self.blocks.borrow_mut().release(block);
            if !is_read && is_flushed {
                is_good &= self.flush().await;
            }
            match is_good {
                true => self.pace().await,
                false => io::time::sleep(FAILED_WAIT).await,
            }
        }
    }

    fn choose(&self) -> Option<u64> {
        let (mut rng, mut blocks) = (self.rng.borrow_mut(), self.blocks.borrow_mut());
        let count = blocks.len();
        (0..CHOICES).find_map(|_| {
            let block = rng.below(count);
            blocks.take(block).then_some(block)
        })
    }

    /// Whether an answer that arrives now came from the server that was lost.
    fn is_from_lost_server(&self) -> bool {
        let lost = self.lost_epoch.get();
        lost.is_some_and(|lost| self.session.epoch() <= lost)
    }

    fn failed(&self, command: &str, error: &lab::Error) {
        let text = format!("{command} failed: {error}");
        let mut counts = self.counts.borrow_mut();
        match is_lack_of_space(error) {
            true => counts.refused += 1,
            false => counts.failed += 1,
        }
        if counts.errors.len() < TOLD_MAX && !counts.errors.contains(&text) {
            self.timeline.note(Layer::Initiator, text.clone());
            counts.errors.push(text);
        }
    }

    async fn write(&self, block: u64, mut buf: IoBuf, durable: bool) -> (bool, IoBuf) {
        let generation = self.blocks.borrow_mut().issue(block, &mut buf);
        let offset = block * u64::from(self.plan.block_size);
        let (result, buf) = self.session.write(buf, offset, durable).await;
        if let Err(error) = result {
            self.failed("write", &error);
            return (false, buf);
        }
        self.timeline.answered();
        let is_lost = self.is_from_lost_server();
        let mut blocks = self.blocks.borrow_mut();
        blocks.acknowledged(block, generation, durable, is_lost);
        let mut counts = self.counts.borrow_mut();
        counts.writes += 1;
        counts.durable_writes += u64::from(durable);
        (true, buf)
    }

    async fn read(&self, block: u64, buf: IoBuf) -> (bool, IoBuf) {
        let offset = block * u64::from(self.plan.block_size);
        let (result, buf) = self.session.read(buf, offset).await;
        if let Err(error) = result {
            self.failed("read", &error);
            return (false, buf);
        }
        self.timeline.answered();
        let is_lost = self.is_from_lost_server();
        self.blocks.borrow_mut().judge(block, &buf, is_lost);
        (true, buf)
    }

    async fn flush(&self) -> bool {
        let covered = self.blocks.borrow_mut().flush();
        let result = self.session.flush().await;
        let mut blocks = self.blocks.borrow_mut();
        match result {
            Ok(()) => {
                self.timeline.answered();
                self.counts.borrow_mut().flushes += 1;
                blocks.flushed(covered);
                true
            }
            Err(error) => {
                blocks.not_flushed(covered);
                self.failed("flush", &error);
                false
            }
        }
    }
}

/// Whether the server refused a command for lack of space (NVMe Base 2.0, status 81h of the generic ones).
fn is_lack_of_space(error: &lab::Error) -> bool {
    matches!(error, lab::Error::Status(text) if text.contains(CAPACITY_EXCEEDED))
}
