//! The slow model: what a disk may hold and return, given all that was asked of it and answered.
//!
//! **Owns** the history of every block. **Called by** the workloads, before and after each request, and by the
//! scenarios at a crash. **Invariants** it checks, per logical block:
//! - a read returns the content of one write whole, one that was not definitely overwritten before the read began;
//! - what a read has seen stays seen (no going back) until a crash;
//! - after a crash, the newest write that was promised to be durable, or one that came later or at the same time;
//! - a write that failed or was never answered happened or did not.
//!
//! Time is a count of steps: the simulation runs in one thread, so "before" is exact.

use crate::pattern::{self, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

/// A point in the history.
type Step = u64;

/// Most entries that a block's history in a report shows.
const HISTORY_SHOWN: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not answered, and may still be carried out, even twice.
    Pending,
    /// It happened.
    Certain,
    /// It happened or it did not.
    Possible,
}

#[derive(Debug, Clone)]
struct Entry {
    op: u64,
    stamp: Stamp,
    start: Step,
    end: Option<Step>,
    state: State,
    durable: bool,
    /// When a read that returned it ended.
    seen: Option<Step>,
    epoch: u32,
    /// Whoever asked waits no more.
    abandoned: bool,
    /// It replaced, in one step, a content whose write had ended at this step.
    replaced: Option<Step>,
    /// It ended before the last crash: exactly one such is what the crash left.
    survivor: bool,
}

impl Entry {
    /// When it had happened at the latest.
    fn certain_by(&self) -> Option<Step> {
        let by_answer = self.end.filter(|_| self.state == State::Certain);
        by_answer.into_iter().chain(self.seen).min()
    }

    /// Happened before `later`: it ended before that began, or it directly followed something that did.
    fn precedes(&self, later: &Entry) -> bool {
        let after = |step: Option<Step>| step.is_some_and(|s| s < later.start);
        self.op != later.op && (after(self.end) || after(self.replaced))
    }
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteEnd {
    /// Acknowledged.
    Done,
    /// Acknowledged as being on stable storage.
    Durable,
    /// Acknowledged as a hint that may be ignored.
    Hint,
    /// Failed: it happened, or not, or in part.
    Failed,
    /// Refused: it did not happen.
    Refused,
    /// Never answered: it may even happen later.
    Unknown,
}

/// What an answer promises, beyond what was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    #[default]
    Standard,
    /// Every write is durable.
    Always,
    /// Nothing is durable, whatever was asked for.
    Nothing,
}

/// A write that was begun.
#[derive(Debug, Clone)]
pub struct WriteToken {
    op: u64,
    blocks: Range<u64>,
    epoch: u32,
    /// What its blocks hold.
    pub stamp: Stamp,
}

/// A read or flush that was begun.
#[derive(Debug)]
pub struct Token {
    start: Step,
    epoch: u32,
}

/// What must not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

/// See the module header.
pub struct Model {
    block_size: usize,
    blocks: Vec<Vec<Entry>>,
    step: Step,
    epoch: u32,
    next_op: u64,
    reading: BTreeSet<Step>,
    /// Acknowledged and not yet promised to be durable: when it was, by operation.
    volatile: BTreeMap<u64, (Step, Range<u64>)>,
    violation: Option<Violation>,
    /// Requests that were answered.
    pub answered: u64,
    promise: Promise,
}

impl Model {
    /// A disk of `blocks` blocks of zeroes.
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

    /// The disk has `blocks` blocks now, the new ones of zeroes.
    pub fn grow(&mut self, blocks: u64) {
        let zero = Entry {
            op: 0,
            stamp: Stamp::ZERO,
            start: 0,
            end: Some(0),
            state: State::Certain,
            durable: true,
            seen: None,
            epoch: 0,
            abandoned: false,
            replaced: None,
            survivor: false,
        };
        self.blocks.resize(blocks as usize, vec![zero]);
    }

    /// Blocks in all.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// True for a disk without blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The first thing that must not have happened, if something did.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Records that something happened that must not.
    pub fn blame(&mut self, what: String) {
        self.violation.get_or_insert(Violation(what));
    }

    fn tick(&mut self) -> Step {
        self.step += 1;
        self.step
    }

