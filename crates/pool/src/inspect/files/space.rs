//! The space of one file: whether its inode's number is that of its records and blocks.
//!
//! **Owns** this count, made of the entries of one object in the order of their keys: records, their fragments, blocks, and then the
//! inode with the file's size. **Called by** each pass over a filesystem's tree. **Invariant**: memory is bounded by
//! [`SHORT_RECORDS_MAX`] and by the blocks of one record; a file with more short records is not compared. `docs/format.md`,
//! "Inodes".

use crate::format::filesystem::{
    BLOCK_SIZE, Inode, InodeFlags, KIND_BLOCK, KIND_DATA, record_size_of,
};
use crate::format::{FRAGMENTS_MAX, KIND_FRAGMENT, Key, Value};
use crate::inspect::limits::SHORT_RECORDS_MAX;

/// See the module header.
#[derive(Default)]
pub(super) struct FileSpace {
    /// Records of the full size.
    full: u64,
    /// Numbers and stored bytes of other records, in order.
    short: Vec<(u64, u64)>,
    /// Number and stored bytes of the last record.
    last: Option<(u64, u64)>,
    /// Blocks behind the stored ends of records but the last one.
    blocks: u64,
    /// Such blocks of the last record: their first bytes within it.
    last_blocks: Vec<u64>,
    /// There are more short records than are kept.
    is_partial: bool,
}

/// A wrong space.
pub(super) struct WrongSpace {
    pub(super) found: u64,
    pub(super) recorded: u64,
}

/// Bytes of the contents of a record, or of its first fragment.
fn len_of(value: &Value) -> u64 {
    match value {
        Value::Block(block) => block.ptr().logical_size.into(),
        Value::Inline(bytes) => bytes.len() as u64,
    }
}

impl FileSpace {
    /// Takes an entry of a record, a fragment or a block of a file in a dataset with records of `base` bytes.
    pub(super) fn add(&mut self, key: Key, value: &Value, base: u32) {
        let size = u64::from(record_size_of(key.object(), base));
        match key.kind() {
            KIND_DATA => self.record(key.offset(), len_of(value), size),
            KIND_FRAGMENT => self.fragment(key.offset() / u64::from(FRAGMENTS_MAX), len_of(value)),
            KIND_BLOCK => {
                let start = key.offset().saturating_mul(BLOCK_SIZE);
                self.block(start / size, start % size);
            }
            _ => {}
        }
    }

    fn record(&mut self, number: u64, len: u64, size: u64) {
        if len >= size {
            self.full += 1;
        } else if self.short.len() < SHORT_RECORDS_MAX {
            self.short.push((number, len));
        } else {
            self.is_partial = true;
        }
        self.last = Some((number, len));
    }

    fn short(&mut self, number: u64) -> Option<&mut u64> {
        let found = self.short.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        Some(&mut self.short[found].1)
    }

    fn fragment(&mut self, number: u64, len: u64) {
        if let Some(short) = self.short(number) {
            *short += len;
        }
        if let Some((_, last)) = self.last.as_mut().filter(|(n, _)| *n == number) {
            *last += len;
        }
    }

    fn block(&mut self, number: u64, start: u64) {
        let len = self.short(number).map_or(u64::MAX, |len| *len);
        if start < len {
            return;
        }
        match self.last.is_some_and(|(last, _)| last == number) {
            true => self.last_blocks.push(start),
            false => self.blocks += 1,
        }
    }

    /// Compares the space with that in the file's inode. `None` if both are equal, or the inode does not promise it.
    pub(super) fn wrong(&self, inode: &Inode, size: u64) -> Option<WrongSpace> {
        if self.is_partial || inode.links == 0 || !inode.flags.has(InodeFlags::COUNTED) {
            return None;
        }
        let file_end = inode.size.div_ceil(BLOCK_SIZE).saturating_mul(BLOCK_SIZE);
        let short: u64 = self.short.iter().map(|(_, len)| *len).sum();
        let all = self.full.saturating_mul(size).saturating_add(short);
        let (mut behind, mut last_blocks) = (0, 0);
        if let Some((number, len)) = self.last {
            // of the record with the end of the file, only the part in the file counts
            let limit = file_end.saturating_sub(number.saturating_mul(size));
            behind = len.saturating_sub(limit);
            last_blocks = self.last_blocks.iter().filter(|at| **at < limit).count() as u64;
        }
        let blocks = (self.blocks + last_blocks) * BLOCK_SIZE;
        let found = (all - behind).saturating_add(blocks);
        let recorded = inode.used;
        (found != recorded).then_some(WrongSpace { found, recorded })
    }
}
