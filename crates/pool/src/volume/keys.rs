//! Keys of a volume's tree.
//!
//! **Owns** the keys of records and fragments. **Called by** the volume's requests, and by write-back. **Invariant**: the first
//! fragment of a record has the record's own key, so that a lookup of the record finds it. `docs/format.md`, "Key".

use crate::format::{FRAGMENTS_MAX, KIND_FRAGMENT, KIND_RECORD, Key, VOLUME_OBJECT};

/// The key of a record.
pub(crate) fn record_key(record: u64) -> Key {
    Key::new(VOLUME_OBJECT, KIND_RECORD, record)
}

/// The first key of the fragments of a record. The first fragment has the record's own key.
pub(crate) fn fragments_key(record: u64) -> Key {
    Key::new(
        VOLUME_OBJECT,
        KIND_FRAGMENT,
        record * u64::from(FRAGMENTS_MAX),
    )
}

/// The key of a record's fragment.
pub(crate) fn fragment_key(record: u64, number: u32) -> Key {
    assert!(number < FRAGMENTS_MAX);
    match number {
        0 => record_key(record),
        _ => Key::new(
            VOLUME_OBJECT,
            KIND_FRAGMENT,
            fragments_key(record).offset() + u64::from(number),
        ),
    }
}
