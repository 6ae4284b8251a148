//! Keys of records and their fragments.
//!
//! **Owns** their arithmetic. **Called by** requests, and by write-back. **Invariant**: the first
//! fragment of a record has the record's own key, so that a lookup of the record finds it. `docs/format.md`, "Key".

use std::ops::Range;

use crate::format::{FRAGMENTS_MAX, KIND_FRAGMENT, KIND_RECORD, Key, VOLUME_OBJECT};

/// The key of a volume's record.
pub(crate) fn record_key(record: u64) -> Key {
    Key::new(VOLUME_OBJECT, KIND_RECORD, record)
}

/// The first key of the fragments of the record under `key`. The first fragment has the record's own key.
fn fragments_key(key: Key) -> Key {
    let first = key.offset() * u64::from(FRAGMENTS_MAX);
    Key::new(key.object(), KIND_FRAGMENT, first)
}

/// The keys of the fragments of the records under `keys`, which are of one object.
pub(crate) fn fragments_of(keys: &Range<Key>) -> Range<Key> {
    fragments_key(keys.start)..fragments_key(keys.end)
}

/// The key of a fragment of the record under `key`.
pub(crate) fn fragment_key(key: Key, number: u32) -> Key {
    assert!(number < FRAGMENTS_MAX);
    match number {
        0 => key,
        _ => fragments_key(key).after(number.into()),
    }
}
