//! RAM disk.
//!
//! **Owns** an anonymous mapping that is the medium. **Called by** targets through [`BlockBackend`].
//! **Invariants**: the medium has no volatile cache; an acknowledged write is on it. Reads return the medium's own
//! bytes, without a copy.

use crate::{
    BlockBackend, Durable, Extent, Geometry, Lba, Reply, Result, StorageError, Usage, check_extent,
};
use io::ram::Region;
use io::sync::{read, write};
use io::{IoBuf, Payload};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// A disk in RAM. Its contents end with the process.
pub struct MemoryDisk(Arc<Medium>);

/// A disk can grow up to this many times its first size; that much address space is reserved.
pub const GROWTH_MAX: u64 = 8;

struct Medium {
    region: Arc<Region>,
    block_size: u32,
    blocks: AtomicU64,
    generation: AtomicU64,
    /// Changes take it shared; a compare-and-write takes it exclusively.
    gate: RwLock<()>,
}

impl MemoryDisk {
    /// A zeroed disk of `bytes` (rounded down to whole blocks of 512 or 4096). RAM is allocated by writes. Errors:
    /// `Unsupported` for another block size or no blocks, `Exhausted` without address space.
    pub fn new(bytes: u64, block_size: u32) -> Result<MemoryDisk> {
        let blocks = bytes / u64::from(block_size.max(1));
        if !matches!(block_size, 512 | 4096) || blocks == 0 {
            return Err(StorageError::Unsupported);
        }
        let reserved = blocks
            .saturating_mul(GROWTH_MAX)
            .saturating_mul(u64::from(block_size));
        let region = Region::anonymous(reserved).map_err(StorageError::writing)?;
        Ok(MemoryDisk(Arc::new(Medium {
            region: Arc::new(region),
            block_size,
            blocks: AtomicU64::new(blocks),
            generation: AtomicU64::new(0),
            gate: RwLock::default(),
        })))
    }
}

impl Medium {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: self.block_size,
            blocks: self.blocks.load(Ordering::Acquire),
            physical_block: self.block_size,
            atomic_write_blocks: 1,
            atomic_boundary_blocks: 0,
            deallocate_blocks: 4096 / self.block_size,
            optimal_blocks: 4096 / self.block_size,
            volatile_cache: false,
            read_only: false,
            thin: true,
        }
    }

    /// The byte range of an extent that lies on the disk.
    fn range(&self, at: Extent) -> Result<(u64, u64)> {
        check_extent(&self.geometry(), at)?;
        Ok((
            at.start.0 * u64::from(self.block_size),
            at.blocks * u64::from(self.block_size),
        ))
    }

    fn range_of(&self, at: Lba, len: usize) -> Result<(u64, u64)> {
        self.range(Extent {
            start: at,
            blocks: len as u64 / u64::from(self.block_size),
        })
    }

    fn first_difference(&self, offset: u64, expected: &[u8]) -> Option<u64> {
        let mut page = [0; 4096];
        for (i, want) in expected.chunks(page.len()).enumerate() {
            let base = (i * page.len()) as u64;
            let have = &mut page[..want.len()];
            self.region.read(offset + base, have);
            if let Some(p) = have.iter().zip(want).position(|(a, b)| a != b) {
                return Some(base + p as u64);
            }
        }
        None
    }

    /// Runs `change` with no compare-and-write in between.
    fn change<T>(&self, change: impl FnOnce(&Region) -> T) -> Reply<T> {
        let _shared = read(&self.gate);
        Reply::now(Ok(change(&self.region)))
    }
}

impl BlockBackend for MemoryDisk {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    fn usage(&self) -> Reply<Usage> {
        let provisioned = self.geometry().blocks * u64::from(self.0.block_size);
        Reply::now(Ok(Usage {
            provisioned,
            used: self.0.region.resident().min(provisioned),
        }))
    }

    fn read(&self, at: Extent) -> Reply<Payload> {
        Reply::now(
            self.0
                .range(at)
                .map(|(offset, len)| Payload::ram(self.0.region.slice(offset, len as usize))),
        )
    }

    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        match self.0.range_of(at, data.len()) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, _)) => self.0.change(|region| region.write(offset, &data)),
        }
    }

    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        match self.0.range_of(at, data.len()) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, _)) => self.0.change(|region| {
                region.write(offset, &data);
                Durable::of_ram()
            }),
        }
    }

    fn flush(&self) -> Reply<Durable> {
        Reply::now(Ok(Durable::of_ram()))
    }

    fn write_zeroes(&self, at: Extent, _deallocate: bool) -> Reply<()> {
        match self.0.range(at) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, len)) => self.0.change(|region| region.zero(offset, len)),
        }
    }

    fn deallocate(&self, at: Extent) -> Reply<()> {
        self.write_zeroes(at, true)
    }

    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
        Reply::now(self.0.range_of(at, expected.len()).and_then(|(offset, _)| {
            self.0
                .first_difference(offset, &expected)
                .map_or(Ok(()), |p| Err(StorageError::Miscompare(p)))
        }))
    }

    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()> {
        let offset = match self.0.range_of(at, expected.len()) {
            Ok((offset, _)) => offset,
            Err(e) => return Reply::now(Err(e)),
        };
        let _alone = write(&self.0.gate);
        Reply::now(match self.0.first_difference(offset, &expected) {
            Some(p) => Err(StorageError::Miscompare(p)),
            None => {
                self.0.region.write(offset, &data);
                Ok(())
            }
        })
    }

    fn refresh(&self) -> Reply<Geometry> {
        Reply::now(Ok(self.geometry()))
    }

    fn resize(&self, blocks: u64) -> Reply<Geometry> {
        let now = self.0.blocks.load(Ordering::Acquire);
        if blocks == 0 || blocks > self.0.region.len() / u64::from(self.0.block_size) {
            return Reply::now(Err(StorageError::Unsupported));
        }
        if blocks < now {
            let (from, to) = (
                blocks * u64::from(self.0.block_size),
                now * u64::from(self.0.block_size),
            );
            self.0.region.zero(from, to - from);
        }
        self.0.blocks.store(blocks, Ordering::Release);
        self.0.generation.fetch_add(1, Ordering::AcqRel);
        Reply::now(Ok(self.geometry()))
    }
}
