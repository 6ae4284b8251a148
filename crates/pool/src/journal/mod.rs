//! The journal: every change since the last checkpoint, in a ring of segments.
//!
//! **Owns** where batches lie ([`Ring`]), which of them are durable ([`Writer`]), and what survives a crash
//! ([`replay()`]). **Called by** the pool: it appends, writes data and batches side by side, flushes both at once, and
//! releases after a checkpoint. **Invariants**: batches are durable in order, never one without those before it; a
//! batch lies right after the one before or at the start of the next segment; nothing that replay may need is
//! overwritten. Layout: `docs/format.md`, "Journal". The rule of durability: `docs/decisions/0102`.

mod data;
mod reader;
mod replay;
mod unproven;
mod writer;

use std::future::Future;

use crate::error::Result;
use crate::format::{Address, Checksum, PoolGuid, Sequence, VdevOffset};

pub use crate::format::{JournalPosition as Position, JournalStart as Start};
pub use replay::{Replayed, replay, salvage};
pub use unproven::UNPROVEN_MAX;
pub use writer::{BatchWrite, Flush, Pressure, Ticket, WRITES_MAX, Writer};

/// The devices, as replay sees them: every address lies on one or more sides, which should be equal.
pub trait Store {
    /// How many sides there are.
    fn sides(&self) -> usize;
    /// Fills `out` from one side. Both are whole sectors.
    ///
    /// # Errors
    /// [`crate::Error::Device`] if that side cannot be read.
    fn read(&self, side: usize, at: Address, out: &mut [u8]) -> impl Future<Output = Result<()>>;
    /// Writes whole sectors to every side.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    fn write(&self, at: Address, bytes: &[u8]) -> impl Future<Output = Result<()>>;
    /// Makes every write that completed before durable, on every side.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    fn flush(&self) -> impl Future<Output = Result<()>>;
}

/// Where the journal lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The pool that it belongs to.
    pub pool: PoolGuid,
    /// Where each segment starts; at least two.
    pub segments: Vec<Address>,
    /// Bytes of each: whole sectors.
    pub segment_size: u32,
    /// Bytes of a sector.
    pub sector: u32,
}

impl Ring {
    /// Where a new ring starts.
    #[must_use]
    pub fn start(&self) -> Start {
        Start {
            sequence: Sequence(1),
            position: Position {
                segment: 0,
                offset: self.sector,
            },
            previous: Checksum([0; 16]),
        }
    }

    /// Bytes that batches may take, with segment headers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.segments.len() as u64 * u64::from(self.segment_size)
    }

    /// The address of a place.
    #[must_use]
    pub fn address(&self, at: Position) -> Address {
        let slot = (at.segment % self.segments.len() as u64) as usize;
        let Address { vdev, offset } = self.segments[slot];
        Address {
            vdev,
            offset: VdevOffset(offset.0 + u64::from(at.offset)),
        }
    }

    /// Where a batch of `size` bytes after `end` lies.
    fn place(&self, end: Position, size: usize) -> Position {
        if size <= self.room(end) {
            return end;
        }
        self.next_segment(end)
    }

    /// The places where the batch after `end` may lie, in the order in which they are tried.
    pub(crate) fn candidates(&self, end: Position, tail: u64) -> [Option<Position>; 2] {
        let next = self.next_segment(end);
        [
            (self.room(end) >= self.sector as usize).then_some(end),
            self.is_free(next, tail).then_some(next),
        ]
    }

    pub(crate) fn next_segment(&self, at: Position) -> Position {
        Position {
            segment: at.segment + 1,
            offset: self.sector,
        }
    }

    /// Bytes from a place to the end of its segment.
    pub(crate) fn room(&self, at: Position) -> usize {
        self.segment_size.saturating_sub(at.offset) as usize
    }

    /// Whether a place may be written while replay would start in `tail`.
    pub(crate) fn is_free(&self, at: Position, tail: u64) -> bool {
        at.segment - tail < self.segments.len() as u64
    }
}
