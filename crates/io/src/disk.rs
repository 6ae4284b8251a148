//! Disks: files and block devices with direct I/O, real or simulated.
//!
//! **Owns** open disks. **Called by** backends and the pool. **Invariants**: offsets and lengths are multiples of
//! [`DiskInfo::logical_block`]; a [`Flushed`] token exists only after the medium confirmed a flush or a write-through, and
//! only this module can create one.

use crate::buf::{IoBuf, SharedBuf};
use crate::linux::{self, LinuxDisk};
use crate::record::{self, Act, Recorded};
use crate::runtime::{Op, blocking, current, try_current};
use crate::sim::{DiskId, World};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk of either driver.
pub(crate) enum Handle {
    Linux(LinuxDisk),
    Sim(DiskId),
}

impl Handle {
    pub(crate) fn linux(&self) -> &LinuxDisk {
        match self {
            Handle::Linux(d) => d,
            Handle::Sim(_) => unreachable!("a simulated disk never reaches the real driver"),
        }
    }

    pub(crate) fn sim(&self) -> DiskId {
        match self {
            Handle::Sim(id) => *id,
            Handle::Linux(_) => unreachable!("a real disk never reaches the simulator"),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Handle::Sim(id) = self
            && let Some(rt) = try_current()
            && let Some(world) = rt.driver.borrow_mut().sim()
        {
            world.close_disk(*id);
        }
    }
}

/// File or block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// Properties of a disk. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskInfo {
    /// Its path.
    pub path: PathBuf,
    /// File or block device.
    pub kind: DiskKind,
    /// Its size when it was opened; [`Disk::size`] returns the present size.
    pub size: u64,
    /// Alignment of offsets and lengths.
    pub logical_block: u32,
    /// The unit that the device writes without a read-modify-write.
    pub physical_block: u32,
    /// Direct I/O: the page cache is bypassed.
    pub direct: bool,
    /// Opened for reading only.
    pub read_only: bool,
    /// A hard disk, or a file on one, as the kernel reports it. Virtual disks often report flash as rotational.
    pub rotational: bool,
    /// Completed writes may be lost in a power cut until a flush.
    pub volatile_cache: bool,
}

/// How to open a disk.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Open for reading only; several processes may then open it.
    pub read_only: bool,
    /// Create the file, sparse and of this size, if it is missing or empty.
    pub create_size: Option<u64>,
    /// Use the page cache.
    pub buffered: bool,
    /// Do not lock the file: to measure beside another process that has it open.
    pub shared: bool,
}

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
        let simulated = {
            let rt = current();
            let node = rt.tasks.node();
            let mut driver = rt.driver.borrow_mut();
            driver.sim().map(|w| w.open_disk(node, &path, &options))
        };
        let (handle, info) = match simulated {
            Some(r) => {
                let (id, info) = r?;
                (Handle::Sim(id), info)
            }
            None => {
                let (d, info) = blocking(move || linux::open_disk(&path, &options)).await??;
                (Handle::Linux(d), info)
            }
        };
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
        self.set_up(linux::stat_disk, |w, id| w.disk_size(id)).await
    }

    /// Allocated bytes: less than the size for a sparse file.
    pub async fn allocated(&self) -> Result<u64> {
        self.set_up(linux::allocated, |w, id| w.disk_used(id)).await
    }

    /// Sets the size of a file. Errors: `Unsupported` for a block device, `NoSpace`.
    pub async fn resize(&self, size: u64) -> Result<()> {
        self.set_up(
            move |d| linux::resize_disk(d, size),
            |w, id| w.resize_disk(id, size),
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
        self.set_up(
            move |d| linux::reserve(d, offset, len),
            |w, id| w.reserve_disk(id, offset, len),
        )
        .await
    }

    /// Runs a rare call that may block on a helper thread; in the simulator at once.
    async fn set_up<T: Send + 'static>(
        &self,
        real: impl FnOnce(&LinuxDisk) -> Result<T> + Send + 'static,
        simulated: impl FnOnce(&mut World, DiskId) -> Result<T>,
    ) -> Result<T> {
        if let Handle::Sim(id) = &*self.handle {
            let rt = current();
            let mut driver = rt.driver.borrow_mut();
            return simulated(driver.sim().ok_or(Error::Cancelled)?, *id);
        }
        let h = self.handle.clone();
        blocking(move || match &*h {
            Handle::Linux(d) => real(d),
            Handle::Sim(_) => Err(Error::Cancelled),
        })
        .await?
    }

    /// Fills `buf` from `offset` on. Errors: `Truncated` beyond the end, `Media`, `Gone`.
    pub async fn read(&self, buf: IoBuf, offset: u64) -> (Result<()>, IoBuf) {
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
        match &*self.handle {
            Handle::Linux(_) => record::begin(&self.info.path, offset, act),
            Handle::Sim(_) => None,
        }
    }

    /// Makes every write that completed before this call stable.
    pub async fn flush(&self) -> Result<Flushed> {
        let recorded = self.record(0, Act::Flush);
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
        let is_device =
            matches!(&*self.handle, Handle::Linux(_)) && self.info.kind == DiskKind::Block;
        if !is_device {
            return self.zero(offset, len, true).await;
        }
        self.set_up(
            move |d| linux::discard(d, offset, len),
            |_, _| Err(Error::Cancelled),
        )
        .await
    }

    async fn zero(&self, offset: u64, len: u64, deallocate: bool) -> Result<()> {
        let recorded = self.record(offset, Act::Zero(len));
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
