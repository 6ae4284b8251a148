//! The space of a file: the bytes of its stored contents, before compression.
//!
//! `used(file) = Σ records min(stored end, end of the file) + 4096 × (blocks behind the stored end of their record)`, where the
//! end of the file is its size in whole units of 4096 bytes. Each change adds the difference that it makes. A file whose inode
//! does not say that its space is exact ([`InodeFlags::COUNTED`]) is counted before its next change.
//!
//! **Owns** the count. **Called by** changes of contents, in the turn of the file. **Invariant**: a counted file has no records
//! behind its size. `docs/decisions/0140`, `docs/format.md`, "Inodes".

use std::collections::BTreeMap;
use std::ops::Range;

use backend::file::{FileKind, FileResult};

use super::FileStore;
use super::transactions::check_usable;
use crate::dataset::{Location, RECORDS_END, Walked, block_keys, data_keys};
use crate::filesystem::{Purpose, Transaction};
use crate::format::filesystem::{BLOCK_SIZE, Charge, Inode, InodeFlags, OBJECT_END};
use crate::format::{Key, Kind, ObjectId};
use crate::{Error, Result};
use io::sync::lock;

/// Objects that one step of the search for uncounted files looks at.
const OBJECTS_AT_ONCE: usize = 256;

/// The size in whole units: where the space of a file ends at most.
fn space_end(size: u64) -> u64 {
    size.div_ceil(BLOCK_SIZE).saturating_mul(BLOCK_SIZE)
}

