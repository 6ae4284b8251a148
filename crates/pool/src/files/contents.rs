//! Writing the contents of files.
//!
//! **Owns** the new contents of records. **Called by** the store, in the turn of the file. **Invariants**: bytes behind a file's
//! size are zero in all records that a write makes; a write and its inode become visible under one lock.

use std::ops::Range;

use backend::file::{FILE_SIZE_MAX, FileError, FileResult};

use super::transactions::check_usable;
use super::{FileStore, INLINE_MAX};
use crate::Result;
use crate::block_reads::Caching;
use crate::dataset::{
    LAZY_BYTES, Location, RECORDS_END, State, block_keys, blocks_of, data_keys, fragments_of,
    is_zero,
};
use crate::filesystem::{Purpose, Transaction};
use crate::format::filesystem::{BLOCK_SIZE, Charge, Inode, InodeFlags};
use crate::format::{Key, ObjectId};
use crate::record::Contents;
use io::sync::lock;

/// Unit in which contents are stored, bytes: zeroes behind the last unit that is not zero are not.
const STORED_UNIT: usize = 4096;

/// A write of at most this part of a record leaves the record as it is, and becomes blocks.
const BLOCKS_PART: u64 = 4;

/// New contents of a record; `None` makes it a hole.
struct NewRecord {
    key: Key,
    contents: Option<Contents>,
}

/// New contents of several records of one file.
pub(super) struct NewRecords {
    records: Vec<NewRecord>,
    /// Bytes of the contents before.
    pub(super) before: u64,
    /// Bytes of the new contents.
    pub(super) after: u64,
}

/// The used space of a file after a change of its contents, at most what an inode can have.
pub(super) fn used(inode: &Inode, before: u64, after: u64) -> u64 {
    let used = inode.used.saturating_add(after).saturating_sub(before);
    used.min(FILE_SIZE_MAX)
}

/// The bytes without the zeroes at their end, in whole units.
fn trim(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let units = bytes.chunks(STORED_UNIT);
    let stored = units.len() - units.rev().take_while(|unit| is_zero(unit)).count();
    bytes.truncate(stored * STORED_UNIT);
    (!bytes.is_empty()).then_some(bytes)
}

impl FileStore {
    /// Writes contents and replaces the inode. Returns the size before.
    pub(super) async fn write_bytes(
        &self,
        object: ObjectId,
        mut inode: Inode,
        offset: u64,
        data: &[u8],
        is_urgent: bool,
    ) -> FileResult<u64> {
        self.come().await?;
        self.begin_changes().await?;
        let old = self.counted_inode(object).await?;
        inode.flags = inode.flags.taking(InodeFlags::COUNTED, old.flags);
        let before = old.size;
        let end = offset + data.len() as u64;
        if end.max(inode.size) <= INLINE_MAX as u64 {
            let write = self.write_small(object, old, inode, offset, data);
            return Box::pin(write).await.map(|()| before);
        }
        let size = self.record_size(object);
        if end.div_ceil(size) > RECORDS_END {
            return Err(FileError::TooLarge);
        }
        let mut records = offset / size..end.div_ceil(size);
        if self
            .writes_blocks(object, &old, &records, offset..end)
            .await?
        {
            let write = self.write_blocks(object, old, inode, offset, data, is_urgent);
            return write.await.map(|()| before);
        }
        let stale = old.size / size;
        // bytes behind the old size become visible
        let clears_stale = old.size < offset && !old.size.is_multiple_of(size);
        if clears_stale && stale + 1 == records.start {
            records.start = stale;
        } else if clears_stale && stale < records.start {
            let bytes = old.size..(stale + 1) * size;
            let cleared = self.clear_bytes(object, bytes, Transaction::new());
            Box::pin(cleared).await?;
        }
        let mut admitted = self
            .admit_bytes((records.end - records.start) * size)
            .await?;
        let new = self.make(object, records, &old, (offset, data)).await?;
        let now = self.own_inode(object).await?;
        inode.used = used(&now, new.before, new.after);
        let (replaced, wake) = {
            let mut state = lock(&self.0.state);
            check_usable(&state)?;
            if !state.charges.fits(Charge::of(&now), Charge::of(&inode)) {
                return Err(FileError::Quota);
            }
            let unused = admitted.take() - new.after;
            let replaced = self.put(&mut state, new, is_urgent) + unused as usize;
            state.written(
                object,
                inode,
                &Inode {
                    size: old.size,
                    ..now
                },
            );
            (replaced, state.dirty.bytes() >= LAZY_BYTES)
        };
        self.told(replaced, wake);
        Ok(before)
    }

