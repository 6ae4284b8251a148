//! Replay: what of the journal survived.
//!
//! **Owns** the decision which batch is the last. **Called by** import, once. **Invariants**: what it returns holds
//! every batch that was acknowledged, and is durable on every side before it returns; what it leaves out can never
//! come back. `docs/decisions/0102`.

use super::{Position, Ring, Start, Store};
use crate::error::{Error, Result};
use crate::format::{Address, Batch, BlockPtr, Defect, Record, Sequence};

/// What survived.
#[derive(Debug)]
pub struct Replayed {
    /// In order.
    pub batches: Vec<Batch>,
    /// Where the journal goes on.
    pub head: Start,
    /// Blocks and batches that a side lacked and that were written to it again.
    pub repaired: u64,
}

/// Bytes that are read ahead, so that a search of the ring is not one read for each sector.
const AHEAD: usize = 1 << 20;

/// Part of a segment as one side has it.
struct Ahead {
    from: Position,
    bytes: Vec<u8>,
}

struct Reader<'a, S> {
    store: &'a S,
    ring: &'a Ring,
    /// Batches and blocks to write again where a side lacks them.
    repairs: Vec<(Address, Vec<u8>)>,
    /// What was read last of each side.
    ahead: Vec<Option<Ahead>>,
}

/// Reads the journal from `start` on, to the first batch that is not durable. The last step makes that final: what a
/// side lacks is written again, what follows is wiped, all is flushed.
///
/// # Errors
/// [`Error::JournalCorrupt`] if a batch that was durable cannot be read; [`Error::Device`].
pub async fn replay<S: Store>(store: &S, ring: &Ring, start: Start) -> Result<Replayed> {
    let mut reader = Reader {
        store,
        ring,
        repairs: Vec::new(),
        ahead: (0..store.sides()).map(|_| None).collect(),
    };
    let tail = start.position.segment;
    let mut starts = vec![start];
    let mut batches: Vec<Batch> = Vec::new();
    let mut head = start;
    while let Some((batch, end)) = reader.next(head, tail).await? {
        head = Start {
            sequence: head.sequence.next(),
            position: end,
            previous: batch.checksum,
        };
        starts.push(head);
        batches.push(batch);
    }
    let beyond = reader.durable_beyond(head, tail).await;
    if beyond >= head.sequence {
        return Err(Error::JournalCorrupt {
            sequence: head.sequence,
            at: ring.address(head.position),
        });
    }
    let known = batches.iter().map(|b| b.header.durable_up_to).max();
    let durable = known.unwrap_or(Sequence(0)).max(beyond);
    let mut sound = batches.len();
    for (index, batch) in batches.iter().enumerate() {
        if batch.header.sequence > durable && !reader.data_is_sound(&batch.records).await {
            sound = index;
            break;
        }
    }
    batches.truncate(sound);
    let head = starts[sound];
    let repaired = reader.settle(head, tail).await?;
    Ok(Replayed {
        batches,
        head,
        repaired,
    })
}

impl<S: Store> Reader<'_, S> {
    fn sector(&self) -> usize {
        self.ring.sector as usize
    }

    /// The batch that follows, and its end.
    async fn next(&mut self, head: Start, tail: u64) -> Result<Option<(Batch, Position)>> {
        for at in self
            .ring
            .candidates(head.position, tail)
            .into_iter()
            .flatten()
        {
            let mut found: Option<(Batch, usize)> = None;
            let mut lacking = false;
            for side in 0..self.store.sides() {
                let read = self.batch(side, at).await;
                match read.filter(|b| follows(b, head)) {
                    Some(b) if found.is_none() => found = Some((b, side)),
                    Some(_) => {}
                    None => lacking = true,
                }
            }
            if let Some((batch, side)) = found {
                let offset = at.offset + batch.size as u32;
                if lacking {
                    let address = self.ring.address(at);
                    let bytes = self.read(side, at, batch.size).await;
                    let bytes = bytes.ok_or(Error::Device)?.to_vec();
                    self.repairs.push((address, bytes));
                }
                return Ok(Some((batch, Position { offset, ..at })));
            }
        }
        Ok(None)
    }

    /// Whole sectors of a segment, as one side has them.
    async fn read(&mut self, side: usize, at: Position, size: usize) -> Option<&[u8]> {
        let start = |ahead: &Ahead| {
            let from = ahead.from;
            let start = at.offset.checked_sub(from.offset)? as usize;
            (from.segment == at.segment && start + size <= ahead.bytes.len()).then_some(start)
        };
        if self.ahead[side].as_ref().and_then(start).is_none() {
            let address = self.ring.address(at);
            let whole = self.ring.room(at) / self.sector() * self.sector();
            let mut bytes = vec![0; AHEAD.min(whole).max(size)];
            if self.store.read(side, address, &mut bytes).await.is_err() {
                // some of it may be readable
                bytes.truncate(size);
                self.store.read(side, address, &mut bytes).await.ok()?;
            }
            self.ahead[side] = Some(Ahead { from: at, bytes });
        }
        let ahead = self.ahead[side].as_ref()?;
        let start = start(ahead)?;
        Some(&ahead.bytes[start..start + size])
    }

    /// A whole batch of this pool, as one side has it.
    async fn batch(&mut self, side: usize, at: Position) -> Option<Batch> {
        let (ring, sector) = (self.ring, self.sector());
        let first = self.read(side, at, sector).await?;
        let size = Batch::size_hint(first, sector)?;
        if size > ring.room(at) {
            return None;
        }
        let bytes = self.read(side, at, size).await?;
        Batch::decode(bytes, ring.address(at), ring.pool, sector).ok()
    }

    /// The highest batch that any batch after `head` knows to be durable. Such a batch proves that one which cannot be
    /// read was there.
    async fn durable_beyond(&mut self, head: Start, tail: u64) -> Sequence {
        let mut durable = Sequence(0);
        let mut at = head.position;
        loop {
            while self.ring.room(at) >= self.sector() {
                for side in 0..self.store.sides() {
                    let batch = self.batch(side, at).await.map(|b| b.header);
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

    /// Whether all data that was written side by side with these records is whole on some side.
    async fn data_is_sound(&mut self, records: &[Record]) -> bool {
        for ptr in records.iter().filter_map(Record::fresh) {
            let size = (ptr.physical_size as usize).next_multiple_of(self.sector());
            let mut sound: Option<Vec<u8>> = None;
            let mut lacking = false;
            for side in 0..self.store.sides() {
                let mut bytes = vec![0; size];
                let read = self.store.read(side, ptr.address(), &mut bytes).await;
                match read.and_then(|()| verify(ptr, &bytes)) {
                    Ok(()) => sound = Some(bytes),
                    Err(_) => lacking = true,
                }
            }
            match sound {
                None => return false,
                Some(bytes) if lacking => self.repairs.push((ptr.address(), bytes)),
                Some(_) => {}
            }
        }
        true
    }

    /// Makes the outcome final.
    async fn settle(&mut self, head: Start, tail: u64) -> Result<u64> {
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
        Ok(self.repairs.len() as u64)
    }
}

fn follows(batch: &Batch, head: Start) -> bool {
    batch.header.sequence == head.sequence && batch.header.previous == head.previous
}

fn verify(ptr: &BlockPtr, bytes: &[u8]) -> Result<()> {
    let stored = &bytes[..ptr.physical_size as usize];
    ptr.verify(stored).map_err(|defect: Defect| Error::Corrupt {
        at: ptr.address(),
        defect,
    })
}
