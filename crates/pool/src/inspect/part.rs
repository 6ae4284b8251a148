//! The part of a dataset that a range of keys holds.
//!
//! **Owns** its computation, for volumes and filesystems. **Called by** the walk of datasets' trees and by findings.
//! **Invariant**: a volume has blocks, a filesystem has objects.

use std::ops::Range;

use crate::format::filesystem::FilePart;
use crate::format::{Birth, Dataset, Key, record_of};

/// A part of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Logical blocks of a volume.
    pub(super) blocks: Option<Range<u64>>,
    /// Objects of a filesystem.
    pub(super) file: Option<FilePart>,
}

/// The dataset whose tree is walked.
pub(super) struct Who {
    pub(super) name: String,
    pub(super) has_files: bool,
    record_size: u32,
    block_size: u32,
    size: u64,
    /// Blocks born up to this epoch belong to datasets that were walked before.
    pub(super) since: Birth,
}

impl Who {
    pub(super) fn new(name: &str, properties: &Dataset, since: Birth) -> Self {
        Self {
            name: name.to_owned(),
            has_files: properties.kind.has_files(),
            record_size: properties.record_size,
            block_size: properties.block_size,
            size: properties.size,
            since,
        }
    }

    /// The part that a range of keys holds.
    pub(super) fn part(&self, keys: &Range<Key>) -> Part {
        if self.has_files {
            let file = Some(FilePart::of(keys, self.record_size));
            return Part { blocks: None, file };
        }
        let blocks = self.blocks(keys);
        Part { blocks, file: None }
    }

    /// The logical blocks of a range of keys of records or fragments.
    fn blocks(&self, keys: &Range<Key>) -> Option<Range<u64>> {
        let block_size = u64::from(self.block_size);
        let record_blocks = u64::from(self.record_size) / block_size;
        let all = self.size / block_size;
        let block = |record: u64| record.saturating_mul(record_blocks);
        let last = keys.end.prev();
        let blocks = match (record_of(keys.start), last.and_then(record_of)) {
            (Some(first), Some(last)) if last >= first => block(first)..block(last + 1),
            // The range has more than one kind of key.
            (_, _) => 0..all,
        };
        let end = blocks.end.min(all);
        (blocks.start < end).then_some(blocks.start..end)
    }
}
