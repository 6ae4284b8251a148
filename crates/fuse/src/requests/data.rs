//! Data: read, write, durability, allocation, holes, copies.

use crate::limits::{COMMIT_PAUSE, COPY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::mounted::{Mounted, kernel};
use crate::notices::Notice;
use crate::status::{Answer, of_file};
use backend::Durable;
use backend::file::{
    Allocate, Caller, FILE_SIZE_MAX, FileError, Seek, SetAttributes, Stability, WriteAt,
};
use fuser::Errno;
use io::sync::oneshot;
use io::{Payload, SharedBuf};

/// The user of a write that must clear setuid and setgid bits although root made it (without the capability to keep them).
const NOBODY: u32 = 65_534;
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;

/// How a write is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    /// Whether the setuid and setgid bits must be cleared (FUSE_WRITE_KILL_SUIDGID).
    pub(crate) clears_setuid: bool,
    /// Whether the data must be durable before the reply: an O_SYNC or O_DSYNC write that no fsync follows.
    pub(crate) is_durable: bool,
    /// Whether the kernel writes back its cache (FUSE_WRITE_CACHE): write(2) has succeeded already.
    pub(crate) is_written_back: bool,
}

impl Mounted {
    /// Reads up to `len` bytes; fewer only at the end of the file.
    pub(crate) async fn read(&self, number: u64, offset: u64, len: u32) -> Answer<Payload> {
        let of = self.handle(number)?;
        let len = len.min(REQUEST_BYTES_MAX) as usize;
        let data = self.files.read(of, offset, len).await.map_err(of_file)?;
        self.operations.read(data.bytes.len());
        Ok(data.bytes)
    }

    /// Writes all of `data`. Returns its length.
    pub(crate) async fn write(
        &self,
        number: u64,
        offset: u64,
        data: SharedBuf,
        how: Writing,
    ) -> Answer<u32> {
        let of = self.handle(number)?;
        let len = data.len() as u32;
        // The kernel decides whether the bits are cleared (FUSE_HANDLE_KILLPRIV_V2): the writer is not always the caller.
        let mut caller = kernel();
        if how.clears_setuid {
            (caller.uid, caller.gid) = (NOBODY, NOBODY);
        }
        let stability = match how.is_durable {
            true => Stability::Durable,
            false => Stability::Cached,
        };
        let done = self
            .files
            .write(&caller, of, WriteAt::Offset(offset), data, stability)
            .await
            .map_err(|e| match e {
                // For close(2) the kernel keeps ENOSPC of a failed write-back, and makes EIO of every other error.
                FileError::Quota if how.is_written_back => Errno::ENOSPC,
                other => of_file(other),
            })?;
        let changed = &done.value.object;
        if how.clears_setuid && changed.before.mode != changed.after.mode {
            self.mode_changed(number).await?;
        }
        self.operations.written(len.into());
        if how.is_written_back {
            self.commit_soon();
        }
        Ok(len)
    }

    /// Makes an object durable, with its names. A removed directory that is still open has nothing but its removal, which becomes
    /// durable; nothing of a file system that cannot be changed waits to be durable.
    pub(crate) async fn commit(&self, number: u64) -> Answer<()> {
        let of = self.handle(number)?;
        match self.files.commit(of).await {
            Ok(proof) => {
                proven(proof);
                Ok(())
            }
            Err(FileError::ReadOnly) => Ok(()),
            Err(FileError::Stale) if self.nodes.removed(number).is_some() => {
                self.files.commit_all().await.map(proven).map_err(of_file)
            }
            Err(e) => Err(of_file(e)),
        }
    }

    /// Begins a commit of data that the kernel has just written back, unless one began a moment ago and covers it. sync(2) and
    /// syncfs(2) send nothing to a FUSE server but this data.
    fn commit_soon(&self) {
        if !self.write_backs.is_first() {
            return;
        }
        let (files, write_backs) = (self.files.clone(), self.write_backs.clone());
        drop(io::spawn(async move {
            loop {
                write_backs.begin();
                // errors come to the program's own fsync(2)
                if let Err(e) = files.commit_all().await {
                    tracing::warn!("data that the kernel wrote back is not durable: {e}");
                }
                io::time::sleep(COMMIT_PAUSE).await;
                if !write_backs.is_more() {
                    return;
                }
            }
        }));
    }

