//! Slots: entries of one object that have the same hash.
//!
//! **Owns** the search for an entry by hash. **Called by** directories, further names and extended attributes.
//! **Invariants**: an entry lies in a slot of its hash; a new one takes the lowest free slot, so that it keeps its place, and its
//! cookie, for ever. `docs/format.md`, "Filesystems".

use backend::StorageError;
use backend::file::{FileError, FileResult};

use super::store::Store;
use crate::format::filesystem::{NameHash, SLOTS};
use crate::format::{Defect, Kind, ObjectId};

/// The error for stored bytes that are damaged.
pub(super) fn damaged(object: ObjectId, defect: &Defect) -> FileError {
    tracing::warn!(object = object.0, %defect, "damaged entry of a filesystem");
    FileError::Storage(StorageError::Corrupt)
}

/// The slots of a hash.
pub(super) struct Slots<T> {
    /// Offset and value of the entry that was searched for.
    pub(super) found: Option<(u64, T)>,
    /// The lowest free offset.
    free: Option<u64>,
}

impl<T> Slots<T> {
    /// The offset for a new entry. Errors: `NoSpace` if all slots are taken.
    pub(super) fn free(&self) -> FileResult<u64> {
        self.free.ok_or(FileError::NoSpace)
    }
}

/// Looks for an entry. `decode` returns `None` for an entry that is another one.
pub(super) async fn search<S: Store, T>(
    store: &S,
    object: ObjectId,
    kind: Kind,
    hash: NameHash,
    decode: impl Fn(&[u8]) -> Result<Option<T>, Defect>,
) -> FileResult<Slots<T>> {
    let entries = store.scan(hash.keys(object, kind), SLOTS as usize).await?;
    let mut slots = Slots {
        found: None,
        free: None,
    };
    let mut next = hash.offset(0);
    for (key, value) in entries {
        if key.offset() != next {
            slots.free.get_or_insert(next);
        }
        next = key.offset() + 1;
        if slots.found.is_none() {
            let decoded = decode(&value).map_err(|defect| damaged(object, &defect))?;
            slots.found = decoded.map(|value| (key.offset(), value));
        }
    }
    if next <= hash.offset(SLOTS - 1) {
        slots.free.get_or_insert(next);
    }
    Ok(slots)
}
