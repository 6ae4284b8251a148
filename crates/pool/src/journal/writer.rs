//! Journal writer, with group commit: collects records into batches, and tracks the durability of batches.
//!
//! **Owns** the open batch, the batches in flight, and their durability. **Called by** the owner's tasks that drive the
//! devices: they take writes from here and report completions. No function waits. **Invariants**: a ticket is durable only
//! after a flush that began when its batch, every batch before, and all their data had been written; after a failed write
//! nothing becomes durable. `docs/decisions/0102`.

mod loss;
mod moving;
mod room;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::unproven::{UNPROVEN_MAX, Unproven};
use super::{Position, Ring, Start};
use crate::checkpoint_throttle::CheckpointThrottle;
use crate::error::{Error, Result};
use crate::format::{
    Address, BATCH_HEADER_SIZE, Batch, BatchHeader, Birth, Incarnation, Record, SECTOR_SIZE_MIN,
    Sequence, VdevOffset, encode_segment,
};

pub use room::Reserve;

/// Most batches in flight.
pub const WRITES_MAX: usize = 8;
/// Length from which a batch is written even if no request waits for it, bytes.
const LARGE_BATCH: usize = 128 << 10;
/// Use of the ring at which a checkpoint is due, percent. The later, the less often trees are written; but the rest of the
/// ring must take the changes during the checkpoint.
const CHECKPOINT_PERCENT: RangeInclusive<u64> = 50..=75;
/// Use of the ring at which writers must be slowed down, percent.
const SLOW_PERCENT: u64 = 85;
/// Most bytes of a large ring that are used, so that replay does not take too long.
const USED_MAX: u64 = 512 << 20;
/// Safety factor: the next checkpoint may see up to this many times the changes of the last one.
const MARGIN: u64 = 2;

/// Number of the batch that has an append's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(Sequence);

impl Ticket {
    /// Number of the batch.
    #[must_use]
    pub fn sequence(self) -> Sequence {
        self.0
    }
}

/// Use of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// No checkpoint is needed.
    Low,
    /// A checkpoint is due.
    Checkpoint,
    /// Writers must be slowed down until a checkpoint has ended.
    Slow,
}

