//! Keys of records, blocks and their fragments.
//!
//! **Owns** their arithmetic. **Called by** requests, and by write-back. **Invariants**: the first fragment of a record has the
//! record's own key, so that a lookup of the record finds it; the same for blocks. `docs/format.md`, "Key" and "Filesystems".

use std::ops::Range;

use crate::format::filesystem::{
    BLOCK_FRAGMENTS_MAX, BLOCK_SIZE, KIND_BLOCK, KIND_BLOCK_FRAGMENT, KIND_DATA, record_size_of,
};
use crate::format::{FRAGMENTS_MAX, KIND_FRAGMENT, KIND_RECORD, Key, ObjectId, VOLUME_OBJECT};

/// Exclusive upper bound of the numbers of a file's records: their fragments have keys too.
pub(crate) const RECORDS_END: u64 = Key::OFFSET_END / FRAGMENTS_MAX as u64 - 1;

/// Exclusive upper bound of the numbers of a file's blocks.
const BLOCKS_END: u64 = Key::OFFSET_END / BLOCK_FRAGMENTS_MAX as u64 - 1;

/// The key of a volume's record.
pub(crate) fn record_key(record: u64) -> Key {
    Key::new(VOLUME_OBJECT, KIND_RECORD, record)
}

/// The keys of the records of a file in this range of numbers, which is cut at [`RECORDS_END`].
pub(crate) fn data_keys(object: ObjectId, records: Range<u64>) -> Range<Key> {
    let key = |record: u64| Key::new(object, KIND_DATA, record.min(RECORDS_END));
    key(records.start)..key(records.end)
}

/// The keys of the blocks of a file in this range of numbers.
pub(crate) fn block_keys(object: ObjectId, blocks: Range<u64>) -> Range<Key> {
    let key = |block: u64| Key::new(object, KIND_BLOCK, block.min(BLOCKS_END));
    key(blocks.start)..key(blocks.end)
}

/// Blocks of a record of a file, in a dataset with records of `base` bytes.
fn blocks_per_record(object: ObjectId, base: u32) -> u64 {
    u64::from(record_size_of(object, base)) / BLOCK_SIZE
}

/// The keys of the blocks in a file's records under `keys`, in a dataset with records of `base` bytes.
pub(crate) fn blocks_of(keys: &Range<Key>, base: u32) -> Range<Key> {
    let per_record = blocks_per_record(keys.start.object(), base);
    let block = |key: Key| key.offset().saturating_mul(per_record);
    block_keys(keys.start.object(), block(keys.start)..block(keys.end))
}

/// The key of the record that has the block under `key`, in a dataset with records of `base` bytes.
pub(crate) fn record_of_block(key: Key, base: u32) -> Key {
    let record = key.offset() / blocks_per_record(key.object(), base);
    Key::new(key.object(), KIND_DATA, record)
}

/// Fragments at most of a record or block under a key.
pub(crate) fn fragments_max(key: Key) -> u32 {
    match key.kind() {
        KIND_BLOCK => BLOCK_FRAGMENTS_MAX,
        _ => FRAGMENTS_MAX,
    }
}

/// The first key of the fragments of the record or block under `key`. The first fragment has its own key.
fn fragments_key(key: Key) -> Key {
    let kind = match key.kind() {
        KIND_BLOCK => KIND_BLOCK_FRAGMENT,
        _ => KIND_FRAGMENT,
    };
    let first = key.offset() * u64::from(fragments_max(key));
    Key::new(key.object(), kind, first)
}

/// The keys of the fragments of the records or blocks under `keys`, which are of one object and kind.
pub(crate) fn fragments_of(keys: &Range<Key>) -> Range<Key> {
    fragments_key(keys.start)..fragments_key(keys.end)
}

/// The key of a fragment of the record or block under `key`.
pub(crate) fn fragment_key(key: Key, number: u32) -> Key {
    assert!(number < fragments_max(key));
    match number {
        0 => key,
        _ => fragments_key(key).after(number.into()),
    }
}
