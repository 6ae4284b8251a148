//! Operations on contents: read, write, allocate, seek, copy, links' targets.
//!
//! **Owns** the rules about sizes and holes in memory. **Called by** [`super::MemoryFiles`]. **Invariants**: no byte behind the
//! end of a file ever becomes visible; a write that fails has changed nothing; accesses are noted as Linux's `relatime` does.

use std::ops::Range;

use io::Payload;
use io::limits::BUF_LEN_MAX;

use super::data::Blocks;
use super::object::{BLOCK_COST, Contents, Object};
use super::state::{FilesInMemory, now};
use crate::file::permission::{check, written_mode};
use crate::file::{
    Access, Allocate, Attributes, Caller, Change, Event, FILE_SIZE_MAX, FileError, FileResult,
    Handle, ReadData, Seek, Timestamp, WriteAt, Written,
};

/// An access is noted again after this many nanoseconds: a day.
const RELATIME: i64 = 24 * 3600 * 1_000_000_000;

impl Object {
    /// The blocks of a regular file. Errors: `IsDirectory`; `Invalid` for other kinds.
    fn blocks(&self) -> FileResult<&Blocks> {
        match &self.contents {
            Contents::File(blocks) => Ok(blocks),
            Contents::Directory(_) => Err(FileError::IsDirectory),
            Contents::Symlink(_) | Contents::Special => Err(FileError::Invalid),
        }
    }

    /// Changes the blocks of a regular file.
    fn change_blocks<T>(&mut self, change: impl FnOnce(&mut Blocks) -> T) -> Option<T> {
        let Contents::File(blocks) = &mut self.contents else {
            return None;
        };
        let result = change(blocks);
        self.attributes.used = blocks.count() * super::data::BLOCK;
        Some(result)
    }
}

impl FilesInMemory {
    /// Updates the time of the last access, if it is older than the last change or than a day.
    pub(super) fn note_access(&mut self, number: u64) {
        let time = now();
        let of = &mut self.get_mut(number).attributes;
        let day_ago = Timestamp(time.0.saturating_sub(RELATIME));
        if of.accessed <= of.modified.max(of.changed) || of.accessed <= day_ago {
            of.accessed = time;
        }
    }

    /// The number and attributes of a regular file. Errors: `Stale`, `IsDirectory`, `Invalid`.
    fn file(&self, of: Handle) -> FileResult<(u64, Attributes)> {
        let number = self.number(of)?;
        let object = self.get(number);
        object.blocks()?;
        Ok((number, object.attributes))
    }

    /// Opens a file for this access, and holds it. Returns its number.
    pub(super) fn open(&mut self, caller: &Caller, of: Handle, access: Access) -> FileResult<u64> {
        let (number, _) = self.file(of)?;
        check(caller, &self.get(number).permissions(), access)?;
        self.hold(number);
        Ok(number)
    }

    pub(super) fn read_link(&mut self, of: Handle) -> FileResult<Vec<u8>> {
        let number = self.number(of)?;
        match &self.get(number).contents {
            Contents::Symlink(target) => {
                let target = target.clone();
                self.note_access(number);
                Ok(target)
            }
            Contents::File(_) | Contents::Directory(_) | Contents::Special => {
                Err(FileError::Invalid)
            }
        }
    }

    pub(super) fn read(&mut self, of: Handle, offset: u64, len: usize) -> FileResult<ReadData> {
        let (number, attributes) = self.file(of)?;
        let start = offset.min(attributes.size);
        let len = len.min(BUF_LEN_MAX) as u64;
        let end = start.saturating_add(len).min(attributes.size);
        let bytes = self.get(number).blocks()?.read(start..end);
        if len > 0 {
            self.note_access(number);
        }
        Ok(ReadData {
            bytes: Payload::from(bytes),
            is_end: end == attributes.size,
        })
    }

    /// Notes a change of the contents by a caller, with a size that may be new, and tells the watches.
    fn set_written(&mut self, caller: &Caller, number: u64, size: u64) {
        let object = self.get_mut(number);
        object.attributes.mode = written_mode(caller, &object.permissions());
        object.attributes.size = size;
        object.set_modified(now());
        self.notify(number, |name, object| Event::Contents { name, object });
    }