/// A write that the caller must submit, and report with [`Writer::written`].
#[derive(Debug)]
pub struct BatchWrite {
    /// Number of the batch.
    pub sequence: Sequence,
    /// Address: of the segment's header, if the batch is the first of its segment.
    pub at: Address,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// A flush that has begun. Pass it to [`Writer::flushed`] when the device has confirmed it.
#[derive(Debug)]
#[must_use = "only its end makes batches durable"]
pub struct Flush(Sequence);

impl Flush {
    /// Whether this flush makes a ticket durable.
    #[must_use]
    pub fn covers(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.0
    }
}

/// A sealed batch that was not released.
#[derive(Debug)]
struct Sealed {
    /// Position behind it.
    after: Start,
    written: bool,
}

/// The open batch: records that are not sealed.
#[derive(Debug, Default)]
struct Open {
    count: u32,
    encoded: Vec<u8>,
}

/// The writing end of the journal.
#[derive(Debug)]
pub struct Writer {
    ring: Ring,
    /// The ring to which the journal moves.
    next: Option<Ring>,
    /// Whether no batch is appended until the checkpoint ends that moves the journal.
    is_held: bool,
    incarnation: Incarnation,
    epoch: Birth,
    /// Where replay starts: its segment and the following ones must not be overwritten.
    tail: Start,
    /// Position before the first batch of `sealed`.
    floor: Start,
    /// Position of the next batch to be sealed.
    head: Start,
    open: Open,
    /// Sealed batches behind `floor`, in order. The last ones are in `queue` or in flight.
    sealed: VecDeque<Sealed>,
    /// Data writes in flight for each batch: number of the batch, and count, in order.
    data: VecDeque<(Sequence, u32)>,
    queue: VecDeque<BatchWrite>,
    in_flight: usize,
    /// The last batch that survives a crash; while the ring is lost, the last one whose data does.
    durable: Sequence,
    /// If the ring is lost: the last batch that was durable before.
    lost: Option<Sequence>,
    /// Data that replay would have to read.
    unproven: Unproven,
    /// Greatest permitted cost of that data, bytes.
    unproven_max: u64,
    /// Use of the ring at which a checkpoint is due, percent.
    due: u64,
    throttle: CheckpointThrottle,
    reserve: Reserve,
    failed: bool,
}

impl Writer {
    /// Continues the journal at `head`, as replay returned it; replay would start at `tail`. `life` must be unique to this
    /// opening.
    ///
    /// # Panics
    /// If the ring cannot hold two batches, or the sector size is invalid.
    #[must_use]
    pub fn new(
        ring: Ring,
        tail: Start,
        head: Start,
        incarnation: Incarnation,
        epoch: Birth,
    ) -> Self {
        let sector = u64::from(ring.sector);
        assert!(sector.is_power_of_two() && sector >= SECTOR_SIZE_MIN);
        assert!(ring.segments.len() >= 2 && ring.segment_size.is_multiple_of(ring.sector));
        assert!(ring.segment_size as usize > ring.sector as usize + BATCH_HEADER_SIZE);
        assert!(tail.sequence <= head.sequence && tail.position <= head.position);
        Self {
            incarnation,
            epoch,
            tail,
            floor: head,
            head,
            open: Open::default(),
            sealed: VecDeque::new(),
            data: VecDeque::new(),
            queue: VecDeque::new(),
            in_flight: 0,
            durable: Sequence(head.sequence.0 - 1),
            lost: None,
            unproven: Unproven::default(),
            unproven_max: UNPROVEN_MAX,
            // The changes during a checkpoint are unknown before the first one.
            due: *CHECKPOINT_PERCENT.start(),
            throttle: CheckpointThrottle::default(),
            reserve: Reserve::default(),
            failed: false,
            ring,
            next: None,
            is_held: false,
        }
    }

    /// Sets the most cost of data that replay may have to read, in place of [`UNPROVEN_MAX`].
    pub fn limit_unproven(&mut self, bytes: u64) {
        self.unproven_max = bytes;
    }

    /// Sets whether replay would read from hard disks, on which scattered blocks cost seeks.
    pub fn count_seeks(&mut self, seeks: bool) {
        self.unproven.set_seeks(seeks);
    }

    /// Most bytes of records that one append takes.
    #[must_use]
    pub fn append_max(&self) -> usize {
        self.ring.append_max()
    }

    fn padded(&self, records: usize) -> usize {
        (BATCH_HEADER_SIZE + records).next_multiple_of(self.ring.sector as usize)
    }

    /// Appends records that must survive a crash together or not at all. `data_writes` is the number of writes in flight for
    /// the data that they point to; report each with [`Writer::data_written`].
    ///
    /// # Errors
    /// [`Error::JournalFull`], [`Error::BatchTooLarge`], [`Error::Device`]; nothing was appended.
    pub fn append(&mut self, records: &[Record], data_writes: u32) -> Result<Ticket> {
        if self.failed {
            return Err(Error::Device);
        }
        let bytes: usize = records.iter().map(Record::size).sum();
        if self.padded(bytes) > self.ring.batch_max() {
            return Err(Error::BatchTooLarge { bytes });
        }
        if !self.has_room(bytes) {
            return Err(Error::JournalFull);
        }
        if !self.joins(bytes) {
            self.seal();
        }
        for record in records {
            record.encode(&mut self.open.encoded);
        }
        self.open.count += records.len() as u32;
        let sequence = self.head.sequence;
        self.unproven
            .add(sequence, records, self.ring.block_space());
        if data_writes > 0 {
            match self.data.back_mut() {
                Some((last, count)) if *last == sequence => *count += data_writes,
                _ => self.data.push_back((sequence, data_writes)),
            }
        }
        Ok(Ticket(sequence))
    }