/// A count of bytes; `None` if records that must be counted are lost.
pub(super) fn unless_lost(counted: Result<u64>) -> Result<Option<u64>> {
    match counted {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

impl FileStore {
    /// Bytes of the space that these records of a file take, as far as it is in a file of this size.
    pub(super) async fn count_records(
        &self,
        object: ObjectId,
        records: Range<u64>,
        size: u64,
    ) -> Result<u64> {
        let record_size = self.record_size(object);
        let limit = space_end(size);
        let end = records
            .end
            .min(limit.div_ceil(record_size))
            .min(RECORDS_END);
        let mut at = records.start;
        let mut sum = 0;
        while at < end {
            let _reader = self.0.shared.readers.enter();
            let Walked { found, next } = self.0.walk(data_keys(object, at..end)).await?;
            let lens = found.iter();
            let lens = lens.map(|(key, location)| (key.offset(), location.len() as u64));
            let lens: BTreeMap<u64, u64> = lens.collect();
            let in_file = |(record, len): (&u64, &u64)| (*len).min(limit - record * record_size);
            sum += lens.iter().map(in_file).sum::<u64>();
            let bytes = at * record_size..(next.offset() * record_size).min(limit);
            if self.0.settings.has_blocks() {
                sum += Box::pin(self.count_blocks(object, bytes, &lens)).await?;
            }
            at = next.offset();
            if at < end {
                io::yield_now().await;
            }
        }
        Ok(sum)
    }

    /// Bytes of blocks in a range of bytes that lie behind the stored ends of their records. `lens` has these ends.
    async fn count_blocks(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        lens: &BTreeMap<u64, u64>,
    ) -> Result<u64> {
        let record_size = self.record_size(object);
        let mut keys = block_keys(
            object,
            bytes.start / BLOCK_SIZE..bytes.end.div_ceil(BLOCK_SIZE),
        );
        let mut count = 0;
        while keys.start < keys.end {
            let Walked { found, next } = self.0.walk(keys.clone()).await?;
            let is_behind = |(key, _): &&(Key, Location)| {
                let start = key.offset() * BLOCK_SIZE;
                let record = start / record_size;
                let len = lens.get(&record).copied().unwrap_or(0);
                start - record * record_size >= len
            };
            count += found.iter().filter(is_behind).count() as u64;
            keys.start = next;
        }
        Ok(count * BLOCK_SIZE)
    }

    /// Bytes of space of whole records of a file with this inode, if they follow from the inode: its space is exact, and the file is
    /// empty or has no holes.
    pub(super) fn known_part(
        &self,
        object: ObjectId,
        inode: &Inode,
        records: Range<u64>,
    ) -> Option<u64> {
        let record_size = self.record_size(object);
        let limit = space_end(inode.size);
        let end_of = |record: u64| record.saturating_mul(record_size).min(limit);
        match inode.used {
            _ if !inode.flags.has(InodeFlags::COUNTED) => None,
            0 => Some(0),
            used if used == limit => Some(end_of(records.end) - end_of(records.start)),
            _ => None,
        }
    }

    /// Bytes of space of whole records of a file with this inode, whose space is exact. Counts these records or the others,
    /// whichever are fewer.
    pub(super) async fn count_part(
        &self,
        object: ObjectId,
        inode: &Inode,
        records: Range<u64>,
    ) -> Result<u64> {
        if let Some(known) = self.known_part(object, inode, records.clone()) {
            return Ok(known);
        }
        let all = space_end(inode.size).div_ceil(self.record_size(object));
        let part = records.start.min(all)..records.end.min(all);
        if part.end - part.start <= all / 2 {
            return self.count_records(object, part, inode.size).await;
        }
        let before = self.count_records(object, 0..part.start, inode.size);
        let before = before.await?;
        let behind = self.count_records(object, part.end..all, inode.size);
        Ok(inode.used.saturating_sub(before + behind.await?))
    }

    /// The newest inode of a file that the caller is changing, with its exact space. A file that is not counted is counted, and
    /// loses records behind its size, which a crash may have left. A file with lost nodes stays as it is: it can be changed, too.
    pub(super) async fn counted_inode(&self, object: ObjectId) -> FileResult<Inode> {
        let inode = self.own_inode(object).await?;
        if inode.flags.has(InodeFlags::COUNTED) || inode.kind != FileKind::File {
            return Ok(inode);
        }
        Box::pin(self.count_again(object, inode)).await
    }

    /// Counts the space of a file.
    async fn count_again(&self, object: ObjectId, inode: Inode) -> FileResult<Inode> {
        let used = self.count_records(object, 0..RECORDS_END, inode.size);
        let Some(used) = unless_lost(used.await)? else {
            return Ok(inode);
        };
        let counted = Inode {
            used,
            flags: inode.flags.with(InodeFlags::COUNTED),
            ..inode
        };
        let mut transaction = Transaction::new();
        transaction.discard(object, inode.size..u64::MAX);
        transaction.charged(object, Charge::of(&inode));
        transaction.put_inode(object, counted);
        let bytes = transaction.bytes();
        let admitted = self.admit_transaction(bytes, Purpose::Release).await?;
        let replaced = {
            let mut state = lock(&self.0.state);
            check_usable(&state)?;
            // no quota is asked: nothing is taken that was not taken before
            self.stage(&mut state, transaction, admitted)
        };
        self.told(replaced, false);
        Ok(counted)
    }

    /// As [`crate::filesystem::Store::uncounted`]. Goes from object to object, and does not read their contents.
    pub(super) async fn uncounted_files(
        &self,
        from: ObjectId,
    ) -> FileResult<(Vec<ObjectId>, Option<ObjectId>)> {
        let mut found = Vec::new();
        let mut at = from;
        for _ in 0..OBJECTS_AT_ONCE {
            let keys = Key::new(at, Kind(0), 0)..Key::new(ObjectId(OBJECT_END), Kind(0), 0);
            let first = self.values(keys, 1, |_, _| true).await?;
            let Some((key, _)) = first.first() else {
                return Ok((found, None));
            };
            let object = key.object();
            let inode = self.newest_inode(object).await?;
            let is_uncounted = |inode: &Inode| {
                inode.kind == FileKind::File
                    && inode.links > 0
                    && !inode.flags.has(InodeFlags::COUNTED)
            };
            if inode.as_ref().is_some_and(is_uncounted) {
                found.push(object);
            }
            at = ObjectId(object.0 + 1);
        }
        Ok((found, Some(at)))
    }

    /// As [`crate::filesystem::Store::count`].
    pub(super) async fn count_cut(&self, object: ObjectId, size: u64) -> FileResult<(Inode, u64)> {
        self.come().await?;
        let inode = self.counted_inode(object).await?;
        let record_size = self.record_size(object);
        let kept = space_end(size).div_ceil(record_size);
        let cut = self.count_part(object, &inode, kept..RECORDS_END).await;
        let Some(cut) = unless_lost(cut)? else {
            let uncounted = Inode {
                flags: inode.flags.without(InodeFlags::COUNTED),
                ..inode
            };
            return Ok((uncounted, inode.used.min(space_end(size))));
        };
        let edge = kept.saturating_sub(1);
        let used = inode.used.saturating_sub(cut);
        if size == 0 || space_end(size) == kept * record_size || used == 0 {
            return Ok((inode, used));
        }
        // the record with the new end is kept, and counts as far as it is in the file
        let whole = self.count_records(object, edge..kept, inode.size).await?;
        let part = self.count_records(object, edge..kept, size).await?;
        Ok((inode, used.saturating_sub(whole.saturating_sub(part))))
    }
}
