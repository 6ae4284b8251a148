//! Block storage as protocols see it.

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
    /// How many blocks.
    pub blocks: u64,
}

/// What a client may know about a disk. Changes are announced by [`BlockBackend::generation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Logical block size, bytes: 512 or 4096.
    pub block_size: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// What the medium writes at once without reading first, bytes; a multiple of `block_size`.
    pub physical_block: u32,
    /// Largest write that a power cut leaves whole or undone, and that reads see whole or not at all, blocks; 1, which
    /// promises nothing beyond a block, at least.
    pub atomic_write_blocks: u32,
    /// A write that crosses a multiple of this number of blocks is not atomic, however small it is; 0 if there is no such
    /// boundary. No less than `atomic_write_blocks` otherwise.
    pub atomic_boundary_blocks: u32,
    /// What deallocation works in, blocks; 0 if there is none.
    pub deallocate_blocks: u32,
    /// Size and alignment that suit the medium best, blocks; 1 at least.
    pub optimal_blocks: u32,
    /// Acknowledged writes may be lost with the power until a flush.
    pub volatile_cache: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// Space is taken when it is written.
    pub thin: bool,
}

/// How much space stands behind a disk, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// What the client was promised.
    pub provisioned: u64,
    /// What is really taken.
    pub used: u64,
}

/// Blocks that lie one behind the other and are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub blocks: u64,
    /// They have space of their own; if not, they read as zero.
    pub mapped: bool,
}

/// A disk as a protocol target sees it. Shared by all shards; the replies live on the shard that asked.
///
/// Requests may overlap and complete in any order. Changes to the same block take effect in the order in which they
/// were asked for, however long the medium takes for one of them: each leaves the block whole, and none undoes a later
/// one ([`crate::RangeLock`]). A reply that is dropped may still take effect, and out of this order: keep it until it
/// ends.
pub trait BlockBackend: Send + Sync + 'static {
    /// What the client may know. Cheap: called for every command.
    fn geometry(&self) -> Geometry;

    /// A number that changes whenever the geometry does.
    fn generation(&self) -> u64;

    /// How much space is taken. Errors: those of reading.
    fn usage(&self) -> Reply<Usage>;

    /// Which of an extent's blocks have space: runs from its start on, each unlike the one before. They may end before the
    /// extent does, where a backend looks at only so much at a time, but there is one at least if the extent has blocks.
    /// A backend that does not know says that all have. Errors: those of reading.
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

    /// Writes `data` (a whole number of blocks) from `at` on. Acknowledged, it is seen by every later read; it is
    /// on stable storage after the next flush.
    fn write(&self, at: Lba, data: IoBuf) -> Reply<()>;

    /// Writes like [`BlockBackend::write`], to stable storage.
    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable>;

    /// Brings every write that was acknowledged before this call to stable storage.
    fn flush(&self) -> Reply<Durable>;

    /// Makes an extent read as zero, of any length. With `deallocate` its space may be given back.
    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()>;

    /// A hint that the contents of an extent are not needed; afterwards it reads as zero or as before.
    fn deallocate(&self, at: Extent) -> Reply<()>;

    /// Compares `expected` with what is stored. Errors: `Miscompare` with the first byte that differs.
    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()>;

    /// Compares, and if equal writes `data` of the same length, as one step that no other write comes between
    /// (NVMe fused compare-and-write, SCSI COMPARE AND WRITE).
    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()>;

    /// Asks the medium for its size again, after it was changed from outside.
    fn refresh(&self) -> Reply<Geometry>;

    /// Changes the size to `blocks`. Errors: `Unsupported` where the medium has its size.
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
