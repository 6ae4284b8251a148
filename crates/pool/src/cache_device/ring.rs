//! Ring of segments of a cache device: places, and the segment that is being filled.
//!
//! **Owns** the layout, and the bytes of the segment in memory. **Called by** a cache device. **Invariant**: a segment is written as a whole:
//! its table, then its blocks.

use io::IoBuf;

use crate::format::{CacheTable, CachedBlock};
use crate::vdev::{CACHE_SIZE_MIN, DATA_START, data_size};

/// Least unit of places, bytes.
const UNIT_MIN: u32 = 512;

/// The layout of a cache device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    pub(super) segment_size: u32,
    /// Number of segments.
    pub(super) count: u64,
    /// Bytes in which places are counted; blocks begin and end at them.
    pub(super) unit: u32,
}

impl Ring {
    /// The layout of a device of `size` bytes, with disk blocks of `block` bytes. `None` if it is too small.
    pub(super) fn of(size: u64, segment_size: u32, block: u32) -> Option<Self> {
        if size < CACHE_SIZE_MIN {
            return None;
        }
        let data = data_size(size);
        let mut unit = block.max(UNIT_MIN).next_power_of_two();
        while data / u64::from(unit) > u64::from(u32::MAX) {
            unit *= 2;
        }
        let count = data / u64::from(segment_size);
        let is_fit = count > 0 && unit as usize <= CacheTable::size_in(segment_size);
        is_fit.then_some(Self {
            segment_size,
            count,
            unit,
        })
    }

    /// Bytes of all segments.
    pub(super) fn size(&self) -> u64 {
        self.count * u64::from(self.segment_size)
    }

    /// Offset of a segment on the disk, bytes.
    pub(super) fn offset(&self, segment: u64) -> u64 {
        DATA_START + segment * u64::from(self.segment_size)
    }

    /// The place of a block at an offset in a segment.
    pub(super) fn place(&self, segment: u64, block: &CachedBlock) -> u32 {
        let at = segment * u64::from(self.segment_size) + u64::from(block.offset);
        (at / u64::from(self.unit)) as u32
    }

    /// Offset of a place on the disk, bytes.
    pub(super) fn offset_of(&self, place: u32) -> u64 {
        DATA_START + u64::from(place) * u64::from(self.unit)
    }

    /// Whether an empty segment has room for a block of `len` bytes.
    pub(super) fn takes(&self, len: usize) -> bool {
        self.padded(len) <= self.segment_size as usize - CacheTable::size_in(self.segment_size)
    }

    /// Bytes that `len` bytes take.
    pub(super) fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.unit as usize)
    }
}

/// A segment that is being filled.
pub(super) struct Filling {
    buf: IoBuf,
    blocks: Vec<CachedBlock>,
    end: usize,
}

impl Filling {
    /// An empty segment in this buffer, which has its size.
    pub(super) fn new(buf: IoBuf) -> Self {
        Self {
            end: CacheTable::size_in(buf.len() as u32),
            blocks: Vec::new(),
            buf,
        }
    }

    /// The blocks in it.
    pub(super) fn blocks(&self) -> &[CachedBlock] {
        &self.blocks
    }

    /// Whether it has a block of this name.
    pub(super) fn has(&self, name: u64) -> bool {
        self.blocks.iter().any(|block| block.name == name)
    }

    /// Copies a block of this name and length. Returns whether there is one.
    pub(super) fn copy(&self, name: u64, out: &mut [u8]) -> bool {
        let found = self.blocks.iter().find(|block| block.name == name);
        let bytes = found.and_then(|block| {
            let start = block.offset as usize;
            self.buf[start..start + block.len as usize].get(..out.len())
        });
        if let Some(bytes) = bytes {
            out.copy_from_slice(bytes);
        }
        bytes.is_some()
    }

    /// Adds a block. Returns whether it had room for it.
    pub(super) fn push(&mut self, ring: &Ring, name: u64, bytes: &[u8]) -> bool {
        let len = ring.padded(bytes.len());
        let is_full = self.blocks.len() == CacheTable::blocks_max(ring.segment_size);
        if is_full || self.end + len > self.buf.len() {
            return false;
        }
        let (block, padding) = self.buf[self.end..self.end + len].split_at_mut(bytes.len());
        block.copy_from_slice(bytes);
        padding.fill(0);
        self.blocks.push(CachedBlock {
            name,
            offset: self.end as u32,
            len: len as u32,
        });
        self.end += len;
        true
    }

    /// The bytes to write, without a table yet, and the blocks in them.
    pub(super) fn into_parts(mut self) -> (IoBuf, Vec<CachedBlock>) {
        self.buf.set_len(self.end);
        (self.buf, self.blocks)
    }
}