    fn seal(&mut self) {
        let Open { count, encoded } = std::mem::take(&mut self.open);
        let sector = self.ring.sector as usize;
        let Start {
            sequence,
            position: end,
            previous,
        } = self.head;
        let position = self.ring.place(end, self.padded(encoded.len()));
        let header = BatchHeader {
            pool: self.ring.pool,
            sequence,
            epoch: self.epoch,
            incarnation: self.incarnation,
            durable_up_to: self.durable,
            previous,
        };
        let mut at = self.ring.address(position);
        let (mut bytes, checksum) = Batch::encode(&header, count, &encoded, at, sector);
        self.head = Start {
            sequence: sequence.next(),
            position: Position {
                offset: position.offset + bytes.len() as u32,
                ..position
            },
            previous: checksum,
        };
        self.sealed.push_back(Sealed {
            after: self.head,
            written: false,
        });
        if position.offset == self.ring.sector {
            at = Address {
                offset: VdevOffset(at.offset.0 - sector as u64),
                ..at
            };
            let mut whole = encode_segment(self.ring.pool, position.segment, at, sector);
            whole.append(&mut bytes);
            bytes = whole;
        }
        self.queue.push_back(BatchWrite {
            sequence,
            at,
            bytes,
        });
    }

    /// Returns the next write, if one should be submitted. Seals the open batch if no other batch waits, and either it is
    /// large or `now` says that a request waits for it.
    pub fn next_write(&mut self, now: bool) -> Option<BatchWrite> {
        if self.failed || self.in_flight == WRITES_MAX {
            return None;
        }
        if self.lost.is_some() {
            self.skip_writes();
            return None;
        }
        let is_due = now || self.open.encoded.len() >= LARGE_BATCH;
        if self.queue.is_empty() && self.open.count > 0 && is_due {
            self.seal();
        }
        let write = self.queue.pop_front()?;
        self.in_flight += 1;
        Some(write)
    }

    /// Records that a batch was written.
    ///
    /// # Panics
    /// If it was not in flight.
    pub fn written(&mut self, sequence: Sequence) {
        let behind = self.head.sequence.0 - sequence.0;
        let index = self.sealed.len() - behind as usize;
        assert!(!self.sealed[index].written, "{sequence:?} completed twice");
        self.sealed[index].written = true;
        self.in_flight -= 1;
    }

    /// Records that one data write of a ticket completed.
    ///
    /// # Panics
    /// If none was in flight.
    pub fn data_written(&mut self, ticket: Ticket) {
        let found = self.data.binary_search_by_key(&ticket.0, |(s, _)| *s);
        let index = found.expect("a data write that is under way");
        self.data[index].1 -= 1;
        if self.data[index].1 == 0 {
            self.data.remove(index);
        }
    }

    /// Records that a write or flush failed: batches that are not durable now may never be.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Begins a flush if it would make a batch durable. The caller must then flush the devices.
    pub fn begin_flush(&mut self) -> Option<Flush> {
        let skip = self.sealed.len() - (self.head.sequence.0 - self.durable.0 - 1) as usize;
        let written = self
            .sealed
            .iter()
            .skip(skip)
            .take_while(|s| s.written)
            .count() as u64;
        let data_end = self.data.front().map_or(u64::MAX, |(s, _)| s.0 - 1);
        let covered = Sequence((self.durable.0 + written).min(data_end));
        (!self.failed && covered > self.durable).then_some(Flush(covered))
    }

    /// Records that the devices confirmed a flush.
    pub fn flushed(&mut self, flush: Flush) {
        if !self.failed {
            self.durable = self.durable.max(flush.0);
            self.unproven.flushed(self.durable);
        }
    }

    /// Whether a flush should begin even if no request waits: half of the data that replay may have to read is unproven.
    #[must_use]
    pub fn is_flush_due(&self) -> bool {
        self.unproven.cost() > self.unproven_max / 2
    }

    /// Whether no more data may be appended before a flush ends: replay would have to read more than it may.
    #[must_use]
    pub fn is_flush_overdue(&self) -> bool {
        self.unproven.cost() > self.unproven_max
    }

