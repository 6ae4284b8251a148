//! Replay: finds the batches that survived a crash.
//!
//! **Owns** the decision which batch is the last. **Called by** import, once. **Invariants**: the returned batches include
//! every acknowledged one, and are durable on every member that is in before replay returns; a batch that is left out can never return.
//! `docs/decisions/0102`.

use super::data::{self, Checked};
use super::reader::RingReader;
use super::{Position, Ring, Start, Store};
use crate::error::{Error, Result};
use crate::format::{Address, Batch, Sequence};

/// Result of replay.
#[derive(Debug)]
pub struct Replayed {
    /// The batches that survived, in order.
    pub batches: Vec<Batch>,
    /// Where the journal continues.
    pub head: Start,
    /// Blocks and batches that a member lacked and that were rewritten.
    pub repaired: u64,
    /// Durable batches that are given up: no candidate has the first of them.
    pub lost: u64,
}

impl Replayed {
    /// No batch is replayed, and the journal continues at `head`. `lost` durable batches are given up.
    pub(crate) fn nothing(head: Start, lost: u64) -> Self {
        Self {
            batches: Vec::new(),
            head,
            repaired: 0,
            lost,
        }
    }
}

/// Length of a write that wipes a part of the ring, bytes.
const WIPE_MAX: usize = 1 << 20;

struct Replay<'a, S> {
    store: &'a S,
    ring: &'a Ring,
    reader: RingReader<'a, S>,
    /// Batches to be rewritten because a member lacks them.
    repairs: Vec<(Address, Vec<u8>)>,
}

/// Reads the journal from `start` to the first batch that is not durable. Then makes this end final: rewrites batches and
/// blocks that a member lacks, wipes the ring behind the end, and flushes.
///
/// # Errors
/// [`Error::JournalCorrupt`] if a durable batch cannot be read; [`Error::Device`].
pub async fn replay<S: Store>(store: &S, ring: &Ring, start: Start) -> Result<Replayed> {
    replay_with(store, ring, start, false).await
}

/// As [`replay()`], but the journal ends before a durable batch that cannot be read: this batch and all later ones are given up
/// and wiped. A power cut meanwhile leaves the batches before it.
///
/// # Errors
/// [`Error::Device`].
pub async fn salvage<S: Store>(store: &S, ring: &Ring, start: Start) -> Result<Replayed> {
    replay_with(store, ring, start, true).await
}

async fn replay_with<S: Store>(
    store: &S,
    ring: &Ring,
    start: Start,
    may_lose: bool,
) -> Result<Replayed> {
    let tail = start.position.segment;
    let mut replay = Replay {
        store,
        ring,
        reader: RingReader::new(store, ring, tail),
        repairs: Vec::new(),
    };
    let mut starts = vec![start];
    let mut batches: Vec<Batch> = Vec::new();
    let mut head = start;
    while let Some((batch, end)) = replay.next(head, tail).await? {
        head = Start {
            sequence: head.sequence.next(),
            position: end,
            previous: batch.checksum,
        };
        starts.push(head);
        batches.push(batch);
    }
    let beyond = replay.durable_beyond(head, tail).await;
    let lost = (beyond.0 + 1).saturating_sub(head.sequence.0);
    if lost > 0 && !may_lose {
        return Err(Error::JournalCorrupt {
            sequence: head.sequence,
            at: ring.address(head.position),
        });
    }
    let known = batches.iter().map(|b| b.header.durable_up_to).max();
    let durable = known.unwrap_or(Sequence(0)).max(beyond);
    let checked = data::check(store, ring.block_space(), &batches, durable).await;
    batches.truncate(checked.sound);
    let head = starts[checked.sound];
    if lost > 0 {
        replay.wipe_from(head, tail).await?;
    }
    let repaired = replay.finish(&checked, head, tail).await?;
    Ok(Replayed {
        batches,
        head,
        repaired,
        lost,
    })
}

impl<S: Store> Replay<'_, S> {
    fn sector(&self) -> usize {
        self.ring.sector as usize
    }

    /// The next batch, and its end.
    async fn next(&mut self, head: Start, tail: u64) -> Result<Option<(Batch, Position)>> {
        for at in self
            .ring
            .candidates(head.position, tail)
            .into_iter()
            .flatten()
        {
            let mut found: Option<(Batch, usize)> = None;
            let mut lacking = false;
            for candidate in 0..self.store.candidates() {
                let read = self.reader.batch(candidate, at).await;
                match read.filter(|b| follows(b, head)) {
                    Some(b) if found.is_none() => found = Some((b, candidate)),
                    Some(_) => {}
                    None => lacking = true,
                }
            }
            if let Some((batch, candidate)) = found {
                let offset = at.offset + batch.size as u32;
                if lacking {
                    let address = self.ring.address(at);
                    let bytes = self.reader.read(candidate, at, batch.size).await;
                    let bytes = bytes.ok_or(Error::Device)?.into_owned();
                    self.repairs.push((address, bytes));
                }
                return Ok(Some((batch, Position { offset, ..at })));
            }
        }
        Ok(None)
    }

    /// The highest batch that any batch behind `head` records as durable. It proves that a batch that cannot be read existed.
    async fn durable_beyond(&mut self, head: Start, tail: u64) -> Sequence {
        let mut durable = Sequence(0);
        let mut at = head.position;
        loop {
            while self.ring.room(at) >= self.sector() {
                for candidate in 0..self.store.candidates() {
                    let batch = self.reader.batch(candidate, at).await.map(|b| b.header);
                    if let Some(header) = batch.filter(|h| h.sequence > head.sequence) {
                        durable = durable.max(header.durable_up_to);
                    }
                }
                at.offset += self.ring.sector;
            }
            at = self.ring.next_segment(at);
            if !self.ring.is_free(at, tail) {
                break;
            }
        }
        durable
    }

    /// Overwrites the free part of the ring, so that the batches there cannot prove again that a batch before them is lost.
    async fn wipe_from(&self, head: Start, tail: u64) -> Result<()> {
        let mut at = head.position;
        loop {
            while self.ring.room(at) >= self.sector() {
                let size = WIPE_MAX.min(self.ring.room(at)) / self.sector() * self.sector();
                let zeroes = vec![0; size];
                self.store.write(self.ring.address(at), &zeroes).await?;
                at.offset += size as u32;
            }
            at = self.ring.next_segment(at);
            if !self.ring.is_free(at, tail) {
                return self.store.flush().await;
            }
        }
    }

    /// Makes the result final. Returns the number of rewritten blocks and batches.
    async fn finish(&mut self, checked: &Checked, head: Start, tail: u64) -> Result<u64> {
        let blocks = data::repair(self.store, checked).await?;
        for (at, bytes) in &self.repairs {
            self.store.write(*at, bytes).await?;
        }
        self.store.flush().await?;
        for at in self
            .ring
            .candidates(head.position, tail)
            .into_iter()
            .flatten()
        {
            let zeroes = vec![0; self.sector()];
            self.store.write(self.ring.address(at), &zeroes).await?;
        }
        self.store.flush().await?;
        Ok(self.repairs.len() as u64 + blocks)
    }
}

fn follows(batch: &Batch, head: Start) -> bool {
    batch.header.sequence == head.sequence && batch.header.previous == head.previous
}
