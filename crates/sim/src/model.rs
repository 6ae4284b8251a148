//! The slow model: the contents that each block of a disk may have, after all requests and answers so far.
//!
//! **Owns** the history of every block. **Called by** the workloads, before and after each request, and by the scenarios at a
//! crash. **Invariants** that it checks, per logical block:
//! - a read returns one write as a whole, which was not definitely overwritten before the read began;
//! - until a crash, no read returns an older write than an earlier read;
//! - after a crash, the block has the newest write that was promised to be durable, or a later or concurrent one;
//! - a write that failed or was never answered happened or did not.
//!
//! Time is a count of steps: the simulation runs in one thread, so "before" is exact.

use crate::pattern::{self, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

/// A point in the history.
type Step = u64;

/// Most entries of a block's history in a report.
const HISTORY_SHOWN: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not answered. It may still be carried out, even twice.
    Pending,
    /// It happened.
    Certain,
    /// It happened or it did not.
    Possible,
}

#[derive(Debug, Clone)]
struct Attempt {
    op: u64,
    stamp: Stamp,
    start: Step,
    end: Option<Step>,
    state: Fate,
    durable: bool,
    /// Step at which the first read that returned it ended.
    seen: Option<Step>,
    epoch: u32,
    /// Whether its client no longer waits for an answer.
    abandoned: bool,
    /// For a compare-and-write: the end of the write whose content it replaced.
    replaced: Option<Step>,
    /// Whether it ended before the last crash. Exactly one survivor is the content after the crash.
    survivor: bool,
}

impl Attempt {
    /// The step by which it definitely had happened; `None` if it may not have happened.
    fn certain_by(&self) -> Option<Step> {
        let by_answer = self.end.filter(|_| self.state == Fate::Certain);
        by_answer.into_iter().chain(self.seen).min()
    }

    /// Whether it happened before `later`: it ended before `later` began, or it directly replaced a write that did.
    fn precedes(&self, later: &Attempt) -> bool {
        let after = |step: Option<Step>| step.is_some_and(|s| s < later.start);
        self.op != later.op && (after(self.end) || after(self.replaced))
    }
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteEnd {
    /// Acknowledged.
    Done,
    /// Acknowledged as durable.
    Durable,
    /// Acknowledged as a hint that may be ignored.
    Hint,
    /// Failed: it happened, did not, or happened in part.
    Failed,
    /// Refused: it did not happen.
    Refused,
    /// Never answered: it may even happen later.
    Unknown,
}

/// Durability that an acknowledgement promises, beyond that of the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Promise {
    /// As the request says.
    #[default]
    Standard,
    /// Every write is durable.
    Always,
    /// No write is durable, not even with FUA.
    Nothing,
}

/// A write in progress.
#[derive(Debug, Clone)]
pub struct WriteToken {
    op: u64,
    blocks: Range<u64>,
    epoch: u32,
    /// Stamp of its blocks.
    pub stamp: Stamp,
}

/// A read or flush in progress.
#[derive(Debug)]
pub struct Token {
    start: Step,
    epoch: u32,
}

/// A broken promise, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

/// See the module header.
pub struct Model {
    block_size: usize,
    blocks: Vec<Vec<Attempt>>,
    step: Step,
    epoch: u32,
    next_op: u64,
    reading: BTreeSet<Step>,
    /// Writes that were acknowledged without a promise of durability, by operation: step of the acknowledgement, and blocks.
    volatile: BTreeMap<u64, (Step, Range<u64>)>,
    violation: Option<Violation>,
    /// Number of answered requests.
    pub answered: u64,
    promise: Promise,
}

impl Model {
    /// Creates a disk of `blocks` blocks of zeroes.
    #[must_use]
    pub fn new(block_size: u32, blocks: u64) -> Model {
        let mut m = Model {
            block_size: block_size as usize,
            blocks: Vec::new(),
            step: 0,
            epoch: 0,
            next_op: 0,
            reading: BTreeSet::new(),
            volatile: BTreeMap::new(),
            violation: None,
            answered: 0,
            promise: Promise::default(),
        };
        m.grow(blocks);
        m
    }

    /// Grows the disk to `blocks` blocks; the new ones are zeroes.
    pub fn grow(&mut self, blocks: u64) {
        let zero = Attempt {
            op: 0,
            stamp: Stamp::ZERO,
            start: 0,
            end: Some(0),
            state: Fate::Certain,
            durable: true,
            seen: None,
            epoch: 0,
            abandoned: false,
            replaced: None,
            survivor: false,
        };
        self.blocks.resize(blocks as usize, vec![zero]);
    }

    /// Number of crashes so far.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Whether the disk has no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The first violation; `None` if there is none.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Records a violation.
    pub fn blame(&mut self, what: String) {
        self.violation.get_or_insert(Violation(what));
    }

    fn tick(&mut self) -> Step {
        self.step += 1;
        self.step
    }