    /// Writes bytes to a regular file, and takes the memory. Errors: `TooLarge`, `NoSpace`.
    fn put_bytes(
        &mut self,
        caller: &Caller,
        number: u64,
        offset: u64,
        data: &[u8],
    ) -> FileResult<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = end_of(offset, data.len() as u64)?;
        let missing = self.get(number).blocks()?.missing(offset..end);
        self.charge(missing * BLOCK_COST)?;
        let object = self.get_mut(number);
        object.change_blocks(|blocks| blocks.write(offset, data));
        let size = object.attributes.size.max(end);
        self.set_written(caller, number, size);
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: &[u8],
    ) -> FileResult<Written> {
        let (number, before) = self.file(of)?;
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => before.size,
        };
        self.put_bytes(caller, number, offset, data)?;
        Ok(Written {
            offset,
            object: self.change(before),
        })
    }

    /// Cuts off or adds zeroes at the end of a regular file.
    pub(super) fn set_size(&mut self, number: u64, size: u64) {
        let object = self.get_mut(number);
        let before = object.attributes.size;
        let removed = object.change_blocks(|blocks| blocks.zero(size..before.max(size)));
        object.attributes.size = size;
        self.release(removed.unwrap_or(0) * BLOCK_COST);
    }

    pub(super) fn allocate(
        &mut self,
        caller: &Caller,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileResult<Change> {
        let (number, before) = self.file(of)?;
        if range.is_empty() {
            return Err(FileError::Invalid);
        }
        end_of(range.end, 0)?;
        let size = match grows {
            true => before.size.max(range.end),
            false => before.size,
        };
        let is_zeroed = how != Allocate::Reserve;
        if is_zeroed {
            let object = self.get_mut(number);
            let removed = object.change_blocks(|blocks| blocks.zero(range));
            self.release(removed.unwrap_or(0) * BLOCK_COST);
        }
        // A reservation that changes nothing else clears setuid, too, as Linux does.
        let is_cleared = written_mode(caller, &self.get(number).permissions()) != before.mode;
        if is_zeroed || size > before.size || is_cleared {
            self.set_written(caller, number, size);
        }
        Ok(self.change(before))
    }

    pub(super) fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileResult<u64> {
        let (number, attributes) = self.file(of)?;
        if offset >= attributes.size {
            return Err(FileError::NoData);
        }
        let blocks = self.get(number).blocks()?;
        match (blocks.seek(offset, attributes.size, to), to) {
            (Some(found), _) => Ok(found),
            (None, Seek::Hole) => Ok(attributes.size),
            (None, Seek::Data) => Err(FileError::NoData),
        }
    }

    pub(super) fn seek_within(
        &self,
        of: Handle,
        range: Range<u64>,
        to: Seek,
    ) -> FileResult<Option<u64>> {
        let (number, attributes) = self.file(of)?;
        let end = range.end.min(attributes.size);
        match range.start < end {
            true => Ok(self.get(number).blocks()?.seek(range.start, end, to)),
            false => Ok(None),
        }
    }

    pub(super) fn copy(
        &mut self,
        caller: &Caller,
        (from, source): (Handle, u64),
        (to, target): (Handle, u64),
        len: u64,
    ) -> FileResult<u64> {
        let (from, from_attributes) = self.file(from)?;
        let (to, _) = self.file(to)?;
        let len = len.min(from_attributes.size.saturating_sub(source));
        if len == 0 {
            return Ok(0);
        }
        end_of(target, len)?;
        if from == to && source < target + len && target < source + len {
            return Err(FileError::Invalid);
        }
        let len = len.min(BUF_LEN_MAX as u64);
        let bytes = self.get(from).blocks()?.read(source..source + len);
        self.note_access(from);
        self.put_bytes(caller, to, target, &bytes)?;
        Ok(len)
    }
}

/// The end of a range. Errors: `TooLarge`.
fn end_of(offset: u64, len: u64) -> FileResult<u64> {
    let end = offset.checked_add(len).filter(|end| *end <= FILE_SIZE_MAX);
    end.ok_or(FileError::TooLarge)
}
