//! On-disk format of filesystems: the entries of a filesystem's tree.
//!
//! **Owns** the keys of objects, names and their parts, and the values that are not blocks. **Called by**
//! [`mod@crate::filesystem`], the datasets, and offline readers. **Invariants**: as for all formats, one value has one
//! encoding; every key of an object lies in [`object_keys`]; an object number is never used twice in a dataset.
//! `docs/format.md`, "Filesystems".

mod acl;
mod charge;
mod dirent;
mod header;
mod inode;
mod link;
mod number;
mod orphan;
mod part;
mod xattr;

use std::hash::Hasher as _;
use std::ops::Range;

use siphasher::sip::SipHasher24;

use super::{Key, Kind, ObjectId};

pub use acl::{ACL_SIZE_MAX, decode_acl, encode_acl};
pub use charge::{
    Charge, ChargeEntry, FileOwner, KIND_GROUP_QUOTA, KIND_GROUP_SPACE, KIND_USER_QUOTA,
    KIND_USER_SPACE, charge_keys, counted_key, decode_charge, decode_counted, encode_charge,
    encode_counted,
};
pub use dirent::{Dirent, ObjectRef};
pub use header::{Folding, Header, decode_files, encode_files, files_key, header_key};
pub use inode::{INODE_SIZE, Inode, InodeFlags, MODE_MAX};
pub use link::{LINK_SIZE, Link};
pub use number::{
    CLAIMED_END, claimed_number, file_number, has_own_record_size, is_file_number, record_size_of,
};
pub use orphan::Orphan;
pub use part::FilePart;
pub use xattr::{Xattr, XattrValue};

/// Kind of the keys of a file's records. The offset is the record's number.
pub const KIND_DATA: Kind = Kind(1);
/// Kind of the keys of 4 KiB blocks, which win over records. The offset is the block's number.
pub const KIND_BLOCK: Kind = Kind(3);
/// Kind of the keys of inodes. The offset is 0.
pub const KIND_INODE: Kind = Kind(4);
/// Kind of the keys of directory entries. The offset is a [`NameHash`] and a slot.
pub const KIND_DIRENT: Kind = Kind(5);
/// Kind of the keys of extended attributes. The offset is a [`NameHash`] and a slot.
pub const KIND_XATTR: Kind = Kind(6);
/// Kind of the keys of the chunks of an access control list. The offset is the chunk's number.
pub const KIND_ACL: Kind = Kind(7);
/// Kind of the keys of further names of a file. The offset is a [`NameHash`] of [`Link::encode`], and a slot.
pub const KIND_LINK: Kind = Kind(8);
/// Kind of the keys of the chunks of symlink targets and large attribute values. The offset is the chunk's number.
pub const KIND_INLINE: Kind = Kind(9);
/// Kind of the keys of orphans. The object is [`HEADER_OBJECT`], the offset is the orphan's number.
pub const KIND_ORPHAN: Kind = Kind(10);
/// Kind of the keys of the header, of the number of files, and of [`counted_key`].
pub const KIND_HEADER: Kind = Kind(11);
/// Kind of the keys of the fragments of blocks, which have at most [`BLOCK_FRAGMENTS_MAX`]. The first has the block's own key.
/// The offset is the block's number times that, plus the fragment's number.
pub const KIND_BLOCK_FRAGMENT: Kind = Kind(12);

/// Bytes of a block that wins over a record.
pub const BLOCK_SIZE: u64 = 4096;
/// Fragments of a block at most: sectors of 512 bytes.
pub const BLOCK_FRAGMENTS_MAX: u32 = 8;

/// Object of entries that belong to the whole filesystem.
pub const HEADER_OBJECT: ObjectId = ObjectId(0);
/// The root directory of a new filesystem.
pub const ROOT_OBJECT: ObjectId = ObjectId(2);
/// The first number of other objects.
pub const FIRST_OBJECT: ObjectId = ObjectId(16);
/// Exclusive upper bound of object numbers, so that one fits into the offset of a key.
pub const OBJECT_END: u64 = Key::OFFSET_END;

/// Names with the same hash that one directory (or object) can have: slots of a hash.
pub const SLOTS: u64 = 256;
/// Bytes of a chunk of an ACL, a symlink target or a large attribute value; the last one is shorter.
pub const CHUNK_SIZE: usize = 1000;
/// Length of the key of the hash, bytes.
pub const HASH_KEY_SIZE: usize = 16;

/// A keyed hash of 48 bits (SipHash-2-4). Its key is random and secret, so that clients cannot choose names that
/// collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameHash(u64);

impl NameHash {
    /// The hash of a name; of its folded form if the filesystem folds case.
    #[must_use]
    pub fn of(key: &[u8; HASH_KEY_SIZE], name: &[u8]) -> Self {
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(name);
        Self(hasher.finish() >> 16)
    }

    /// The offset of slot `slot` of this hash.
    ///
    /// # Panics
    /// If `slot` is not below [`SLOTS`].
    #[must_use]
    pub fn offset(self, slot: u64) -> u64 {
        assert!(slot < SLOTS, "slot {slot}");
        self.0 * SLOTS + slot
    }

    /// The keys of all slots of this hash.
    #[must_use]
    pub fn keys(self, object: ObjectId, kind: Kind) -> Range<Key> {
        let start = Key::new(object, kind, self.offset(0));
        start..start.after(SLOTS.into())
    }
}

/// The key of an object's inode.
#[must_use]
pub fn inode_key(object: ObjectId) -> Key {
    Key::new(object, KIND_INODE, 0)
}

/// The key of an orphan.
///
/// # Panics
/// If the number is not below [`OBJECT_END`].
#[must_use]
pub fn orphan_key(object: ObjectId) -> Key {
    Key::new(HEADER_OBJECT, KIND_ORPHAN, object.0)
}

/// The key of a chunk of an object.
#[must_use]
pub fn chunk_key(object: ObjectId, kind: Kind, chunk: u64) -> Key {
    Key::new(object, kind, chunk)
}

/// All keys of one kind of an object.
#[must_use]
pub fn kind_keys(object: ObjectId, kind: Kind) -> Range<Key> {
    Key::new(object, kind, 0)..Key::new(object, Kind(kind.0 + 1), 0)
}

/// All keys of an object.
#[must_use]
pub fn object_keys(object: ObjectId) -> Range<Key> {
    Key::new(object, Kind(0), 0)..Key::new(ObjectId(object.0 + 1), Kind(0), 0)
}

/// Splits a value into chunks of [`CHUNK_SIZE`] bytes, with their numbers. An empty value has no chunk.
pub fn chunks(value: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    (0u64..).zip(value.chunks(CHUNK_SIZE))
}
