//! Raw disk: a file or block device without a pool.
//!
//! **Owns** an open [`Disk`]. **Called by** targets through [`BlockBackend`]. **Invariants**: every request goes
//! directly to the medium (with O_DIRECT if it is supported), and nothing is cached here; the reported volatile cache
//! is the device's own, and FLUSH and write-through reach the medium behind it. Overlapping changes reach the device
//! one after the other, in the order of their requests.

use crate::{
    BlockBackend, Durable, Extent, Geometry, Lba, RangeLock, Reply, Result, StorageError, Turn,
    Usage, check_extent,
};
use io::disk::{Disk, DiskInfo, DiskKind, OpenOptions};
use io::{BufPool, IoBuf, Payload};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Options for opening a raw disk.
#[derive(Debug, Clone, Default)]
pub struct RawOptions {
    /// Logical block size, bytes: 512 or 4096; `None` means 4096, or 512 if the size is not a multiple of 4096.
    pub block_size: Option<u32>,
    /// Refuse writes.
    pub read_only: bool,
    /// Create the file, sparse and of this size, if it is missing or empty.
    pub create_size: Option<u64>,
    /// Use the page cache.
    pub buffered: bool,
}

/// Why a raw disk cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Opening it failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The block size is not supported, or smaller than the device allows.
    #[error("block size {asked} is not supported: use {needed}")]
    BlockSize {
        /// The requested block size, bytes.
        asked: u32,
        /// The smallest possible block size, bytes.
        needed: u32,
    },
    /// It has no whole block.
    #[error(
        "it is empty: set the size of a file; a block device has no medium, or, as a loop device, no file"
    )]
    Empty,
}

/// A file or block device as a backend.
pub struct RawDisk(Arc<Medium>);

/// Buffer size of compares and of zeroing without device support, bytes.
const SCRATCH_LEN: usize = 128 << 10;

struct Medium {
    disk: Disk,
    /// For requests that need a second buffer while they hold one. From the shard's pool such requests could
    /// deadlock; a request that holds scratch waits only for the disk.
    scratch: BufPool,
    block_size: u32,
    blocks: AtomicU64,
    generation: AtomicU64,
    /// Order of overlapping changes; the unit is bytes.
    changes: RangeLock,
}

fn choose_block_size(info: &DiskInfo, asked: Option<u32>) -> std::result::Result<u32, OpenError> {
    let coarsest = if info.size.is_multiple_of(4096) {
        4096
    } else {
        512
    };
    let size = asked.unwrap_or(coarsest);
    if !matches!(size, 512 | 4096) || size < info.logical_block {
        return Err(OpenError::BlockSize {
            asked: size,
            needed: info.logical_block.max(512),
        });
    }
    Ok(size)
}

impl RawDisk {
    /// Opens `path` for exclusive use. Errors: those of [`Disk::open`], an impossible block size, no blocks.
    pub async fn open(
        path: impl AsRef<Path>,
        options: RawOptions,
    ) -> std::result::Result<RawDisk, OpenError> {
        let open = OpenOptions {
            read_only: options.read_only,
            create_size: options.create_size,
            buffered: options.buffered,
            shared: false,
        };
        let disk = Disk::open(path, open).await?;
        let block_size = choose_block_size(disk.info(), options.block_size)?;
        let blocks = disk.info().size / u64::from(block_size);
        if blocks == 0 {
            return Err(OpenError::Empty);
        }
        Ok(RawDisk(Arc::new(Medium {
            disk,
            scratch: BufPool::new(0),
            block_size,
            blocks: AtomicU64::new(blocks),
            generation: AtomicU64::new(0),
            changes: RangeLock::default(),
        })))
    }

    /// Properties of the device.
    #[must_use]
    pub fn info(&self) -> &DiskInfo {
        self.0.disk.info()
    }
}

impl Medium {
    fn geometry(&self) -> Geometry {
        let info = self.disk.info();
        let physical = info.physical_block.clamp(self.block_size, 65_536);
        Geometry {
            block_size: self.block_size,
            blocks: self.blocks.load(Ordering::Acquire),
            physical_block: physical,
            atomic_write_blocks: 1,
            atomic_boundary_blocks: 0,
            deallocate_blocks: physical.div_ceil(self.block_size),
            optimal_blocks: physical.div_ceil(self.block_size),
            volatile_cache: info.volatile_cache,
            read_only: info.read_only,
            thin: info.kind == DiskKind::File,
        }
    }

    /// Offset and length, in bytes, of an extent that lies on the disk.
    fn range(&self, at: Extent) -> Result<(u64, u64)> {
        check_extent(&self.geometry(), at)?;
        Ok((
            at.start.0 * u64::from(self.block_size),
            at.blocks * u64::from(self.block_size),
        ))
    }

    /// The same for an extent that is to be changed, with a place in line.
    fn change(&self, at: Extent) -> Result<(u64, u64, Turn)> {
        if self.disk.info().read_only {
            return Err(StorageError::ReadOnly);
        }
        let (offset, len) = self.range(at)?;
        let turn = self.changes.enter(offset..offset + len.max(1));
        Ok((offset, len, turn))
    }

