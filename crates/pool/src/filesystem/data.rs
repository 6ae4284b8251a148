//! Contents: read, write, allocate, seek, copy, targets of symbolic links.
//!
//! **Owns** the rules about sizes and holes. **Called by** [`super::FileSystem`], changes in the turn of the file. **Invariants**:
//! no byte behind the end of a file ever becomes visible; reads take no turn and see each change whole or not at all: a read
//! whose file became shorter meanwhile starts over.

use std::ops::Range;

use backend::StorageError;
use backend::file::permission::written_mode;
use backend::file::{
    Allocate, Caller, Change, FILE_SIZE_MAX, FileError, FileKind, FileResult, Handle, ReadData,
    SYMLINK_MAX, Seek, WriteAt, Written,
};
use io::limits::BUF_LEN_MAX;
use io::{Payload, SharedBuf};

use super::attributes::{check_file, stale_bytes};
use super::inner::{Inner, RETRIES_MAX, contradiction};
use super::numbers::Files;
use super::object::{Object, now};
use super::store::{Purpose, Store, Transaction};
use crate::format::ObjectId;
use crate::format::filesystem::{CHUNK_SIZE, Inode, KIND_INLINE, kind_keys};

/// The end of a range. Errors: `TooLarge`.
fn end_of(offset: u64, len: u64) -> FileResult<u64> {
    let end = offset.checked_add(len).filter(|end| *end <= FILE_SIZE_MAX);
    end.ok_or(FileError::TooLarge)
}

/// Contents that were read, and the file's inode.
struct Contents {
    bytes: Payload,
    inode: Inode,
    is_end: bool,
}

impl<S: Store> Inner<S> {
    /// The inode of a regular file. Errors: `Stale`, `IsDirectory`, `Invalid`.
    async fn file(&self, of: Handle) -> FileResult<Inode> {
        let inode = self.inode(of).await?;
        check_file(inode.kind)?;
        Ok(inode)
    }

    /// A file without its list, which does not matter for a write.
    async fn written_file(&self, of: Handle) -> FileResult<Object> {
        Ok(Object {
            number: self.number(of)?,
            inode: self.file(of).await?,
            acl: None,
        })
    }

    async fn contents(&self, of: Handle, offset: u64, len: usize) -> FileResult<Contents> {
        let number = self.number(of)?;
        let mut inode = self.file(of).await?;
        let len = len.min(BUF_LEN_MAX) as u64;
        for _ in 0..RETRIES_MAX {
            let start = offset.min(inode.size);
            let end = start.saturating_add(len).min(inode.size);
            let bytes = match start == end {
                true => Payload::from(Vec::new()),
                false => self.store.read(number, start..end).await?,
            };
            let now = self.file(of).await?;
            if now.size >= end {
                return Ok(Contents {
                    bytes,
                    inode,
                    is_end: end == inode.size,
                });
            }
            inode = now;
        }
        Err(FileError::Storage(StorageError::Exhausted))
    }

    pub(super) async fn read(&self, of: Handle, offset: u64, len: usize) -> FileResult<ReadData> {
        let read = self.contents(of, offset, len).await?;
        if len > 0 {
            let number = self.number(of)?;
            self.note_access_of(number, &read.inode).await;
        }
        Ok(ReadData {
            bytes: read.bytes,
            is_end: read.is_end,
        })
    }

    pub(super) async fn read_link(&self, of: Handle) -> FileResult<Vec<u8>> {
        let number = self.number(of)?;
        let inode = self.inode(of).await?;
        if inode.kind != FileKind::Symlink {
            return Err(FileError::Invalid);
        }
        let chunks = SYMLINK_MAX.div_ceil(CHUNK_SIZE);
        let chunks = self.store.scan(kind_keys(number, KIND_INLINE), chunks);
        let target: Vec<u8> = chunks.await?.into_iter().flat_map(|(_, c)| c).collect();
        if target.len() as u64 != inode.size {
            // Gone meanwhile, or damaged.
            self.inode(of).await?;
            return Err(contradiction(number, "a target of another length"));
        }
        self.note_access_of(number, &inode).await;
        Ok(target)
    }

    /// Sets mode and times of a file whose contents the caller changes.
    fn set_written(&self, caller: &Caller, file: &mut Object, size: u64) {
        file.inode.mode = written_mode(caller, &file.permissions());
        file.inode.size = size;
        file.set_modified(now());
    }