    /// A write of new content, or of zeroes, is about to be asked for.
    pub fn begin_write(&mut self, blocks: Range<u64>, zeroes: bool) -> WriteToken {
        self.next_op += 1;
        let op = self.next_op;
        let stamp = if zeroes { Stamp::ZERO } else { Stamp(op) };
        let entry = Entry {
            op,
            stamp,
            start: self.tick(),
            end: None,
            state: State::Pending,
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

    /// What the blocks of a write contain.
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

    /// From now on, answers promise this.
    pub fn set_promise(&mut self, promise: Promise) {
        self.promise = promise;
    }

    /// A write ended.
    pub fn end_write(&mut self, t: &WriteToken, how: WriteEnd) {
        let now = self.tick();
        let how = match (how, self.promise) {
            (WriteEnd::Done, Promise::Always) => WriteEnd::Durable,
            (WriteEnd::Durable, Promise::Nothing) => WriteEnd::Done,
            (how, _) => how,
        };
        self.answered += u64::from(how != WriteEnd::Unknown);
        // An answer from another life of the server may belong to what the crash undid.
        let same_life = t.epoch == self.epoch;
        let (state, durable) = match how {
            WriteEnd::Durable => (State::Certain, true),
            WriteEnd::Done if same_life => (State::Certain, false),
            WriteEnd::Done | WriteEnd::Hint | WriteEnd::Failed => (State::Possible, false),
            WriteEnd::Refused | WriteEnd::Unknown => (State::Pending, false),
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

    /// A read is about to be asked for.
    pub fn begin_read(&mut self) -> Token {
        let start = self.tick();
        self.reading.insert(start);
        Token {
            start,
            epoch: self.epoch,
        }
    }

    /// A read failed.
    pub fn end_failed_read(&mut self, t: &Token) {
        self.reading.remove(&t.start);
    }

    /// A read from block `first` on returned `bytes`.
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
            (e.state, e.durable) = (State::Certain, true);
            let op = e.op;
            entries.retain(|e| e.op == op || !e.survivor);
        }
        Ok(())
    }

    /// A compare found `expected` from block `first` on and the write `w` replaced it, in one step: no other write
    /// came between.
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
                    && entries[i].state == State::Certain
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

    /// A flush is about to be asked for.
    pub fn begin_flush(&mut self) -> Token {
        Token {
            start: self.tick(),
            epoch: self.epoch,
        }
    }

    /// A flush was acknowledged: what had been acknowledged before it began is durable.
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
                    .find(|e| e.op == op && e.state == State::Certain)
                {
                    e.durable = true;
                }
                prune(entries, oldest);
            }
        }
    }

    /// The server lost its power. What it was doing for those who wait no more ends with it; the others may ask
    /// its next life again.
    pub fn crash(&mut self) {
        let now = self.tick();
        self.epoch += 1;
        self.volatile.clear();
        let oldest = self.oldest_reading();
        for entries in &mut self.blocks {
            for e in entries.iter_mut() {
                e.survivor = e.state != State::Pending || e.abandoned;
                if !e.survivor {
                    e.seen = None;
                } else if e.state != State::Certain || !e.durable {
                    e.state = State::Possible;
                    e.end = Some(e.end.unwrap_or(now));
                    e.seen = None;
                }
            }
            prune(entries, oldest);
        }
    }

    /// What the contents of block `lba` may be now, for a report.
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

    /// Stamps that block `lba` may hold for a read that begins now.
    #[must_use]
    pub fn legal(&self, lba: u64) -> BTreeSet<Stamp> {
        let entries = &self.blocks[lba as usize];
        (0..entries.len())
            .filter(|i| !overwritten(entries, *i, self.step + 1))
            .map(|i| entries[i].stamp)
            .collect()
    }
}

/// Another write had definitely replaced entry `i` before step `at`.
fn overwritten(entries: &[Entry], i: usize, at: Step) -> bool {
    entries
        .iter()
        .any(|later| entries[i].precedes(later) && later.certain_by().is_some_and(|by| by < at))
}

/// Forgets what a durable write replaced before every read that still runs began.
fn prune(entries: &mut Vec<Entry>, oldest_reading: Step) {
    let durable: Vec<(Step, Step)> = entries
        .iter()
        .filter(|e| e.durable && e.state == State::Certain)
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
