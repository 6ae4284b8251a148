//! Disks: files and block devices with direct I/O, real or simulated.
//!
//! **Owns** open disks. **Called by** backends and the pool. **Invariants**: offsets and lengths are multiples of
//! [`DiskInfo::logical_block`]; a [`Flushed`] token exists only after the medium confirmed a flush or a write-through, and
//! only this module can create one.

mod handle;
mod info;

pub(crate) use handle::Handle;
pub use info::{DiskInfo, DiskKind, OpenOptions};

use crate::buf::{IoBuf, SharedBuf};
use crate::linux;
use crate::record::{self, Act, Recorded};
use crate::rehearsal;
use crate::runtime::{Op, current};
use crate::sim::SimulatedDisk;
use crate::stage::{self, Stage};
use crate::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// Proof that the medium confirmed that everything completed before is on stable storage.
#[derive(Debug)]
#[must_use = "a confirmation that nobody uses was paid for in vain"]
pub struct Flushed(());

/// An open disk. Clones share it; dropping the last one closes it.
#[derive(Clone)]
pub struct Disk {
    handle: Arc<Handle>,
    info: Arc<DiskInfo>,
}

impl Disk {
    /// Opens a file or block device exclusively. Errors: `NotFound`; `Denied`; `Busy` if it is mounted, in use by the kernel
    /// or locked by another process; `Unsupported` if it is neither a file nor a block device.
    pub async fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Disk> {
        let path = path.as_ref().to_path_buf();
        let (handle, info) = Handle::open(path, options).await?;
        Ok(Disk {
            handle: Arc::new(handle),
            info: Arc::new(info),
        })
    }

    /// Whether this is the only clone and no operation is in flight. Operations whose future was dropped count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        Arc::strong_count(&self.handle) == 1
    }

    /// The disk's properties.
    #[must_use]
    pub fn info(&self) -> &DiskInfo {
        &self.info
    }

    /// The present size, bytes. It may differ from the size at opening, as disks grow and files are truncated.
    pub async fn size(&self) -> Result<u64> {
        let size = self.handle.set_up(linux::stat_disk, SimulatedDisk::size);
        size.await
    }

    /// Allocated bytes: less than the size for a sparse file.
    pub async fn allocated(&self) -> Result<u64> {
        let used = self.handle.set_up(linux::allocated, SimulatedDisk::used);
        used.await
    }

    /// Sets the size of a file. Errors: `Unsupported` for a block device, `NoSpace`.
    pub async fn resize(&self, size: u64) -> Result<()> {
        self.handle
            .set_up(
                move |d| linux::resize_disk(d, size),
                move |d| d.resize(size),
            )
            .await
    }

    /// Allocates space for `len` bytes at `offset` in the file system below. Contents stay; a later write there needs no new
    /// space; a deallocation gives it back. Durable after the next flush. Does nothing for a block device. Errors: `NoSpace`;
    /// `Unsupported` if the file system cannot do it.
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<()> {
        if self.info.kind == DiskKind::Block {
            return Ok(());
        }
        self.handle
            .set_up(
                move |d| linux::reserve(d, offset, len),
                move |d| d.reserve(offset, len),
            )
            .await
    }

    /// Fills `buf` from `offset` on. Errors: `Truncated` beyond the end, `Media`, `Gone`.
    pub async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
        let _device = stage::wait(Stage::Device);
        if let Err(e) = rehearsal::wait(&self.info.path, Some((offset, buf.len()))).await {
            return (Err(e), buf);
        }
        let mut buf = buf;
        let mut done = 0;
        while done < buf.len() {
            let (outcome, op) = current()
                .submit(Op::Read {
                    disk: self.handle.clone(),
                    buf,
                    done,
                    offset,
                })
                .await;
            let Op::Read { buf: back, .. } = op else {
                unreachable!("a read gives back a read")
            };
            buf = back;
            match Error::check(outcome.result) {
                Ok(0) => return (Err(Error::Truncated), buf),
                Ok(n) => done += n,
                Err(e) => return (Err(e), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Writes all of `buf` at `offset`. A power cut may lose it until [`Disk::flush`] has confirmed.
    pub async fn write(&self, data: impl Into<SharedBuf>, offset: u64) -> Result<()> {
        self.write_with(data.into(), offset, false).await
    }

    /// Writes all of `buf` at `offset` through to the medium (RWF_DSYNC; FUA on block devices).
    pub async fn write_through(&self, data: impl Into<SharedBuf>, offset: u64) -> Result<Flushed> {
        self.write_with(data.into(), offset, true).await?;
        Ok(Flushed(()))
    }

    async fn write_with(&self, data: SharedBuf, offset: u64, dsync: bool) -> Result<()> {
        let act = match dsync {
            true => Act::WriteThrough(&data),
            false => Act::Write(&data),
        };
        let recorded = self.record(offset, act);
        let _device = stage::wait(Stage::Device);
        rehearsal::wait(&self.info.path, Some((offset, data.len()))).await?;
        let mut done = 0;
        while done < data.len() {
            let op = Op::Write {
                disk: self.handle.clone(),
                data: data.part(done, data.len() - done),
                offset: offset + done as u64,
                dsync,
            };
            let (outcome, op) = current().submit(op).await;
            drop(op);
            match Error::check(outcome.result)? {
                0 => return Err(Error::NoSpace),
                n => done += n,
            }
        }
        recorded.into_iter().for_each(Recorded::ended);
        Ok(())
    }

    /// Records an operation, for tests of power cuts.
    fn record(&self, offset: u64, act: Act<'_>) -> Option<Recorded> {
        let path = self.handle.is_real().then_some(&self.info.path)?;
        record::begin(path, offset, act)
    }

    /// Makes every write that completed before this call stable.
    pub async fn flush(&self) -> Result<Flushed> {
        let recorded = self.record(0, Act::Flush);
        let _flush = stage::wait(Stage::Flush);
        rehearsal::wait(&self.info.path, None).await?;
        let (outcome, op) = current()
            .submit(Op::Flush {
                disk: self.handle.clone(),
            })
            .await;
        drop(op);
        Error::check(outcome.result)?;
        recorded.into_iter().for_each(Recorded::ended);
        Ok(Flushed(()))
    }

    /// Zeroes `len` bytes at `offset` and keeps their space. Errors: `Unsupported` if the file system cannot do it; write
    /// zeroes then.
    pub async fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.zero(offset, len, false).await
    }

    /// Frees the space of `len` bytes at `offset`, which read as zero afterwards. Errors: `Unsupported`.
    pub async fn deallocate(&self, offset: u64, len: u64) -> Result<()> {
        self.zero(offset, len, true).await
    }

    /// Discards `len` bytes at `offset`: a hole in a file, BLKDISCARD on a block device. Their contents are undefined until
    /// they are written. Errors: `Unsupported`.
    pub async fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let is_device = self.handle.is_real() && self.info.kind == DiskKind::Block;
        if !is_device {
            return self.zero(offset, len, true).await;
        }
        self.handle
            .set_up(
                move |d| linux::discard(d, offset, len),
                |_| Err(Error::Cancelled),
            )
            .await
    }

    async fn zero(&self, offset: u64, len: u64, deallocate: bool) -> Result<()> {
        let recorded = self.record(offset, Act::Zero(len));
        let _device = stage::wait(Stage::Device);
        let op = Op::Zero {
            disk: self.handle.clone(),
            offset,
            len,
            deallocate,
        };
        let (outcome, op) = current().submit(op).await;
        drop(op);
        Error::check(outcome.result)?;
        recorded.into_iter().for_each(Recorded::ended);
        Ok(())
    }
}
