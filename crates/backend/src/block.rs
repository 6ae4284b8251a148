//! The block device interface: [`BlockBackend`], extents, geometry.

use crate::{Durable, Reply, Result, StorageError};
use io::{IoBuf, Payload};

/// A logical block address: a number of blocks from the start of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A range of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first block.
    pub start: Lba,
    /// Number of blocks.
    pub blocks: u64,
}

/// The geometry of a disk, as clients may know it. [`BlockBackend::generation`] announces changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Logical block size, bytes: 512 or 4096.
    pub block_size: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// Unit of writes without read-modify-write, bytes; a multiple of `block_size`.
    pub physical_block: u32,
    /// Largest write that is atomic under a power cut and towards reads, blocks; at least 1, which promises nothing
    /// beyond a block.
    pub atomic_write_blocks: u32,
    /// A write across a multiple of this number of blocks is not atomic, even if it is smaller than
    /// `atomic_write_blocks`; 0 if there is no such boundary, otherwise at least `atomic_write_blocks`.
    pub atomic_boundary_blocks: u32,
    /// Granularity of deallocation, blocks; 0 if deallocation is not supported.
    pub deallocate_blocks: u32,
    /// Optimal size and alignment of requests, blocks; at least 1.
    pub optimal_blocks: u32,
    /// Acknowledged writes may be lost with the power until a flush.
    pub volatile_cache: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// Thin provisioned: space is allocated by writes.
    pub thin: bool,
}

/// Space of a disk, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The size that clients see.
    pub provisioned: u64,
    /// Allocated space.
    pub used: u64,
}

/// Consecutive blocks with the same allocation state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Number of blocks.
    pub blocks: u64,
    /// Whether they are allocated; unallocated blocks read as zero.
    pub mapped: bool,
}

/// A disk as a protocol target sees it. All shards share it; a reply stays on the shard that made the request.
///
/// Requests may overlap and complete in any order. Changes of the same block take effect in the order in which they
/// were requested, however long the medium takes for one: each leaves the block whole, and none undoes a later one
/// ([`crate::RangeLock`]). A dropped reply may still take effect, and out of this order: keep it until it ends.
pub trait BlockBackend: Send + Sync + 'static {
    /// The present geometry. Cheap: called for every command.
    fn geometry(&self) -> Geometry;

    /// A number that changes with the geometry.
    fn generation(&self) -> u64;

    /// The allocated space. Errors: those of reading.
    fn usage(&self) -> Reply<Usage>;

    /// The allocation state of an extent: alternating runs from its start on. They may end before the extent does, if
    /// a backend limits its work for one call, but there is at least one if the extent has blocks. The default
    /// reports all blocks as allocated. Errors: those of reading.
    fn runs(&self, at: Extent) -> Reply<Vec<Run>> {
        Reply::now(check_extent(&self.geometry(), at).map(|()| {
            vec![Run {
                blocks: at.blocks,
                mapped: true,
            }]
        }))
    }

    /// Reads an extent of at most [`io::limits::BUF_LEN_MAX`] bytes. The payload has exactly its length.
    fn read(&self, at: Extent) -> Reply<Payload>;

    /// Writes `data` (a whole number of blocks) from `at` on. Once acknowledged, every later read sees it; the next
    /// flush makes it durable.
    fn write(&self, at: Lba, data: IoBuf) -> Reply<()>;

    /// Writes like [`BlockBackend::write`], to stable storage.
    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable>;

    /// Brings every write that was acknowledged before this call to stable storage.
    fn flush(&self) -> Reply<Durable>;

    /// Makes an extent of any length read as zero. With `deallocate`, its space may be freed.
    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()>;

    /// Deallocates an extent, as a hint: afterwards it reads as zero or as before.
    fn deallocate(&self, at: Extent) -> Reply<()>;

    /// Compares `expected` with the stored data. Errors: `Miscompare` with the first byte that differs.
    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()>;

    /// Compares and, if equal, writes `data` of the same length, as one atomic step (NVMe fused compare-and-write,
    /// SCSI COMPARE AND WRITE).
    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()>;

    /// Reads the size of the medium again, after it was changed from outside.
    fn refresh(&self) -> Reply<Geometry>;

    /// Changes the size to `blocks`. Errors: `Unsupported` if the medium has a fixed size.
    fn resize(&self, blocks: u64) -> Reply<Geometry>;
}

impl Extent {
    /// The extent's length in bytes. Errors: `OutOfRange` if it is not representable.
    pub fn bytes(self, block_size: u32) -> Result<u64> {
        self.blocks
            .checked_mul(u64::from(block_size))
            .ok_or(StorageError::OutOfRange)
    }
}

/// Checks that `at` lies within `g`. Errors: `OutOfRange`.
pub fn check_extent(g: &Geometry, at: Extent) -> Result<()> {
    match at.start.0.checked_add(at.blocks) {
        Some(end) if end <= g.blocks => Ok(()),
        _ => Err(StorageError::OutOfRange),
    }
}
