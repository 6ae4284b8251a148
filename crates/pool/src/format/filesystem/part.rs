//! The part of a filesystem that a range of keys holds.
//!
//! **Owns** this conversion. **Called by** reports of damage. **Invariant**: the part is never smaller than what the keys
//! hold; it is larger only if the range has keys of more than one kind. `docs/format.md`, "Filesystems".

use std::ops::Range;

use super::{KIND_BLOCK, KIND_DATA, record_size_of};
use crate::format::{FRAGMENTS_MAX, KIND_FRAGMENT, Key, RECORD_SIZE_MIN};

/// Objects of a filesystem, or a range of bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// Numbers of the objects; [`u64::MAX`] as end if there is no further key.
    pub objects: Range<u64>,
    /// Bytes of the contents of the only object. `None` if its other values, or several objects, are concerned.
    pub bytes: Option<Range<u64>>,
}

impl FilePart {
    /// The part that these keys hold, in a dataset with this record size in bytes, which is that of files without a size of their
    /// own.
    #[must_use]
    pub fn of(keys: &Range<Key>, record_size: u32) -> Self {
        let first = keys.start;
        let last = keys.end.prev().unwrap_or(first).max(first);
        let end = match keys.end {
            Key::END => u64::MAX,
            _ => last.object().0.saturating_add(1),
        };
        let is_data = |key: Key| (KIND_DATA..=KIND_BLOCK).contains(&key.kind());
        let is_contents = first.object() == last.object() && is_data(first) && is_data(last);
        let bytes = match first.kind() == last.kind() {
            true => bytes_of(first, record_size).start..bytes_of(last, record_size).end,
            // The other kinds may have parts of any record.
            false => 0..u64::MAX,
        };
        Self {
            objects: first.object().0..end,
            bytes: is_contents.then_some(bytes),
        }
    }

    /// The only object; `None` if there are several.
    #[must_use]
    pub fn object(&self) -> Option<u64> {
        let Range { start, end } = self.objects;
        (start.checked_add(1) == Some(end)).then_some(start)
    }
}

/// The bytes of a file that an entry of its contents holds.
fn bytes_of(key: Key, base: u32) -> Range<u64> {
    let record_size = record_size_of(key.object(), base);
    let (number, size) = match key.kind() {
        KIND_FRAGMENT => (key.offset() / u64::from(FRAGMENTS_MAX), record_size),
        KIND_BLOCK => (key.offset(), RECORD_SIZE_MIN),
        _ => (key.offset(), record_size),
    };
    let start = number.saturating_mul(size.into());
    start..start.saturating_add(size.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ObjectId;
    use crate::format::filesystem::{KIND_INODE, file_number, inode_key, object_keys};

    fn data(object: u64, record: u64) -> Key {
        Key::new(ObjectId(object), KIND_DATA, record)
    }

    #[test]
    fn keys_are_bytes_or_objects() {
        let part = |keys| FilePart::of(&keys, 8192);
        let record = part(data(17, 3)..data(17, 4));
        assert_eq!(record.object(), Some(17));
        assert_eq!(record.bytes, Some(3 * 8192..4 * 8192));
        let fragment = Key::new(ObjectId(17), KIND_FRAGMENT, 3 * 256 + 1);
        assert_eq!(part(fragment..fragment.next()), record);
        let block = Key::new(ObjectId(17), KIND_BLOCK, 5);
        assert_eq!(part(block..block.next()).bytes, Some(5 * 4096..6 * 4096));
        assert_eq!(part(data(17, 3)..block).bytes, Some(0..u64::MAX));
        let with_inode = part(data(17, 3)..inode_key(ObjectId(17)).next());
        assert_eq!((with_inode.object(), with_inode.bytes), (Some(17), None));
        let all = part(object_keys(ObjectId(17)));
        assert_eq!((all.object(), all.bytes), (Some(17), None));
        let several = part(data(17, 3)..Key::new(ObjectId(19), KIND_INODE, 0));
        assert_eq!((several.objects.clone(), several.object()), (17..20, None));
        assert_eq!(part(data(17, 3)..Key::END).objects, 17..u64::MAX);
        let other = file_number(ObjectId(17), 64 << 10, 8192);
        let record = part(data(other.0, 3)..data(other.0, 4));
        assert_eq!(record.bytes, Some(3 * 65536..4 * 65536));
    }
}