    /// Whether a ticket's records are durable.
    #[must_use]
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.lost.unwrap_or(self.durable)
    }

    /// Whether a ticket's batch is open: records that are appended now may join it.
    #[must_use]
    pub fn is_open(&self, ticket: Ticket) -> bool {
        self.open.count > 0 && ticket.0 == self.head.sequence
    }

    /// The last batch with records, sealed or open.
    #[must_use]
    pub fn last(&self) -> Ticket {
        let open = u64::from(self.open.count > 0);
        Ticket(Sequence(self.head.sequence.0 - 1 + open))
    }

    /// Number of the last durable batch.
    #[must_use]
    pub fn durable(&self) -> Sequence {
        self.durable
    }

    /// The epoch of the batches sealed from now on.
    #[must_use]
    pub fn epoch(&self) -> Birth {
        self.epoch
    }

    /// Ends the epoch, and returns it. The open batch is sealed first.
    pub fn end_epoch(&mut self) -> Birth {
        if self.open.count > 0 {
            self.seal();
        }
        let ended = self.epoch;
        self.epoch = Birth(ended.0 + 1);
        ended
    }

    /// Where replay starts after a checkpoint that contains every batch up to `up_to`; [`None`] if that batch is not durable
    /// or was already released.
    #[must_use]
    pub fn start_after(&self, up_to: Sequence) -> Option<Start> {
        if up_to > self.durable {
            return None;
        }
        let mut starts = std::iter::once(self.floor).chain(self.sealed.iter().map(|s| s.after));
        let start = starts.find(|s| s.sequence == up_to.next())?;
        let next = self.next.as_ref().filter(|_| self.is_held);
        let position = next.map_or(start.position, |ring| ring.start().position);
        Some(Start { position, ..start })
    }

    /// Releases the ring before `start`, which [`Writer::start_after`] returned, after the checkpoint with that start is
    /// durable.
    pub fn release(&mut self, start: Start) {
        while self
            .sealed
            .front()
            .is_some_and(|s| s.after.sequence <= start.sequence)
        {
            self.sealed.pop_front();
        }
        self.move_at(start);
        self.tail = start;
        self.floor = start;
        // Everything in the ring now arrived during the checkpoint.
        let (least, most) = CHECKPOINT_PERCENT.into_inner();
        let percent = self.used() * 100 / self.capacity();
        let due = SLOW_PERCENT.saturating_sub(MARGIN * percent);
        self.due = due.clamp(least, most);
    }

    /// The use of the ring.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        let used = self.used();
        if used + self.throttle.held_back() >= self.part(SLOW_PERCENT) {
            Pressure::Slow
        } else if used >= self.part(self.due) {
            Pressure::Checkpoint
        } else {
            Pressure::Low
        }
    }

    /// A checkpoint begins: the free part of the ring must last until its end. [`Writer::set_parts_left`] reports its progress.
    pub fn begin_checkpoint(&mut self) {
        let left = self.part(SLOW_PERCENT).saturating_sub(self.used());
        self.throttle = CheckpointThrottle::begin(left, 0);
    }

    /// `parts` of the 256 parts of the current checkpoint are left; 0 after its end.
    pub fn set_parts_left(&mut self, parts: u64) {
        self.throttle.set_parts_left(parts);
    }

    /// Bytes of the ring that may be used.
    fn capacity(&self) -> u64 {
        self.ring.size().min(USED_MAX)
    }

    /// This percentage of the capacity, bytes.
    fn part(&self, percent: u64) -> u64 {
        self.capacity() * percent / 100
    }

    /// Bytes of the journal that replay would read, and size of the ring.
    #[must_use]
    pub fn to_replay(&self) -> (u64, u64) {
        let tail = u64::from(self.tail.position.offset);
        (self.used().saturating_sub(tail), self.ring.size())
    }

    /// Bytes of the ring in use.
    fn used(&self) -> u64 {
        let (head, tail) = (self.head.position, self.tail.position);
        let segments = head.segment - tail.segment;
        segments * u64::from(self.ring.segment_size) + u64::from(head.offset)
    }
}