    /// Allocates, zeroes or frees a range (fallocate(2)).
    pub(crate) async fn allocate(
        &self,
        caller: Caller,
        number: u64,
        offset: u64,
        len: u64,
        mode: i32,
    ) -> Answer<()> {
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let how = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocate::Reserve,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero,
            libc::FALLOC_FL_PUNCH_HOLE if keeps_size => Allocate::Punch,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let end = offset.checked_add(len).filter(|end| *end <= FILE_SIZE_MAX);
        let end = end.ok_or(Errno::EFBIG)?;
        let of = self.handle(number)?;
        if how == Allocate::Reserve {
            // Space is not reserved, but a program that asks for more than there is hears it now.
            let used = self.files.attributes(of).await.map_err(of_file)?.used;
            let space = self.files.space(&caller).await.map_err(of_file)?;
            if len > space.available.saturating_add(used) {
                return Err(Errno::ENOSPC);
            }
        }
        let before = self.files.attributes(of).await.map_err(of_file)?.mode;
        self.files
            .allocate(&caller, of, offset..end, how, !keeps_size)
            .await
            .map_err(of_file)?;
        self.clear_setuid(&caller, number, before).await
    }

    /// Clears the setuid and setgid bits after fallocate(2), which the kernel leaves to the file system with
    /// FUSE_HANDLE_KILLPRIV_V2. `before` is the mode before it.
    async fn clear_setuid(&self, caller: &Caller, number: u64, before: u16) -> Answer<()> {
        if caller.uid == 0 || before & (SETUID | SETGID) == 0 {
            return Ok(());
        }
        let of = self.handle(number)?;
        let now = self.files.attributes(of).await.map_err(of_file)?;
        let keeps_group = now.mode & GROUP_EXECUTE == 0 && caller.is_in(now.gid);
        let lost = if keeps_group { SETUID } else { SETUID | SETGID };
        if now.mode & lost != 0 {
            let set = SetAttributes {
                mode: Some(now.mode & !lost),
                ..SetAttributes::default()
            };
            let done = self
                .files
                .set_attributes(&kernel(), of, set, Stability::Cached);
            done.await.map_err(of_file)?;
        }
        self.mode_changed(number).await
    }

    /// Makes the kernel forget a file's attributes, since it does not expect that its request changed the mode.
    pub(crate) async fn mode_changed(&self, number: u64) -> Answer<()> {
        self.noticed(|done| Notice::Attributes(number, done)).await
    }

    /// Sends a notice and waits until the kernel has taken it.
    async fn noticed(&self, notice: impl FnOnce(oneshot::Sender<()>) -> Notice) -> Answer<()> {
        let notices = self.notices.get().ok_or(Errno::EIO)?;
        let (done, waits) = oneshot::channel();
        notices.send(notice(done)).map_err(|_| Errno::EAGAIN)?;
        let _ = waits.await;
        Ok(())
    }

    /// Waits until the kernel has written a file's dirty data back. Linux asks for data and holes without doing so itself,
    /// although with write-back only the kernel knows the file's end.
    async fn written_back(&self, number: u64) -> Answer<()> {
        if !self.caching.has_write_back || !self.opened.has_writer(number) {
            return Ok(());
        }
        self.noticed(|done| Notice::WriteBack(number, done)).await
    }

    /// The next byte of data or of a hole (lseek(2)).
    pub(crate) async fn seek(&self, number: u64, offset: i64, whence: i32) -> Answer<i64> {
        let to = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        self.written_back(number).await?;
        let of = self.handle(number)?;
        let found = self.files.seek(of, offset, to).await.map_err(of_file)?;
        i64::try_from(found).map_err(|_| Errno::EOVERFLOW)
    }

    /// Copies bytes between files. Returns their number, at most [`COPY_BYTES_MAX`].
    pub(crate) async fn copy(
        &self,
        caller: Caller,
        from: (u64, u64),
        to: (u64, u64),
        len: u64,
    ) -> Answer<u32> {
        let (source, target) = (self.handle(from.0)?, self.handle(to.0)?);
        let len = len.min(COPY_BYTES_MAX);
        let copied = self
            .files
            .copy(&caller, (source, from.1), (target, to.1), len)
            .await
            .map_err(of_file)?;
        self.operations.written(copied);
        u32::try_from(copied).map_err(|_| Errno::EIO)
    }
}

/// A successful answer to fsync: consumes the proof.
fn proven(proof: Durable) {
    let _ = proof;
}