    fn extent(&self, start: Lba, data: &IoBuf) -> Extent {
        Extent {
            start,
            blocks: data.len() as u64 / u64::from(self.block_size),
        }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<IoBuf> {
        let buf = io::pool().alloc(len).await;
        let (result, buf) = self.disk.read(buf, offset).await;
        result.map_err(StorageError::reading)?;
        Ok(buf)
    }

    async fn write(&self, offset: u64, data: IoBuf) -> Result<()> {
        let result = self.disk.write(data, offset).await;
        result.map_err(StorageError::writing)
    }

    async fn zero(&self, offset: u64, len: u64, deallocate: bool) -> Result<()> {
        let tried = match deallocate {
            true => self.disk.deallocate(offset, len).await,
            false => self.disk.write_zeroes(offset, len).await,
        };
        match tried {
            Err(io::Error::Unsupported(_)) => self.write_zero_bytes(offset, len).await,
            other => other.map_err(StorageError::writing),
        }
    }

    /// Writes zeroes, for media without a zeroing operation.
    async fn write_zero_bytes(&self, offset: u64, len: u64) -> Result<()> {
        let mut done = 0;
        while done < len {
            let n = (len - done).min(SCRATCH_LEN as u64);
            let mut buf = self.scratch.alloc(n as usize).await;
            buf.fill(0);
            self.write(offset + done, buf).await?;
            done += n;
        }
        Ok(())
    }

    async fn compare(&self, offset: u64, expected: &IoBuf) -> Result<()> {
        let mut done = 0;
        for want in expected.chunks(SCRATCH_LEN) {
            let buf = self.scratch.alloc(want.len()).await;
            let (result, have) = self.disk.read(buf, offset + done).await;
            result.map_err(StorageError::reading)?;
            if let Some(p) = have.iter().zip(want).position(|(a, b)| a != b) {
                return Err(StorageError::Miscompare(done + p as u64));
            }
            done += want.len() as u64;
        }
        Ok(())
    }

    async fn refresh(&self) -> Result<Geometry> {
        let bytes = self.disk.size().await.map_err(StorageError::reading)?;
        let blocks = bytes / u64::from(self.block_size);
        if self.blocks.swap(blocks, Ordering::AcqRel) != blocks {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        Ok(self.geometry())
    }
}

impl BlockBackend for RawDisk {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    fn usage(&self) -> Reply<Usage> {
        let this = self.0.clone();
        Reply::later(async move {
            let provisioned = this.geometry().blocks * u64::from(this.block_size);
            let used = this.disk.allocated().await.map_err(StorageError::reading)?;
            Ok(Usage {
                provisioned,
                used: used.min(provisioned),
            })
        })
    }

    fn read(&self, at: Extent) -> Reply<Payload> {
        match self.0.range(at) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, len)) => {
                let this = self.0.clone();
                Reply::later(
                    async move { Ok(Payload::from(this.read(offset, len as usize).await?)) },
                )
            }
        }
    }

    fn write(&self, at: Lba, data: IoBuf) -> Reply<()> {
        match self.0.change(self.0.extent(at, &data)) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, _, mut turn)) => {
                let this = self.0.clone();
                Reply::later(async move {
                    turn.come().await;
                    this.write(offset, data).await
                })
            }
        }
    }

    fn write_durable(&self, at: Lba, data: IoBuf) -> Reply<Durable> {
        match self.0.change(self.0.extent(at, &data)) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, _, mut turn)) => {
                let this = self.0.clone();
                Reply::later(async move {
                    turn.come().await;
                    let result = this.disk.write_through(data, offset).await;
                    result.map(Durable::from).map_err(StorageError::writing)
                })
            }
        }
    }

    fn flush(&self) -> Reply<Durable> {
        let this = self.0.clone();
        Reply::later(async move {
            this.disk
                .flush()
                .await
                .map(Durable::from)
                .map_err(StorageError::writing)
        })
    }

    fn write_zeroes(&self, at: Extent, deallocate: bool) -> Reply<()> {
        match self.0.change(at) {
            Err(e) => Reply::now(Err(e)),
            Ok((_, 0, _)) => Reply::now(Ok(())),
            Ok((offset, len, mut turn)) => {
                let this = self.0.clone();
                Reply::later(async move {
                    turn.come().await;
                    this.zero(offset, len, deallocate).await
                })
            }
        }
    }

    fn deallocate(&self, at: Extent) -> Reply<()> {
        match self.0.change(at) {
            Err(e) => Reply::now(Err(e)),
            Ok((_, 0, _)) => Reply::now(Ok(())),
            Ok((offset, len, mut turn)) => {
                let this = self.0.clone();
                Reply::later(async move {
                    turn.come().await;
                    match this.disk.deallocate(offset, len).await {
                        // deallocation is a hint
                        Err(io::Error::Unsupported(_)) => Ok(()),
                        other => other.map_err(StorageError::writing),
                    }
                })
            }
        }
    }

    fn compare(&self, at: Lba, expected: IoBuf) -> Reply<()> {
        match self.0.range(self.0.extent(at, &expected)) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, _)) => {
                let this = self.0.clone();
                Reply::later(async move { this.compare(offset, &expected).await })
            }
        }
    }

    fn compare_and_write(&self, at: Lba, expected: IoBuf, data: IoBuf) -> Reply<()> {
        match self.0.change(self.0.extent(at, &data)) {
            Err(e) => Reply::now(Err(e)),
            Ok((offset, _, mut turn)) => {
                let this = self.0.clone();
                Reply::later(async move {
                    turn.come().await;
                    this.compare(offset, &expected).await?;
                    this.write(offset, data).await
                })
            }
        }
    }

    fn refresh(&self) -> Reply<Geometry> {
        let this = self.0.clone();
        Reply::later(async move { this.refresh().await })
    }

    fn resize(&self, blocks: u64) -> Reply<Geometry> {
        let this = self.0.clone();
        let Some(bytes) = blocks
            .checked_mul(u64::from(this.block_size))
            .filter(|b| *b > 0)
        else {
            return Reply::now(Err(StorageError::OutOfRange));
        };
        Reply::later(async move {
            if this.disk.info().read_only {
                return Err(StorageError::ReadOnly);
            }
            this.disk
                .resize(bytes)
                .await
                .map_err(StorageError::writing)?;
            this.refresh().await
        })
    }
}