    pub(super) async fn write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: SharedBuf,
        is_urgent: bool,
    ) -> FileResult<Written> {
        let mut file = self.written_file(of).await?;
        let before = self.attributes(&file);
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => before.size,
        };
        if !data.is_empty() {
            let end = end_of(offset, data.len() as u64)?;
            self.set_written(caller, &mut file, before.size.max(end));
            let (number, inode) = (file.number, file.inode);
            self.store
                .write(number, inode, offset, data, is_urgent)
                .await?;
            self.refresh(&mut file).await?;
            self.tell_contents(&file).await;
        }
        Ok(Written {
            offset,
            object: self.change(before, &file),
        })
    }

    pub(super) async fn allocate(
        &self,
        caller: &Caller,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileResult<Change> {
        let mut file = self.written_file(of).await?;
        if range.is_empty() {
            return Err(FileError::Invalid);
        }
        end_of(range.end, 0)?;
        let before = self.attributes(&file);
        let size = match grows {
            true => before.size.max(range.end),
            false => before.size,
        };
        let is_zeroed = how != Allocate::Reserve;
        // A reservation that changes nothing else clears setuid, too, as Linux does.
        let is_cleared = written_mode(caller, &file.permissions()) != file.inode.mode;
        if !is_zeroed && size == before.size && !is_cleared {
            return Ok(self.change(before, &file));
        }
        self.set_written(caller, &mut file, size);
        let zeroed = match is_zeroed {
            true => range.start..range.end.min(size),
            false => size..size,
        };
        self.clear(&mut file, before.size, zeroed).await?;
        self.tell_contents(&file).await;
        Ok(self.change(before, &file))
    }

    /// Clears a range of a file, and bytes behind its size before that become visible; stores its inode in the last step.
    async fn clear(&self, file: &mut Object, before: u64, range: Range<u64>) -> FileResult<()> {
        let mut transaction = Transaction::new();
        transaction.put_inode(file.number, file.inode);
        let number = file.number;
        let stale = match file.inode.size > before {
            true => stale_bytes(before, file.inode.size),
            false => before..before,
        };
        match (stale.is_empty(), range.is_empty()) {
            (true, true) => {
                self.commit(transaction, Purpose::Use, Files::Same).await?;
            }
            (false, true) => self.store.clear(number, stale, transaction).await?,
            (true, false) => self.store.clear(number, range, transaction).await?,
            (false, false) => {
                let first = self.store.clear(number, stale, Transaction::new());
                first.await?;
                self.store.clear(number, range, transaction).await?;
            }
        }
        self.refresh(file).await
    }

    pub(super) async fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileResult<u64> {
        let number = self.number(of)?;
        let size = self.file(of).await?.size;
        if offset >= size {
            return Err(FileError::NoData);
        }
        match (self.store.seek(number, offset..size, to).await?, to) {
            (Some(found), _) => Ok(found),
            (None, Seek::Hole) => Ok(size),
            (None, Seek::Data) => Err(FileError::NoData),
        }
    }

    pub(super) async fn seek_within(
        &self,
        of: Handle,
        range: Range<u64>,
        to: Seek,
    ) -> FileResult<Option<u64>> {
        let number = self.number(of)?;
        let end = range.end.min(self.file(of).await?.size);
        match range.start < end {
            true => self.store.seek(number, range.start..end, to).await,
            false => Ok(None),
        }
    }

    /// Copies at most one buffer. In the turn of the target.
    pub(super) async fn copy(
        &self,
        caller: &Caller,
        (from, source): (Handle, u64),
        (to, target): (Handle, u64),
        len: u64,
    ) -> FileResult<u64> {
        let size = self.file(from).await?.size;
        self.file(to).await?;
        let len = len.min(size.saturating_sub(source));
        if len == 0 {
            return Ok(0);
        }
        end_of(target, len)?;
        if from == to && source < target + len && target < source + len {
            return Err(FileError::Invalid);
        }
        let len = len.min(BUF_LEN_MAX as u64) as usize;
        let read = self.contents(from, source, len).await?;
        if read.bytes.is_empty() {
            return Ok(0);
        }
        let len = read.bytes.len();
        let mut data = io::pool().alloc(len).await;
        read.bytes.copy_to(&mut data);
        let at = WriteAt::Offset(target);
        self.write(caller, to, at, data.into(), false).await?;
        Ok(len as u64)
    }

    /// Counts the space of uncounted files.
    pub(super) async fn count_space(&self) -> FileResult<u64> {
        let (mut counted, mut from) = (0, Some(ObjectId(0)));
        while let Some(at) = from {
            let (found, next) = self.store.uncounted(at).await?;
            for object in found {
                let _turn = self.turns.take(object).await;
                let Some(inode) = self.store.inode(object).await? else {
                    continue;
                };
                self.store.count(object, inode.size).await?;
                counted += 1;
            }
            from = next;
            io::yield_now().await;
        }
        Ok(counted)
    }

    /// Notes that a file was read, if it still exists.
    pub(super) async fn note_read(&self, of: Handle) {
        if let Ok(inode) = self.inode(of).await {
            let number: ObjectId = ObjectId(of.object);
            self.note_access_of(number, &inode).await;
        }
    }
}
