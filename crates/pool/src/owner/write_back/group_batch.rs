//! Batches of groups: the journal's records of written data, and the marks that come before them.
//!
//! **Owns** the contents of these batches, and their largest size. **Called by** write-back. **Invariants**: a group is one batch,
//! with the inodes of its files and the space of their owners; a mark is in the journal before the first record that needs it.

use std::ops::Range;
use std::sync::Arc;

use super::place::{Deletes, Placed};
use crate::dataset::{self, OpenDataset};
use crate::dirty::{Group, RANGES_MAX};
use crate::format::filesystem::{INODE_SIZE, Inode, inode_key};
use crate::format::{
    Block, BlockSpace, Dataset, FRAGMENTS_MAX, Key, ObjectId, Record, Value, dataset_key,
    part_sums_size,
};
use crate::journal::Ticket;
use crate::owner::State;
use crate::record::Contents;

/// The most bytes in the journal of a group of these records, beside their contents if they are there.
pub(super) fn journal_bytes_max<'a>(
    records: impl ExactSizeIterator<Item = &'a Contents>,
    has_files: bool,
) -> usize {
    let count = records.len();
    let part_sums: usize = records
        .map(|record| part_sums_size(record.len() as u32))
        .sum();
    let inodes = match has_files {
        // an inode, and the space of its user and its group
        true => (count + RANGES_MAX) * (3 * Record::PUT_INLINE_SIZE + INODE_SIZE + 2 * 8),
        false => 0,
    };
    let (put, delete) = (Record::PUT_BLOCK_SIZE, Record::DELETE_RANGE_SIZE);
    // whole records, each of which replaces fragments; or one record in fragments
    // a file's record also replaces its blocks, and their fragments
    let deletes = if has_files { 3 } else { 1 };
    let whole = count * (put + deletes * delete) + part_sums;
    let in_fragments = FRAGMENTS_MAX as usize * put + delete;
    2 * RANGES_MAX * delete + whole.max(in_fragments) + inodes
}

/// The most bytes in the journal of a group that gives blocks to records of these lengths, which only the journal has. They are
/// records of a volume.
pub(super) fn block_bytes_max(lens: impl Iterator<Item = u32> + Clone, space: BlockSpace) -> usize {
    let (put, delete) = (Record::PUT_BLOCK_SIZE, Record::DELETE_RANGE_SIZE);
    let whole = lens.clone();
    let whole = whole.map(|len| put + delete + part_sums_size(len)).sum();
    // or only the first one
    let first: u32 = lens.take(1).sum();
    let least = space.of((first / FRAGMENTS_MAX).max(1));
    let fragments = space.of(first).div_ceil(least) as usize;
    (fragments * put + delete).max(whole)
}

impl State {
    /// Appends a group to the journal, in one batch. The records of one volume stay in order.
    pub(super) fn journal_group(
        &mut self,
        volume: &Arc<OpenDataset>,
        group: &Group,
        deletes: &Deletes,
        placed: &Placed,
        (inodes, charges): (&[(ObjectId, Inode)], &[Record]),
    ) -> Ticket {
        let tree = volume.id;
        let delete = |keys: &Range<Key>| Record::DeleteRange(tree, keys.clone());
        let put = |(key, block): &(Key, Block)| Record::PutFresh(tree, *key, block.clone());
        let puts = placed.entries.iter().map(put);
        let stale = deletes.stale.iter().map(delete);
        let mut records: Vec<Record> = deletes.ranges.iter().map(delete).collect();
        match placed.in_fragments {
            true => records.extend(stale.chain(puts)),
            false => records.extend(puts.chain(stale)),
        }
        if placed.in_journal {
            let put = |(key, contents): &(Key, Contents)| {
                Record::PutContents(tree, *key, (&**contents).into())
            };
            records.extend(group.records.iter().map(put));
        }
        records.extend(inodes.iter().map(|(object, inode)| {
            let value = Value::Inline(inode.encode());
            Record::Put(tree, inode_key(*object), value)
        }));
        records.extend(charges.iter().cloned());
        let data_writes = u32::from(!placed.entries.is_empty());
        let bytes: usize = records.iter().map(Record::size).sum();
        volume.counters.journaled(bytes as u64);
        let appended = self.journal.append(&records, data_writes);
        let ticket = appended.expect("groups leave only while the journal has room");
        self.committer.journaled(tree, ticket);
        self.datasets.mark_changed(tree);
        ticket
    }

    /// Sets a mark in a dataset's properties, before the first record or block that needs it leaves. False if the journal is
    /// full.
    pub(super) fn mark(
        &mut self,
        dataset: &Arc<OpenDataset>,
        state: &mut dataset::State,
        mark: impl Fn(&mut Dataset) -> &mut bool,
    ) -> bool {
        let mut marked = state.dataset.clone();
        if std::mem::replace(mark(&mut marked), true) {
            return true;
        }
        let changes = vec![(dataset_key(dataset.id), Some(marked.encode()))];
        let is_known = self.change(Vec::new(), changes).is_ok();
        *mark(&mut state.dataset) |= is_known;
        is_known
    }
}