    /// Begins a write of new content, or of zeroes.
    pub fn begin_write(&mut self, blocks: Range<u64>, zeroes: bool) -> WriteToken {
        self.next_op += 1;
        let op = self.next_op;
        let stamp = if zeroes { Stamp::ZERO } else { Stamp(op) };
        let entry = Attempt {
            op,
            stamp,
            start: self.tick(),
            end: None,
            state: Fate::Pending,
            durable: false,
            seen: None,
            epoch: self.epoch,
            abandoned: false,
            replaced: None,
            survivor: false,
        };
        for b in blocks.clone() {
            self.blocks[b as usize].push(entry.clone());
        }
        WriteToken {
            op,
            blocks,
            epoch: self.epoch,
            stamp,
        }
    }

    /// Returns the content of a write.
    #[must_use]
    pub fn content(&self, t: &WriteToken) -> Vec<u8> {
        let mut bytes = vec![0; (t.blocks.end - t.blocks.start) as usize * self.block_size];
        for (block, lba) in bytes
            .chunks_exact_mut(self.block_size)
            .zip(t.blocks.clone())
        {
            pattern::fill(block, lba, t.stamp);
        }
        bytes
    }

    /// Sets the durability that answers promise from now on.
    pub fn set_promise(&mut self, promise: Promise) {
        self.promise = promise;
    }

    /// Ends a write.
    pub fn end_write(&mut self, t: &WriteToken, how: WriteEnd) {
        let now = self.tick();
        let how = match (how, self.promise) {
            (WriteEnd::Done, Promise::Always) => WriteEnd::Durable,
            (WriteEnd::Durable, Promise::Nothing) => WriteEnd::Done,
            (how, _) => how,
        };
        self.answered += u64::from(how != WriteEnd::Unknown);
        // An answer of an earlier incarnation may belong to a write that the crash undid.
        let same_life = t.epoch == self.epoch;
        let (state, durable) = match how {
            WriteEnd::Durable => (Fate::Certain, true),
            WriteEnd::Done if same_life => (Fate::Certain, false),
            WriteEnd::Done | WriteEnd::Hint | WriteEnd::Failed => (Fate::Possible, false),
            WriteEnd::Refused | WriteEnd::Unknown => (Fate::Pending, false),
        };
        let oldest = self.oldest_reading();
        for b in t.blocks.clone() {
            let entries = &mut self.blocks[b as usize];
            if how == WriteEnd::Refused {
                entries.retain(|e| e.op != t.op);
                continue;
            }
            if let Some(e) = entries.iter_mut().find(|e| e.op == t.op) {
                e.abandoned = how == WriteEnd::Unknown;
                e.end = Some(now).filter(|_| !e.abandoned);
                (e.state, e.durable) = (state, durable);
            }
            prune(entries, oldest);
        }
        if how == WriteEnd::Done && same_life {
            self.volatile.insert(t.op, (now, t.blocks.clone()));
        }
    }

    fn oldest_reading(&self) -> Step {
        self.reading.first().copied().unwrap_or(self.step)
    }

    /// Begins a read.
    pub fn begin_read(&mut self) -> Token {
        let start = self.tick();
        self.reading.insert(start);
        Token {
            start,
            epoch: self.epoch,
        }
    }

    /// Ends a read that failed.
    pub fn end_failed_read(&mut self, t: &Token) {
        self.reading.remove(&t.start);
    }

    /// Ends a read from block `first` on that returned `bytes`.
    pub fn end_read(&mut self, t: &Token, first: u64, bytes: &[u8]) {
        let now = self.tick();
        self.answered += 1;
        self.reading.remove(&t.start);
        for (block, lba) in bytes.chunks_exact(self.block_size).zip(first..) {
            if let Err(what) = self.check_block(t, now, lba, block) {
                let history = self.history(lba);
                self.blame(format!(
                    "block {lba}: {what} (read from step {} to {now})\n{history}",
                    t.start
                ));
            }
        }
    }

    fn check_block(&mut self, t: &Token, now: Step, lba: u64, block: &[u8]) -> Result<(), String> {
        let stamp =
            pattern::parse(block, lba).map_err(|e| format!("the read mixes contents: it {e}"))?;
        let entries = &mut self.blocks[lba as usize];
        if t.epoch != self.epoch {
            return Ok(());
        }
        let alive: Vec<usize> = (0..entries.len())
            .filter(|i| entries[*i].stamp == stamp && !overwritten(entries, *i, t.start))
            .collect();
        let [one] = alive[..] else {
            return if alive.is_empty() {
                Err(format!("the read returned {stamp}"))
            } else {
                Ok(())
            };
        };
        let e = &mut entries[one];
        e.seen = Some(e.seen.map_or(now, |s| s.min(now)));
        if e.survivor {
            (e.state, e.durable) = (Fate::Certain, true);
            let op = e.op;
            entries.retain(|e| e.op == op || !e.survivor);
        }
        Ok(())
    }