    /// Whether a write goes to blocks: it is a small part of records that are stored already.
    async fn writes_blocks(
        &self,
        object: ObjectId,
        old: &Inode,
        records: &Range<u64>,
        bytes: Range<u64>,
    ) -> Result<bool> {
        let len = bytes.end - bytes.start;
        if bytes.end > old.size || len * BLOCKS_PART > self.record_size(object) {
            return Ok(false);
        }
        let _reader = self.0.shared.readers.enter();
        let locations = self.bytes(object).locations(records.clone()).await?;
        // a dirty record takes the write into its contents
        let is_stored = |location: &Location| !matches!(location, Location::Known(_));
        Ok(locations.iter().all(is_stored))
    }

    /// Writes blocks that win over stored records, so that these need not be written again.
    async fn write_blocks(
        &self,
        object: ObjectId,
        old: Inode,
        mut inode: Inode,
        offset: u64,
        data: &[u8],
        is_urgent: bool,
    ) -> FileResult<()> {
        let end = offset + data.len() as u64;
        let blocks = offset / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE);
        let admitted = (blocks.end - blocks.start) * BLOCK_SIZE;
        let mut admitted = self.admit_bytes(admitted).await?;
        let mut new = Vec::with_capacity((blocks.end - blocks.start) as usize);
        for block in blocks.clone() {
            let start = block * BLOCK_SIZE;
            let unit = start..start + BLOCK_SIZE;
            let file = self.bytes(object);
            let bytes = file.laid_over(unit, old.size, (offset, data)).await?;
            let contents = Contents::copied(bytes, self.0.packer());
            if offset <= block * BLOCK_SIZE
                && offset + data.len() as u64 >= (block + 1) * BLOCK_SIZE
            {
                // here, while other shards go on
                contents.prepare();
            }
            new.push(contents);
        }
        inode.used = old.used + self.added_by_blocks(object, blocks.clone()).await?;
        inode.flags = inode.flags.with(InodeFlags::BLOCKS);
        let (replaced, wake) = {
            let mut state = lock(&self.0.state);
            check_usable(&state)?;
            if !state.charges.fits(Charge::of(&old), Charge::of(&inode)) {
                return Err(FileError::Quota);
            }
            admitted.take();
            let mut replaced = 0;
            for (block, contents) in blocks.zip(new) {
                let key = block_keys(object, block..block).start;
                replaced += state.put_block(key, contents, is_urgent);
            }
            self.0.settings.note_blocks();
            state.written(object, inode, &old);
            self.0.ask(&mut state);
            (replaced, state.dirty.bytes() >= LAZY_BYTES)
        };
        self.told(replaced, wake);
        Ok(())
    }

    /// Writes to a file that fits into one value, which goes to the journal with the inode.
    async fn write_small(
        &self,
        object: ObjectId,
        old: Inode,
        mut inode: Inode,
        offset: u64,
        data: &[u8],
    ) -> FileResult<()> {
        let mut contents = vec![0; inode.size as usize];
        let kept = old.size.min(inode.size) as usize;
        self.bytes(object)
            .read_into(0, &mut contents[..kept])
            .await?;
        contents[offset as usize..][..data.len()].copy_from_slice(data);
        inode.used = contents.len() as u64;
        let record = data_keys(object, 0..1);
        let mut transaction = Transaction::new();
        if lock(&self.0.state).dataset.has_fragments {
            transaction.delete_range(fragments_of(&record));
        }
        if old.flags.has(InodeFlags::BLOCKS) {
            transaction.delete_range(blocks_of(&record, self.0.settings.record_size));
        }
        transaction.put(record.start, contents.into());
        transaction.charged(object, Charge::of(&old));
        transaction.put_inode(object, inode);
        let bytes = transaction.bytes();
        let admitted = self.admit_transaction(bytes, Purpose::Use).await?;
        self.apply_transaction(transaction, admitted)
    }

    /// Bytes of space that new blocks add to a file: those behind the stored ends of their records, where no block is yet.
    async fn added_by_blocks(&self, object: ObjectId, blocks: Range<u64>) -> Result<u64> {
        let size = self.record_size(object);
        let records = blocks.start * BLOCK_SIZE / size..(blocks.end * BLOCK_SIZE).div_ceil(size);
        let _reader = self.0.shared.readers.enter();
        let locations = self.bytes(object).locations(records.clone()).await?;
        let lens: Vec<u64> = locations.iter().map(|l| l.len() as u64).collect();
        let is_behind = |block: &u64| {
            let (start, record) = (block * BLOCK_SIZE, block * BLOCK_SIZE / size);
            start - record * size >= lens[(record - records.start) as usize]
        };
        if !blocks.clone().any(|block| is_behind(&block)) {
            return Ok(0);
        }
        let present = self
            .0
            .locate(block_keys(object, blocks.clone()), Caching::NONE);
        let present = present.await?;
        let added = blocks.zip(present);
        let added = added.filter(|(block, old)| old.is_zero() && is_behind(block));
        Ok(added.count() as u64 * BLOCK_SIZE)
    }

    /// Makes the new contents of records of a file with the inode `old`, whose space is exact, with `part` from its byte on. Bytes
    /// behind the old size are zero.
    pub(super) async fn make(
        &self,
        object: ObjectId,
        records: Range<u64>,
        old: &Inode,
        part: (u64, &[u8]),
    ) -> FileResult<NewRecords> {
        let visible = old.size;
        let before = match self.known_part(object, old, records.clone()) {
            Some(known) => known,
            None => self.count_records(object, records.clone(), visible).await?,
        };
        let mut new = Vec::with_capacity((records.end - records.start) as usize);
        let mut after = 0;
        for record in records {
            let start = record * self.record_size(object);
            let data_end = part.0 + part.1.len() as u64;
            // bytes behind both are zero
            let end = visible.max(data_end).next_multiple_of(STORED_UNIT as u64);
            let bytes = start..end.clamp(start, start + self.record_size(object));
            let new_bytes = self.bytes(object).laid_over(bytes, visible, part).await?;
            let contents = trim(new_bytes).map(|bytes| Contents::copied(bytes, self.0.packer()));
            if let Some(contents) = &contents
                && part.0 <= start
                && data_end >= start + self.record_size(object)
            {
                // here, while other shards go on
                contents.prepare();
            }
            after += contents.as_ref().map_or(0, |c| c.len() as u64);
            let key = data_keys(object, record..record).start;
            new.push(NewRecord { key, contents });
        }
        Ok(NewRecords {
            records: new,
            before,
            after,
        })
    }

    /// Puts new contents. Returns the bytes of the write budget of older dirty contents.
    pub(super) fn put(&self, state: &mut State, new: NewRecords, is_urgent: bool) -> usize {
        let mut replaced = 0;
        for NewRecord { key, contents } in new.records {
            let size = self.record_size(key.object());
            let bytes = key.offset() * size..(key.offset() + 1) * size;
            let mut is_urgent = is_urgent || state.tails.is_awaited(key.object(), &bytes);
            if self.0.settings.has_blocks() {
                // they are in the new contents, and must not hide them
                let blocks = blocks_of(&(key..key.next()), self.0.settings.record_size);
                is_urgent |= state.dirty.has_urgent_in(blocks.clone());
                replaced += match &contents {
                    Some(_) => state.dirty.forget_range(blocks),
                    None => state.dirty.zero(blocks),
                };
            }
            replaced += match contents {
                Some(contents) => state.dirty.put(key, contents, is_urgent),
                None => state.dirty.zero(key..key.next()),
            };
        }
        self.0.ask(state);
        replaced
    }
}
