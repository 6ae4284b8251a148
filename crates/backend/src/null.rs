//! Null disk: reads zeroes and discards writes.
//!
//! **Called by** benchmarks that measure everything except the medium. **Invariants**: ranges are checked as on any
//! disk.

use crate::{
    BlockBackend, Durable, Extent, Geometry, Lba, Reply, Result, StorageError, Usage, check_extent,
};
use io::{IoBuf, Payload};
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk without a medium.
pub struct NullDisk {
    block_size: u32,
    blocks: AtomicU64,
    generation: AtomicU64,
}

impl NullDisk {
    /// A disk that claims `bytes` (rounded down to whole blocks of 512 or 4096). Errors: `Unsupported` for another
    /// block size or no blocks.
    pub fn new(bytes: u64, block_size: u32) -> Result<NullDisk> {
        let blocks = bytes / u64::from(block_size.max(1));
        if !matches!(block_size, 512 | 4096) || blocks == 0 {
            return Err(StorageError::Unsupported);
        }
        Ok(NullDisk {
            block_size,
            blocks: AtomicU64::new(blocks),
            generation: AtomicU64::new(0),
        })
    }

    fn check(&self, start: Lba, len: usize) -> Result<()> {
        check_extent(
            &self.geometry(),
            Extent {
                start,
                blocks: len as u64 / u64::from(self.block_size),
            },
        )
    }
}

impl BlockBackend for NullDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: self.block_size,
            blocks: self.blocks.load(Ordering::Acquire),
            physical_block: 4096,
            atomic_write_blocks: 1,
            atomic_boundary_blocks: 0,
            deallocate_blocks: 1,
            optimal_blocks: 4096 / self.block_size,
            volatile_cache: false,
            read_only: false,
            thin: true,
        }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn usage(&self) -> Reply<Usage> {
        let provisioned = self.geometry().blocks * u64::from(self.block_size);
        Reply::now(Ok(Usage {
            provisioned,
            used: 0,
        }))
    }

    fn read(&self, at: Extent) -> Reply<Payload> {
        let len = check_extent(&self.geometry(), at).and_then(|()| at.bytes(self.block_size));
        Reply::now(len.map(|n| Payload::zeroes(n as usize)))
    }

    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        Reply::now(self.check(at, data.len()))
    }

    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        Reply::now(self.check(at, data.len()).map(|()| Durable::of_ram()))
    }

    fn flush(&self) -> Reply<Durable> {
        Reply::now(Ok(Durable::of_ram()))
    }

    fn write_zeroes(&self, at: Extent, _deallocate: bool) -> Reply<()> {
        Reply::now(check_extent(&self.geometry(), at))
    }

    fn deallocate(&self, at: Extent) -> Reply<()> {
        self.write_zeroes(at, true)
    }

    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
        Reply::now(self.check(at, expected.len()).and_then(|()| {
            match expected.iter().position(|b| *b != 0) {
                Some(p) => Err(StorageError::Miscompare(p as u64)),
                None => Ok(()),
            }
        }))
    }

    fn compare_and_write(&self, at: Lba, expected: IoBuf, _data: IoBuf) -> Reply<()> {
        self.compare(at, expected)
    }

    fn refresh(&self) -> Reply<Geometry> {
        Reply::now(Ok(self.geometry()))
    }

    fn resize(&self, blocks: u64) -> Reply<Geometry> {
        if blocks == 0 || blocks.checked_mul(u64::from(self.block_size)).is_none() {
            return Reply::now(Err(StorageError::Unsupported));
        }
        self.blocks.store(blocks, Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
        Reply::now(Ok(self.geometry()))
    }
}