    /// Ends a successful compare-and-write: the blocks from `first` on had `expected`, and the write `w` replaced them
    /// without another write in between.
    pub fn end_compare_and_write(
        &mut self,
        t: &Token,
        first: u64,
        expected: &[u8],
        w: &WriteToken,
    ) {
        if t.epoch == self.epoch {
            for (block, lba) in expected.chunks_exact(self.block_size).zip(first..) {
                let Ok(stamp) = pattern::parse(block, lba) else {
                    continue;
                };
                let entries = &mut self.blocks[lba as usize];
                let mut found = (0..entries.len())
                    .filter(|i| entries[*i].stamp == stamp && !overwritten(entries, *i, t.start));
                if let (Some(i), None) = (found.next(), found.next())
                    && entries[i].state == Fate::Certain
                {
                    let ended = entries[i].end;
                    entries
                        .iter_mut()
                        .filter(|e| e.op == w.op)
                        .for_each(|e| e.replaced = ended);
                }
            }
        }
        self.end_read(t, first, expected);
        self.end_write(w, WriteEnd::Done);
    }

    /// Begins a flush.
    pub fn begin_flush(&mut self) -> Token {
        Token {
            start: self.tick(),
            epoch: self.epoch,
        }
    }

    /// Ends an acknowledged flush: writes that were acknowledged before it began are durable.
    pub fn end_flush(&mut self, t: &Token) {
        self.tick();
        self.answered += 1;
        if t.epoch != self.epoch || self.promise == Promise::Nothing {
            return;
        }
        let oldest = self.oldest_reading();
        let covered: Vec<u64> = self
            .volatile
            .iter()
            .filter(|(_, (end, _))| *end < t.start)
            .map(|(op, _)| *op)
            .collect();
        for op in covered {
            let Some((_, blocks)) = self.volatile.remove(&op) else {
                continue;
            };
            for b in blocks {
                let entries = &mut self.blocks[b as usize];
                if let Some(e) = entries
                    .iter_mut()
                    .find(|e| e.op == op && e.state == Fate::Certain)
                {
                    e.durable = true;
                }
                prune(entries, oldest);
            }
        }
    }

    /// Crash of the server. Requests whose clients no longer wait end with it; the other clients may repeat theirs to the
    /// next incarnation.
    pub fn crash(&mut self) {
        let now = self.tick();
        self.epoch += 1;
        self.volatile.clear();
        let oldest = self.oldest_reading();
        for entries in &mut self.blocks {
            for e in entries.iter_mut() {
                e.survivor = e.state != Fate::Pending || e.abandoned;
                if !e.survivor {
                    e.seen = None;
                } else if e.state != Fate::Certain || !e.durable {
                    e.state = Fate::Possible;
                    e.end = Some(e.end.unwrap_or(now));
                    e.seen = None;
                }
            }
            prune(entries, oldest);
        }
    }

    /// Describes the possible contents of block `lba`, for a report.
    fn history(&self, lba: u64) -> String {
        let entries = &self.blocks[lba as usize];
        let mut out = format!(
            "  now life {} of the server, step {}\n",
            self.epoch, self.step
        );
        for e in entries
            .iter()
            .skip(entries.len().saturating_sub(HISTORY_SHOWN))
        {
            let end = e.end.map_or("-".into(), |e| e.to_string());
            let durable = if e.durable { ", durable" } else { "" };
            let seen = e.seen.map_or(String::new(), |s| format!(", seen at {s}"));
            let _ = writeln!(
                out,
                "  {} by write {}: {:?}, life {}, steps {}..{end}{durable}{seen}",
                e.stamp, e.op, e.state, e.epoch, e.start
            );
        }
        out
    }

    /// Returns the stamps that a read of block `lba` beginning now may return.
    #[must_use]
    pub fn legal(&self, lba: u64) -> BTreeSet<Stamp> {
        let entries = &self.blocks[lba as usize];
        (0..entries.len())
            .filter(|i| !overwritten(entries, *i, self.step + 1))
            .map(|i| entries[i].stamp)
            .collect()
    }
}

/// Whether another write had definitely replaced entry `i` before step `at`.
fn overwritten(entries: &[Attempt], i: usize, at: Step) -> bool {
    entries
        .iter()
        .any(|later| entries[i].precedes(later) && later.certain_by().is_some_and(|by| by < at))
}

/// Removes entries that a durable write replaced before every read in progress began.
fn prune(entries: &mut Vec<Attempt>, oldest_reading: Step) {
    let durable: Vec<(Step, Step)> = entries
        .iter()
        .filter(|e| e.durable && e.state == Fate::Certain)
        .filter_map(|e| Some((e.start, e.end?)))
        .collect();
    entries.retain(|e| {
        let Some(ended) = e.end else { return true };
        !durable
            .iter()
            .any(|(start, end)| ended < *start && *end < oldest_reading)
    });
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
