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
    let (put, stale) = (Record::PUT_BLOCK_SIZE, stale_bytes_max(has_files));
    // whole records, or one record in fragments
    let whole = count * (put + stale) + part_sums;
    let in_fragments = FRAGMENTS_MAX as usize * put + stale;
    2 * RANGES_MAX * Record::DELETE_RANGE_SIZE + whole.max(in_fragments) + inodes
}

/// The most bytes in the journal of the deletes that come with a record: of its fragments, and of a file's record also of its blocks
/// and their fragments.
const fn stale_bytes_max(has_files: bool) -> usize {
    let deletes = if has_files { 3 } else { 1 };
    deletes * Record::DELETE_RANGE_SIZE
}

/// The most bytes in the journal of a group that gives blocks to records of these lengths, which only the journal has.
pub(super) fn block_bytes_max(
    lens: impl Iterator<Item = u32> + Clone,
    has_files: bool,
    space: BlockSpace,
) -> usize {
    let (put, stale) = (Record::PUT_BLOCK_SIZE, stale_bytes_max(has_files));
    let whole = lens.clone();
    let whole = whole.map(|len| put + stale + part_sums_size(len)).sum();
    // or only the first one
    let first: u32 = lens.take(1).sum();
    let least = space.of((first / FRAGMENTS_MAX).max(1));
    let fragments = space.of(first).div_ceil(least) as usize;
    (fragments * put + stale).max(whole)
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

#[cfg(test)]
mod tests {
    use std::iter::once;

    use super::*;
    use crate::compress::Packer;
    use crate::dataset::{block_keys, data_keys, record_key};
    use crate::format::filesystem::FIRST_OBJECT;
    use crate::format::{
        Autodefrag, Birth, ChecksumKind, DatasetKind, ListId, Packing, Settings, Switches, Sync,
    };

    fn dataset(kind: DatasetKind) -> Dataset {
        Dataset {
            name: "of".into(),
            kind,
            sync: Sync::Standard,
            compression: Packing::Off,
            checksum: ChecksumKind::FoldedXxh3,
            settings: Settings::default(),
            switches: Switches::default(),
            refquota: 0,
            autodefrag: Autodefrag::On,
            special_small_blocks: 0,
            has_fragments: true,
            has_blocks: kind.has_files(),
            block_size: 4096,
            record_size: 128 << 10,
            file_record_size: 128 << 10,
            size: 0,
            created: 0,
            birth: Birth(1),
            of: None,
            previous: None,
            origin: None,
            quota: 0,
            reservation: 0,
            guid: 1,
            list: ListId(16),
        }
    }

    /// A record of a file replaces its fragments, its blocks and their fragments.
    #[test]
    fn a_record_that_leaves_the_journal_fits_into_its_reserve() {
        let packer = Packer {
            packing: Packing::Off,
            checksum: ChecksumKind::FoldedXxh3,
            has_parts: true,
            sector: 4096,
        };
        for (kind, key, deletes) in [
            (DatasetKind::Volume, record_key(3), 1),
            (
                DatasetKind::Filesystem,
                data_keys(FIRST_OBJECT, 3..4).start,
                3,
            ),
            (
                DatasetKind::Filesystem,
                block_keys(FIRST_OBJECT, 3..4).start,
                1,
            ),
        ] {
            let group = Group {
                records: vec![(key, Contents::copied(vec![1; 4096], packer))],
                ..Group::default()
            };
            let stale = Deletes::with(&group, &dataset(kind)).stale;
            assert_eq!(stale.len(), deletes);
            let bytes = Record::PUT_BLOCK_SIZE + stale.len() * Record::DELETE_RANGE_SIZE;
            let most = block_bytes_max(once(4096), kind.has_files(), BlockSpace::new(4096));
            assert!(bytes <= most, "{kind:?}: {bytes} bytes, not {most}");
        }
    }
}
