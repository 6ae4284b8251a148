//! The journal: every change since the last checkpoint, in a ring of segments.
//!
//! **Owns** the places of batches ([`Ring`]), their durability ([`Writer`]), and the choice of the batches that survive a
//! crash ([`replay()`]). **Called by** the pool: it appends, writes data and batches concurrently, flushes both at once, and
//! releases segments after a checkpoint. **Invariants**: batches become durable in order; a batch lies right behind the one
//! before or at the start of the next segment; nothing that replay may need is overwritten. Layout: `docs/format.md`,
//! "Journal". Rule of durability: `docs/decisions/0102`.

mod data;
mod reader;
mod replay;
mod unproven;
mod writer;

use std::future::Future;

use crate::error::Result;
use crate::format::{
    Address, BATCH_HEADER_SIZE, BATCH_SIZE_MAX, BlockPtr, BlockSpace, Checksum, PoolGuid, Sequence,
    VdevId, VdevOffset,
};

pub use crate::format::{JournalPosition as Position, JournalStart as Start};
pub use replay::{Replayed, replay, salvage};
pub use unproven::UNPROVEN_MAX;
pub use writer::{BatchWrite, Flush, Pressure, Reserve, Ticket, WRITES_MAX, Writer};

/// The devices, for replay. Every range has one or more candidates, whose bytes should be equal: in a mirror the copies of
/// its members.
pub trait Store {
    /// Number of candidates of every range.
    fn candidates(&self) -> usize;
    /// Fills `out`, which is whole sectors, with one candidate of a range.
    ///
    /// # Errors
    /// [`crate::Error::Device`] if that candidate cannot be read.
    fn read(
        &self,
        candidate: usize,
        at: Address,
        out: &mut [u8],
    ) -> impl Future<Output = Result<()>>;
    /// Writes whole sectors, so that all candidates are equal.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    fn write(&self, at: Address, bytes: &[u8]) -> impl Future<Output = Result<()>>;
    /// Whether blocks of a vdev are parts of rows with parity. Such blocks have no candidates: [`Store::is_sound`] and
    /// [`Store::mend_rows`] find them by their checksums.
    fn has_rows(&self, vdev: VdevId) -> bool;
    /// Whether a block in rows can be read or reconstructed.
    fn is_sound(&self, ptr: &BlockPtr) -> impl Future<Output = bool>;
    /// Rewrites rows of these blocks that a member that is in lacks, or whose parity does not match. Returns their number. The
    /// blocks are sorted by address, sound, and all blocks of their rows.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    fn mend_rows(&self, blocks: &[BlockPtr]) -> impl Future<Output = Result<u64>>;
    /// Makes every completed write durable on every member that is in.
    ///
    /// # Errors
    /// [`crate::Error::Device`].
    fn flush(&self) -> impl Future<Output = Result<()>>;
}

/// Geometry of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The journal's pool.
    pub pool: PoolGuid,
    /// Number of its first segment: 0, unless the journal has moved.
    pub first: u64,
    /// Address of each segment; at least two.
    pub segments: Vec<Address>,
    /// Length of a segment, bytes: whole sectors.
    pub segment_size: u32,
    /// Sector size, bytes.
    pub sector: u32,
}

impl Ring {
    /// The start of an empty journal.
    #[must_use]
    pub fn start(&self) -> Start {
        Start {
            sequence: Sequence(1),
            position: Position {
                segment: self.first,
                offset: self.sector,
            },
            previous: Checksum([0; 16]),
        }
    }

    /// Bytes for batches and segment headers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.segments.len() as u64 * u64::from(self.segment_size)
    }

    /// The space that blocks take on the vdevs.
    pub(crate) fn block_space(&self) -> BlockSpace {
        BlockSpace::new(self.sector)
    }

    /// Most bytes of a batch.
    pub(crate) fn batch_max(&self) -> usize {
        BATCH_SIZE_MAX.min((self.segment_size - self.sector) as usize)
    }

    /// Most bytes of records that one append takes.
    pub(crate) fn append_max(&self) -> usize {
        // the batch is padded to whole sectors
        self.batch_max() / self.sector as usize * self.sector as usize - BATCH_HEADER_SIZE
    }

    /// The address of a position.
    #[must_use]
    pub fn address(&self, at: Position) -> Address {
        let slot = at.segment.wrapping_sub(self.first) % self.segments.len() as u64;
        let Address { vdev, offset } = self.segments[slot as usize];
        Address {
            vdev,
            offset: VdevOffset(offset.0 + u64::from(at.offset)),
        }
    }

    /// The position of a batch of `size` bytes behind `end`.
    fn place(&self, end: Position, size: usize) -> Position {
        if size <= self.room(end) {
            return end;
        }
        self.next_segment(end)
    }

    /// The positions where the batch behind `end` may be, in the order in which replay tries them.
    pub(crate) fn candidates(&self, end: Position, tail: u64) -> [Option<Position>; 2] {
        let next = self.next_segment(end);
        [
            (self.room(end) >= self.sector as usize).then_some(end),
            self.is_free(next, tail).then_some(next),
        ]
    }

    /// The end of `count` batches of `size` bytes each, one behind the other from `end` on.
    fn behind(&self, end: Position, count: usize, size: usize) -> Position {
        let sector = self.sector as usize;
        let here = self.room(end) / size;
        if count <= here {
            let offset = end.offset + (count * size) as u32;
            return Position { offset, ..end };
        }
        let of_segment = ((self.segment_size as usize - sector) / size).max(1);
        let segments = (count - here).div_ceil(of_segment);
        let of_last = count - here - (segments - 1) * of_segment;
        Position {
            segment: end.segment + segments as u64,
            offset: (sector + of_last * size) as u32,
        }
    }

    pub(crate) fn next_segment(&self, at: Position) -> Position {
        Position {
            segment: at.segment + 1,
            offset: self.sector,
        }
    }

    /// Bytes from a position to the end of its segment.
    pub(crate) fn room(&self, at: Position) -> usize {
        self.segment_size.saturating_sub(at.offset) as usize
    }

    /// Whether a position may be overwritten if replay starts in segment `tail`.
    pub(crate) fn is_free(&self, at: Position, tail: u64) -> bool {
        at.segment - tail < self.segments.len() as u64
    }
}
